"""Runs in an SQLite file: they survive a loss of power, and a few processes can share them."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, get_args

from teff.checkpoint.keys import require_age, require_key
from teff.checkpoint.protocol import (
    Durability,
    Lease,
    Record,
    RunState,
    RunSummary,
    StoredRecord,
)
from teff.checkpoint.sqlite_rows import encode_records
from teff.checkpoint.sqlite_runs import Held, StoredRuns
from teff.checkpoint.sqlite_writer import Job, Writer
from teff.errors import CheckpointError, ConfigError, suggest

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SQLiteCheckpointer"]


class SQLiteCheckpointer:
    """Keeps runs in the SQLite file at ``path``, for one machine and a few processes.

    The file is opened by the first use, and made where there is none. It can be used from several
    threads and event loops at once; one thread of the store does all the work, and commits what
    waits together. That thread, and the file, are given up by `close` or `aclose`, or when the
    object is no longer used; what was recorded is written first.

    A run is held by a lease of ``lease_ttl`` seconds, which the store renews while the run goes on.
    When a process dies, its runs are free at once for others that can tell (on Linux those of the
    same machine and container), and for all after that time. When it was stopped for longer and
    somebody else has taken a run, it cannot write to it any more.

    Args:
        path: the file. Its folder must exist, and be on a local disk. SQLite keeps two files
            beside it while it is in use, ``…-wal`` and ``…-shm``: they belong to it.
        durability: what a record survives once ``append`` has returned:

            - ``"power"``: a loss of power; each commit waits for the disk.
            - ``"process"``: a crash of the process. After a loss of power the last records may be
              missing; the file is whole.
            - ``"exit"``: the ordinary end of the process. Records are written after about a second
              or 256 appends, when the run is released, and when the store is closed, read or left.
              After a crash the last ones may be missing; what is there is whole, and in order.
        lease_ttl: seconds after which a run is free in any case whose process died.

    Raises:
        ConfigError: an option is wrong.

    The methods raise `teff.errors.CheckpointError` where the file cannot be used, with its path and
    the way out.

    >>> import asyncio, tempfile
    >>> from teff.checkpoint import Record
    >>> async def example(path: str) -> int:
    ...     async with SQLiteCheckpointer(path) as store:
    ...         lease = await store.claim("r1")
    ...         await store.append(lease, [Record(kind="step", data={"n": 1})])
    ...         await store.release(lease, "finished")
    ...         return len(await store.load("r1"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(example(f"{folder}/runs.db"))
    1
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "power",
        lease_ttl: float = 30.0,
    ) -> None:
        if durability not in get_args(Durability):
            raise ConfigError(
                f"durability={durability!r} is unknown.{suggest(str(durability), get_args(Durability))}",
                path="durability",
            )
        if isinstance(lease_ttl, bool) or not isinstance(lease_ttl, (int, float)):
            raise ConfigError(
                f"lease_ttl={lease_ttl!r} is no number; give seconds.", path="lease_ttl"
            )
        if not 0 < lease_ttl < math.inf:
            raise ConfigError(
                f"lease_ttl={lease_ttl!r}: give a number of seconds above 0.", path="lease_ttl"
            )
        self._path = _path(path)
        self._durability: Durability = durability
        self._runs = StoredRuns(self._path, durability, float(lease_ttl))
        self._writer = Writer(self._path, self._runs)
        # The thread knows the runs and not this object, so that it ends when nobody has this any
        # more. At the end of the interpreter the writer sees to it by itself.
        weakref.finalize(self, self._writer.stop).atexit = False

    def __repr__(self) -> str:
        return f"SQLiteCheckpointer({str(self._path)!r}, durability={self._durability!r})"

    @property
    def durability(self) -> Durability:
        """What a record survives once ``append`` has returned."""
        return self._durability

    # --- The engine ------------------------------------------------------------------------------

    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        """Take the run for writing; a run that is not there is begun.

        Raises:
            RunLocked: somebody else holds it; the message says who, and until when.
            CheckpointCorrupt: what is stored of the run is damaged.
        """
        require_key(run_id, owner)
        job = Job(
            work=partial(self._runs.claim, run_id=run_id, owner=owner), committed=self._runs.hold
        )
        try:
            held: Held = await self._ask(run_id, job)
        except Exception:
            raise
        except BaseException:
            # Whoever waited is gone, and the run is taken, or about to be.
            self._give_up(job)
            raise
        return held.lease

    async def renew(self, lease: Lease) -> Lease:
        """Hold on to the run. The store does so by itself while it is in use.

        Raises:
            LeaseLost: it was given back, or taken by somebody else.
        """
        await self._ask(lease.run_id, Job(work=partial(self._runs.renew, lease=lease)))
        return lease

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        """Store ``records`` after all earlier ones: all of them, or none.

        Raises:
            LeaseLost: the run was given back, or taken by somebody else; nothing was stored.
        """
        encoded = encode_records(lease.run_id, records)
        if self._durability == "exit" and self._writer.usable():
            append = self._runs.put_off(lease, encoded)
            if append is not None:
                if not self._runs.may_wait(lease, append):
                    await self._ask(
                        lease.run_id, self._alone(self._runs.written, lease=lease, append=append)
                    )
                return
        work = partial(self._runs.append, lease=lease, records=encoded)
        await self._ask(lease.run_id, Job(work=work))

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        """Return the records that a run goes on with, in their order; empty where there are none.

        They are its first, and those from its last snapshot on.

        Raises:
            CheckpointCorrupt: they are not what was stored.
        """
        require_key(run_id, owner)
        job = self._alone(self._runs.load, run_id=run_id, owner=owner)
        stored: Sequence[StoredRecord] = await self._ask(run_id, job)
        return tuple(each.record for each in stored)

    async def release(self, lease: Lease, state: RunState) -> None:
        """Give the run back, saying how it was left; it is free at once.

        Releasing a lost lease does nothing.

        Raises:
            CheckpointError: with the durability ``exit``, the last records could not be written.
        """
        job = Job(
            work=partial(self._runs.release, lease=lease, state=state),
            committed=lambda _: self._runs.drop(lease),
        )
        try:
            failure: CheckpointError | None = await self._ask(lease.run_id, job)
        except CheckpointError:
            self._runs.drop(lease)  # it runs out by itself
            raise
        if failure is not None:
            raise failure

    # --- People ----------------------------------------------------------------------------------

    async def list(self, *, owner: str = "default") -> Sequence[RunSummary]:
        """Return the runs of an owner, the one that was written last first.

        Raises:
            CheckpointCorrupt: the entry of one of them is damaged.
        """
        require_key("any", owner)
        runs: Sequence[RunSummary] = await self._ask("", self._alone(self._runs.list, owner=owner))
        return runs

    async def get(self, run_id: str, *, owner: str = "default") -> RunSummary | None:
        """Return one run, or None."""
        require_key(run_id, owner)
        job = self._alone(self._runs.get, run_id=run_id, owner=owner)
        found: RunSummary | None = await self._ask(run_id, job)
        return found

    async def history(self, run_id: str, *, owner: str = "default") -> Sequence[StoredRecord]:
        """Return the records of a run with their numbers and times; empty where there is none.

        Raises:
            CheckpointCorrupt: they are not what was stored.
        """
        require_key(run_id, owner)
        job = self._alone(self._runs.history, run_id=run_id, owner=owner)
        records: Sequence[StoredRecord] = await self._ask(run_id, job)
        return records

    async def fork(
        self, run_id: str, at: int, new_id: str, *, owner: str = "default"
    ) -> RunSummary:
        """Begin a run with the first ``at`` records of another, which stays as it is.

        Records after ``at`` are not looked at, so that a run whose end is damaged can go on from
        what is whole.

        Raises:
            CheckpointError: there is no such run or number, or ``new_id`` is taken.
            CheckpointCorrupt: one of the records is damaged.
        """
        return await self._copy(run_id, at, new_id, owner)

    async def copy(self, run_id: str, new_id: str, *, owner: str = "default") -> RunSummary:
        """Begin a run with all records of another.

        Raises:
            CheckpointError: there is no such run, or ``new_id`` is taken.
            CheckpointCorrupt: one of the records is damaged.
        """
        return await self._copy(run_id, None, new_id, owner)

    async def _copy(self, run_id: str, at: int | None, new_id: str, owner: str) -> RunSummary:
        require_key(run_id, owner)
        require_key(new_id, owner, name="new_id")
        work = partial(self._runs.copy, run_id=run_id, at=at, new_id=new_id, owner=owner)
        begun: RunSummary = await self._ask(run_id, Job(work=work))
        return begun

    async def delete(self, run_id: str, *, owner: str = "default") -> bool:
        """Delete a run and everything of it; say whether there was one.

        Nothing of it is left in the file or in its log. For that the file is written anew, which
        takes a time that grows with its size.

        Raises:
            RunLocked: somebody works on it.
            CheckpointError: it is deleted, but traces of it could not be removed yet.
        """
        require_key(run_id, owner)
        job = self._alone(self._runs.delete, run_id=run_id, owner=owner)
        deleted: bool = await self._ask(run_id, job)
        return deleted

    async def prune(self, *, older_than: float, owner: str = "default") -> int:
        """Delete the runs that ended, and were written last over ``older_than`` seconds ago.

        Returns how many. Runs that are held, paused or unfinished stay. The file is written anew,
        as by `delete`.
        """
        require_key("any", owner)
        require_age(older_than)
        pruned: int = await self._ask(
            "", self._alone(self._runs.prune, older_than=older_than, owner=owner)
        )
        return pruned

    # --- The end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what is left, give back all runs that are held, and close the file.

        Raises:
            CheckpointError: records could not be written, and are lost.
        """
        self._writer.close()

    async def aclose(self) -> None:
        """Do what `close` does, without holding up the event loop."""
        await self._writer.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    # --- The thread ------------------------------------------------------------------------------

    def _alone(self, work: Callable[..., Any], **arguments: Any) -> Job:
        return Job(work=partial(work, **arguments), alone=True)

    async def _ask(self, run_id: str, job: Job) -> Any:
        try:
            return await self._writer.ask(job)
        except CheckpointError as error:
            error.run_id = error.run_id or run_id
            raise

    def _give_up(self, claim: Job) -> None:
        """Give back what ``claim`` has taken or will take, once it is done."""
        with suppress(CheckpointError):  # a store that is closed has given back everything
            self._writer.submit(Job(work=lambda c: self._runs.undo(c, claim.result), alone=True))


def _path(path: str | os.PathLike[str]) -> Path:
    """Return where the file is, whatever folder the process may change to."""
    text: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f"path={path!r} is no path of a file.", path="path")
    if text == ":memory:":
        raise ConfigError(
            "path=':memory:' is not kept in a file.",
            path="path",
            hint="Use MemoryCheckpointer for runs that end with the process.",
        )
    return Path(text).absolute()
