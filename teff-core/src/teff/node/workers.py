"""Doing many jobs at the same time, with no more tasks than it takes."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

from teff.errors import WorkflowError
from teff.runtime import PauseSignal, uninterrupted

__all__ = ["SLICE", "run_jobs"]

#: Seconds of running after which other tasks of the event loop get their turn.
SLICE = 0.004

#: How many workers start at once where the concurrency has a limit; more follow as they are needed.
_AT_ONCE = 64


async def run_jobs(
    count: int, work: Callable[[int], Awaitable[None]], *, limit: int | None = None
) -> None:
    """Run ``work(0)`` to ``work(count - 1)``, at the same time where they wait for something.

    Workers take job after job; another one starts whenever all there are wait. So jobs that wait
    for each other all come to run, and jobs that never wait need one worker, however many they are.
    Nothing of this runs any more when it returns or raises.

    Args:
        count: how many jobs there are.
        work: does the job of a number.
        limit: how many may be under way at once; None for any number.

    Raises:
        PauseSignal: a job has paused. The others were done to their end.
        BaseException: the first failure, or a cancellation; the other jobs were cancelled.
    """
    await _Workers(count, work, limit).run()


class _Workers:
    def __init__(
        self, count: int, work: Callable[[int], Awaitable[None]], limit: int | None
    ) -> None:
        self._work = work
        self._most = count if limit is None else min(count, limit)
        self._first = min(self._most, 1 if limit is None else _AT_ONCE)
        self._open = count
        self._numbers = itertools.count()
        self._busy = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._paused: PauseSignal | None = None
        self._failure: BaseException | None = None
        self._stopping = False

    async def run(self) -> None:
        """Do all jobs."""
        try:
            for _ in range(self._first):
                self._start_worker()
            await asyncio.sleep(0)
            while self._open and len(self._tasks) < self._most and self._failure is None:
                if self._busy == len(self._tasks):
                    self._start_worker()
                await asyncio.sleep(0)
            if self._tasks and self._failure is None:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            await self._stop()
        if self._failure is not None:
            raise self._failure
        if self._paused is not None:
            raise self._paused

    def _start_worker(self) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(self._serve()))

    async def _stop(self) -> None:
        self._stopping = True
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        try:
            if left:
                await uninterrupted(asyncio.wait(left))
        finally:
            for task in self._tasks:
                if not task.cancelled():
                    task.exception()  # seen here, so that nobody is warned of it

    async def _serve(self) -> None:
        """Do one job after another."""
        slice_end = time.monotonic() + SLICE
        while self._open and not self._stopping and self._failure is None:
            self._open -= 1
            self._busy += 1
            await self._do(next(self._numbers))
            self._busy -= 1
            if time.monotonic() >= slice_end:
                await asyncio.sleep(0)
                slice_end = time.monotonic() + SLICE

    async def _do(self, number: int) -> None:
        try:
            await self._work(number)
        except PauseSignal as pause:
            self._paused = pause
        except Exception as error:
            # Beside a pause the others go on: what they finish is not done again, and the failure
            # comes back when the run is resumed.
            if self._paused is None:
                self._fail(error)
                raise
        except asyncio.CancelledError as error:
            if self._stopping:
                raise
            failure = WorkflowError("a branch was cancelled from its inside")
            failure.__cause__ = error
            self._fail(failure)
            raise failure from error
        except BaseException as signal:
            self._fail(signal)
            raise

    def _fail(self, failure: BaseException) -> None:
        if self._failure is None:
            self._failure = failure
