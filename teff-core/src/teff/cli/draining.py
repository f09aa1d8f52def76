"""Ending a run because the system asks for it (SIGTERM): what is under way finishes, nothing begins."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from teff.runtime import StreamEvent

__all__ = ["PATIENCE", "Draining", "Terminated", "on_sigterm"]

#: Seconds that steps have to finish; then they are cancelled. Ten are what containers are given.
PATIENCE: Final = 8.0

_ENDS = ("node_end", "node_error")


class Terminated(KeyboardInterrupt):
    """The system asked the process to end, and the run was left as it was."""


class Draining:
    """Hears the events of a run and, once `begin` was called, lets no further step begin.

    Whoever emits an event waits until it is taken. So a step that would begin is held where it
    tells of itself; when all that was under way has finished, and is recorded, the run is cancelled.

    Args:
        cancel: cancels the run.
    """

    def __init__(self, cancel: Callable[[], object]) -> None:
        self.has_begun = False
        self._cancel_run = cancel
        self._is_cancelled = False
        #: The paths of the steps that are under way, and of those that are held.
        self._under_way: set[str] = set()
        self._held: set[str] = set()

    def begin(self) -> None:
        """Let no further step begin; the second time, or after `PATIENCE`, cancel what there is."""
        if self.has_begun:
            self._cancel()
            return
        self.has_begun = True
        asyncio.get_running_loop().call_later(PATIENCE, self._cancel)

    def hear(self, event: StreamEvent) -> asyncio.Future[None] | None:
        """Take an event; what it returns never comes, where the run must not go on."""
        path, kind = event.path, event.type
        begins = kind == "node_start"
        if kind in _ENDS:
            self._under_way.discard(path)
        elif begins and not self.has_begun:
            self._under_way.add(path)
        if not self.has_begun:
            return None
        # A step that leads nowhere ends its graph, which belongs to what is under way.
        goes_on = kind == "edge" and event.data["target"] is not None
        if begins or goes_on or kind == "interrupt":
            self._held.add(path)
        if self._is_at_rest():
            self._cancel()
        return asyncio.get_running_loop().create_future() if begins or goes_on else None

    def _cancel(self) -> None:
        # A second time would disturb the run while it records how it was left.
        if not self._is_cancelled:
            self._is_cancelled = True
            self._cancel_run()

    def _is_at_rest(self) -> bool:
        """Say whether everything that is under way waits for something that is held."""
        return bool(self._held) and all(
            any(f"{held}/".startswith(f"{path}/") for held in self._held)
            for path in self._under_way
        )


@contextmanager
def on_sigterm(act: Callable[[], object]) -> Iterator[None]:
    """Call ``act`` in the running event loop when the process is asked to end.

    Without effect outside of the main thread, and where event loops know no signals (Windows).
    """
    loop = asyncio.get_running_loop()
    try:
        if threading.current_thread() is not threading.main_thread():
            raise NotImplementedError  # as on Windows
        loop.add_signal_handler(signal.SIGTERM, act)
    except NotImplementedError:
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
