"""The thread of a store that does all its work with an SQLite file, one transaction for many callers.

Whoever wants something done puts a `Job` into a queue and awaits it. The thread takes all jobs
that wait, does those that write in one transaction, and answers them when it is committed: while one
commit waits for the disk, the next ones gather. It starts with the first job, and ends when the
store is closed, collected, or the interpreter ends.
"""

from __future__ import annotations

import asyncio
import atexit
import copy
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

from teff.checkpoint.sqlite_schema import is_busy, told, transaction
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
    error: Exception | None = None

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
        """Do what is due without being asked for; called before jobs too. It raises nothing."""
        ...

    def last(self, connection: sqlite3.Connection) -> None:
        """Do what is left before the file is closed.

        Raises:
            CheckpointError: it could not be done.
        """
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
        self._ended = False
        self._closing: list[Job] = []
        self._failure: Exception | None = None
        # These two are the thread's own.
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def submit(self, job: Job) -> None:
        """Have ``job`` done.

        Raises:
            CheckpointError: the store is closed, or was made by the process that this one was
                forked from.
        """
        if self._forked():
            raise CheckpointError(
                f"the store of {str(self._path)!r} was opened before this process was forked, "
                "and cannot be used in both: make a new SQLiteCheckpointer in this one"
            )
        with self._lock:
            if self._closed:
                raise CheckpointError(
                    f"the store of {str(self._path)!r} is closed: make a new SQLiteCheckpointer"
                )
            if self._thread is None:
                self._start()
            self._queue.put(job)

    def usable(self) -> bool:
        """Tell whether `submit` would take a job."""
        return not self._closed and not self._forked()

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

    def _forked(self) -> bool:
        """Tell whether the thread is in another process, where the lock may be held for ever."""
        return self._process not in (0, os.getpid())

    def stop(self) -> None:
        """Have the thread end after what waits already, without waiting for it.

        It takes no lock, so that a finalizer can call it: then nobody has the store any more.
        """
        self._closed = True
        self._queue.put(None)

    def close(self) -> None:
        """Have everything written that waits, close the file, and end the thread.

        Raises:
            CheckpointError: something could not be written, and is lost.
        """
        if self._forked():
            return
        with self._lock:
            if not self._closed:
                self.stop()
        if self._thread is not None:
            self._thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def aclose(self) -> None:
        """Do what `close` does, without holding up the event loop."""
        if self._forked():
            return
        ended = Job(work=_nothing)
        ended.loop = asyncio.get_running_loop()
        ended.future = ended.loop.create_future()
        with self._lock:
            if not self._closed:
                self.stop()
            working = self._thread is not None and not self._ended
            if working:
                self._closing.append(ended)
        if working:
            await ended.future
        self.close()

    # --- The thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        ended = False
        due = None
        while not ended:
            jobs, ended = self._gather(due)
            try:
                self._do(jobs, ended)
                pause = self._worker.pause() if self._connection is not None else None
                due = None if pause is None else time.monotonic() + pause
            except Exception as error:
                _fail(jobs, error)
                self._failure = error if ended else None
            _answer(jobs)
            del jobs  # what they refer to must not be kept alive while nothing is done
        self._disconnect()
        atexit.unregister(self.close)
        with self._lock:
            self._ended = True
        _answer(self._closing)

    def _do(self, jobs: Sequence[Job], ended: bool) -> None:
        if jobs:
            self._connect()
        if self._connection is not None:
            self._worker.tick(self._connection)
            self._do_jobs(self._connection, jobs)
            if ended:
                self._worker.last(self._connection)

    def _connect(self) -> None:
        """Open the file, if it is not the one that is open."""
        if self._connection is not None:
            if _identity(self._path) == self._file:
                return
            self._disconnect()
        self._connection = self._worker.open()
        self._file = _identity(self._path)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

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

    def _do_jobs(self, connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
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
            if len(jobs) == 1 or connection.in_transaction or is_busy(error.__cause__):
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


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from another of the same name, None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _nothing(connection: sqlite3.Connection) -> None:
    """Do nothing."""


def _fail(jobs: Iterable[Job], error: Exception) -> None:
    for job in jobs:
        if job.error is None:
            # Each has an error of its own, to which a traceback and a run can be added.
            job.error = copy.copy(error) if isinstance(error, CheckpointError) else error
            job.error.__cause__ = error.__cause__


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
