"""Timeouts for many short waits."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

__all__ = ["Alarm"]


class Alarm:
    """What `asyncio.timeout_at` does, for many waits one after the other, with one timer for all.

    Most waits for the next event of a stream are none at all, because it has come already; setting
    and removing a timer for each would cost more than reading the event. Example::

        alarm = Alarm()
        with alarm.at(loop.time() + 5.0):
            await something()  # raises TimeoutError after five seconds
        alarm.stop()
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0
        self._until = 0.0
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._has_rung = False

    def at(self, until: float) -> Self:
        """Set the moment, by the clock of the event loop, for the next `with`."""
        self._until = until
        return self

    def stop(self) -> None:
        """Remove the timer. The alarm may be used again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task()
        assert task is not None, "an alarm is for a task"  # noqa: S101
        self._cancelling = task.cancelling()
        # A timer that rings too early sees that, and is set anew.
        if self._timer is None or self._rings_at > self._until:
            self._set()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if self._has_rung and task is not None:
            self._has_rung = False
            # Where somebody else has cancelled too, that is what counts.
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def _set(self) -> None:
        self.stop()
        self._rings_at = self._until
        self._timer = self._loop.call_at(self._until, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._task is None:
            return  # nobody waits now; the next wait sets it
        if self._loop.time() < self._until:
            self._set()
            return
        self._has_rung = True
        self._task.cancel()
