"""The rows of a store of runs in an SQLite file: written with a checksum, and verified when read.

SQLite does not notice a bit that flips in stored data, so each row has a CRC-32 over everything
that it says. Nothing here begins or ends a transaction.
"""

from __future__ import annotations

import json
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, cast

import attrs

from teff.checkpoint.protocol import Record, RecordKind, RunState, RunSummary, StoredRecord
from teff.errors import CheckpointCorrupt, CheckpointError
from teff.state import freeze

__all__ = [
    "EncodedRecord",
    "RunRow",
    "add_records",
    "delete_rows",
    "encode_records",
    "find_run",
    "find_runs",
    "insert_run",
    "read_latest",
    "read_records",
    "update_run",
]

#: How many numbers a run has for its records. An id below 2**63 leaves as many runs as half of it.
_NUMBERS = 1 << 32

#: The numbers of a run, as its checksum takes them.
_NUMBERS_OF_A_RUN = struct.Struct("<qqddqdd").pack

_TO_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

_COLUMNS = (
    "id, owner, run_id, state, epoch, holder, held_until, lease_ttl, records, created, updated"
)


@attrs.define(kw_only=True)
class RunRow:
    """One row of ``teff_runs``: who works on a run until when, and how far it is.

    The ``holder`` is the text of a `teff.checkpoint.holder.Holder`; "" where nobody has the run.
    """

    id: int = 0
    owner: str
    run_id: str
    state: RunState = "running"
    epoch: int = 1
    holder: str = ""
    held_until: float = 0.0
    lease_ttl: float = 0.0
    records: int = 0
    created: float
    updated: float

    def held(self, now: float) -> bool:
        """Tell whether somebody's lease runs at ``now``; that process may be dead.

        No lease runs for longer than its time to live. Where it seems to run for twice as long,
        the clock was set back.
        """
        return bool(self.holder) and now < self.held_until <= now + 2 * self.lease_ttl

    def values(self) -> tuple[object, ...]:
        """Return the values in the order of the columns."""
        return (
            self.id,
            self.owner,
            self.run_id,
            self.state,
            self.epoch,
            self.holder,
            self.held_until,
            self.lease_ttl,
            self.records,
            self.created,
            self.updated,
        )

    def checksum(self) -> int:
        """Return the checksum of the row."""
        words = f"{self.owner}\0{self.run_id}\0{self.state}\0{self.holder}"
        numbers = _NUMBERS_OF_A_RUN(
            self.id,
            self.epoch,
            self.held_until,
            self.lease_ttl,
            self.records,
            self.created,
            self.updated,
        )
        return zlib.crc32(numbers, zlib.crc32(words.encode()))

    def following(self, now: float, records: int) -> RunRow:
        """Return the row after ``records`` were added at ``now``, with the lease renewed."""
        return RunRow(
            id=self.id,
            owner=self.owner,
            run_id=self.run_id,
            state=self.state,
            epoch=self.epoch,
            holder=self.holder,
            held_until=now + self.lease_ttl,
            lease_ttl=self.lease_ttl,
            records=self.records + records,
            created=self.created,
            updated=now if records else self.updated,
        )

    def summary(self, *, held: bool) -> RunSummary:
        """Return what a list shows of the run, which is ``held`` or not."""
        return RunSummary(
            run_id=self.run_id,
            owner=self.owner,
            state=self.state,
            held=held,
            records=self.records,
            created=self.created,
            updated=self.updated,
        )


@attrs.frozen
class EncodedRecord:
    """A record as it is written: its kind, its path and the JSON text of its data."""

    kind: str
    path: str
    data: bytes

    def checksum(self, run: RunRow, number: int, stored: float) -> int:
        """Return the checksum of the record as the ``number``-th of ``run``."""
        head = f"{run.owner}\0{run.run_id}\0{number}\0{stored!r}\0{self.kind}\0{self.path}\0"
        return zlib.crc32(self.data, zlib.crc32(head.encode()))


def encode_records(run_id: str, records: Iterable[Record]) -> list[EncodedRecord]:
    """Return ``records`` as they are written.

    Raises:
        CheckpointError: one holds what JSON cannot hold.
    """
    encoded = []
    for record in records:
        try:
            record.path.encode()
            data = _TO_JSON(record.data).encode()
            encoded.append(EncodedRecord(record.kind, record.path, data))
        except (TypeError, ValueError, RecursionError) as error:
            raise CheckpointError(
                f"a record ({record.kind}) of run {run_id!r} at {record.path!r} cannot be written "
                f"as JSON: {error}. Nothing was recorded",
                run_id=run_id,
            ) from error
    return encoded


