"""What goes wrong around a store of runs in an SQLite file: with the file, the disk, the process."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from teff.checkpoint import Durability, Record, RunStore, SQLiteCheckpointer
from teff.checkpoint import sqlite_schema
from teff.errors import CheckpointCorrupt, CheckpointError, LeaseLost, RunLocked

POSIX = pytest.mark.skipif(os.name != "posix", reason="it needs the signals and limits of POSIX")


def step(n: int, **more: Any) -> Record:
    return Record(kind="step", path="plan/1", data={"n": n, **more})


def numbers(records: Sequence[Record]) -> list[int]:
    return [record.data["n"] for record in records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def recorded(store: RunStore, run_id: str, count: int, **more: Any) -> None:
    """Record a finished run of ``count`` steps."""
    lease = await store.claim(run_id)
    for n in range(count):
        await store.append(lease, [step(n, **more)])
    await store.release(lease, "finished")


async def use(path: Path) -> None:
    async with SQLiteCheckpointer(path) as store:
        await store.claim("r1")


# --- Damage to the file --------------------------------------------------------------------------

RUNS = {"first": 3, "second": 12, "third": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file with a few runs."""
    path = tmp_path_factory.mktemp("whole") / "runs.db"

    async def write() -> None:
        async with SQLiteCheckpointer(path) as store:
            for run_id, count in RUNS.items():
                await recorded(store, run_id, count, text=f"{run_id} " * 40)

    asyncio.run(write())
    return path.read_bytes()


async def read(path: Path) -> str:
    """Read all that there is; say whether it is whole. What is wrong must be said by name."""
    async with SQLiteCheckpointer(path) as store:
        try:
            found = {run.run_id: run for run in await store.list()}
            for run_id, count in RUNS.items():
                history = await store.history(run_id)
                expected = [step(n, text=f"{run_id} " * 40) for n in range(count)]
                assert [entry.record for entry in history] == expected
                assert [entry.number for entry in history] == list(range(1, count + 1))
                lease = await store.claim(run_id)
                await store.release(lease, "finished")
            assert {name: run.records for name, run in found.items()} == RUNS
            assert {run.state for run in found.values()} == {"finished"}
        except CheckpointCorrupt as error:
            assert "Restore" in str(error)
            return "damaged"
        except CheckpointError as error:
            # The file says of itself that it is no database, or one of the future.
            assert "no SQLite database" in str(error) or "newer Teff" in str(error)
            return "damaged"
    return "whole"


def test_a_bit_that_flips_anywhere_is_found_or_changes_nothing(path: Path, whole: bytes) -> None:
    chance = random.Random(7)
    outcomes = []
    for _ in range(250):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        outcomes.append(asyncio.run(read(path)))
        for file in path.parent.iterdir():
            file.unlink()
    assert outcomes.count("damaged") > 20


@pytest.mark.parametrize("marker", ["first first", "second second", "third third"])
def test_a_flipped_byte_in_a_record_is_named_with_its_run_and_number(
    path: Path, whole: bytes, marker: str
) -> None:
    run_id = marker.split()[0]
    chance = random.Random(marker)
    places = [at for at in range(len(whole)) if whole.startswith(marker.encode(), at)]
    for at in chance.sample(places, 5):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        path.write_bytes(damaged)

        async def main() -> None:
            async with SQLiteCheckpointer(path) as store:
                with pytest.raises(
                    CheckpointCorrupt, match=rf"record \d+ of run '{run_id}'"
                ) as found:
                    await store.load(run_id)
                assert found.value.run_id == run_id
                for other in RUNS.keys() - {run_id}:
                    assert len(await store.load(other)) == RUNS[other]

        asyncio.run(main())


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "value"),
        ("path", "plan/2"),
        ("data", '{"n":99}'),
        ("data", None),
        ("data", b"\xff\xfe"),
        ("data", 7),
        ("stored", 0.5),
        ("stored", "now"),
        ("checksum", 1),
        ("checksum", None),
        ("id", 2**40),
    ],
)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_record_that_was_changed_is_corrupt(
    path: Path, number: int, column: str, value: object
) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            await recorded(store, "r1", 3)
            _change(
                path, f"UPDATE teff_records SET {column} = ? WHERE id % 10 = ?", value, number, 6
            )
            with pytest.raises(CheckpointCorrupt, match=f"record {number} of run 'r1'") as found:
                await store.load("r1")
            whole_before = (
                "delete the run" if number == 1 else rf"fork\('r1', {number - 1}, new_id\)"
            )
            found.match(whole_before)
            if number > 1:  # the way out works
                await store.fork("r1", number - 1, "r2")
                assert numbers(await store.load("r2")) == list(range(number - 1))
            with pytest.raises(CheckpointCorrupt):
                await store.copy("r1", "r3")
            await store.delete("r1")
            assert await store.load("r1") == ()

    asyncio.run(main())


