"""The connections of one provider: lent to one call at a time, closed when the event loop ends.

Each connection is an httpx client of its own. The pool inside httpx loses connections where a call is
cancelled in the wrong moment, for it goes on to count them as used, and its work grows with the square
of the calls that wait. Here a call that did not end well takes its client with it, and nothing else.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import os
import socket
import ssl
import time
import weakref
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from teff.errors import ConfigError
from teff.provider.keeper import close_now, close_soon, close_with_loop
from teff.provider.keys import split_credentials
from teff.provider.line import Line
from teff.provider.log_lines import hide_in_logs

if TYPE_CHECKING:
    import httpx

__all__ = [
    "ClientPool",
    "Lease",
    "broken_connection_errors",
    "http_errors",
    "import_httpx",
    "is_loopback",
    "is_loopback_host",
    "proxy_for",
]

_MAX_CONNECTIONS = 100
_SECONDS_KEPT_IDLE = 30.0

_LOOPBACK_NAMES = {"ip6-localhost", "ip6-loopback", "localhost", "localhost.localdomain"}


class ClientPool:
    """Makes clients when they are needed, and keeps them.

    Connections belong to the event loop that opened them, so each loop has its own. They are closed
    when the loop ends, and soon after nobody refers to the pool any more.

    Args:
        provider: the provider's name, for errors.
        connect_timeout: seconds for opening a connection.
        ca_file: a PEM file with authorities that are trusted beside the usual ones.

    Raises:
        ConfigError: ``ca_file`` cannot be read, or holds no certificate.
    """

    def __init__(
        self, provider: str, *, connect_timeout: float, ca_file: str | None = None
    ) -> None:
        self._provider = provider
        self._connect_timeout = connect_timeout
        self._ca_file = ca_file
        self._loops: dict[asyncio.AbstractEventLoop, _Connections] = {}
        weakref.finalize(self, _close_all, self._loops).atexit = False
        if ca_file is not None:
            _check_authorities(ca_file, provider)

    async def lend(self, url: str) -> Lease:
        """Return a client for ``url``, when there is one; it must be given back.

        Raises:
            ConfigError: httpx is not installed, or the environment names a proxy or certificates
                that it cannot use.
        """
        connections = await self._connections()
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        await connections.room.acquire()
        try:
            line = connections.take(origin)
            if line is None:
                await connections.make_room()
                line = Line(self._new_client(url), origin)
        except BaseException:
            connections.release()
            raise
        return Lease(line, connections)

    async def renew(self, lease: Lease, url: str) -> None:
        """Give ``lease`` a client for ``url`` that has no connection yet, in place of the one it has.

        Raises:
            ConfigError: as `lend`.
        """
        await lease.line.close()
        lease.line = Line(self._new_client(url), lease.line.origin)

    async def aclose(self) -> None:
        """Close what the running loop has opened, and what is in use when it is given back."""
        connections = self._loops.pop(asyncio.get_running_loop(), None)
        if connections is not None:
            await close_now(connections)

    async def _connections(self) -> _Connections:
        loop = asyncio.get_running_loop()
        connections = self._loops.get(loop)
        if connections is None:
            # A copy, and `pop`: loops in other threads use this pool too.
            for other in list(self._loops):
                if other.is_closed():
                    self._loops.pop(other, None)
            connections = self._loops[loop] = _Connections()
            await close_with_loop(connections)
        return connections

    def _new_client(self, url: str) -> httpx.AsyncClient:
        import_httpx(self._provider)
        import httpx

        direct = is_loopback(url)
        if not direct:
            hide_in_logs(_proxy_secrets())
        try:
            return httpx.AsyncClient(
                verify=self._trusted(url),
                trust_env=not direct,
                follow_redirects=False,
                # Waits are bounded by `asyncio.timeout`: httpx counts from the last byte, and
                # servers keep a connection alive with bytes that are no events.
                timeout=httpx.Timeout(None, connect=self._connect_timeout),
                limits=httpx.Limits(
                    max_connections=1,
                    max_keepalive_connections=1,
                    keepalive_expiry=_SECONDS_KEPT_IDLE,
                ),
            )
        except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
            raise ConfigError(
                f"provider {self._provider!r}: no HTTP client can be made with the settings of the "
                f"environment ({type(error).__name__}).",
                hint="Look at HTTPS_PROXY, ALL_PROXY (socks needs: pip install 'httpx[socks]'), "
                "SSL_CERT_FILE, SSL_CERT_DIR and ca_file.",
            ) from None

    def _trusted(self, url: str) -> ssl.SSLContext:
        if urlsplit(url).scheme != "https":
            # Trusts nobody; loading those that are to be trusted takes longer than a call does.
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return _tls_context(
            os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"), self._ca_file
        )


@attrs.define(eq=False)
class Lease:
    """A client that one call uses.

    Attributes:
        line: the client, with the connection that it has.
        is_clean: the reply was read to its end, or closed without being cancelled. Else the client
            is closed when it is given back.
    """

    line: Line
    _connections: _Connections
    is_clean: bool = False

    async def give_back(self) -> None:
        """Keep the client for the next call, or close it, also where this task is cancelled."""
        if self.is_clean:
            await self._connections.keep(self.line)
        else:
            await self._connections.close_used(self.line)


class _Connections:
    """The clients of one event loop: at most `_MAX_CONNECTIONS`, in use or idle."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._used = 0
        self._idle: list[Line] = []
        self._closing: set[Line] = set()
        self._is_closed = False

    def take(self, origin: str) -> Line | None:
        """Take the client that was last used for ``origin``; the caller holds a place of `room`."""
        self._used += 1
        for place in reversed(range(len(self._idle))):
            if self._idle[place].origin == origin:
                line = self._idle.pop(place)
                line.use_again()
                return line
        return None

    async def make_room(self) -> None:
        """Close idle clients of other origins, until one more can be made."""
        while self._idle and self._used + len(self._idle) > _MAX_CONNECTIONS:
            await self._idle.pop(0).close()

    async def keep(self, line: Line) -> None:
        """Take a client back that can be used again."""
        if self._is_closed:
            await self.close_used(line)
            return
        line.idle_since = now = time.monotonic()
        self._idle.append(line)
        self.release()
        while self._idle and self._idle[0].idle_since < now - _SECONDS_KEPT_IDLE:
            await self._idle.pop(0).close()

    async def close_used(self, line: Line) -> None:
        """Close a client that was in use.

        Its place is free when that is done, also where this task does not live to see it.
        """
        self._closing.add(line)
        task = asyncio.ensure_future(self._close(line))
        task.add_done_callback(lambda _: self.release())
        await asyncio.shield(task)

    async def _close(self, line: Line) -> None:
        await line.close()
        self._closing.discard(line)

    def shut(self) -> bool:
        """Keep nothing that is given back from now on, and say whether anything is still open."""
        self._is_closed = True
        return bool(self._idle or self._closing)

    async def close(self) -> None:
        """Close what is idle, and what is given back from now on.

        Where this is cancelled it goes on when it is called again: a client that it has begun to
        close closes, and the others are still there. So are those whose own closing was cancelled.
        """
        self.shut()
        for lines in (self._idle, self._closing):
            while lines:
                await lines.pop().close()

    def release(self) -> None:
        """Give up the place of a client that is idle or closed, or was never made."""
        self._used -= 1
        self.room.release()


