"""A reply that comes piece by piece: its events, and how long they may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from teff.errors import IncompleteStream, ProviderError
from teff.provider.alarm import Alarm
from teff.provider.call import Call
from teff.provider.pool import http_errors

if TYPE_CHECKING:
    import httpx

__all__ = ["Clock", "StreamParser", "StreamedReply"]

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


class Clock:
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
        clock: Clock,
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
        self._waiting_since = 0.0
        self._said_nothing = False

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
        if not self._said_nothing:
            self._waiting_since = now
        silent_at = self._waiting_since + seconds
        if self._said_nothing and now >= silent_at:
            raise self._late(seconds, at_deadline=False)
        self._said_nothing = False
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

    def said_nothing(self) -> None:
        """Take the events of the last `read` as none, so that they do not prolong the wait."""
        self._said_nothing = True

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
        content = await self._call.within(seconds, self._call.read_whole(self._chunks))
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
