"""The httpx clients of one provider: one for each event loop, closed when the loop ends."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from teff.errors import ConfigError

if TYPE_CHECKING:
    import httpx

__all__ = ["ClientPool", "http_errors", "import_httpx"]

_MAX_CONNECTIONS = 100
_SECONDS_KEPT_IDLE = 30.0


class ClientPool:
    """Makes clients when they are needed, and keeps them.

    Connections belong to the event loop that opened them, so each loop has its own client; one
    more reaches loopback addresses, without the proxies of the environment.

    Args:
        provider: the provider's name, for errors.
        connect_timeout: seconds for opening a connection.
    """

    def __init__(self, provider: str, *, connect_timeout: float) -> None:
        self._provider = provider
        self._connect_timeout = connect_timeout
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
        for key in [key for key in self._clients if key[0] is loop]:
            await self._clients.pop(key).keeper.aclose()

    async def _kept_for(self, url: str) -> _Kept:
        loop = asyncio.get_running_loop()
        direct = _is_loopback(url)
        kept = self._clients.get((loop, direct))
        if kept is None:
            for key in [key for key in self._clients if key[0].is_closed()]:
                del self._clients[key]
            client = self._new_client(direct)
            kept = _Kept(client, _close_with_loop(client))
            # Runs to its first `yield` without a wait, so no other task comes in between.
            await anext(kept.keeper)
            self._clients[loop, direct] = kept
        return kept

    def _forget(self, kept: _Kept) -> None:
        for key in [key for key, other in self._clients.items() if other is kept]:
            del self._clients[key]

    def _new_client(self, direct: bool) -> httpx.AsyncClient:
        import_httpx(self._provider)
        import httpx

        try:
            return httpx.AsyncClient(
                verify=_tls_context(
                    os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
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


def _is_loopback(url: str) -> bool:
    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


@functools.lru_cache(maxsize=4)
def _tls_context(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """Return the context that verifies servers: building one costs more than a call does."""
    if cert_file or cert_dir:
        return ssl.create_default_context(cafile=cert_file, capath=cert_dir)
    import httpx

    return httpx.create_ssl_context()


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


def http_errors(httpx: ModuleType) -> tuple[type[Exception], ...]:
    """Return the exceptions that httpx raises."""
    return (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