def _close_all(loops: dict[asyncio.AbstractEventLoop, _Connections]) -> None:
    """Close the connections of a pool that nobody refers to; the collector may run in any thread."""
    for loop, connections in loops.items():
        close_soon(connections, loop)


def is_loopback(url: str) -> bool:
    """Say whether ``url`` leads to this machine, in whichever way its address is written."""
    return is_loopback_host(urlsplit(url).hostname or "")


def is_loopback_host(host: str) -> bool:
    """Say whether a name or address is one of this machine, in whichever way it is written.

    >>> is_loopback_host("127.1"), is_loopback_host("192.0.2.1")
    (True, False)
    """
    host = host.rstrip(".").lower()
    if host in _LOOPBACK_NAMES or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        try:
            # The short, octal and hexadecimal ways of writing, which connecting understands too.
            address = ipaddress.ip_address(socket.inet_aton(host))
        except (OSError, ValueError):
            return False
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    return address.is_loopback or address.is_unspecified


def proxy_for(url: str) -> str | None:
    """Return the proxy of the environment that ``url`` is asked through, or None."""
    if is_loopback(url):
        return None
    from urllib.request import getproxies, proxy_bypass  # slow to load, and seldom needed

    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _proxy_secrets() -> set[str]:
    from urllib.request import getproxies

    proxies = [proxy for name, proxy in getproxies().items() if name in ("http", "https", "all")]
    return {secret for proxy in proxies for secret in split_credentials(proxy)[2]}


@functools.lru_cache(maxsize=4)
def _tls_context(
    cert_file: str | None, cert_dir: str | None, ca_file: str | None
) -> ssl.SSLContext:
    """Return the context that verifies servers."""
    import httpx

    if cert_file or cert_dir:
        context = ssl.create_default_context(cafile=cert_file, capath=cert_dir)
    else:
        context = httpx.create_ssl_context()
        context.load_default_certs()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    return context


def _check_authorities(ca_file: str, provider: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca_file)
    except (OSError, ValueError, TypeError) as error:  # that of ssl is an OSError
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"provider {provider!r}: ca_file {str(ca_file)!r} cannot be used: {reason}.",
            hint="It is the path of a PEM file: text with BEGIN CERTIFICATE lines.",
        ) from None


def import_httpx(provider: str) -> ModuleType:
    """Return the module httpx.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import httpx
    except ImportError:
        raise ConfigError(
            f"provider {provider!r} needs the package httpx.",
            hint="Install it: pip install 'teff-core[http]'",
        ) from None
    return httpx


def http_errors(provider: str) -> tuple[type[Exception], ...]:
    """Return the exceptions that httpx raises.

    Raises:
        ConfigError: it is not installed.
    """
    httpx = import_httpx(provider)
    return (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)


def broken_connection_errors(provider: str) -> tuple[type[Exception], ...]:
    """Return the exceptions that httpx raises where an open connection breaks.

    Raises:
        ConfigError: it is not installed.
    """
    httpx = import_httpx(provider)
    return (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
