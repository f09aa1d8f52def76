"""From the text of a URL to the one address that a request may go to."""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import attrs
import httpx

from teff.errors import ToolError
from teff.tool.threads import run_in_thread
from teff_tools_web.addresses import is_numeric_host, read_address, why_refused
from teff_tools_web.settings import FetchSettings

__all__ = ["Resolver", "Target", "find_target", "look_up", "read_url"]

#: Gives the addresses of a host, as text; raises ``OSError`` where there are none.
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.?)+")


@attrs.frozen(kw_only=True)
class Target:
    """A URL with the addresses that were checked for it; no other may be connected to.

    Attributes:
        url: as it is shown.
        host: the name that the server's certificate must be for.
        port: where to connect.
        addresses: where to connect, in the order to try.
    """

    url: httpx.URL
    host: str
    port: int
    addresses: tuple[str, ...]


def read_url(text: str, base: httpx.URL | None = None) -> httpx.URL:
    """Read a URL as a model or a redirect writes it.

    Args:
        text: spaces around it do not count.
        base: the page that it stands on, for a relative one.

    Raises:
        ToolError: it is no URL, or not one of http or https, or it holds a user name.
    """
    text = text.strip()
    try:
        url = base.join(text) if base else httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise _refused(text, f"it is no URL ({error})") from None
    if url.scheme not in _PORTS:
        found = f"not {url.scheme!r}" if url.scheme else "and this names neither"
        raise _refused(text, f"only http and https are allowed, {found}")
    if url.userinfo:
        raise _refused(url.host, "a URL may not hold a user name or a password")
    if not url.host:
        raise _refused(text, "it names no host")
    return url.copy_with(fragment=None)


async def find_target(
    url: httpx.URL, settings: FetchSettings, *, resolve: Resolver | None = None
) -> Target:
    """Look up a URL's host, once, and check everything that it may lead to.

    Args:
        url: from `read_url`.
        settings: what is allowed.
        resolve: looks up a host; `look_up` by default.

    Raises:
        ToolError: a port or an address that is not allowed, or a host that is not there.
    """
    host = url.raw_host.decode("ascii").lower()
    port = url.port or _PORTS[url.scheme]
    if port not in settings.allowed_ports:
        allowed = ", ".join(map(str, settings.allowed_ports))
        raise _refused(str(url), f"port {port} is not allowed; allowed: {allowed}")
    address = read_address(host)
    if address is not None:
        found: Sequence[str] = [str(address)]
    elif is_numeric_host(host):
        raise _refused(str(url), f"{host} is an address in an unusual form")
    elif not _HOST.fullmatch(host):
        raise _refused(str(url), f"{host} is no host name")
    else:
        found = await _resolve(host, port, settings, resolve or look_up)
    if not settings.allow_private:
        for entry in found:
            _check_address(url, entry)
    return Target(url=url, host=host.rstrip("."), port=port, addresses=tuple(found))


async def _resolve(
    host: str, port: int, settings: FetchSettings, resolve: Resolver
) -> Sequence[str]:
    name = host.rstrip(".")
    if not settings.allow_private and (name == "localhost" or name.endswith(".localhost")):
        raise _refused(host, "it is this machine")
    try:
        found = await resolve(host, port)
    except (OSError, UnicodeError):
        found = ()
    if not found:
        raise ToolError(f"the host {host} was not found")
    return tuple(dict.fromkeys(found))


def _check_address(url: httpx.URL, entry: str) -> None:
    address = read_address(entry)
    reason = "unreadable" if address is None else why_refused(address)
    if reason:
        leads = "" if url.host == entry else f"it leads to {entry}, and "
        raise _refused(str(url), f"{leads}{reason} addresses are not allowed")


def _refused(shown: str, reason: str) -> ToolError:
    return ToolError(f"refused to fetch {shown[:200]!r}: {reason}")


async def look_up(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, as the operating system knows them."""
    arguments = {"host": host, "port": port, "type": socket.SOCK_STREAM}
    found = await run_in_thread(socket.getaddrinfo, arguments)
    return [str(entry[4][0]) for entry in found]
