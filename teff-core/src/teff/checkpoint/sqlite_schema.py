"""The tables of a store of runs in an SQLite file: how it is opened, made and brought up to date.

A file says in its table ``teff_meta`` which format it has. The steps in `STEPS` lead from each
format to the next, so a file of any older release is brought up to date when it is opened; a file
of a newer release is refused.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from teff.checkpoint.protocol import Durability
from teff.errors import CheckpointCorrupt, CheckpointError

__all__ = [
    "BUSY_TIMEOUT",
    "STEPS",
    "is_busy",
    "open_database",
    "snapshot",
    "sweep",
    "told",
    "transaction",
]

#: Seconds to wait for another process that writes. SQLite's waiting is not fair, so it is long.
BUSY_TIMEOUT = 30.0

#: What makes a commit survive what it must, in write-ahead mode: ``FULL`` syncs each commit;
#: ``NORMAL`` leaves that to the system, and keeps the file whole whatever happens.
_SYNCHRONOUS: dict[Durability, str] = {"power": "FULL", "process": "NORMAL", "exit": "NORMAL"}

_META = "CREATE TABLE teff_meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL)"

# A run is found by two indexes: where damage hides a run from one of them, the other one still
# knows it, and it is not begun anew.
_RUNS = """CREATE TABLE teff_runs (
    id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    run_id TEXT NOT NULL,
    state TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    holder TEXT NOT NULL,
    held_until REAL NOT NULL,
    lease_ttl REAL NOT NULL,
    records INTEGER NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    checksum INTEGER NOT NULL
)"""
_RUNS_BY_OWNER = "CREATE UNIQUE INDEX teff_runs_by_owner ON teff_runs (owner, run_id)"
_RUNS_BY_ID = "CREATE UNIQUE INDEX teff_runs_by_id ON teff_runs (run_id, owner)"

# The id holds the run and the number of the record (see `sqlite_rows`), so that one tree does
# both: it keeps a run's records together in their order, and lets no number be written twice.
_RECORDS = """CREATE TABLE teff_records (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    data TEXT NOT NULL,
    stored REAL NOT NULL,
    checksum INTEGER NOT NULL
)"""


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in (_META, _RUNS, _RUNS_BY_OWNER, _RUNS_BY_ID, _RECORDS):
        connection.execute(statement)
    connection.execute(
        "INSERT INTO teff_meta (name, value) VALUES ('sweep', 0), ('deleted_epoch', 0)"
    )


#: The first step makes format 1 out of an empty file, the second format 2 out of that, and so on.
#: A step is never changed once it was released.
STEPS: tuple[Callable[[sqlite3.Connection], None], ...] = (_make_tables,)

#: The definitions as they stand in a file of the present format.
_DEFINITIONS = {_META, _RUNS, _RUNS_BY_OWNER, _RUNS_BY_ID, _RECORDS}


def open_database(path: Path, durability: Durability) -> sqlite3.Connection:
    """Open the file at ``path`` for reading and writing; make it, or bring it up to date.

    Text comes back as bytes, since a damaged file may hold text that is none.

    Raises:
        CheckpointError: it cannot be opened or written, is no database, or of a newer format.
        CheckpointCorrupt: its tables are damaged.
    """
    if not path.parent.is_dir():
        raise CheckpointError(
            f"the runs cannot be kept in {str(path)!r}: there is no folder {str(path.parent)!r}. "
            "Make it, or give another path"
        )
    with told(path):
        # Python's own timeout is SQLite's busy timeout. The connection stays in one thread.
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)
        try:
            connection.text_factory = bytes
            _set_up(connection, path, durability)
            _bring_up_to_date(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _set_up(connection: sqlite3.Connection, path: Path, durability: Durability) -> None:
    mode = _write_ahead(connection)
    if mode != b"wal":
        raise CheckpointError(
            f"the runs cannot be kept in {str(path)!r}: SQLite cannot use its write-ahead log "
            "there, as on a file system of the network. Give a path on a local disk"
        )
    connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
    if durability == "power" and sys.platform == "darwin":
        # A plain sync of macOS leaves the data in the cache of the drive.
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
    if durability != "power":
        # Only bringing the log into the file waits for the disk here, so that is done more rarely.
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA trusted_schema = OFF")


def _write_ahead(connection: sqlite3.Connection) -> bytes:
    """Turn the write-ahead log on. SQLite does not wait for others while it does so; this does."""
    until = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            mode: bytes = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            return mode
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    current = _format(connection)
    if current < len(STEPS):
        with transaction(connection):
            current = _format(connection)  # another process may have been faster
            for step in STEPS[current:]:
                step(connection)
            connection.execute(
                "INSERT OR REPLACE INTO teff_meta (name, value) VALUES ('format', ?)",
                (len(STEPS),),
            )
    if current > len(STEPS):
        raise CheckpointError(
            f"{str(path)!r} was written by a newer Teff: its format is {current}, and this one "
            f"knows formats up to {len(STEPS)}. Update teff-core, or give another path"
        )
    wanted = _DEFINITIONS - {row[0].decode(errors="replace") for row in _definitions(connection)}
    if wanted:
        raise CheckpointCorrupt(
            f"{str(path)!r} is damaged: the definitions of its tables are not as they were "
            "written. Restore the file from a copy, or give another path"
        )
    # A process that died while it deleted a run has left this to the next one. Where it is not
    # possible now, it stays due.
    with suppress(sqlite3.Error):
        sweep(connection)


def _definitions(connection: sqlite3.Connection) -> list[tuple[bytes]]:
    found = "SELECT sql FROM sqlite_master WHERE name GLOB 'teff_*' AND sql IS NOT NULL"
    return connection.execute(found).fetchall()


def _format(connection: sqlite3.Connection) -> int:
    """Return the format of the file; 0 where it has no tables of Teff."""
    if not _definitions(connection):
        return 0
    row = connection.execute("SELECT value FROM teff_meta WHERE name = 'format'").fetchone()
    if row is None or not isinstance(row[0], int) or row[0] < 1:
        raise sqlite3.DatabaseError("its format is not told")
    return row[0]


def sweep(connection: sqlite3.Connection) -> None:
    """Remove what deleted rows may have left in the file and its log, where that is due.

    SQLite overwrites what it deletes, but not the copies that stay behind when it moves rows from
    page to page. So the file is written anew; the time that takes grows with its size.
    """
    row = connection.execute("SELECT value FROM teff_meta WHERE name = 'sweep'").fetchone()
    if row is None or not row[0]:
        return
    connection.execute("VACUUM")
    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if busy:
        raise sqlite3.OperationalError("another process is reading the file")
    with transaction(connection):
        connection.execute("UPDATE teff_meta SET value = 0 WHERE name = 'sweep'")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block in a transaction that has the right to write from its beginning."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself where the disk is full or fails.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block that sees the file as it is now, whatever others write meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def is_busy(error: BaseException | None) -> bool:
    """Tell whether SQLite says that another process holds up this one."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite into errors that name the file and the way out."""
    try:
        yield
    except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
        raise  # a defect of the program, not of the file
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # The second one comes from a damaged name in the words of SQLite.
        raise _as_checkpoint_error(error, path) from error


def _as_checkpoint_error(error: Exception, path: Path) -> CheckpointError:
    # Errors that Python itself raises have no code; all of them are about values that it cannot
    # read, or about tables that are not as they should be.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    name = repr(str(path))
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return CheckpointError(
            f"{name} cannot be written: the disk is full, or fails ({error}). What was recorded "
            "before is safe. Make room, and run again with the same id"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return CheckpointError(
            f"{name} cannot be opened for writing ({error}). Allow this user to write the file and "
            "its folder, where SQLite keeps a log beside it, or give another path"
        )
    if is_busy(error):
        return CheckpointError(
            f"{name} was locked by another process for more than {BUSY_TIMEOUT:g} seconds "
            f"({error}). Let that one end, or give each its own file"
        )
    if code == sqlite3.SQLITE_NOTADB:
        return CheckpointError(f"{name} is no SQLite database. Give another path")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT):
        return CheckpointCorrupt(
            f"{name} is damaged ({error}). Restore the file from a copy, or save what can be read "
            "with `sqlite3 FILE .recover`"
        )
    return CheckpointError(f"{name} cannot be used: {error}")
