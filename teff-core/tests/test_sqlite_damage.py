"""What a store in an SQLite file says of damage to the file."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from teff.checkpoint import Record, RunStore, SQLiteCheckpointer
from teff.errors import CheckpointCorrupt, CheckpointError

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


HEAD = "no SQLite database|newer Teff"


async def read(path: Path) -> str:
    """Read all that there is; say whether it is whole or damaged, or what else went wrong."""
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
        except CheckpointError as error:
            # Damage to its head may make a file say that it is no database, or one of the future.
            named = isinstance(error, CheckpointCorrupt) and "Restore" in str(error)
            return "damaged" if named or re.search(HEAD, str(error)) else str(error)
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
    assert set(outcomes) == {"whole", "damaged"}


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
        ("data", b"\xff\xfe"),
        ("data", 7),
        ("stored", 0.5),
        ("stored", "now"),
        ("checksum", 1),
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
            with closing(sqlite3.connect(path)) as connection, connection:
                change = f"UPDATE teff_records SET {column} = ? WHERE id = ?"
                connection.execute(change, (value, 2**32 + number))
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


@pytest.mark.parametrize(
    "definition", [b"CREATE TABLE teff_runs", b"teff_runs_by_id ON", b"teff_meta"]
)
@pytest.mark.parametrize("bit", [1, 128])
def test_a_definition_that_was_damaged_is_told(
    path: Path, whole: bytes, definition: bytes, bit: int
) -> None:
    damaged = bytearray(whole)
    damaged[whole.index(definition) + 3] ^= bit
    path.write_bytes(damaged)
    with pytest.raises(CheckpointCorrupt, match=r"runs\.db' is damaged.*Restore"):
        asyncio.run(use(path))


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