def _change(path: Path, statement: str, value: object, number: int, tail: int) -> None:
    """Change a row as nobody should: ids of records of the first run end with ``tail`` + number."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        try:
            changed = connection.execute(statement, (value, (tail + number) % 10)).rowcount
        except sqlite3.IntegrityError:
            pytest.skip("SQLite does not let this value in")
        assert changed == 1


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_record_that_is_missing_is_corrupt(path: Path, gone: int) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            await recorded(store, "r1", 3)
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("DELETE FROM teff_records WHERE id = ?", (2**32 + gone,))
            with pytest.raises(CheckpointCorrupt, match=f"record {gone} of run 'r1'"):
                await store.load("r1")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("owner", "somebody"),
        ("run_id", "r2"),
        ("state", "paused"),
        ("epoch", 0),
        ("epoch", "x"),
        ("holder", "me"),
        ("held_until", 1e300),
        ("lease_ttl", 1e300),
        ("records", 2),
        ("records", "2 and more"),
        ("created", 0.0),
        ("updated", 9e9),
        ("checksum", 0),
    ],
)
def test_an_entry_of_a_run_that_was_changed_is_corrupt(
    path: Path, column: str, value: object
) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            await recorded(store, "r1", 3)
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(f"UPDATE teff_runs SET {column} = ?", (value,))
            run_id = value if column == "run_id" else "r1"
            owner = value if column == "owner" else "default"
            assert isinstance(run_id, str)
            assert isinstance(owner, str)
            for call in (store.claim, store.load, store.get, store.history):
                with pytest.raises(CheckpointCorrupt, match="damaged.*delete the run"):
                    await call(run_id, owner=owner)
            with pytest.raises(CheckpointCorrupt, match="damaged"):
                await store.list(owner=owner)
            assert await store.delete(run_id, owner=owner)
            assert await store.list(owner=owner) == ()

    asyncio.run(main())


@pytest.mark.parametrize("index", ["teff_runs_by_owner", "teff_runs_by_id"])
def test_a_run_that_an_index_has_lost_is_not_begun_anew(path: Path, index: str) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            await recorded(store, "r1", 3)
        _rename_in_index(path, index)
        async with SQLiteCheckpointer(path) as store:
            with pytest.raises(CheckpointCorrupt, match="'r1'"):
                await store.claim("r1")

    asyncio.run(main())


def _rename_in_index(path: Path, index: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (index,)
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    at = content.index(b"r1", (root - 1) * size, root * size)
    content[at : at + 2] = b"q1"
    path.write_bytes(content)


def test_a_log_that_is_cut_or_garbled_leaves_a_clean_beginning(path: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / f"copy.db{name}" for name in ("", "-wal")}

    async def write() -> None:
        async with SQLiteCheckpointer(path) as store:
            lease = await store.claim("r1")
            for n in range(40):
                await store.append(lease, [step(n), step(n)])
            for name, copy in files.items():
                shutil.copy(path.with_name(f"runs.db{name}"), copy)

    asyncio.run(write())
    main_file, log = files[""].read_bytes(), files["-wal"].read_bytes()
    chance = random.Random(3)
    lengths = set()
    for number in range(60):
        damaged = bytearray(log)
        place = chance.randrange(len(log))
        if number % 2:
            del damaged[place:]
        else:
            damaged[place] ^= 1 << chance.randrange(8)
        folder = tmp_path / f"trial-{number}"
        folder.mkdir()
        (folder / "runs.db").write_bytes(main_file)
        (folder / "runs.db-wal").write_bytes(damaged)

        async def check(trial: Path) -> None:
            async with SQLiteCheckpointer(trial) as store:
                found = numbers(await store.load("r1"))
                assert found == [n for n in range(len(found) // 2) for _ in range(2)]
                lengths.add(len(found))

        asyncio.run(check(folder / "runs.db"))
    assert len(lengths) > 10


@pytest.mark.parametrize("content", [b"hello, I am a text\n" * 100, b"SQLite format 4\0" * 100])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"runs\.db' is no SQLite database") as refused:
        asyncio.run(use(path))
    assert refused.value.run_id == "r1"
    assert path.read_bytes() == content


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    asyncio.run(use(path))


def test_a_database_of_another_program_keeps_its_tables(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE runs (name TEXT)")
        connection.execute("INSERT INTO runs VALUES ('theirs')")
    asyncio.run(use(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM runs").fetchall() == [("theirs",)]


@pytest.mark.parametrize("table", ["teff_runs", "teff_records", "teff_meta"])
def test_a_table_that_was_changed_is_told(path: Path, table: str) -> None:
    asyncio.run(use(path))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"DROP TABLE {table}")
    with pytest.raises(CheckpointCorrupt, match=r"runs\.db' is damaged"):
        asyncio.run(use(path))


# --- Formats -------------------------------------------------------------------------------------


def test_a_newer_format_is_refused_by_name_and_left_as_it_is(path: Path) -> None:
    asyncio.run(use(path))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE teff_meta SET value = 99 WHERE name = 'format'")
        connection.execute("ALTER TABLE teff_runs ADD COLUMN colour TEXT")
    with pytest.raises(CheckpointError, match="newer Teff: its format is 99.*Update teff-core"):
        asyncio.run(use(path))
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT value FROM teff_meta WHERE name = 'format'").fetchone()
        assert found == (99,)


@contextmanager
def next_release(monkeypatch: pytest.MonkeyPatch, *, fails: bool = False) -> Iterator[None]:
    """Be a release whose format is one further."""
    table = "CREATE TABLE teff_colours (name TEXT)"

    def migrate(connection: sqlite3.Connection) -> None:
        connection.execute(table)
        if fails:
            raise sqlite3.OperationalError("the machine broke down")

    with monkeypatch.context() as patched:
        patched.setattr(sqlite_schema, "STEPS", (*sqlite_schema.STEPS, migrate))
        patched.setattr(sqlite_schema, "_DEFINITIONS", sqlite_schema._DEFINITIONS | {table})
        yield


def _format_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        found: int = connection.execute(
            "SELECT value FROM teff_meta WHERE name = 'format'"
        ).fetchone()[0]
    return found


def test_an_older_format_is_brought_up_to_date(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def write() -> None:
        async with SQLiteCheckpointer(path) as store:
            await recorded(store, "r1", 3)

    async def read() -> None:
        async with SQLiteCheckpointer(path) as store:
            assert numbers(await store.load("r1")) == [0, 1, 2]

    asyncio.run(write())
    before = _format_of(path)
    with next_release(monkeypatch):
        asyncio.run(read())
        assert _format_of(path) == before + 1
        asyncio.run(read())
        assert _format_of(path) == before + 1
    with pytest.raises(CheckpointError, match="newer Teff"):
        asyncio.run(read())


def test_a_step_to_the_next_format_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(use(path))
    before = _format_of(path)
    with next_release(monkeypatch, fails=True), pytest.raises(CheckpointError):
        asyncio.run(use(path))
    assert _format_of(path) == before
    asyncio.run(use(path))


# --- The file system -----------------------------------------------------------------------------


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"there is no folder '.*nowhere'. Make it"):
        asyncio.run(use(tmp_path / "nowhere" / "runs.db"))
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs.db").mkdir()
    with pytest.raises(CheckpointError, match=r"runs\.db' cannot be opened"):
        asyncio.run(use(tmp_path / "runs.db"))


def test_a_store_that_could_not_be_opened_works_once_it_can(tmp_path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(tmp_path / "later" / "runs.db") as store:
            with pytest.raises(CheckpointError):
                await store.claim("r1")
            (tmp_path / "later").mkdir()
            await store.append(await store.claim("r1"), [step(1)])

    asyncio.run(main())


def test_a_file_that_is_removed_while_it_is_used_is_noticed(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            lease = await store.claim("r1")
            await store.append(lease, [step(1)])
            for file in path.parent.iterdir():
                file.unlink()
            with pytest.raises(LeaseLost):
                await store.append(lease, [step(2)])
            await store.append(await store.claim("r1"), [step(3)])
            assert numbers(await store.load("r1")) == [3]
            assert path.exists()

    asyncio.run(main())


def test_a_file_that_another_program_locks_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_schema, "BUSY_TIMEOUT", 0.05)

    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            lease = await store.claim("r1")
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                with pytest.raises(CheckpointError, match="locked by another process") as locked:
                    await store.append(lease, [step(1)])
                assert locked.value.run_id == "r1"
                assert await store.load("r1") == ()
                connection.execute("ROLLBACK")
            await store.append(lease, [step(2)])
            assert numbers(await store.load("r1")) == [2]

    asyncio.run(main())


async def _full(path: Path, durability: Durability, connection_limit: Any) -> None:
    async with SQLiteCheckpointer(path, durability=durability) as store:
        lease = await store.claim("r1")
        await store.append(lease, [step(0)])
        connection_limit(True)
        recorded = 1
        with pytest.raises(
            CheckpointError, match=r"runs\.db' cannot be written.*Make room"
        ) as full:
            for n in range(1, 3000):
                await store.append(lease, [step(n, text="x" * 2000)])
                recorded = n + 1
        assert full.value.run_id == "r1"
        found = numbers(await store.load("r1"))
        assert found == list(range(len(found)))
        if durability != "exit":
            assert len(found) == recorded
        connection_limit(False)
        await store.append(lease, [step(recorded)])
        assert numbers(await store.load("r1")) == list(range(recorded + 1))
        await store.release(lease, "finished")


@pytest.mark.parametrize("durability", ["power", "process", "exit"])
def test_a_full_disk_loses_nothing_and_is_over_when_there_is_room(
    path: Path, durability: Durability, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    open_database = sqlite_schema.open_database

    def opening(*arguments: Any) -> sqlite3.Connection:
        opened.append(open_database(*arguments))
        return opened[-1]

    monkeypatch.setattr("teff.checkpoint.sqlite_runs.open_database", opening)
    limits: list[bool] = []
    monkeypatch.setattr("teff.checkpoint.sqlite_runs.transaction", _limited(limits))
    monkeypatch.setattr("teff.checkpoint.sqlite_writer.transaction", _limited(limits))
    asyncio.run(_full(path, durability, limits.append))


def _limited(limits: list[bool]) -> Any:
    """A transaction of a file that may not grow while the last of ``limits`` says so."""

    @contextmanager
    def transaction(connection: sqlite3.Connection) -> Iterator[None]:
        if limits:
            connection.execute(f"PRAGMA max_page_count = {60 if limits[-1] else 2**30}")
        with sqlite_schema.transaction(connection):
            yield

    return transaction


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", PRELUDE + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


PRELUDE = """
import asyncio, json, os, signal, sys
from teff.checkpoint import Record, SQLiteCheckpointer
from teff.errors import CheckpointError, LeaseLost, RunLocked
def step(n, **more):
    return Record(kind="step", data={"n": n, **more})
