"""Which network addresses a model may reach: those of the public internet, and no others.

Sources: the special-purpose registries of IANA,
https://www.iana.org/assignments/iana-ipv4-special-registry and
https://www.iana.org/assignments/iana-ipv6-special-registry.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TypeAlias

__all__ = ["Address", "is_numeric_host", "read_address", "why_refused"]

Address: TypeAlias = IPv4Address | IPv6Address

_NUMERIC_LABEL = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")

_REFUSED_V4 = {
    IPv4Network(network): reason
    for network, reason in {
        "0.0.0.0/8": "unspecified",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "shared (carrier-grade NAT)",
        "127.0.0.0/8": "loopback",
        "169.254.0.0/16": "link-local",
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "reserved",
        "192.0.2.0/24": "documentation",
        "192.88.99.0/24": "reserved",
        "192.168.0.0/16": "private",
        "198.18.0.0/15": "benchmarking",
        "198.51.100.0/24": "documentation",
        "203.0.113.0/24": "documentation",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
    }.items()
}

_REFUSED_V6 = {
    IPv6Network(network): reason
    for network, reason in {
        "::/128": "unspecified",
        "::1/128": "loopback",
        "64:ff9b:1::/48": "private",
        "2001::/23": "reserved",
        "2001:db8::/32": "documentation",
        "3fff::/20": "documentation",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "fec0::/10": "private",
        "ff00::/8": "multicast",
    }.items()
}

_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def read_address(host: str) -> Address | None:
    """Return the address that a host is, in its usual form; None where it is a name.

    >>> read_address("127.0.0.1"), read_address("example.org")
    (IPv4Address('127.0.0.1'), None)
    """
    try:
        return ip_address(host.rstrip(".") if "." in host else host)
    except ValueError:
        return None


def is_numeric_host(host: str) -> bool:
    """Say whether a host is an address in any form, octal, hexadecimal and shortened ones included.

    A name never ends in a number. Source: https://url.spec.whatwg.org/#ends-in-a-number-checker.

    >>> [is_numeric_host(host) for host in ("127.1", "0x7f000001", "2130706433", "a1.org")]
    [True, True, True, False]
    """
    if ":" in host:
        return True
    return _NUMERIC_LABEL.fullmatch(host.rstrip(".").rpartition(".")[2]) is not None


def why_refused(address: Address) -> str:
    """Return what kind of address it is, where it is not a public one; else "".

    IPv6 addresses that carry an IPv4 one (mapped, 6to4, NAT64) are judged by it.

    >>> why_refused(IPv6Address("::ffff:127.0.0.1"))
    'loopback'
    """
    if isinstance(address, IPv6Address):
        carried = _carried(address)
        if carried is None:
            return _why_v6_refused(address)
        address = carried
    for network, reason in _REFUSED_V4.items():
        if address in network:
            return reason
    return ""


def _why_v6_refused(address: IPv6Address) -> str:
    for network, reason in _REFUSED_V6.items():
        if address in network:
            return reason
    return "" if address in _GLOBAL_V6 else "reserved"


def _carried(address: IPv6Address) -> IPv4Address | None:
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour
