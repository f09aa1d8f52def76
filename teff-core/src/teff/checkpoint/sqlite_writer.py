"""The thread of a store that does all its work with an SQLite file, one transaction for many callers.

Whoever wants something done puts a `Job` into a queue and awaits it. The thread takes all jobs
that wait, does those that write in one transaction, and answers them when it is committed: while one
commit waits for the disk, the next ones gather. It starts with the first job, and ends when the
store is closed, collected, or the interpreter ends.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import attrs

from teff.checkpoint.sqlite_schema import told, transaction
from teff.errors import CheckpointError, TeffError

__all__ = ["Job", "Worker", "Writer"]

#: No transaction takes more jobs than this, so that the first one does not wait for too many.
_MOST_JOBS = 1000


@attrs.define(eq=False, kw_only=True)
class Job:
    """Something to be done with the file, and who waits for it.

    Attributes:
        work: does it. Raises errors of Teff only before it has written anything.
        committed: told the result once it is in the file; not called where it did not get there.
        alone: it looks after transactions itself, or only reads.
        loop, future: where the result goes; None where nobody waits.
        result: what ``work`` returned, once that is in the file.
    """

    work: Callable[[sqlite3.Connection], Any]
    committed: Callable[[Any], None] | None = None
    alone: bool = False
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[Any] | None = None
    result: Any = None
    error: BaseException | None = None

    def succeed(self, result: Any) -> None:
        """Keep the result, which is in the file now."""
        self.result = result
        if self.committed is not None:
            self.committed(result)


class Worker(Protocol):
    """What a writer works for."""

    def open(self) -> sqlite3.Connection:
        """Open the file."""
        ...

    def pause(self) -> float | None:
        """Return after how many seconds `tick` is due, None for never."""
        ...

    def tick(self, connection: sqlite3.Connection) -> None:
        """Do what is due without being asked for. It must not raise errors of SQLite."""
        ...

    def last(self, connection: sqlite3.Connection) -> None:
        """Do what is left before the file is closed."""
        ...


class Writer:
    """The thread and its queue. It knows nothing of the object that it works for but `Worker`."""

    def __init__(self, path: Path, worker: Worker) -> None:
        self._path = path
        self._worker = worker
        # This queue may be filled from a finalizer, whatever its thread is doing at that moment.
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = 0
        self._closed = False

    def submit(self, job: Job) -> None:
        """Have ``job`` done.

        Raises:
            CheckpointError: the store is closed, or was made by the process that this one was
                forked from.
        """
        with self._lock:
            if self._closed:
                raise CheckpointError(
                    f"the store of {str(self._path)!r} is closed: make a new SQLiteCheckpointer"
                )
            if self._thread is None:
                self._start()
            elif self._process != os.getpid():
                raise CheckpointError(
                    f"the store of {str(self._path)!r} was opened before this process was forked, "
                    "and cannot be used in both: make a new SQLiteCheckpointer in this one"
                )
            self._queue.put(job)

    async def ask(self, job: Job) -> Any:
        """Have ``job`` done, and return its result. A cancellation ends the waiting, not the job."""
        job.loop = asyncio.get_running_loop()
        job.future = job.loop.create_future()
        self.submit(job)
        return await job.future

    def _start(self) -> None:
        self._process = os.getpid()
        # A daemon: the interpreter does not wait for it, but for `close`, which ends it.
        self._thread = threading.Thread(
            target=self._work, name=f"teff store {self._path.name}", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)

    def stop(self) -> None:
        """Have the thread end after what waits already, without waiting for it.

        Where the thread has taken its last look at the queue, nobody can wait for a job of it: this
        is called by `close`, and when nobody has the store any more.
        """
        self._closed = True
        self._queue.put(None)

    def close(self) -> None:
        """Have everything written that waits, close the file, and end the thread."""
        with self._lock:
            if not self._closed:
                self.stop()
            thread = self._thread
        if thread is not None and self._process == os.getpid():
            thread.join()

    async def aclose(self) -> None:
        """Do what `close` does, without holding up the event loop."""
        with self._lock:
            thread, closed = self._thread, self._closed
        if thread is None or closed or self._process != os.getpid():
            self.close()
            return
        flushed = Job(work=self._worker.last, alone=True)
        with suppress(TeffError):
            await self.ask(flushed)
        self.close()

    # --- The thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        ended = False
        due = None
        while not ended:
            jobs, ended = self._gather(due)
            try:
                if connection is None and jobs:
                    connection = self._worker.open()
                if connection is not None:
                    self._do(connection, jobs)
                    self._worker.last(connection) if ended else self._worker.tick(connection)
                pause = self._worker.pause()
                due = None if pause is None else time.monotonic() + pause
            except BaseException as error:
                _fail(jobs, error)
            _answer(jobs)
            del jobs  # whoever is waited for here must not be kept alive while nothing is done
        if connection is not None:
            connection.close()
        atexit.unregister(self.close)

    def _gather(self, due: float | None) -> tuple[list[Job], bool]:
        """Wait for jobs until ``due``; return all that wait, and whether they are the last ones."""
        jobs: list[Job] = []
        try:
            timeout = None if due is None else max(0.0, due - time.monotonic())
            job = self._queue.get(timeout=timeout)
            while job is not None:
                jobs.append(job)
                if len(jobs) == _MOST_JOBS:
                    return jobs, False
                job = self._queue.get_nowait()
        except queue.Empty:
            return jobs, False
        return jobs, True

    def _do(self, connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
        """Do jobs in their order, those that write and follow each other in one transaction."""
        together: list[Job] = []
        for job in jobs:
            if not job.alone:
                together.append(job)
                continue
            self._write(connection, together)
            together = []
            self._do_alone(connection, job)
        self._write(connection, together)

    def _do_alone(self, connection: sqlite3.Connection, job: Job) -> None:
        try:
            with told(self._path):
                job.succeed(job.work(connection))
        except Exception as error:
            job.error = error

    def _write(self, connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        try:
            with told(self._path):
                self._in_one_transaction(connection, jobs)
        except Exception as error:
            if len(jobs) == 1 or connection.in_transaction:
                _fail(jobs, error)
                return
            # One of them could not be written: that must not hurt the others.
            for job in jobs:
                job.error = None
                self._write(connection, [job])

    def _in_one_transaction(self, connection: sqlite3.Connection, jobs: Iterable[Job]) -> None:
        done: list[tuple[Job, Any]] = []
        with transaction(connection):
            for job in jobs:
                try:
                    done.append((job, job.work(connection)))
                except TeffError as error:
                    job.error = error
        for job, result in done:
            job.succeed(result)


def _fail(jobs: Iterable[Job], error: BaseException) -> None:
    for job in jobs:
        job.error = job.error or error


def _answer(jobs: Iterable[Job]) -> None:
    """Tell all who wait, each event loop once."""
    waiting: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        if job.loop is not None:
            waiting.setdefault(job.loop, []).append(job)
    for loop, answered in waiting.items():
        # A loop that was closed has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, answered)


def _settle(jobs: Iterable[Job]) -> None:
    for job in jobs:
        if job.future is None or job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
