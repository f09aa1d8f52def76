"""The thread that an engine runs on, and the table of those that run in this process.

Requests come from event loops, of which a process may have several, one after another or at once.
So what is shared between them is a queue and a thread, and nothing here knows of asyncio.
"""

from __future__ import annotations

import atexit
import queue
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from teff_providers_local.engine import Engine, EngineSettings, load_engine

__all__ = ["Event", "Job", "Worker", "borrow_worker", "return_workers"]

#: What a job delivers: chunks, then None at the end, or the exception that ended it.
Event = Mapping[str, Any] | Exception | None


@attrs.define(eq=False)
class Job:
    """A request on its way through a worker.

    Attributes:
        request: the body for the engine.
        deliver: takes each `Event`, on the worker's thread. Where it raises ``RuntimeError``, as an
            event loop does that is closed, nobody is there any more and the job is cancelled.
    """

    request: Mapping[str, Any]
    deliver: Callable[[Event], object]
    _cancelled: bool = attrs.field(default=False, init=False)

    @property
    def is_cancelled(self) -> bool:
        """Whether the answer is not wanted any more."""
        return self._cancelled

    def cancel(self) -> None:
        """End the answer at its next event; from any thread, at any time, more than once."""
        self._cancelled = True

    def send(self, event: Event) -> bool:
        """Deliver ``event`` unless the job is cancelled; return whether it is."""
        if not self._cancelled:
            try:
                self.deliver(event)
            except RuntimeError:
                self._cancelled = True
        return self._cancelled


class Worker:
    """Answers the requests for one model, one after another, on a thread of its own.

    The model is loaded on that thread for the first request, and freed on it at the end.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._unfinished: set[Job] = set()
        self._closed = False
        self._lock = threading.Lock()
        # A thread that is no daemon would keep the interpreter from ending before `atexit` can
        # end the thread.
        self._thread = threading.Thread(target=self._run, name="teff-local-engine", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Answer ``job`` when those before it are done."""
        with self._lock:
            if not self._closed:
                self._unfinished.add(job)
                self._waiting.put(job)
                return
        job.send(None)

    def close(self) -> None:
        """End every answer where it is, and free the model. `join` waits until that is done."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            unfinished = list(self._unfinished)
            self._waiting.put(None)
        for job in unfinished:
            job.send(None)
            job.cancel()

    def join(self) -> None:
        """Wait until a closed worker has freed its model."""
        self._thread.join()

    def _run(self) -> None:
        engine: Engine | None = None
        while (job := self._waiting.get()) is not None:
            if not job.is_cancelled:
                try:
                    engine = engine or load_engine(self._settings)
                    engine.complete(job.request, job.send)
                except Exception as error:
                    job.send(error)
                else:
                    job.send(None)
            with self._lock:
                self._unfinished.discard(job)
            # The job refers to its event loop, and the next one may be long in coming.
            del job
        if engine is not None:
            engine.close()


@attrs.frozen
class _Loan:
    worker: Worker
    # Weak, so that a provider that is forgotten does not stay in memory for its model's sake.
    borrowers: weakref.WeakSet[Any] = attrs.field(factory=weakref.WeakSet)


_loans: dict[EngineSettings, _Loan] = {}
_loans_lock = threading.Lock()


def borrow_worker(settings: EngineSettings, borrower: object) -> Worker:
    """Return the process's worker for these settings; `return_workers` gives it back.

    Args:
        settings: what the worker loads, at its first job.
        borrower: who wants it; to borrow twice is to borrow once.
    """
    with _loans_lock:
        loan = _loans.get(settings)
        if loan is None:
            loan = _loans[settings] = _Loan(Worker(settings))
        loan.borrowers.add(borrower)
        return loan.worker


def return_workers(borrower: object) -> list[Worker]:
    """Give back all that ``borrower`` has; return the workers that nobody has any more, closed."""
    unused = []
    with _loans_lock:
        for settings, loan in list(_loans.items()):
            loan.borrowers.discard(borrower)
            if not loan.borrowers:
                unused.append(_loans.pop(settings).worker)
    for worker in unused:
        worker.close()
    return unused


@atexit.register
def _close_all() -> None:
    """End every thread while Python still runs: llama.cpp aborts the process if it may not."""
    with _loans_lock:
        workers = [loan.worker for loan in _loans.values()]
        _loans.clear()
    for worker in workers:
        worker.close()
    for worker in workers:
        worker.join()
