"""The runs of one SQLite file as one store works on them: its leases, and what it does to the rows.

Everything here happens in the thread of `sqlite_writer.Writer`, but for `StoredRuns.put_off`.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

from teff.checkpoint.holder import Holder, Processes, run_locked
from teff.checkpoint.protocol import (
    Durability,
    Lease,
    Record,
    RunState,
    RunSummary,
    StoredRecord,
)
from teff.checkpoint.sqlite_rows import (
    EncodedRecord,
    RunRow,
    add_records,
    delete_rows,
    encode_records,
    find_run,
    find_runs,
    insert_run,
    read_latest,
    read_records,
    update_run,
)
from teff.checkpoint.sqlite_schema import (
    BUSY_TIMEOUT,
    open_database,
    snapshot,
    sweep,
    told,
    transaction,
)
from teff.errors import CheckpointCorrupt, CheckpointError, LeaseLost, RunLocked

__all__ = ["Held", "StoredRuns"]

#: With the durability ``exit``, so many appends of a run and seconds may pass before they are
#: written. An append of more bytes is written at once.
_MOST_PUT_OFF = 256
_PUT_OFF_SECONDS = 1.0
_PUT_OFF_BYTES = 64 * 1024

#: A log of more bytes than this is emptied when the last lease is given back.
_LOG_BYTES = 256 * 1024


@attrs.frozen(eq=False)
class PutOff:
    """The records of one append that are written later."""

    records: Sequence[EncodedRecord]


@attrs.define(eq=False)
class Held:
    """A run that this store holds: its row as it was last written, and what is put off."""

    row: RunRow
    #: How the run was left before it was claimed.
    left: RunState
    #: Appends that are not written yet.
    put_off: deque[PutOff] = attrs.field(factory=deque)
    #: Why they could not be written when it was last tried.
    failure: CheckpointError | None = None

    @property
    def lease(self) -> Lease:
        """The lease of the run."""
        return Lease(run_id=self.row.run_id, owner=self.row.owner, epoch=self.row.epoch)


class StoredRuns:
    """The work of a store with its file, and the leases that it has."""

    def __init__(self, path: Path, durability: Durability, lease_ttl: float) -> None:
        self.clock: Callable[[], float] = time.time
        self.processes = Processes()
        self._path = path
        self._durability = durability
        self._lease_ttl = lease_ttl
        self._holder = ""
        self._held: dict[Lease, Held] = {}
        self._next_renewal = 0.0
        self._released = False

    # --- What the writer asks for ----------------------------------------------------------------

    def open(self) -> sqlite3.Connection:
        """Open the file."""
        self._holder = self.processes.this().to_text()
        return open_database(self._path, self._durability)

    def pause(self) -> float | None:
        """Return after how many seconds `tick` is due."""
        if not self._held:
            return 0.0 if self._released else None
        renewal = max(0.0, self._next_renewal - time.monotonic())
        return min(renewal, _PUT_OFF_SECONDS) if self._durability == "exit" else renewal

    def tick(self, connection: sqlite3.Connection) -> None:
        """Write what was put off, and renew the leases that need it."""
        for held in [held for held in self._held.values() if held.put_off]:
            self._write_put_off(connection, held)
        if self._released and not self._held:
            self._shorten_log(connection)
        if time.monotonic() < self._next_renewal:
            return
        self._next_renewal = time.monotonic() + self._lease_ttl / 3
        if due := [lease for lease, held in self._held.items() if self._runs_out(held.row)]:
            # Where that fails, there is time to try again before a lease has run out.
            with suppress(CheckpointError), told(self._path), transaction(connection):
                for lease in due:
                    with suppress(LeaseLost):
                        self._write(connection, lease, ())

    def last(self, connection: sqlite3.Connection) -> None:
        """Write what was put off, and give back all leases."""
        self.tick(connection)
        failures = [held.failure for held in self._held.values() if held.failure is not None]
        with told(self._path), transaction(connection):
            for lease, held in tuple(self._held.items()):
                with suppress(LeaseLost):
                    self._write(connection, lease, (), state=held.row.state)
        self._held.clear()
        if failures:
            raise failures[0]

    def _runs_out(self, row: RunRow) -> bool:
        left = row.held_until - self.clock()
        return not 0.7 * self._lease_ttl < left <= self._lease_ttl  # more than that: clock set back

    def _write_put_off(self, connection: sqlite3.Connection, held: Held) -> None:
        # Others may add to it meanwhile.
        appends = [held.put_off.popleft() for _ in range(len(held.put_off))]
        try:
            with told(self._path), transaction(connection):
                records = [record for append in appends for record in append.records]
                self._write(connection, held.lease, records)
        except LeaseLost:
            return  # the next append says so
        except CheckpointError as error:
            held.put_off.extendleft(reversed(appends))
            error.run_id = held.row.run_id
            held.failure = error
        else:
            held.failure = None

    def _shorten_log(self, connection: sqlite3.Connection) -> None:
        """Bring the log into the file, unless that must wait for somebody."""
        self._released = False
        log = self._path.with_name(f"{self._path.name}-wal")
        with suppress(OSError, sqlite3.Error):
            if log.stat().st_size > _LOG_BYTES:
                connection.execute("PRAGMA busy_timeout = 0")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT * 1000:.0f}")

    # --- Leases ----------------------------------------------------------------------------------

    def claim(self, connection: sqlite3.Connection, run_id: str, owner: str) -> Held:
        """Take a run; see `teff.checkpoint.Checkpointer.claim`. `hold` is next."""
        now = self.clock()
        before = find_run(connection, owner, run_id)
        if before is not None and self._is_held(before, now):
            raise self._locked(before, now)
        lease: dict[str, Any] = {
            "holder": self._holder,
            "held_until": now + self._lease_ttl,
            "lease_ttl": self._lease_ttl,
        }
        if before is None:
            row = RunRow(owner=owner, run_id=run_id, created=now, updated=now, **lease)
            insert_run(connection, row)
        else:
            row = attrs.evolve(before, state="running", epoch=before.epoch + 1, **lease)
            update_run(connection, before, row)
        return Held(row, left=row.state if before is None else before.state)

    def _is_held(self, run: RunRow, now: float) -> bool:
        """Tell whether somebody holds a run. Whoever is certainly dead does not."""
        return run.held(now) and not self.processes.is_dead(Holder.of_text(run.holder))

    def _locked(self, run: RunRow, now: float) -> RunLocked:
        who = self.processes.describe(Holder.of_text(run.holder))
        return run_locked(run.run_id, who, until=run.held_until, now=now)

    def _summary(self, run: RunRow, now: float) -> RunSummary:
        return run.summary(held=self._is_held(run, now))

    def hold(self, held: Held) -> None:
        """Renew the lease of a run from now on."""
        self._held[held.lease] = held
        self._next_renewal = min(self._next_renewal, time.monotonic() + self._lease_ttl / 3)

    def drop(self, lease: Lease) -> None:
        """Renew a lease no more."""
        self._held.pop(lease, None)
        self._released = True

    def undo(self, connection: sqlite3.Connection, held: Held | None) -> None:
        """Give back a run whose claim nobody waits for any more."""
        if held is None:
            return
        try:
            with transaction(connection):
                self.release(connection, held.lease, held.left)
        finally:
            self.drop(held.lease)

    def renew(self, connection: sqlite3.Connection, lease: Lease) -> None:
        """Hold on to a run; see `teff.checkpoint.Checkpointer.renew`."""
        self._write(connection, lease, ())

    def append(
        self, connection: sqlite3.Connection, lease: Lease, records: Sequence[EncodedRecord]
    ) -> None:
        """Store records; see `teff.checkpoint.Checkpointer.append`."""
        self._write(connection, lease, records)

    def put_off(self, lease: Lease, records: Sequence[EncodedRecord]) -> PutOff | None:
        """Keep records to write them later; None if nobody holds the run. Any thread may ask."""
        held = self._held.get(lease)
        if held is None:
            return None
        append = PutOff(records)
        held.put_off.append(append)
        return append

    def may_wait(self, lease: Lease, append: PutOff) -> bool:
        """Tell whether what was put off need not be written at once. Any thread may ask."""
        held = self._held.get(lease)
        if held is None or held.failure is not None or len(held.put_off) > _MOST_PUT_OFF:
            return False
        return sum(len(record.data) for record in append.records) <= _PUT_OFF_BYTES

    def written(self, connection: sqlite3.Connection, lease: Lease, append: PutOff) -> None:
        """See to it that what was put off is written; `tick` has tried that.

        Raises:
            CheckpointError: it is not, and will not be.
        """
        held = self._held.get(lease)
        if held is None:
            raise _lost(lease)
        if held.failure is not None:
            held.put_off.remove(append)
            raise held.failure

    def release(
        self, connection: sqlite3.Connection, lease: Lease, state: RunState
    ) -> CheckpointError | None:
        """Give a run back; `drop` is next. Returns why the last records could not be written."""
        held = self._held.get(lease)
        failure = held.failure if held is not None else None
        with suppress(LeaseLost):
            self._write(connection, lease, (), state="running" if failure else state)
        return failure

    def _write(
        self,
        connection: sqlite3.Connection,
        lease: Lease,
        records: Sequence[EncodedRecord],
        *,
        state: RunState | None = None,
    ) -> None:
        """Write records, and renew the lease, or give it back if a ``state`` is given.

        Raises:
            LeaseLost: somebody else has taken the run; nothing was written.
        """
        held = self._held.get(lease)
        if held is None or not held.row.holder:
            raise _lost(lease)
        now = self.clock()
        before = held.row
        after = _after(before, now, len(records), state)
        if not update_run(connection, before, after):
            # Somebody else has taken the run, or what this store wrote last was undone.
            found = find_run(connection, lease.owner, lease.run_id)
            if found is None or (found.epoch, found.holder) != (lease.epoch, self._holder):
                self.drop(lease)
                raise _lost(lease)
            before = found
            after = _after(before, now, len(records), state)
            update_run(connection, before, after)
        add_records(connection, after, records, after=before.records, stored=now)
        held.row = after

    # --- What people ask for ---------------------------------------------------------------------

    def history(
        self, connection: sqlite3.Connection, run_id: str, owner: str
    ) -> tuple[StoredRecord, ...]:
        """Return the records of a run."""
        with snapshot(connection):
            run = find_run(connection, owner, run_id)
            return () if run is None else tuple(read_records(connection, run))

    def load(
        self, connection: sqlite3.Connection, run_id: str, owner: str
    ) -> tuple[StoredRecord, ...]:
        """Return the records that a run goes on with: its first, and those from its last snapshot."""
        with snapshot(connection):
            run = find_run(connection, owner, run_id)
            return () if run is None else tuple(read_latest(connection, run))

    def get(self, connection: sqlite3.Connection, run_id: str, owner: str) -> RunSummary | None:
        """Return one run, or None."""
        with snapshot(connection):
            run = find_run(connection, owner, run_id)
        return None if run is None else self._summary(run, self.clock())

    def list(self, connection: sqlite3.Connection, owner: str) -> tuple[RunSummary, ...]:
        """Return the runs of an owner."""
        now = self.clock()
        return tuple(self._summary(run, now) for run in find_runs(connection, owner))

    def copy(
        self, connection: sqlite3.Connection, run_id: str, at: int | None, new_id: str, owner: str
    ) -> RunSummary:
        """Begin a run with the first ``at`` records of another, or with all."""
        now = self.clock()
        run = find_run(connection, owner, run_id)
        if run is None:
            raise CheckpointError(
                f"there is no run {run_id!r} of {owner!r} to begin another with", run_id=run_id
            )
        if at is not None and not 1 <= at <= run.records:
            raise CheckpointError(
                f"run {run_id!r} has no record {at}: it has {run.records}, counted from 1",
                run_id=run_id,
            )
        records = [stored.record for stored in read_records(connection, run, last=at)]
        if find_run(connection, owner, new_id) is not None:
            raise CheckpointError(
                f"there is a run {new_id!r} already: give another id, or delete it first",
                run_id=new_id,
            )
        new = RunRow(
            owner=owner,
            run_id=new_id,
            state=run.state if len(records) == run.records else _left_by(records[-1]),
            records=len(records),
            created=now,
            updated=now,
        )
        insert_run(connection, new)
        add_records(connection, new, encode_records(new_id, records), after=0, stored=now)
        return new.summary(held=False)

    def delete(self, connection: sqlite3.Connection, run_id: str, owner: str) -> bool:
        """Delete a run and everything of it; say whether there was one."""
        with transaction(connection):
            with suppress(CheckpointCorrupt):  # a damaged run can be deleted
                run = find_run(connection, owner, run_id)
                if run is not None and self._is_held(run, now := self.clock()):
                    raise self._locked(run, now)
            deleted = delete_rows(connection, owner, run_id)
        self._sweep(connection)
        return deleted

    def prune(self, connection: sqlite3.Connection, older_than: float, owner: str) -> int:
        """Delete the runs that ended long ago; return how many."""
        now = self.clock()
        with transaction(connection):
            old = [
                run
                for run in find_runs(connection, owner)
                if run.updated < now - older_than
                and run.state not in ("running", "paused")
                and not self._is_held(run, now)
            ]
            for run in old:
                delete_rows(connection, owner, run.run_id)
        self._sweep(connection)
        return len(old)

    def _sweep(self, connection: sqlite3.Connection) -> None:
        try:
            with told(self._path):
                sweep(connection)
        except CheckpointError as error:
            raise CheckpointError(
                f"what was asked for is deleted, but traces may be left in the file: {error}. "
                "Whoever opens or deletes next removes them"
            ) from error


def _after(row: RunRow, now: float, records: int, state: RunState | None) -> RunRow:
    """Return the row of a run that goes on, or is given back in ``state``."""
    after = row.following(now, records)
    if state is not None:
        after.state, after.holder, after.held_until = state, "", 0.0
    return after


def _left_by(record: Record) -> RunState:
    """Return the state of a run that ends with ``record`` because the rest was cut off."""
    return "paused" if record.kind == "pause" else "running"


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"run {lease.run_id!r} is no longer held by this store: it was given back, or taken by "
        "somebody else after its lease had run out. Nothing was recorded; run it again with the "
        "same id to go on from what is recorded",
        run_id=lease.run_id,
    )