"""


@POSIX
def test_a_limit_of_the_system_is_told_as_a_full_disk(path: Path) -> None:
    code = """
import resource
async def main():
    store = SQLiteCheckpointer(sys.argv[1])
    lease = await store.claim("r1")
    await store.append(lease, [step(0)])
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        for n in range(1, 1000):
            await store.append(lease, [step(n, text="x" * 2000)])
    except CheckpointError as error:
        failed = n
        print(error, flush=True)
    assert len(await store.load("r1")) == failed
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.append(lease, [step(failed)])
    await store.release(lease, "finished")
    assert [record.data["n"] for record in await store.load("r1")] == list(range(failed + 1))
    await store.aclose()
asyncio.run(main())
"""
    done = run_python(code, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the disk is full, or fails" in done.stdout
    assert "runs.db" in done.stdout


@POSIX
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_that_may_not_be_written_is_named(what: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "runs.db"
        asyncio.run(use(path))
        path.chmod(0o444 if what == "file" else 0o666)
        folder.chmod(0o777 if what == "file" else 0o555)
        code = """
import tempfile
if os.getuid() == 0:  # whom no permission holds up
    os.setuid(65534)
async def main():
    store = SQLiteCheckpointer(sys.argv[1])
    try:
        await store.claim("r1")
    except CheckpointError as error:
        print(type(error).__name__, error)
    await store.aclose()
