"""Running a workflow to its end, where a person or the system may end it sooner."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from teff.cli.draining import Draining, Terminated, on_sigterm
from teff.cli.live import Live
from teff.cli.threads import threads_to_wait_for
from teff.runtime import Listener, StreamEvent

__all__ = ["Begin", "Executor"]

#: Begins what is executed; it is given what must hear the events.
Begin = Callable[[Listener], Awaitable[object]]


class Executor:
    """Executes one run after the other in one event loop.

    Ctrl-C cancels a run, and so does a closed standard output. SIGTERM cancels it, too, where it is
    not recorded; else what is under way may finish first, see `Draining`.

    Args:
        wait_for_threads: whether an interrupted run waits for threads that cannot be stopped;
            otherwise the process has to be ended with them.
    """

    def __init__(self, *, wait_for_threads: bool) -> None:
        #: The event loop, for whatever else there is to ask in it.
        self.runner = asyncio.Runner()
        self._wait_for_threads = wait_for_threads
        self._interrupted = False

    def execute(self, begin: Begin, live: Live, *, is_recorded: bool) -> BaseException | None:
        """Execute a run and show it; return what it raised, or None.

        Args:
            begin: begins it.
            live: hears the events.
            is_recorded: whether it can go on later.
        """
        ended_by: list[Terminated] = []

        async def run() -> None:
            task = asyncio.current_task()
            assert task is not None  # noqa: S101  # this is one
            live.on_closed_output = task.cancel
            draining = Draining(task.cancel)

            def hear(event: StreamEvent) -> Awaitable[None] | None:
                live.hear(event)
                return draining.hear(event) if is_recorded else None

            def terminate() -> None:
                ended_by.append(Terminated())
                (draining.begin if is_recorded else task.cancel)()

            with on_sigterm(terminate):
                await begin(hear)

        raised: BaseException | None = None
        try:
            self.runner.run(run())
        except asyncio.CancelledError:
            raised = live.output_error or (ended_by[0] if ended_by else KeyboardInterrupt())
        except (Exception, KeyboardInterrupt) as error:
            raised = error
        self._interrupted = isinstance(raised, KeyboardInterrupt)
        return raised

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Not where that would wait for threads that nobody waits for.
        if self._wait_for_threads or not self._interrupted or not threads_to_wait_for():
            self.runner.close()
