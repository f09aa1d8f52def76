"""Runs in memory: for tests, and for pauses within one process."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

import attrs

from teff.checkpoint.keys import require_age, require_key
from teff.checkpoint.protocol import (
    Durability,
    Lease,
    Record,
    RunState,
    RunSummary,
    StoredRecord,
)
from teff.errors import CheckpointError, LeaseLost, RunLocked
from teff.state import freeze

__all__ = ["MemoryCheckpointer"]


@attrs.define(kw_only=True)
class _Run:
    created: float
    updated: float
    stored: list[StoredRecord] = attrs.field(factory=list)
    state: RunState = "running"
    epoch: int = 0
    held: bool = False

    def add(self, records: Sequence[Record], now: float) -> None:
        self.stored += [
            StoredRecord(number=number, stored=now, record=_frozen(record))
            for number, record in enumerate(records, len(self.stored) + 1)
        ]
        self.updated = now


def _frozen(record: Record) -> Record:
    data = freeze(record.data)
    return record if data is record.data else attrs.evolve(record, data=data)


class MemoryCheckpointer:
    """Keeps runs for as long as this object lives. Nothing survives the process.

    A lease does not run out: whoever holds it lives as long as the store.

    >>> import asyncio
    >>> store = MemoryCheckpointer()
    >>> lease = asyncio.run(store.claim("r1"))
    >>> asyncio.run(store.claim("r1"))
    Traceback (most recent call last):
    teff.errors.RunLocked: run 'r1' is being worked on: wait for it to end, or use another id
    """

    durability: Durability = "exit"

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], _Run] = {}
        #: Shared by all runs, so that one that is deleted and begun anew gets a higher one too.
        self._epochs = itertools.count(1)
        self._clock: Callable[[], float] = time.time

    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        """Take the run for writing; see `Checkpointer.claim`."""
        run = self._find(run_id, owner)
        if run is None:
            now = self._clock()
            run = self._runs[owner, run_id] = _Run(created=now, updated=now)
        if run.held:
            raise RunLocked(
                f"run {run_id!r} is being worked on: wait for it to end, or use another id",
                run_id=run_id,
            )
        run.held = True
        run.epoch = next(self._epochs)
        run.state = "running"
        return Lease(run_id=run_id, owner=owner, epoch=run.epoch)

    async def renew(self, lease: Lease) -> Lease:
        """Hold on to the run; leases in memory do not run out."""
        self._owned(lease)
        return lease

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        """Store ``records`` after all earlier ones."""
        self._owned(lease).add(records, self._clock())

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        """Return the records of a run in their order."""
        run = self._find(run_id, owner)
        return tuple(entry.record for entry in run.stored) if run is not None else ()

    async def release(self, lease: Lease, state: RunState) -> None:
        """Give the run back."""
        run = self._find(lease.run_id, lease.owner)
        if run is not None and run.held and run.epoch == lease.epoch:
            run.held = False
            run.state = state

    async def list(self, *, owner: str = "default") -> Sequence[RunSummary]:
        """Return the runs of an owner, the one that was written last first."""
        require_key("any", owner)
        runs = [_summary(key, run) for key, run in self._runs.items() if key[0] == owner]
        return tuple(sorted(runs, key=lambda run: (run.updated, run.created), reverse=True))

    async def get(self, run_id: str, *, owner: str = "default") -> RunSummary | None:
        """Return one run, or None."""
        run = self._find(run_id, owner)
        return _summary((owner, run_id), run) if run is not None else None

    async def history(self, run_id: str, *, owner: str = "default") -> Sequence[StoredRecord]:
        """Return the records of a run with their numbers and times."""
        run = self._find(run_id, owner)
        return tuple(run.stored) if run is not None else ()

    async def fork(
        self, run_id: str, at: int, new_id: str, *, owner: str = "default"
    ) -> RunSummary:
        """Begin a run with the first ``at`` records of another; see `RunStore.fork`."""
        source = self._existing(run_id, owner)
        whole = len(source.stored)
        if isinstance(at, bool) or not 1 <= at <= whole:
            raise CheckpointError(
                f"run {run_id!r} has no record {at}: it has {whole}, counted from 1", run_id=run_id
            )
        state = source.state
        if at < whole:
            state = "paused" if source.stored[at - 1].record.kind == "pause" else "running"
        return self._begin(new_id, owner, source, at, state)

    async def copy(self, run_id: str, new_id: str, *, owner: str = "default") -> RunSummary:
        """Begin a run with all records of another; see `RunStore.copy`."""
        source = self._existing(run_id, owner)
        return self._begin(new_id, owner, source, len(source.stored), source.state)

    async def delete(self, run_id: str, *, owner: str = "default") -> bool:
        """Delete a run and everything of it; say whether there was one."""
        run = self._find(run_id, owner)
        if run is not None and run.held:
            raise RunLocked(
                f"run {run_id!r} is being worked on and was not deleted: wait for it to end",
                run_id=run_id,
            )
        return self._runs.pop((owner, run_id), None) is not None

    async def prune(self, *, older_than: float, owner: str = "default") -> int:
        """Delete the runs that ended over ``older_than`` seconds ago; see `RunStore.prune`."""
        require_age(older_than)
        before = self._clock() - older_than
        old = [
            run.run_id
            for run in await self.list(owner=owner)
            if run.state not in ("running", "paused") and not run.held and run.updated <= before
        ]
        for run_id in old:
            del self._runs[owner, run_id]
        return len(old)

    def _find(self, run_id: str, owner: str) -> _Run | None:
        require_key(run_id, owner)
        return self._runs.get((owner, run_id))

    def _existing(self, run_id: str, owner: str) -> _Run:
        run = self._find(run_id, owner)
        if run is None:
            raise CheckpointError(f"there is no run {run_id!r} of owner {owner!r}", run_id=run_id)
        return run

    def _begin(
        self, new_id: str, owner: str, source: _Run, count: int, state: RunState
    ) -> RunSummary:
        require_key(new_id, owner, name="new_id")
        if (owner, new_id) in self._runs:
            raise CheckpointError(
                f"there is a run {new_id!r} already: give the copy another id, or delete that run",
                run_id=new_id,
            )
        now = self._clock()
        run = self._runs[owner, new_id] = _Run(created=now, updated=now, state=state)
        run.add([entry.record for entry in source.stored[:count]], now)
        return _summary((owner, new_id), run)

    def _owned(self, lease: Lease) -> _Run:
        run = self._find(lease.run_id, lease.owner)
        if run is None or not run.held or run.epoch != lease.epoch:
            raise LeaseLost(
                f"run {lease.run_id!r} is no longer held by this process; nothing was recorded",
                run_id=lease.run_id,
            )
        return run


def _summary(key: tuple[str, str], run: _Run) -> RunSummary:
    return RunSummary(
        run_id=key[1],
        owner=key[0],
        state=run.state,
        held=run.held,
        records=len(run.stored),
        created=run.created,
        updated=run.updated,
    )