asyncio.run(main())
"""
        done = run_python(code, path)
        folder.chmod(0o777)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CheckpointError" in done.stdout
    assert "Allow this user to write the file and its folder" in done.stdout


# --- Processes -----------------------------------------------------------------------------------


@contextmanager
def running(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run code in a process that is told by lines what to do, and is killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", PRELUDE + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{text}\n")
    process.stdin.flush()


@POSIX
@pytest.mark.parametrize("durability", ["power", "process"])
def test_a_killed_process_has_lost_nothing_that_it_was_told_is_recorded(
    path: Path, durability: Durability
) -> None:
    code = """
async def run(store, name):
    lease = await store.claim(name)
    for n in range(1_000_000):
        await store.append(lease, [step(n), step(n)])
        print(name, n)
async def main():
    store = SQLiteCheckpointer(sys.argv[1], durability=sys.argv[2], lease_ttl=0.2)
    await asyncio.gather(*(run(store, f"r{k}-{sys.argv[3]}") for k in range(3)))
asyncio.run(main())
"""
    chance = random.Random(durability)
    for attempt in range(4):
        told: dict[str, int] = {}
        with running(code, path, durability, attempt) as process:
            for _ in range(chance.randrange(20, 150)):
                name, number = line(process).split()
                told[name] = int(number)
            process.send_signal(signal.SIGKILL)
            rest = process.communicate()[0].split("\n")
        for last in rest[:-1]:
            name, number = last.split()
            told[name] = int(number)

        async def check(acknowledged: dict[str, int]) -> None:
            async with SQLiteCheckpointer(path) as store:
                for name, number in acknowledged.items():
                    found = numbers(await store.load(name))
                    assert found == [n for n in range(len(found) // 2) for _ in range(2)]
                    assert len(found) // 2 > number
                    summary = await store.get(name)
                    assert summary is not None
                    assert summary.state == "running"

        asyncio.run(check(told))


@POSIX
def test_a_run_of_a_killed_process_is_free_after_its_lease(path: Path) -> None:
    code = """
