"""The HTTP client of a provider: posts JSON, reads replies and streams, fails as `ProviderError`.

httpx is imported when the first call is made, so this module can be imported without it.

What the client promises:

- A call opens no connection where an idle one is left. Connections are closed by
  `HttpClient.aclose`, and else by the event loop when it ends.
- Loopback addresses are reached directly; for others the proxy settings of the environment count
  (``HTTPS_PROXY``, ``NO_PROXY``), as do ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``. Redirects are not
  followed, so a key goes to no other host. HTTP/2 is off.
- Header values, and the user and password of a URL, appear in no error. They are not part of the
  URL that is requested either, for httpx writes URLs to its log.
- A call that is cancelled, or a stream that is left early, closes its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

from teff.errors import IncompleteStream, ProviderError
from teff.provider.call import Call
from teff.provider.keys import secret_values, split_credentials
from teff.provider.pool import ClientPool, http_errors, import_httpx

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpClient", "StreamParser", "StreamedReply", "join_url"]

_MAX_ERROR_BYTES = 64 * 1024
_SECONDS_TO_DRAIN = 0.25

Event = TypeVar("Event")


class StreamParser(Protocol[Event]):
    """Turns the bytes of a stream into events; see `teff.provider.sse`."""

    def feed(self, data: bytes) -> list[Event]:
        """Take in ``data``; return the events that it ends."""
        ...

    def close(self) -> list[Event]:
        """Return what is whole after the last byte."""
        ...


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

    Usage::

        client = HttpClient("ollama", hint="Start it with: ollama serve")
        data = await client.post_json(url, body, timeout=120.0, model="llama3.1:8b")
    """

    def __init__(self, provider: str, *, hint: str = "", connect_timeout: float = 10.0) -> None:
        self._provider = provider
        self._hint = hint
        self._pool = ClientPool(provider, connect_timeout=connect_timeout)
        self._secrets: set[str] = set()

    async def post_json(
        self,
        url: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,  # noqa: ASYNC109  # seconds, under the name that HTTP clients give them
        model: str = "",
    ) -> dict[str, Any]:
        """Post ``body`` and return the JSON object that comes back.

        Args:
            url: where to.
            body: a JSON object.
            headers: sent along; their values are secret.
            timeout: seconds for the whole call.
            model: the model that is asked, for errors.

        Raises:
            ProviderError: there is no such reply, or it says that something went wrong.
            ConfigError: httpx is not installed, or the environment names a proxy or certificates
                that it cannot use.
        """
        call = self._call(url, model, headers)
        content = call.encode(body)
        try:
            async with asyncio.timeout(timeout), self._pool.client_for(call.url) as client:
                response = await _send(call, client, content)
                try:
                    received = await _read_whole(call, response.aiter_bytes())
                finally:
                    await _close(response)
        except TimeoutError:
            raise call.error(f"did not answer within {timeout:g} seconds") from None
        return call.json_object(received)

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float,  # noqa: ASYNC109
        model: str = "",
    ) -> AsyncIterator[StreamedReply]:
        """Post ``body`` and read what comes back piece by piece, inside an ``async with``.

        Arguments and errors are those of `post_json`, but that ``timeout`` is the longest wait for
        the reply to begin, and then for each event.
        """
        call = self._call(url, model, headers)
        content = call.encode(body)
        async with self._pool.client_for(call.url) as client:
            try:
                async with asyncio.timeout(timeout):
                    response = await _send(call, client, content, silence=timeout)
            except TimeoutError:
                raise call.error(f"did not answer within {timeout:g} seconds") from None
            chunks = response.aiter_bytes()
            try:
                yield StreamedReply(call, response, chunks, timeout)
            finally:
                try:
                    if isinstance(chunks, AsyncGenerator):
                        await chunks.aclose()
                finally:
                    await _close(response)

    async def aclose(self) -> None:
        """Close the connections that were opened in this event loop. Later calls open new ones."""
        await self._pool.aclose()

    def error(self, message: str, *, model: str, permanent: bool = False) -> ProviderError:
        """Return an error about a reply; ``message`` goes on after the names of provider and model.

        No header value that this client has sent is shown in it.
        """
        return self._call("", model, None).error(message, permanent=permanent)

    def _call(self, url: str, model: str, headers: Mapping[str, str] | None) -> Call:
        url, credentials, secrets = split_credentials(url)
        sent = {**credentials, **(headers or {})}
        self._secrets |= secrets | secret_values(sent)
        return Call(
            provider=self._provider,
            model=model,
            hint=self._hint,
            url=url,
            headers=sent,
            secrets=self._secrets,
        )


