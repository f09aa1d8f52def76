"""A store in an SQLite file whose disk, folder or format is not as it should be."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from teff.checkpoint import Durability, Record, RunStore, SQLiteCheckpointer, sqlite_schema
from teff.errors import CheckpointError, LeaseLost

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


def test_what_could_not_be_written_later_is_said_when_the_run_is_given_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [False]
    monkeypatch.setattr("teff.checkpoint.sqlite_runs.transaction", _limited(limits))

    async def main() -> None:
        store = SQLiteCheckpointer(path, durability="exit")
        released, closed = await store.claim("released"), await store.claim("closed")
        limits.append(True)
        for lease in (released, closed):
            for n in range(50):
                await store.append(lease, [step(n, text="x" * 10_000)])
        with pytest.raises(CheckpointError, match="Make room") as refused:
            await store.release(released, "finished")
        assert refused.value.run_id == "released"
        summary = await store.get("released")
        assert summary is not None
        # It can go on from what there is.
        assert (summary.state, summary.held) == ("running", False)
        with pytest.raises(CheckpointError, match="Make room"):
            await store.aclose()
        store.close()

    asyncio.run(main())


def test_ckp_05_a_file_grows_with_what_is_added_and_not_with_what_there_is(path: Path) -> None:
    sizes = []

    async def main() -> None:
        async with SQLiteCheckpointer(path, durability="process") as store:
            lease = await store.claim("r1")
            await store.append(lease, [step(0, static="x" * 200_000)])
            await store.release(lease, "running")
            for _ in range(3):
                lease = await store.claim("r1")
                for n in range(100):
                    await store.append(lease, [step(n, message="x" * 1000)])
                await store.release(lease, "running")
                await store.get("r1")  # by now the log was brought into the file
                sizes.append(sum(file.stat().st_size for file in path.parent.glob("runs.db*")))

    asyncio.run(main())
    assert sizes[0] < 500_000
    assert sizes[2] - sizes[1] < 1.5 * (sizes[1] - sizes[0])
    assert sizes[2] < 1_000_000


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
