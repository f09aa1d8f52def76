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
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

from teff.errors import IncompleteStream, ProviderError
from teff.provider.alarm import Alarm
from teff.provider.call import Call
from teff.provider.keys import RecentSecrets, secret_values, split_credentials
from teff.provider.log_lines import hide_in_logs
from teff.provider.pool import ClientPool, Lease, http_errors

if TYPE_CHECKING:
    import httpx

__all__ = ["HttpClient", "StreamParser", "StreamedReply", "join_url"]

_MAX_ERROR_BYTES = 64 * 1024
_SECONDS_TO_DRAIN = 0.25

Event = TypeVar("Event")
Result = TypeVar("Result")


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
            ConfigError: httpx is not installed, or the environment names a proxy or certificates
                that it cannot use.
        """
        call = self._call(url, model, headers)
        del url, headers  # tracebacks may be shown with the variables of their frames
        return await _within(
            call, _fewer(timeout, deadline), self._exchange(call, call.encode(body))
        )

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
        return await _within(call, timeout, self._exchange(call, None))

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
        clock = _Clock(timeout, deadline)
        lease, response = await _within(call, _fewer(timeout, deadline), self._begin(call, content))
        try:
            chunks = response.aiter_bytes()
            reply = StreamedReply(call, response, chunks, clock)
            try:
                yield reply
            finally:
                reply.stop_waiting()
                try:
                    if isinstance(chunks, AsyncGenerator):
                        await chunks.aclose()
                finally:
                    await _close(response)
            lease.is_clean = reply.has_ended
        finally:
            await lease.give_back()

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
                received = await _read_whole(call, response.aiter_bytes())
            finally:
                await _close(response)
            lease.is_clean = True
        finally:
            await lease.give_back()
        return call.json_object(received)

    async def _begin(self, call: Call, content: bytes | None) -> tuple[Lease, httpx.Response]:
        """Ask, and return the reply, unread, with the lease to give back after it."""
        lease = await self._pool.lend(call.url)
        try:
            response = await _send(call, lease.client, content)
            if response.status_code < 300:
                return lease, response
            try:
                refusal = await _read_start(call, response)
            finally:
                await _close(response)
            lease.is_clean = True
        except BaseException:
            await lease.give_back()
            raise
        await lease.give_back()
        raise call.refused(response.status_code, response.headers, refusal)

    def _call(self, url: str, model: str, headers: Mapping[str, str] | None) -> Call:
        url, credentials, secrets = split_credentials(url)
        sent = {**credentials, **(headers or {})}
        secrets |= secret_values(sent)
        self._secrets.add(secrets)
        hide_in_logs(secrets)
        return Call(
            provider=self._provider,
            model=model,
            hint=self._hint,
            url=url,
            headers=sent,
            secrets=self._secrets,
        )


class _Clock:
    """How long a stream may be silent, and when it must have ended.

    Attributes:
        silence: seconds that it may send no event.
        deadline: seconds that the whole of it may last, or None.
        end: when these are over, by the clock of the event loop.
    """

    def __init__(self, silence: float, deadline: float | None) -> None:
        self.silence = silence
        self.deadline = deadline
        self.end = inf if deadline is None else asyncio.get_running_loop().time() + deadline


class StreamedReply:
    """A reply that is being read. Made by `HttpClient.stream`.

    Attributes:
        content_type: the media type, in lower case and without parameters, or "".
        has_ended: all of it was read.
    """

    def __init__(
        self,
        call: Call,
        response: httpx.Response,
        chunks: AsyncIterator[bytes],
        clock: _Clock,
    ) -> None:
        content_type: str = response.headers.get("content-type", "")
        self.content_type = content_type.partition(";")[0].strip().lower()
        self._call = call
        self._chunks = chunks
        self._clock = clock
        self.has_ended = False
        self._http_errors = http_errors(call.provider)
        self._time = asyncio.get_running_loop().time
        self._alarm = Alarm()

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
            IncompleteStream: the connection broke, no event came in time, or the stream did not
                end before the deadline of the call.
            ProviderError: the bytes are no stream of events.
        """
        seconds = self._clock.silence if timeout is None else timeout
        now = self._time()
        if now >= self._clock.end:
            raise self._late(seconds, at_deadline=True)
        silent_at = now + seconds
        until = min(silent_at, self._clock.end)
        while not self.has_ended:
            failure: ProviderError | None = None
            chunk = None
            try:
                with self._alarm.at(until):
                    chunk = await anext(self._chunks, None)
            except TimeoutError:
                failure = self._late(seconds, at_deadline=until < silent_at)
            except self._http_errors as error:
                failure = self._call.translated(error, in_stream=True)
            if failure is not None:
                raise failure
            self.has_ended = chunk is None
            try:
                events = parser.close() if chunk is None else parser.feed(chunk)
            except ValueError as error:
                raise self._call.error(f"sent no readable stream: {error}") from None
            if events:
                return events
        return None

    def _late(self, seconds: float, *, at_deadline: bool) -> IncompleteStream:
        if at_deadline:
            return self._call.incomplete(f"did not end within {self._clock.deadline:g} seconds")
        return self._call.incomplete(f"sent no event for {seconds:g} seconds")

    async def json_object(self) -> dict[str, Any]:
        """Read the whole reply as one JSON object, for servers that do not stream.

        Raises:
            ProviderError: as `HttpClient.post_json`.
        """
        seconds = min(self._clock.silence, self._clock.end - self._time())
        content = await _within(self._call, seconds, _read_whole(self._call, self._chunks))
        self.has_ended = True
        return self._call.json_object(content)

    async def drain(self) -> None:
        """Read what follows the last event, for a moment, so that the connection can be kept."""
        with suppress(TimeoutError, *self._http_errors):
            async with asyncio.timeout(_SECONDS_TO_DRAIN):
                async for _ in self._chunks:
                    pass
                self.has_ended = True

    def stop_waiting(self) -> None:
        """Forget the timer of the last wait."""
        self._alarm.stop()

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


def _fewer(timeout: float, deadline: float | None) -> float:
    return timeout if deadline is None else min(timeout, deadline)


async def _within(call: Call, seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
    """Return what ``work`` gives, in time."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        failure = call.error(f"did not answer within {seconds:g} seconds")
    except http_errors(call.provider) as error:
        failure = call.translated(error)
    # Raised out here, so that nothing leads from it to the exception of httpx, whose request holds
    # the key, and whose text may repeat it.
    raise failure


async def _send(call: Call, client: httpx.AsyncClient, content: bytes | None) -> httpx.Response:
    """Post ``content``, or get what there is; return the reply, unread."""
    method, headers = "GET", call.headers
    if content is not None:
        method, headers = "POST", {"Content-Type": "application/json", **call.headers}
    request = client.build_request(method, call.url, content=content, headers=headers)
    del headers
    return await client.send(request, stream=True)


async def _read_whole(call: Call, chunks: AsyncIterator[bytes]) -> bytes:
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        call.check_length(len(content))
    return bytes(content)


async def _read_start(call: Call, response: httpx.Response) -> bytes:
    """Read enough of a refusal for its words; where it breaks off, what came of it."""
    content = bytearray()
    with suppress(*http_errors(call.provider)):
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > _MAX_ERROR_BYTES:
                break
    return bytes(content[:_MAX_ERROR_BYTES])


async def _close(response: httpx.Response) -> None:
    """Give the connection back, or away, also where this task is cancelled once more meanwhile."""
    if not response.is_closed:
        await asyncio.shield(asyncio.ensure_future(response.aclose()))
