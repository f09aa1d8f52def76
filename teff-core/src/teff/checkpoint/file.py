"""Runs as files that people can read: one file of JSON lines for each run."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from teff.checkpoint.keys import require_age, require_key
from teff.checkpoint.protocol import (
    Durability,
    Lease,
    Record,
    RunState,
    RunSummary,
    StoredRecord,
)
from teff.checkpoint.renewal import Renewal
from teff.checkpoint.run_file import Place
from teff.checkpoint.run_folder import RunFolder
from teff.checkpoint.shortened import shortened
from teff.errors import CheckpointError, ConfigError

__all__ = ["FileCheckpointer"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class FileCheckpointer:
    """Keeps each run in a file of JSON lines, which people, ``grep`` and ``jq`` can read.

    Several processes of one machine may use one folder. A run belongs to one of them at a time: its
    lease is renewed in the background for as long as the process lives, and runs out after it. It
    is free at once for those who can tell that the process is dead: on Linux, others of the same
    machine and container.

    What is written survives a crash of the process, and with ``durability="power"`` a loss of power
    too. A run that was given back (finished, paused, failed) has reached the disk in any case. A
    line that a crash cut short is taken for never written; any other damage is an error that names
    the line. Files are readable by their user alone, and links are never followed.

    >>> import asyncio, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> async def keep() -> None:
    ...     store = FileCheckpointer(folder.name)
    ...     lease = await store.claim("order-7")
    ...     await store.append(lease, [Record(kind="value", path="ask", data={"value": 42})])
    ...     await store.release(lease, "finished")
    ...     print([record.data["value"] for record in await store.load("order-7")])
    >>> asyncio.run(keep())
    [42]
    >>> folder.cleanup()

    Args:
        folder: where the files are; it is made when the first run is begun.
        durability: ``"process"`` or ``"power"``: what a record survives once it is stored.
        lease_ttl: seconds after which the runs of a process that died may be taken in any case.

    Raises:
        ConfigError: a wrong ``durability`` or ``lease_ttl``, or a system without the locks that
            this needs (Windows).
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        durability: Durability = "process",
        lease_ttl: float = 30.0,
    ) -> None:
        if durability not in ("process", "power"):
            raise ConfigError(
                f"durability={durability!r} is none of a folder of files: take 'process' or 'power'.",
                path="durability",
            )
        if not _is_time(lease_ttl):
            raise ConfigError(
                f"lease_ttl={lease_ttl!r} is no time in seconds above 0.", path="lease_ttl"
            )
        if sys.platform == "win32":
            raise ConfigError("FileCheckpointer needs locks of POSIX: take SQLiteCheckpointer.")
        self.durability: Durability = durability
        self._runs = RunFolder(
            Path(folder).absolute(), power=durability == "power", lease_ttl=float(lease_ttl)
        )
        self._renewal = Renewal(self._runs.renew, every=lease_ttl / 3)
        # One thread: what is asked of the store is done in the order in which it was asked.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="teff-files")

    def __repr__(self) -> str:
        return f"FileCheckpointer({str(self._runs.folder)!r}, durability={self.durability!r})"

    # --- For the engine ---

    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        """Take the run for writing; see `Checkpointer.claim`.

        Raises:
            RunLocked: somebody else holds it; the message says who, and until when.
            CheckpointError: the files cannot be written.
            ConfigError: the id or the owner is no text, or is empty.
        """
        claiming = self._thread.submit(
            _named, run_id, partial(self._claim, self._place(run_id, owner))
        )
        try:
            return await asyncio.wrap_future(claiming)
        except asyncio.CancelledError:
            claiming.add_done_callback(self._give_back)  # else nobody would ever release it
            raise

    def _claim(self, place: Place) -> Lease:
        lease = self._runs.claim(place)
        self._renewal.add(lease)
        return lease

    def _give_back(self, claiming: Future[Lease]) -> None:
        if claiming.cancelled() or claiming.exception():
            return
        with suppress(CheckpointError, OSError):  # then it runs out
            self._release(claiming.result(), "running")

    async def renew(self, lease: Lease) -> Lease:
        """Hold on to the run; the store does so by itself as well."""
        await self._do(lease.run_id, self._runs.renew, lease)
        return lease

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        """Store ``records`` after all earlier ones: all of them, or none.

        Raises:
            LeaseLost: the run was taken by somebody else.
            CheckpointError: the file cannot be written, or a record holds what is no JSON value.
            CheckpointCorrupt: what is stored already is damaged.
        """
        await self._do(lease.run_id, self._runs.append, lease, tuple(records))

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        """Return the records that a run goes on with, in their order; see `Checkpointer.load`."""
        stored = await self.history(run_id, owner=owner)
        return shortened(tuple(entry.record for entry in stored))

    async def release(self, lease: Lease, state: RunState) -> None:
        """Give the run back; what was stored has then reached the disk."""
        await self._do(lease.run_id, self._release, lease, state)

    def _release(self, lease: Lease, state: RunState) -> None:
        self._renewal.discard(lease)
        self._runs.release(lease, state)

    # --- For people ---

    async def list(self, *, owner: str = "default") -> Sequence[RunSummary]:
        """Return the runs of an owner, the one that was written last first.

        A run whose file does not say whose it is any more is left out; `get` names the damage.
        """
        require_key("any", owner)
        return await self._do("", self._runs.summaries, owner)

    async def get(self, run_id: str, *, owner: str = "default") -> RunSummary | None:
        """Return one run, or None."""
        return await self._do(run_id, self._runs.get, self._place(run_id, owner))

    async def history(self, run_id: str, *, owner: str = "default") -> Sequence[StoredRecord]:
        """Return the records of a run with their numbers and times; see `RunStore.history`."""
        return await self._do(run_id, self._runs.history, self._place(run_id, owner))

    async def fork(
        self, run_id: str, at: int, new_id: str, *, owner: str = "default"
    ) -> RunSummary:
        """Begin a run with the first ``at`` records of another; see `RunStore.fork`.

        Damage behind those records does not matter. The new records are stored now.
        """
        require_key(new_id, owner, name="new_id")
        place, new = self._place(run_id, owner), self._place(new_id, owner)
        return await self._do(run_id, self._runs.fork, place, at, new)

    async def copy(self, run_id: str, new_id: str, *, owner: str = "default") -> RunSummary:
        """Begin a run with all records of another; see `RunStore.copy`."""
        require_key(new_id, owner, name="new_id")
        place, new = self._place(run_id, owner), self._place(new_id, owner)
        return await self._do(run_id, self._runs.fork, place, None, new)

    async def delete(self, run_id: str, *, owner: str = "default") -> bool:
        """Delete a run and everything of it, damaged or not; say whether there was one.

        Raises:
            RunLocked: somebody works on it.
        """
        return await self._do(run_id, self._runs.delete, self._place(run_id, owner))

    async def prune(self, *, older_than: float, owner: str = "default") -> int:
        """Delete the runs that ended over ``older_than`` seconds ago; see `RunStore.prune`."""
        require_key("any", owner)
        require_age(older_than)
        return await self._do("", self._runs.prune, owner, self._runs.clock() - older_than)

    # --- Inside ---

    def _place(self, run_id: str, owner: str) -> Place:
        require_key(run_id, owner)
        return self._runs.place(run_id, owner)

    async def _do(
        self, run_id: str, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Do what may wait for the disk, or for another process, in the store's thread."""
        doing = self._thread.submit(_named, run_id, partial(work, *args, **kwargs))
        return await asyncio.wrap_future(doing)


def _named(run_id: str, work: Callable[[], _T]) -> _T:
    """Do ``work``; where the system refuses, say for which run."""
    try:
        return work()
    except OSError as error:
        what = f"run {run_id!r}" if run_id else "the stored runs"
        raise CheckpointError(
            f"{what} cannot be read or written: {error}", run_id=run_id
        ) from error


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < math.inf