def find_run(connection: sqlite3.Connection, owner: str, run_id: str) -> RunRow | None:
    """Return the row of a run, or None.

    Raises:
        CheckpointCorrupt: it is not as it was written.
    """
    rows = [
        connection.execute(
            f"SELECT {_COLUMNS}, checksum FROM teff_runs INDEXED BY {index}"  # noqa: S608  # constants
            " WHERE owner = ? AND run_id = ?",
            (owner, run_id),
        ).fetchone()
        for index in ("teff_runs_by_owner", "teff_runs_by_id")
    ]
    if rows[0] != rows[1]:
        raise _damaged(run_id)
    if rows[0] is None:
        return None
    run = _verified(rows[0])
    if run is None or (run.owner, run.run_id) != (owner, run_id):
        raise _damaged(run_id)
    return run


def find_runs(connection: sqlite3.Connection, owner: str) -> list[RunRow]:
    """Return the rows of the runs of an owner, the one that was written last first.

    Raises:
        CheckpointCorrupt: one of them is not as it was written.
    """
    rows = connection.execute(
        f"SELECT {_COLUMNS}, checksum FROM teff_runs WHERE owner = ?"  # noqa: S608  # constants
        " ORDER BY updated DESC, id DESC",
        (owner,),
    ).fetchall()
    runs = []
    for row in rows:
        run = _verified(row)
        if run is None:
            raise _damaged(str(row[2], errors="replace") if isinstance(row[2], bytes) else "?")
        runs.append(run)
    return runs


def _verified(row: Sequence[Any]) -> RunRow | None:
    """Return a row that was read, or None where it is not as it was written."""
    try:
        values: list[Any] = [
            value.decode() if isinstance(value, bytes) else value for value in row[:-1]
        ]
    except UnicodeDecodeError:
        return None
    names = (field.name for field in attrs.fields(RunRow))
    run = RunRow(**dict(zip(names, values, strict=True)))
    try:
        checksum = run.checksum()
    except struct.error:  # what was a number is none any more
        return None
    return run if checksum == row[-1] else None


def _damaged(run_id: str) -> CheckpointCorrupt:
    return CheckpointCorrupt(
        f"the entry of run {run_id!r} is damaged. Restore the file from a copy, or delete the run",
        run_id=run_id,
    )


def insert_run(connection: sqlite3.Connection, run: RunRow) -> None:
    """Write the row of a new run, and give it its id and an epoch that no run had that was deleted."""
    last = connection.execute("SELECT max(id) FROM teff_runs").fetchone()[0]
    run.id = (last or 0) + 1
    run.epoch += connection.execute(
        "SELECT value FROM teff_meta WHERE name = 'deleted_epoch'"
    ).fetchone()[0]
    connection.execute(
        f"INSERT INTO teff_runs ({_COLUMNS}, checksum)"  # noqa: S608  # constants
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*run.values(), run.checksum()),
    )


def update_run(connection: sqlite3.Connection, before: RunRow, after: RunRow) -> bool:
    """Write ``after`` over ``before``; say whether ``before`` was what the file has.

    This is the fence that a writer without the lease does not pass. The checksum stands for all that
    a row says; an epoch is not used twice.
    """
    if (after.state, after.epoch, after.holder) == (before.state, before.epoch, before.holder):
        written = connection.execute(
            "UPDATE teff_runs SET held_until = ?, records = ?, updated = ?, checksum = ?"
            " WHERE id = ? AND epoch = ? AND checksum = ?",
            (
                after.held_until,
                after.records,
                after.updated,
                after.checksum(),
                before.id,
                before.epoch,
                before.checksum(),
            ),
        )
    else:
        written = connection.execute(
            "UPDATE teff_runs SET (state, epoch, holder, held_until, lease_ttl, records, updated,"
            " checksum) = (?, ?, ?, ?, ?, ?, ?, ?) WHERE id = ? AND epoch = ? AND checksum = ?",
            (
                after.state,
                after.epoch,
                after.holder,
                after.held_until,
                after.lease_ttl,
                after.records,
                after.updated,
                after.checksum(),
                before.id,
                before.epoch,
                before.checksum(),
            ),
        )
    return written.rowcount == 1


