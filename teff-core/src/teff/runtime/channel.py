"""A bounded way from a run to whoever reads its events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable

from teff.runtime.events import StreamEvent

__all__ = ["EventChannel"]


class EventChannel:
    """Holds events between a run and its reader, in order.

    When ``size`` events wait, the run waits too: a slow reader slows the run down and costs no
    memory.
    """

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._events: deque[StreamEvent] = deque()
        self._closed = False
        self._reader: asyncio.Future[None] | None = None
        self._writers: deque[asyncio.Future[None]] = deque()

    def offer(self, event: StreamEvent) -> Awaitable[None] | None:
        """Take an event; return what to await before the next one, or None where there is room."""
        self._events.append(event)
        self._wake_reader()
        return self._room() if len(self._events) >= self._size else None

    def close(self) -> None:
        """Say that no further event comes."""
        self._closed = True
        self._wake_reader()
        self._wake_writers()

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        """Give the events, until the channel is closed and empty."""
        events = self._events
        while True:
            while events:
                yield events.popleft()
                if self._writers and len(events) < self._size:
                    self._wake_writers()
            if self._closed:
                return
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    async def _room(self) -> None:
        while len(self._events) >= self._size and not self._closed:
            writer = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            await writer

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _wake_writers(self) -> None:
        while self._writers:
            writer = self._writers.popleft()
            if not writer.done():
                writer.set_result(None)
