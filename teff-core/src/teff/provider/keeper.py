"""What is open in an event loop, and is closed with it at the latest.

When nothing refers to an async generator any more, its event loop closes it in a task of its own, and
cancels that task where it is about to end. So a keeper is held here until it is done: then the loop
closes it in `shutdown_asyncgens`, which waits, and which `asyncio.run` calls after every other task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Protocol

__all__ = ["Closable", "close_now", "close_soon", "close_with_loop"]


class Closable(Protocol):
    """What can be closed, again too, and after a try that was cancelled."""

    def shut(self) -> bool:
        """Keep nothing open from now on, and say whether anything still is."""
        ...

    async def close(self) -> None:
        """Close all that is open."""
        ...


class _Keeper:
    def __init__(self) -> None:
        self.things: set[Closable] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.waiting = self._close_at_end()

    async def _close_at_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            _keepers.pop(asyncio.get_running_loop(), None)
            while self.things:
                await self.things.pop().close()
            await asyncio.gather(*self.tasks, return_exceptions=True)


#: A loop puts in, takes out and changes only what is its own, so no thread waits for another.
_keepers: dict[asyncio.AbstractEventLoop, _Keeper] = {}


async def close_with_loop(thing: Closable) -> None:
    """Close ``thing`` when the running loop ends, unless it was closed before.

    No other task runs meanwhile.
    """
    loop = asyncio.get_running_loop()
    keeper = _keepers.get(loop)
    if keeper is None:
        # Those that were closed without their generators. A copy, and `pop`, for other threads.
        for other in list(_keepers):
            if other.is_closed():
                _keepers.pop(other, None)
        keeper = _keepers[loop] = _Keeper()
        # A loop knows a generator that has begun; this one gets to its `yield` without a wait.
        await anext(keeper.waiting)
    keeper.things.add(thing)


async def close_now(thing: Closable) -> None:
    """Close what the running loop would close at its end."""
    await thing.close()
    # Not before, for where this is cancelled there is something left.
    if keeper := _keepers.get(asyncio.get_running_loop()):
        keeper.things.discard(thing)


def close_soon(thing: Closable, loop: asyncio.AbstractEventLoop) -> None:
    """Have ``loop`` close ``thing``, where it still runs. Any thread may call this, at any time."""
    with suppress(RuntimeError):  # it is closed, and so is what was open in it
        loop.call_soon_threadsafe(_start_closing, thing, loop)


def _start_closing(thing: Closable, loop: asyncio.AbstractEventLoop) -> None:
    keeper = _keepers.get(loop)
    if keeper is None or thing not in keeper.things:
        return
    if thing.shut():
        task = loop.create_task(close_now(thing))
        # A loop refers to its tasks but weakly.
        keeper.tasks.add(task)
        task.add_done_callback(keeper.tasks.discard)
    else:
        keeper.things.discard(thing)