def add_records(
    connection: sqlite3.Connection,
    run: RunRow,
    records: Sequence[EncodedRecord],
    *,
    after: int,
    stored: float,
) -> None:
    """Write ``records`` with the numbers from ``after`` + 1."""
    for number, record in enumerate(records, after + 1):
        connection.execute(
            "INSERT INTO teff_records (id, kind, path, data, stored, checksum)"
            " VALUES (?, ?, ?, CAST(? AS TEXT), ?, ?)",
            (
                run.id * _NUMBERS + number,
                record.kind,
                record.path,
                record.data,
                stored,
                record.checksum(run, number, stored),
            ),
        )


def read_records(
    connection: sqlite3.Connection, run: RunRow, *, after: int = 0, last: int | None = None
) -> list[StoredRecord]:
    """Return the records of a run, verified: those after number ``after``, up to ``last``.

    Raises:
        CheckpointCorrupt: one of them is not as it was written, or is missing.
    """
    wanted = run.records if last is None else last
    start = run.id * _NUMBERS
    records: list[StoredRecord] = []
    rows = connection.execute(
        "SELECT id, kind, path, data, stored, checksum FROM teff_records"
        " WHERE id BETWEEN ? AND ? ORDER BY id",
        (start + after + 1, start + (_NUMBERS - 1 if last is None else last)),
    )
    with closing(rows):  # one that is left half read would hold on to the file
        for row_id, *values in rows:
            number = after + len(records) + 1
            record = _read_record(run, number, *values) if row_id == start + number else None
            if record is None:
                raise _damaged_record(run, number)
            records.append(record)
    if after + len(records) != wanted:
        raise _damaged_record(run, after + min(len(records), wanted - after) + 1)
    return records


def read_latest(connection: sqlite3.Connection, run: RunRow) -> list[StoredRecord]:
    """Return the first record of a run, and those from its last snapshot on, verified.

    Raises:
        CheckpointCorrupt: one of them is not as it was written, or is missing.
    """
    start = run.id * _NUMBERS
    found = connection.execute(
        "SELECT id FROM teff_records WHERE id BETWEEN ? AND ? AND kind = 'snapshot'"
        " ORDER BY id DESC LIMIT 1",
        (start + 2, start + _NUMBERS - 1),
    ).fetchone()
    if found is None:
        return read_records(connection, run)
    newest = read_records(connection, run, after=found[0] - start - 1)
    return [*read_records(connection, run, last=1), *newest]


def _read_record(
    run: RunRow, number: int, kind: Any, path: Any, data: Any, stored: Any, checksum: Any
) -> StoredRecord | None:
    """Return a record that was read, or None where it is not as it was written."""
    try:
        encoded = EncodedRecord(kind.decode(), path.decode(), data)
        if encoded.checksum(run, number, stored) != checksum:
            return None
        record = Record(
            kind=cast("RecordKind", encoded.kind),
            path=encoded.path,
            data=freeze(json.loads(data.decode())),
        )
    except (AttributeError, TypeError, ValueError):  # no text where there was text
        return None
    return StoredRecord(number=number, stored=stored, record=record)


def _damaged_record(run: RunRow, number: int) -> CheckpointCorrupt:
    before = (
        f"go on from what is whole with fork({run.run_id!r}, {number - 1}, new_id)"
        if number > 1
        else "delete the run"
    )
    return CheckpointCorrupt(
        f"record {number} of run {run.run_id!r} is damaged or missing. "
        f"Restore the file from a copy, or {before}",
        run_id=run.run_id,
    )


def delete_rows(connection: sqlite3.Connection, owner: str, run_id: str) -> bool:
    """Delete a run and its records, damaged or not; say whether there was one."""
    ids = connection.execute(
        "SELECT id, epoch FROM teff_runs NOT INDEXED WHERE owner = ? AND run_id = ?",
        (owner, run_id),
    ).fetchall()
    for row_id, epoch in ids:
        start = row_id * _NUMBERS
        connection.execute(
            "DELETE FROM teff_records WHERE id BETWEEN ? AND ?", (start, start + _NUMBERS - 1)
        )
        connection.execute("DELETE FROM teff_runs WHERE id = ?", (row_id,))
        # A writer that was cut off may still have a lease: a new run of this id must not honour it.
        connection.execute(
            "UPDATE teff_meta SET value = max(value, CAST(? AS INTEGER))"
            " WHERE name = 'deleted_epoch'",
            (epoch,),
        )
    if ids:
        connection.execute("UPDATE teff_meta SET value = 1 WHERE name = 'sweep'")
    return bool(ids)