class StreamedReply:
    """A reply that is being read. Made by `HttpClient.stream`.

    Attributes:
        content_type: the media type, in lower case and without parameters, or "".
    """

    def __init__(
        self,
        call: Call,
        response: httpx.Response,
        chunks: AsyncIterator[bytes],
        timeout: float,
    ) -> None:
        content_type: str = response.headers.get("content-type", "")
        self.content_type = content_type.partition(";")[0].strip().lower()
        self._call = call
        self._chunks = chunks
        self._ended = False
        self._timeout = timeout
        self._httpx = import_httpx(call.provider)

    async def read(
        self,
        parser: StreamParser[Event],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[Event] | None:
        """Return the next events, at least one, or None after the last.

        Args:
            parser: the same one for all reads of a reply.
            timeout: seconds to wait for an event; bytes that only keep the connection alive do not
                prolong it. None is the timeout of the call.

        Raises:
            IncompleteStream: the connection broke, or no event came in time.
            ProviderError: the bytes are no stream of events.
        """
        seconds = self._timeout if timeout is None else timeout
        deadline = asyncio.get_running_loop().time() + seconds
        # httpx itself bounds the wait for bytes by the timeout of the call, and it costs less than
        # a timer; so there is one only after bytes that were no event.
        needs_timer = timeout is not None
        while not self._ended:
            try:
                async with asyncio.timeout_at(deadline) if needs_timer else nullcontext():
                    chunk = await anext(self._chunks, None)
            except (TimeoutError, self._httpx.ReadTimeout):
                raise self._call.incomplete(f"sent no event for {seconds:g} seconds") from None
            except http_errors(self._httpx) as error:
                raise self._call.translated(error, in_stream=True) from None
            needs_timer = True
            self._ended = chunk is None
            try:
                events = parser.close() if chunk is None else parser.feed(chunk)
            except ValueError as error:
                raise self._call.error(f"sent no readable stream: {error}") from None
            if events:
                return events
        return None

    async def json_object(self) -> dict[str, Any]:
        """Read the whole reply as one JSON object, for servers that do not stream.

        Raises:
            ProviderError: as `HttpClient.post_json`.
        """
        try:
            async with asyncio.timeout(self._timeout):
                content = await _read_whole(self._call, self._chunks)
        except TimeoutError:
            raise self._call.error(f"did not answer within {self._timeout:g} seconds") from None
        return self._call.json_object(content)

    async def drain(self) -> None:
        """Read what follows the last event, for a moment, so that the connection can be kept."""
        with suppress(TimeoutError, *http_errors(self._httpx)):
            async with asyncio.timeout(_SECONDS_TO_DRAIN):
                async for _ in self._chunks:
                    pass

    def parse(self, text: str) -> dict[str, Any]:
        """Parse one event.

        Raises:
            ProviderError: it is no JSON object, or it is one that says what went wrong.
        """
        return self._call.json_object(text)

    def error(self, message: str) -> ProviderError:
        """Return an error about this reply; ``message`` goes on after the provider's name."""
        return self._call.error(message)

    def incomplete(self) -> IncompleteStream:
        """Return the error for a stream that ended before the server said that it was whole."""
        return self._call.incomplete("ended the stream before the answer was whole")


async def _send(
    call: Call, client: httpx.AsyncClient, content: bytes, *, silence: float | None = None
) -> httpx.Response:
    """Return the reply, unread, where its status says that it is one.

    ``silence`` is the longest wait for bytes, in seconds; None does not bound it.
    """
    with call.failures():
        headers = {"Content-Type": "application/json", **call.headers}
        request = client.build_request("POST", call.url, content=content, headers=headers)
        request.extensions["timeout"]["read"] = silence
        response = await client.send(request, stream=True)
    if response.status_code < 300:
        return response
    try:
        refusal = await _read_start(call, response)
    finally:
        await _close(response)
    raise call.refused(response.status_code, response.headers, refusal)


async def _read_whole(call: Call, chunks: AsyncIterator[bytes]) -> bytes:
    content = bytearray()
    with call.failures():
        async for chunk in chunks:
            content += chunk
            call.check_length(len(content))
    return bytes(content)


async def _read_start(call: Call, response: httpx.Response) -> bytes:
    """Read enough of a refusal for its words; where it breaks off, what came of it."""
    content = bytearray()
    with suppress(*http_errors(import_httpx(call.provider))):
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > _MAX_ERROR_BYTES:
                break
    return bytes(content[:_MAX_ERROR_BYTES])


async def _close(response: httpx.Response) -> None:
    """Give the connection back, or away, also where this task is cancelled once more meanwhile."""
    if not response.is_closed:
        await asyncio.shield(asyncio.ensure_future(response.aclose()))