async def main():
    store = SQLiteCheckpointer(sys.argv[1], lease_ttl=0.3)
    lease = await store.claim("r1")
    await store.append(lease, [step(0)])
    print("held")
    await asyncio.sleep(3600)
asyncio.run(main())
"""

    async def claimed() -> list[int]:
        async with SQLiteCheckpointer(path) as store:
            for _ in range(1000):
                try:
                    lease = await store.claim("r1")
                except RunLocked:
                    await asyncio.sleep(0.01)
                    continue
                await store.append(lease, [step(1)])
                return numbers(await store.load("r1"))
        raise AssertionError("the run stayed locked")

    with running(code, path) as process:
        assert line(process) == "held"
        process.send_signal(signal.SIGKILL)
    assert asyncio.run(claimed()) == [0, 1]


@POSIX
def test_a_process_that_was_stopped_beyond_its_lease_cannot_write(path: Path) -> None:
    code = """
async def main():
    store = SQLiteCheckpointer(sys.argv[1], lease_ttl=0.3)
    lease = await store.claim("r1")
    await store.append(lease, [step(0)])
    print("held")
    sys.stdin.readline()
    try:
        await store.append(lease, [step(1)])
    except LeaseLost as error:
        print("lost", error.run_id)
    await store.release(lease, "finished")
    await store.aclose()
    print("done")
