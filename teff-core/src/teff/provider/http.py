"""The HTTP client of a provider: posts JSON, reads replies and streams, fails as `ProviderError`.

httpx is imported when the first call is made, so this module can be imported without it.

What the client promises:

- A call opens no connection where an idle one is left. Connections are closed by
  `HttpClient.aclose`, when nobody refers to the client any more, and else by the event loop when
  it ends.
- A kept connection may be closed by its server in the moment when it is used. Where it breaks before
  a byte came back, the request is sent once more, on a new connection.
- Loopback addresses are reached directly; for others the proxy settings of the environment count
  (``HTTPS_PROXY``, ``NO_PROXY``), as do ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``. Redirects are not
  followed, so a key goes to no other host. HTTP/2 is off.
- Header values, and the user and password of a URL, appear in no error, and in no log line of httpx,
  even where the server repeats them. They are not part of the URL that is requested either.
- At most 100 connections are open at once in an event loop; further calls wait for one, in turn.
- A call that is cancelled, or a stream that is left early, closes its connection.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from teff.errors import ProviderError
from teff.provider.call import Call
from teff.provider.headers import merge_headers
from teff.provider.keys import RecentSecrets, secret_values, split_credentials
from teff.provider.log_lines import hide_in_logs
from teff.provider.options import check_headers
from teff.provider.pool import ClientPool, Lease, broken_connection_errors, http_errors
from teff.provider.streamed import Clock, StreamedReply, StreamParser
from teff.provider.unpacked import reply_bytes

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpClient", "StreamParser", "StreamedReply", "join_url"]

_MAX_ERROR_BYTES = 64 * 1024


def join_url(base_url: str, path: str) -> str:
    """Return the URL of ``path`` under ``base_url``, whose query stays and whose path may name it.

    >>> join_url("http://127.0.0.1:8080/v1?api-version=2", "/chat/completions")
    'http://127.0.0.1:8080/v1/chat/completions?api-version=2'
    """
    parts = urlsplit(base_url)
    base, path = parts.path.rstrip("/"), "/" + path.lstrip("/")
    return urlunsplit(parts._replace(path=base if base.endswith(path) else base + path))


class HttpClient:
    """Posts JSON for one provider.

    Args:
        provider: the provider's name, for errors.
        hint: what to do where its server cannot be reached, as a sentence.
        connect_timeout: seconds for opening a connection.
        ca_file: a PEM file with authorities that are trusted beside the usual ones.

    Raises:
        ConfigError: ``ca_file`` cannot be read, or holds no certificate.

    Usage::

        client = HttpClient("ollama", hint="Start it with: ollama serve")
        data = await client.post_json(url, body, timeout=120.0, model="llama3.1:8b")
    """

    def __init__(
        self,
        provider: str,
        *,
        hint: str = "",
        connect_timeout: float = 10.0,
        ca_file: str | None = None,
    ) -> None:
        self._provider = provider
        self._hint = hint
        self._pool = ClientPool(provider, connect_timeout=connect_timeout, ca_file=ca_file)
        self._secrets = RecentSecrets()

    async def post_json(
        self,
        url: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,  # noqa: ASYNC109  # seconds, under the name that HTTP clients give them
        deadline: float | None = None,
        model: str = "",
    ) -> dict[str, Any]:
        """Post ``body`` and return the JSON object that comes back.

        Args:
            url: where to.
            body: a JSON object.
            headers: sent along; their values are secret.
            timeout: seconds for the whole call.
            deadline: seconds for the whole call too, where they are fewer.
            model: the model that is asked, for errors.

        Raises:
            ProviderError: there is no such reply, or it says that something went wrong.
            ConfigError: httpx is not installed, a header cannot be sent, or the environment names a
                proxy or certificates that cannot be used.
        """
        call = self._call(url, model, headers)
        del url, headers  # tracebacks may be shown with the variables of their frames
        return await call.within(_fewer(timeout, deadline), self._exchange(call, call.encode(body)))

    async def get_json(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,  # noqa: ASYNC109
        model: str = "",
    ) -> dict[str, Any]:
        """Get the JSON object at ``url``. Arguments and errors are those of `post_json`."""
        call = self._call(url, model, headers)
        del url, headers
        return await call.within(timeout, self._exchange(call, None))

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,  # noqa: ASYNC109
        deadline: float | None = None,
        model: str = "",
    ) -> AsyncIterator[StreamedReply]:
        """Post ``body`` and read what comes back piece by piece, inside an ``async with``.

        Arguments and errors are those of `post_json`, but that ``timeout`` is the longest wait for
        the reply to begin, and then for each event. Only ``deadline`` bounds the whole.
        """
        call = self._call(url, model, headers)
        del url, headers
        content = call.encode(body)
        clock = Clock(timeout, deadline)
        lease, response = await call.within(_fewer(timeout, deadline), self._begin(call, content))
        try:
            chunks = reply_bytes(response)
            reply = StreamedReply(call, response, chunks, clock)
            try:
                yield reply
            finally:
                reply.stop_waiting()
                try:
                    if isinstance(chunks, AsyncGenerator):
                        await chunks.aclose()
                finally:
                    await response.aclose()
            lease.is_clean = reply.has_ended
        finally:
            await lease.give_back()

    def hide_key(self, key: str) -> None:
        """Show ``key`` in no error and no log line, whatever stands before it in its header."""
        self._hide(secret_values({"Authorization": key}))

    async def aclose(self) -> None:
        """Close the connections that were opened in this event loop. Later calls open new ones."""
        await self._pool.aclose()

    def error(self, message: str, *, model: str, permanent: bool = False) -> ProviderError:
        """Return an error about a reply; ``message`` goes on after the names of provider and model.

        No header value that this client has sent is shown in it.
        """
        return self._call("", model, None).error(message, permanent=permanent)

    async def _exchange(self, call: Call, content: bytes | None) -> dict[str, Any]:
        lease, response = await self._begin(call, content)
        try:
            try:
                received = await call.read_whole(reply_bytes(response))
            finally:
                await response.aclose()
            lease.is_clean = True
        finally:
            await lease.give_back()
        return call.json_object(received)

    async def _begin(self, call: Call, content: bytes | None) -> tuple[Lease, httpx.Response]:
        """Ask, and return the reply, unread, with the lease to give back after it."""
        lease = await self._pool.lend(call.url)
        try:
            response = await self._ask(call, lease, content)
            if response.status_code < 300:
                return lease, response
            try:
                refusal = await _read_start(call, response)
            finally:
                await response.aclose()
            lease.is_clean = True
        except BaseException:
            await lease.give_back()
            raise
        await lease.give_back()
        raise call.refused(response.status_code, response.headers, refusal)

    async def _ask(self, call: Call, lease: Lease, content: bytes | None) -> httpx.Response:
        """Send the request, once more where the server had closed the kept connection meanwhile."""
        try:
            return await _send(call, lease, content)
        except broken_connection_errors(self._provider):
            if not lease.line.broke_while_kept:
                raise
        await self._pool.renew(lease, call.url)
        return await _send(call, lease, content)

    def _hide(self, secrets: frozenset[str]) -> None:
        self._secrets.add(secrets)
        hide_in_logs(secrets)

    def _call(self, url: str, model: str, headers: Mapping[str, str] | None) -> Call:
        url, credentials, secrets = split_credentials(url)
        check_headers(headers or {}, provider=self._provider)
        sent = merge_headers(credentials, headers or {})
        self._hide(secrets | secret_values(sent))
        return Call(
            provider=self._provider,
            model=model,
            hint=self._hint,
            url=url,
            headers=sent,
            secrets=self._secrets,
        )


def _fewer(timeout: float, deadline: float | None) -> float:
    return timeout if deadline is None else min(timeout, deadline)


async def _send(call: Call, lease: Lease, content: bytes | None) -> httpx.Response:
    """Post ``content``, or get what there is; return the reply, unread."""
    # Packed, a reply may be of any length, and the events of a stream come late.
    method, headers = "GET", {"Accept-Encoding": "identity", **call.headers}
    if content is not None:
        method, headers = "POST", {"Content-Type": "application/json", **headers}
    client = lease.line.client
    request = client.build_request(method, call.url, content=content, headers=headers)
    del headers
    request.extensions["trace"] = lease.line.trace
    return await client.send(request, stream=True)


async def _read_start(call: Call, response: httpx.Response) -> bytes:
    """Read enough of a refusal for its words; where it breaks off, what came of it."""
    content = bytearray()
    with suppress(*http_errors(call.provider)):
        async for chunk in reply_bytes(response):
            content += chunk
            if len(content) > _MAX_ERROR_BYTES:
                break
    return bytes(content[:_MAX_ERROR_BYTES])
