"""What a store of runs must do: hold one ordered list of records per run, under one owner at a time.

A record is written once and never changed. The journal (`teff.runtime.journal`) decides what the
records mean; a store keeps their order, fences off writers that lost their lease, and gives the
records back as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import attrs

__all__ = [
    "Checkpointer",
    "Durability",
    "Lease",
    "Record",
    "RecordKind",
    "RunState",
    "RunStore",
    "RunSummary",
    "StoredRecord",
]

#: What a record survives once ``append`` has returned: the end of the run object (``exit`` of the
#: process loses it), a crash of the process, or a loss of power.
Durability = Literal["exit", "process", "power"]

#: ``start``: the input and the graph's signature. ``step``: one committed step of one frame.
#: ``value``: the result of a recorded call. ``pause``: open questions. ``answer``: an answer to one.
#: ``end``: how the run ended. ``snapshot``: all that the records before it come to, but the first.
RecordKind = Literal["start", "step", "value", "pause", "answer", "end", "snapshot"]

#: How a run was left. ``running`` is a run that nobody closed: its process died.
RunState = Literal["running", "finished", "stopped", "paused", "failed", "cancelled"]


@attrs.frozen(kw_only=True)
class Record:
    """One entry of a run's journal.

    Attributes:
        kind: what it is.
        path: the frame or the call that it belongs to, ``"plan/3"`` or ``"fan/1/[17]"``; "" for the
            root frame.
        data: JSON values, frozen; the journal knows their meaning.
    """

    kind: RecordKind
    path: str = ""
    data: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Lease:
    """The right to append to one run. A newer lease of the same run has a higher ``epoch``."""

    run_id: str
    owner: str
    epoch: int


@runtime_checkable
class Checkpointer(Protocol):
    """A store of runs. Runs of different owners never meet, whatever their ids are."""

    @property
    def durability(self) -> Durability:
        """What a record survives once ``append`` has returned."""
        ...

    async def claim(self, run_id: str, *, owner: str = "default") -> Lease:
        """Take the run for writing; a run that is not there is begun.

        Raises:
            RunLocked: somebody else holds it.
        """
        ...

    async def renew(self, lease: Lease) -> Lease:
        """Hold on to the run.

        Raises:
            LeaseLost: it was taken by somebody else.
        """
        ...

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        """Store ``records`` after all earlier ones: all of them, or none.

        Raises:
            LeaseLost: the run was taken by somebody else; nothing was stored.
        """
        ...

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        """Return the records of a run in their order; empty where there are none.

        What stands between the first record and the last snapshot may be left out.

        Raises:
            CheckpointCorrupt: they are not what was stored.
        """
        ...

    async def release(self, lease: Lease, state: RunState) -> None:
        """Give the run back, saying how it was left. Releasing a lost lease does nothing."""
        ...


@attrs.frozen(kw_only=True)
class RunSummary:
    """A stored run, as a list shows it.

    Attributes:
        run_id: its id.
        owner: whose it is.
        state: how it was left; ``running`` is also a run whose process died.
        held: whether somebody holds its lease now.
        records: how many records it has.
        created, updated: when the first and the last one was stored, in seconds since the epoch.
    """

    run_id: str
    owner: str
    state: RunState
    held: bool
    records: int
    created: float
    updated: float


@attrs.frozen(kw_only=True)
class StoredRecord:
    """A record with its place in a run: its number, from 1 without a gap, and when it was stored."""

    number: int
    stored: float
    record: Record


@runtime_checkable
class RunStore(Checkpointer, Protocol):
    """A checkpointer that people can look into."""

    async def list(self, *, owner: str = "default") -> Sequence[RunSummary]:
        """Return the runs of an owner, the one that was written last first."""
        ...

    async def get(self, run_id: str, *, owner: str = "default") -> RunSummary | None:
        """Return one run, or None."""
        ...

    async def history(self, run_id: str, *, owner: str = "default") -> Sequence[StoredRecord]:
        """Return all records of a run with their numbers and times; empty where there is none.

        Raises:
            CheckpointCorrupt: they are not what was stored.
        """
        ...

    async def fork(
        self, run_id: str, at: int, new_id: str, *, owner: str = "default"
    ) -> RunSummary:
        """Begin a run with the first ``at`` records of another, which stays as it is.

        Raises:
            CheckpointError: there is no such run or number, or ``new_id`` is taken.
        """
        ...

    async def copy(self, run_id: str, new_id: str, *, owner: str = "default") -> RunSummary:
        """Begin a run with all records of another.

        Raises:
            CheckpointError: there is no such run, or ``new_id`` is taken.
        """
        ...

    async def delete(self, run_id: str, *, owner: str = "default") -> bool:
        """Delete a run and everything of it; say whether there was one.

        Raises:
            RunLocked: somebody works on it.
        """
        ...

    async def prune(self, *, older_than: float, owner: str = "default") -> int:
        """Delete the runs that ended, and were written last over ``older_than`` seconds ago.

        Returns how many. Runs that are held, paused or unfinished stay.
        """
        ...
