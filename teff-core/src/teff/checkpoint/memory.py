"""Runs in memory: for tests, and for pauses within one process."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from teff.checkpoint.protocol import Durability, Lease, Record, RunState
from teff.errors import LeaseLost, RunLocked

__all__ = ["MemoryCheckpointer"]


@attrs.define
class _StoredRun:
    records: list[Record] = attrs.field(factory=list)
    state: RunState = "running"
    epoch: int = 0
    held: bool = False


class MemoryCheckpointer:
    """Keeps runs for as long as this object lives. Nothing survives the process.

    >>> import asyncio
    >>> store = MemoryCheckpointer()
    >>> lease = asyncio.run(store.claim("r1"))
    >>> asyncio.run(store.claim("r1"))
    Traceback (most recent call last):
    teff.errors.RunLocked: run 'r1' is being worked on: wait for it to end, or use another id
    """

    durability: Durability = "exit"

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], _StoredRun] = {}

    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        """Take the run for writing; see `Checkpointer.claim`."""
        run = self._runs.setdefault((owner, run_id), _StoredRun())
        if run.held:
            raise RunLocked(
                f"run {run_id!r} is being worked on: wait for it to end, or use another id",
                run_id=run_id,
            )
        run.held = True
        run.epoch += 1
        run.state = "running"
        return Lease(run_id=run_id, owner=owner, epoch=run.epoch)

    async def renew(self, lease: Lease) -> Lease:
        """Hold on to the run; leases in memory do not run out."""
        self._owned(lease)
        return lease

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        """Store ``records`` after all earlier ones."""
        self._owned(lease).records.extend(records)

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        """Return the records of a run in their order."""
        run = self._runs.get((owner, run_id))
        return tuple(run.records) if run is not None else ()

    async def release(self, lease: Lease, state: RunState) -> None:
        """Give the run back."""
        run = self._runs.get((lease.owner, lease.run_id))
        if run is not None and run.held and run.epoch == lease.epoch:
            run.held = False
            run.state = state

    def _owned(self, lease: Lease) -> _StoredRun:
        run = self._runs.get((lease.owner, lease.run_id))
        if run is None or not run.held or run.epoch != lease.epoch:
            raise LeaseLost(
                f"run {lease.run_id!r} is no longer held by this process; nothing was recorded",
                run_id=lease.run_id,
            )
        return run
