"""The httpx clients of one provider: one for each event loop, closed when the loop ends."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import attrs

from teff.errors import ConfigError
from teff.provider.keys import split_credentials
from teff.provider.log_lines import hide_in_logs

if TYPE_CHECKING:
    import httpx

__all__ = ["ClientPool", "http_errors", "import_httpx", "is_loopback", "proxy_for"]

_MAX_CONNECTIONS = 100
_SECONDS_KEPT_IDLE = 30.0

_LOOPBACK_NAMES = {"ip6-localhost", "ip6-loopback", "localhost", "localhost.localdomain"}


class ClientPool:
    """Makes clients when they are needed, and keeps them.

    Connections belong to the event loop that opened them, so each loop has its own client; one
    more reaches loopback addresses, without the proxies of the environment.

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
        if ca_file is not None:
            _check_authorities(ca_file, provider)
        self._clients: dict[tuple[asyncio.AbstractEventLoop, bool], _Kept] = {}

    @asynccontextmanager
    async def client_for(self, url: str) -> AsyncIterator[httpx.AsyncClient]:
        """Lend the running loop's client for ``url``, inside an ``async with``.

        Raises:
            ConfigError: httpx is not installed, or the environment names a proxy or certificates
                that it cannot use.
        """
        kept = await self._kept_for(url)
        try:
            yield kept.client
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 1:
                # A second cancellation can stop httpcore while it cleans up after the first, and
                # then a connection counts as used for ever. The calls that still use this client
                # keep it alive through their `kept`; after the last one it is closed.
                self._forget(kept)
            raise

    async def aclose(self) -> None:
        """Close what the running loop has opened."""
        loop = asyncio.get_running_loop()
        for direct in (True, False):
            kept = self._clients.pop((loop, direct), None)
            if kept is not None:
                await kept.keeper.aclose()

    async def _kept_for(self, url: str) -> _Kept:
        loop = asyncio.get_running_loop()
        direct = is_loopback(url)
        kept = self._clients.get((loop, direct))
        if kept is None:
            # A copy, and `pop`: loops in other threads use this pool too.
            for key in list(self._clients):
                if key[0].is_closed():
                    self._clients.pop(key, None)
            client = self._new_client(direct)
            kept = _Kept(client, _close_with_loop(client))
            # Runs to its first `yield` without a wait, so no other task comes in between.
            await anext(kept.keeper)
            self._clients[loop, direct] = kept
        return kept

    def _forget(self, kept: _Kept) -> None:
        for key, other in list(self._clients.items()):
            if other is kept:
                self._clients.pop(key, None)

    def _new_client(self, direct: bool) -> httpx.AsyncClient:
        import_httpx(self._provider)
        import httpx

        if not direct:
            hide_in_logs(_proxy_secrets())
        try:
            return httpx.AsyncClient(
                verify=_tls_context(
                    os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"), self._ca_file
                ),
                trust_env=not direct,
                follow_redirects=False,
                # Waits are bounded by `asyncio.timeout`: httpx counts from the last byte, and
                # servers keep a connection alive with bytes that are no events.
                timeout=httpx.Timeout(None, connect=self._connect_timeout),
                limits=httpx.Limits(
                    max_connections=_MAX_CONNECTIONS,
                    max_keepalive_connections=_MAX_CONNECTIONS,
                    keepalive_expiry=_SECONDS_KEPT_IDLE,
                ),
            )
        except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
            raise ConfigError(
                f"provider {self._provider!r}: no HTTP client can be made with the settings of the "
                f"environment ({type(error).__name__}).",
                hint="Look at HTTPS_PROXY, ALL_PROXY (socks needs: pip install 'httpx[socks]'), "
                "SSL_CERT_FILE and SSL_CERT_DIR.",
            ) from None


@attrs.frozen(eq=False)
class _Kept:
    client: httpx.AsyncClient
    keeper: AsyncGenerator[None, None]


async def _close_with_loop(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    """Close ``client`` when this generator is closed.

    An event loop does that with every generator that was begun in it: when nothing refers to the
    generator any more, and at the latest when the loop ends.
    """
    try:
        yield
    finally:
        await client.aclose()


def is_loopback(url: str) -> bool:
    """Say whether ``url`` leads to this machine, in whichever way its address is written."""
    host = (urlsplit(url).hostname or "").rstrip(".")
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
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _proxy_secrets() -> set[str]:
    proxies = [proxy for name, proxy in getproxies().items() if name in ("http", "https", "all")]
    return {secret for proxy in proxies for secret in split_credentials(proxy)[2]}


@functools.lru_cache(maxsize=4)
def _tls_context(
    cert_file: str | None, cert_dir: str | None, ca_file: str | None
) -> ssl.SSLContext:
    """Return the context that verifies servers: building one costs more than a call does."""
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
            f"provider {provider!r}: ca_file {str(ca_file)!r} cannot be used: {reason}",
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