asyncio.run(main())
"""

    async def take_over(process: subprocess.Popen[str]) -> None:
        async with SQLiteCheckpointer(path) as store:
            for _ in range(1000):
                try:
                    lease = await store.claim("r1")
                    break
                except RunLocked:
                    await asyncio.sleep(0.01)
            await store.append(lease, [step(2)])
            process.send_signal(signal.SIGCONT)
            tell(process, "go on")
            assert line(process) == "lost r1"
            assert line(process) == "done"
            await store.append(lease, [step(3)])
            summary = await store.get("r1")
            assert summary is not None
            assert (summary.state, summary.held) == ("running", True)
            assert numbers(await store.load("r1")) == [0, 2, 3]

    with running(code, path) as process:
        assert line(process) == "held"
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        asyncio.run(take_over(process))


@POSIX
def test_of_eight_processes_that_claim_a_run_at_once_one_wins(path: Path) -> None:
    code = """
async def main():
    store = SQLiteCheckpointer(sys.argv[1], durability="process")
    print("ready")
    sys.stdin.readline()
    won = []
    for race in range(int(sys.argv[2])):
        try:
            await store.claim(f"r{race}")
            won.append(race)
        except RunLocked:
            pass
    print(json.dumps(won))
    sys.stdin.readline()
asyncio.run(main())
"""
    races = 100
    with _together(code, 8, path, races) as processes:
        won = [json.loads(line(process)) for process in processes]
    assert sorted(race for races_won in won for race in races_won) == list(range(races))


@POSIX
def test_processes_that_record_in_one_file_wait_for_each_other(path: Path) -> None:
    code = """
async def run(store, name):
    lease = await store.claim(name)
    for n in range(30):
        await store.append(lease, [step(n)])
    await store.release(lease, "finished")
async def main():
    async with SQLiteCheckpointer(sys.argv[1], durability="process") as store:
        print("ready")
        sys.stdin.readline()
        await asyncio.gather(*(run(store, f"{os.getpid()}-{k}") for k in range(3)))
    print("done")
asyncio.run(main())
"""
    with _together(code, 4, path) as processes:
        assert [line(process) for process in processes] == ["done"] * 4

    async def check() -> None:
        async with SQLiteCheckpointer(path) as store:
            runs = await store.list()
            assert len(runs) == 12
            for run in runs:
                assert numbers(await store.load(run.run_id)) == list(range(30))

    asyncio.run(check())


@contextmanager
def _together(code: str, count: int, *arguments: object) -> Iterator[list[subprocess.Popen[str]]]:
    """Start processes on a file that none of them has made before, and let them go at once."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for _ in range(count):
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-u", "-c", PRELUDE + code, *map(str, arguments)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
        for process in processes:
            assert line(process) == "ready"
        for process in processes:
            tell(process, "go")
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


# --- Reported faults -----------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["half", "empty", "zeros"])
def test_ckp_06_a_file_that_lost_its_content_is_never_an_empty_run(
    path: Path, whole: bytes, damage: str
) -> None:
    content = {"half": whole[: len(whole) // 2], "empty": b"", "zeros": bytes(len(whole))}[damage]
    path.write_bytes(content)

    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            await store.load("second")

    if damage == "empty":  # as good as no file: nothing can tell that there was one
        asyncio.run(main())
        return
    with pytest.raises(CheckpointError, match="damaged|no SQLite database"):
        asyncio.run(main())


@POSIX
def test_ckp_11_tasks_and_processes_that_save_one_run_conflict_by_name(path: Path) -> None:
    code = """
async def save(store, n):
    try:
        lease = await store.claim("one")
    except RunLocked:
        return 0
    await store.append(lease, [step(n)])
    await store.release(lease, "finished")
    return 1
async def main():
    async with SQLiteCheckpointer(sys.argv[1]) as store:
        print("ready")
        sys.stdin.readline()
        print(sum(await asyncio.gather(*(save(store, n) for n in range(20)))))
        sys.stdin.readline()
asyncio.run(main())
"""
    with _together(code, 2, path) as processes:
        saved = sum(int(line(process)) for process in processes)
        for process in processes:
            tell(process, "end")
            assert process.wait(timeout=60) == 0

    async def check() -> None:
        async with SQLiteCheckpointer(path) as store:
            history = await store.history("one")
            assert [entry.number for entry in history] == list(range(1, saved + 1))

    asyncio.run(check())
    assert saved
    assert [file.name for file in path.parent.iterdir()] == ["runs.db"]
