"""A folder of run files: what `FileCheckpointer` does, without the event loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from teff.checkpoint.holder import Processes, run_locked
from teff.checkpoint.lines import (
    RunText,
    header_line,
    last_record,
    read_header,
    read_run,
    record_lines,
)
from teff.checkpoint.protocol import Lease, Record, RunState, RunSummary, StoredRecord
from teff.checkpoint.run_file import (
    Place,
    RunFile,
    StoredLease,
    open_new_run,
    open_run,
    places,
    sync_folder,
)
from teff.errors import CheckpointCorrupt, CheckpointError, LeaseLost, RunLocked

__all__ = ["RunFolder"]

#: How much of the end of a file is read at first, to find its last record.
_ENDING = 1 << 16


@attrs.frozen(kw_only=True)
class _Tail:
    """Where the next record of a run goes: at which byte, with which number.

    ``open_line`` says that the line before it lacks its end.
    """

    size: int
    records: int
    open_line: bool = False

    @classmethod
    def of(cls, text: RunText) -> _Tail:
        return cls(size=text.size, records=len(text.records), open_line=text.open_line)


class RunFolder:
    """The runs in one folder.

    Args:
        folder: where the files are.
        power: whether what is stored must survive a loss of power.
        lease_ttl: seconds after which a lease runs out, unless it is renewed.
    """

    def __init__(self, folder: Path, *, power: bool, lease_ttl: float) -> None:
        self.folder = folder
        self.clock: Callable[[], float] = time.time
        self.processes = Processes()
        self._power = power
        self._ttl = lease_ttl
        #: By leases of this store, what is known of their files without reading them.
        self._tails: dict[Lease, _Tail] = {}

    def place(self, run_id: str, owner: str) -> Place:
        """Return where a run's files are."""
        return Place(self.folder, run_id, owner)

    def claim(self, place: Place) -> Lease:
        """Take a run for writing; see `Checkpointer.claim`."""
        with open_new_run(place) as file:
            before, now = file.lease, self.clock()
            if self._is_held(before, now):
                who = self._who(before)
                raise run_locked(place.run_id, who, until=before.until, now=now)
            epoch = _new_epoch(before.epoch)
            lease = Lease(run_id=place.run_id, owner=place.owner, epoch=epoch)
            begun = None if _is_begun(file) else self._begin(file, now)
            process = self.processes.this()  # not that of a process that this was forked from
            taken = attrs.evolve(before, epoch=epoch, holder=str(process), process=process)
            file.set_lease(self._extended(taken))
        if begun is not None:
            self._tails[lease] = begun
        return lease

    def _is_held(self, lease: StoredLease, now: float) -> bool:
        """Tell whether somebody has a lease. Whoever is certainly dead does not."""
        return lease.held(now) and not self.processes.is_dead(lease.process)

    def _who(self, lease: StoredLease) -> str:
        return self.processes.describe(lease.process) if lease.process else lease.holder

    def _begin(self, file: RunFile, now: float, lines: bytes = b"") -> _Tail:
        """Write the first line of a run, and ``lines`` with it."""
        header = header_line(file.place.run_id, file.place.owner, now)
        file.write(header + lines, at=0, power=self._power)
        if self._power:
            sync_folder(file.place.folder)
        return _Tail(size=len(header) + len(lines), records=0)

    def _extended(self, stored: StoredLease) -> StoredLease:
        return attrs.evolve(stored, until=self.clock() + self._ttl, ttl=self._ttl)

    def renew(self, lease: Lease) -> None:
        """Let a lease run out later; see `Checkpointer.renew`."""
        with self._held(lease) as (file, stored):
            file.set_lease(self._extended(stored))

    @contextmanager
    def _held(self, lease: Lease) -> Iterator[tuple[RunFile, StoredLease]]:
        """Open the file of a run that is held, for writing.

        Raises:
            LeaseLost: the lease is not the newest one of its run, or was given back.
        """
        with open_run(self.place(lease.run_id, lease.owner)) as file:
            stored = file.lease if file is not None else StoredLease()
            if file is None or stored.epoch != lease.epoch or not stored.holder:
                self._tails.pop(lease, None)
                raise LeaseLost(
                    f"run {lease.run_id!r} is no longer held by this process; nothing was "
                    "recorded. Resume it to go on",
                    run_id=lease.run_id,
                )
            yield file, stored

    def append(self, lease: Lease, records: Sequence[Record]) -> None:
        """Store records; see `Checkpointer.append`."""
        with self._held(lease) as (file, _):
            if not records:
                return
            tail = self._tails.pop(lease, None)
            if tail is None or tail.size != file.size:
                tail = _Tail.of(_read(file.place, file.read(), file.lease))
            lines = record_lines(
                records, first=tail.records + 1, stored=self.clock(), run_id=lease.run_id
            )
            if tail.open_line:
                lines = b"\n" + lines
            file.write(lines, at=tail.size, power=self._power)
            self._tails[lease] = _Tail(
                size=tail.size + len(lines), records=tail.records + len(records)
            )

    def release(self, lease: Lease, state: RunState) -> None:
        """Give a run back; see `Checkpointer.release`."""
        with suppress(LeaseLost), self._held(lease) as (file, stored):
            tail, records = self._tails.pop(lease, None), stored.records
            if tail is not None:
                file.sync()
                records = tail.records
            left = attrs.evolve(
                stored, holder="", process=None, until=0.0, state=state, records=records
            )
            file.set_lease(left, power=self._power)

    def history(self, place: Place) -> tuple[StoredRecord, ...]:
        """Return the records of a run; see `RunStore.history`."""
        with open_run(place, write=False) as file:
            if file is None:
                return ()
            content, lease = file.read(), file.lease
        return _read(place, content, lease).records

    def get(self, place: Place) -> RunSummary | None:
        """Return what a list shows of a run, or None where there is none.

        Raises:
            CheckpointCorrupt: its file does not say whose it is.
        """
        with open_run(place, write=False) as file:
            if file is None or not _is_begun(file):
                return None
            return self._summary(file)

    def _summary(self, file: RunFile) -> RunSummary:
        """Return what a list shows of a run, which takes the beginning and the end of its file."""
        place, lease = file.place, file.lease
        header = read_header(file.first_line())
        if header is None:
            raise CheckpointCorrupt(
                f"run {place.run_id!r} is damaged: the first line of {place.records} does not say "
                "whose run it is. Bring back a copy of the file, or delete the run",
                run_id=place.run_id,
            )
        records, updated = _last(file) or (0, header.created)
        return RunSummary(
            run_id=place.run_id,
            owner=place.owner,
            state=lease.left,
            held=self._is_held(lease, self.clock()),
            records=records,
            created=header.created,
            updated=updated,
        )

    def summaries(self, owner: str) -> tuple[RunSummary, ...]:
        """Return the runs of an owner; see `RunStore.list`."""
        runs = [run for place in places(self.folder, owner) if (run := self.get(place))]
        return tuple(sorted(runs, key=lambda run: (run.updated, run.created), reverse=True))

    def fork(self, place: Place, at: int | None, new: Place) -> RunSummary:
        """Begin a run with the first ``at`` records of another, with all where ``at`` is None."""
        records, state = self._to_copy(place, at)
        with open_new_run(new) as file:
            if _is_begun(file):
                raise CheckpointError(
                    f"there is a run {new.run_id!r} already: give the copy of {place.run_id!r} "
                    "another id, or delete that run",
                    run_id=new.run_id,
                )
            now = self.clock()
            lines = record_lines(records, first=1, stored=now, run_id=new.run_id)
            self._begin(file, now, lines)
            left = StoredLease(epoch=_new_epoch(0), state=state)
            file.set_lease(left, power=self._power)
            return self._summary(file)

    def _to_copy(self, place: Place, at: int | None) -> tuple[list[Record], RunState]:
        """Return the first ``at`` records of a run, and how a run that has just them was left."""
        with open_run(place, write=False) as file:
            if file is None or not _is_begun(file):
                raise CheckpointError(
                    f"there is no run {place.run_id!r} of owner {place.owner!r}",
                    run_id=place.run_id,
                )
            content, lease, last = file.read(), file.lease, _last(file)
        if at is None:
            return _records(_read(place, content, lease)), lease.left
        whole = last[0] if last is not None else 0
        if isinstance(at, bool) or not 1 <= at <= whole:
            raise CheckpointError(
                f"run {place.run_id!r} has no record {at}: it has {whole}, counted from 1",
                run_id=place.run_id,
            )
        records = _records(_read(place, content, lease, up_to=at))[:at]
        if at == max(whole, lease.records):
            return records, lease.left
        return records, "paused" if records[-1].kind == "pause" else "running"

    def delete(self, place: Place) -> bool:
        """Delete a run; see `RunStore.delete`."""
        with open_run(place) as file:
            if file is None:
                return False
            lease = file.lease
            if self._is_held(lease, self.clock()):
                raise RunLocked(
                    f"run {place.run_id!r} is being worked on by {self._who(lease)} and was not "
                    "deleted: wait for it to end",
                    run_id=place.run_id,
                )
            begun = _is_begun(file)
            file.remove(power=self._power)
            return begun

    def prune(self, owner: str, before: float) -> int:
        """Delete the runs of an owner that ended, and were written last up to ``before``."""
        count = 0
        for place in places(self.folder, owner):
            with open_run(place) as file:
                if file is None or not _is_begun(file):
                    continue
                run = self._summary(file)
                ended = run.state not in ("running", "paused") and not run.held
                if ended and run.updated <= before:
                    file.remove(power=self._power)
                    count += 1
        return count


