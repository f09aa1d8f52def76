"""Where Ollama is: the rules of its environment variable ``OLLAMA_HOST``."""

from __future__ import annotations

import os

__all__ = ["DEFAULT_BASE_URL", "address", "address_from_environment"]

DEFAULT_BASE_URL = "http://127.0.0.1:11434"

_DEFAULT_PORT = "11434"
_SCHEME_PORTS = {"http": "80", "https": "443"}
#: Addresses that a server listens on but that no client can call.
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104  # no socket is bound


def address_from_environment() -> str:
    """Return the URL that ``OLLAMA_HOST`` means, or Ollama's own default."""
    return address(os.environ.get("OLLAMA_HOST", ""))


def address(host: str) -> str:
    """Return the URL that a value of ``OLLAMA_HOST`` means.

    Scheme and port may be missing: without a scheme it is ``http`` at port 11434, with one its
    usual port. An address to listen on anywhere becomes the loopback address. Source:
    https://docs.ollama.com/faq

    >>> address("0.0.0.0"), address("https://gpu.example.com/ollama")
    ('http://127.0.0.1:11434', 'https://gpu.example.com/ollama')
    """
    host = host.strip().strip("\"'").strip()
    if not host:
        return DEFAULT_BASE_URL
    scheme, found, rest = host.partition("://")
    if not found:
        scheme, rest = "http", host
    default_port = _SCHEME_PORTS.get(scheme, _DEFAULT_PORT) if found else _DEFAULT_PORT
    place, slash, path = rest.partition("/")
    userinfo, at, place = place.rpartition("@")
    name, port = _split_port(place)
    name = _ANYWHERE.get(name, name)
    if port is None or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        port = default_port
    name = f"[{name}]" if ":" in name else name
    shown_port = "" if _SCHEME_PORTS.get(scheme) == port else f":{port}"
    return f"{scheme}://{userinfo}{at}{name}{shown_port}{(slash + path).rstrip('/')}"


def _split_port(place: str) -> tuple[str, str | None]:
    if place.startswith("["):
        name, _, port = place[1:].partition("]")
        return name, port.removeprefix(":") or None
    if place.count(":") > 1:  # an IPv6 address without brackets
        return place, None
    name, colon, port = place.partition(":")
    return name, port if colon else None