def _new_epoch(before: int) -> int:
    """Return a higher epoch. It is the time, so that a run that is begun anew has one too."""
    return max(before + 1, time.time_ns() // 1000)


def _is_begun(file: RunFile) -> bool:
    """Tell whether there is a run in a file, and not just the rest of a crash while it was made."""
    if file.lease.epoch:
        return True
    place = file.place
    try:
        return bool(_read(place, file.read(), StoredLease()).records)
    except CheckpointCorrupt:
        return True


def _read(place: Place, content: bytes, lease: StoredLease, *, up_to: int | None = None) -> RunText:
    """Read what the file of a run holds.

    Raises:
        CheckpointCorrupt: it is not what was stored.
    """
    limit = math.inf if up_to is None else up_to
    text = read_run(
        content, run_id=place.run_id, owner=place.owner, file=str(place.records), up_to=limit
    )
    found, wanted = len(text.records), min(lease.records, limit)
    if found < wanted or (lease.epoch and text.header is None):
        way_out = f", or go on with a fork at {found}" if found else ", or delete the run"
        raise CheckpointCorrupt(
            f"run {place.run_id!r} is damaged: {place.records} ends after {found} records, and "
            f"{lease.records} were stored. Bring back a copy of the file{way_out}",
            run_id=place.run_id,
        )
    return text


def _records(text: RunText) -> list[Record]:
    return [entry.record for entry in text.records]


def _last(file: RunFile) -> tuple[int, float] | None:
    """Return number and time of the last record in a file, or None where it has none."""
    length, size = _ENDING, file.size
    while True:
        start = max(0, size - length)
        if found := last_record(file.read(start)):
            return found
        if not start:
            return None
        length *= 4
