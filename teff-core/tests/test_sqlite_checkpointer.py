"""Runs in an SQLite file: what a user notices, and what people ask for."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.checkpoint import (
    Checkpointer,
    Durability,
    Lease,
    Record,
    RunStore,
    SQLiteCheckpointer,
)
from teff.errors import CheckpointError, ConfigError, RunLocked
from teff.plugins import catalogue

DURABILITIES: tuple[Durability, ...] = ("power", "process", "exit")


def step(n: int, **more: Any) -> Record:
    return Record(kind="step", path="plan/1", data={"n": n, **more})


def numbers(records: Sequence[Record]) -> list[int]:
    return [record.data["n"] for record in records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture(params=DURABILITIES)
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[SQLiteCheckpointer]:
    with SQLiteCheckpointer(path, durability=request.param) as store:
        yield store


async def recorded(store: SQLiteCheckpointer, run_id: str, count: int, **more: Any) -> None:
    """Record a finished run of ``count`` steps."""
    lease = await store.claim(run_id)
    await store.append(lease, [step(n, **more) for n in range(count)])
    await store.release(lease, "finished")


class Clock:
    """A clock that is set by hand."""

    def __init__(self, store: SQLiteCheckpointer, now: float = 1000.0) -> None:
        self.now = now
        store._runs.clock = lambda: self.now


# --- What a user notices -------------------------------------------------------------------------


def test_records_come_back_in_their_order_after_the_store_was_closed(path: Path) -> None:
    async def write() -> None:
        async with SQLiteCheckpointer(path) as store:
            lease = await store.claim("r1")
            await store.append(lease, [Record(kind="start", data={"state": {"a": [1, None]}})])
            await store.append(lease, [step(1), step(2)])
            await store.release(lease, "paused")

    async def read() -> None:
        async with SQLiteCheckpointer(path) as store:
            records = await store.load("r1")
            assert [record.kind for record in records] == ["start", "step", "step"]
            assert records[0].data == {"state": {"a": [1, None]}}
            assert records[1] == step(1)
            summary = await store.get("r1")
            assert summary is not None
            assert (summary.state, summary.held, summary.records) == ("paused", False, 3)

    asyncio.run(write())
    asyncio.run(read())
    assert [file.name for file in path.parent.iterdir()] == ["runs.db"]


def test_it_fits_both_protocols_and_is_found_by_its_name(path: Path) -> None:
    factory: Any = catalogue().load("teff.checkpointers", "sqlite")
    store = factory(path)
    assert isinstance(store, SQLiteCheckpointer)
    assert isinstance(store, RunStore)
    assert isinstance(store, Checkpointer)
    assert store.durability == "power"
    assert repr(store) == f"SQLiteCheckpointer({str(path)!r}, durability='power')"


def test_nothing_is_opened_before_the_first_use(path: Path) -> None:
    threads = threading.active_count()
    with SQLiteCheckpointer(path):
        assert threading.active_count() == threads
    assert not path.exists()


def test_checkpoint_package_loads_sqlite_when_it_is_asked_for() -> None:
    code = (
        "import sys, teff.checkpoint; assert 'sqlite3' not in sys.modules;"
        "teff.checkpoint.SQLiteCheckpointer; assert 'sqlite3' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_is_held_by_one_and_free_when_it_is_released(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        with pytest.raises(RunLocked, match=f"'r1' .* process {os.getpid()} on .*another id"):
            await store.claim("r1")
        await store.claim("r2")
        await store.claim("r1", owner="somebody else")
        await store.release(lease, "finished")
        again = await store.claim("r1")
        assert again.epoch > lease.epoch

    asyncio.run(main())


def test_a_second_store_of_the_file_respects_the_leases_of_the_first(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as first, SQLiteCheckpointer(path) as second:
            lease = await first.claim("r1")
            await first.append(lease, [step(1)])
            with pytest.raises(RunLocked) as locked:
                await second.claim("r1")
            assert locked.value.run_id == "r1"
            assert numbers(await second.load("r1")) == [1]
            await first.release(lease, "stopped")
            await second.append(await second.claim("r1"), [step(2)])
            assert numbers(await first.load("r1")) == [1, 2]

    asyncio.run(main())


def test_an_unknown_run_has_no_records(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        assert await store.load("nobody") == ()
        assert await store.history("nobody") == ()
        assert await store.get("nobody") is None
        assert await store.list() == ()
        assert await store.delete("nobody") is False
        assert await store.prune(older_than=0) == 0

    asyncio.run(main())


def test_records_are_read_while_the_run_goes_on(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        for n in range(5):
            await store.append(lease, [step(n)])
            assert numbers(await store.load("r1")) == list(range(n + 1))

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"durability": "powerful"}, "durability='powerful' is unknown. Did you mean 'power'?"),
        ({"lease_ttl": 0}, "lease_ttl=0: give a number of seconds above 0"),
        ({"lease_ttl": float("nan")}, "lease_ttl=nan"),
        ({"lease_ttl": "30"}, "lease_ttl='30' is no number"),
        ({"path": ""}, "path='' is no path"),
        ({"path": "a\0b"}, "is no path"),
        ({"path": 3}, "path=3 is no path"),
        ({"path": ":memory:"}, "Use MemoryCheckpointer"),
    ],
)
def test_wrong_options_are_refused_by_name(path: Path, options: Any, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        SQLiteCheckpointer(**{"path": path, **options})
    assert words in str(refused.value)


def test_the_file_stays_the_same_when_the_process_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with SQLiteCheckpointer("runs.db") as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        asyncio.run(recorded(store, "r1", 1))
    assert (tmp_path / "runs.db").exists()


# --- Keys and values -----------------------------------------------------------------------------

NAMES = [
    "a",
    "A",
    "a/b",
    "../a",
    "..",
    " ",
    "a b",
    "ä",
    "a\u0308",
    "'; DROP TABLE teff_runs; --",
    "%",
]


def test_owners_and_ids_are_kept_apart(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        for index, owner in enumerate(NAMES):
            for other, run_id in enumerate(NAMES):
                lease = await store.claim(run_id, owner=owner)
                await store.append(lease, [step(index * 100 + other)])
        for index, owner in enumerate(NAMES):
            assert {run.run_id for run in await store.list(owner=owner)} == set(NAMES)
            for other, run_id in enumerate(NAMES):
                assert numbers(await store.load(run_id, owner=owner)) == [index * 100 + other]

    asyncio.run(main())


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", 3, None])
def test_ids_and_owners_that_are_no_text_are_refused(store: SQLiteCheckpointer, name: Any) -> None:
    async def main() -> None:
        for call in (
            store.claim(name),
            store.claim("r", owner=name),
            store.load(name),
            store.get("r", owner=name),
            store.list(owner=name),
            store.fork("r", 1, name),
            store.copy("r", name),
            store.delete(name),
            store.prune(older_than=1, owner=name),
        ):
            with pytest.raises(ConfigError):
                await call

    asyncio.run(main())


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=10,
)


@settings(max_examples=25, deadline=None)
@given(
    appends=st.lists(
        st.lists(
            st.tuples(
                st.text(st.characters(codec="utf-8")),
                st.dictionaries(st.text(st.characters(codec="utf-8")), json_values),
            ),
            max_size=3,
        ),
        max_size=4,
    ),
    durability=st.sampled_from(DURABILITIES),
)
def test_what_was_appended_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, appends: Any, durability: Durability
) -> None:
    written = [
        [Record(kind="value", path=path, data=data) for path, data in records]
        for records in appends
    ]
    file = tmp_path_factory.mktemp("values") / "runs.db"

    async def main() -> None:
        async with SQLiteCheckpointer(file, durability=durability) as store:
            lease = await store.claim("r")
            for records in written:
                await store.append(lease, records)
            await store.release(lease, "finished")
        async with SQLiteCheckpointer(file) as store:
            flat = [record for records in written for record in records]
            assert list(await store.load("r")) == flat
            history = await store.history("r")
            assert [stored.number for stored in history] == list(range(1, len(flat) + 1))

    asyncio.run(main())


@pytest.mark.parametrize("value", [float("nan"), object(), {1}, "\ud800", {("a",): 1}])
def test_what_json_cannot_hold_is_refused_before_anything_is_stored(
    store: SQLiteCheckpointer, value: Any
) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        with pytest.raises(CheckpointError, match=r"\(step\) of run 'r1' at 'plan/1'") as refused:
            await store.append(lease, [step(1), step(2, value=value)])
        assert refused.value.run_id == "r1"
        assert await store.load("r1") == ()
        await store.append(lease, [step(3)])
        assert numbers(await store.load("r1")) == [3]

    asyncio.run(main())


def test_a_record_of_megabytes_comes_back(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        await store.append(lease, [step(1, text="ä" * 2_000_000)])
        assert (await store.load("r1"))[0] == step(1, text="ä" * 2_000_000)

    asyncio.run(main())


# --- What people ask for -------------------------------------------------------------------------


def test_runs_are_listed_with_the_last_written_first(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            clock = Clock(store)
            for name in ("a", "b", "c"):
                clock.now += 10
                await recorded(store, name, 1)
            clock.now += 10
            lease = await store.claim("a")
            await store.append(lease, [step(1)])
            runs = await store.list()
            assert [run.run_id for run in runs] == ["a", "c", "b"]
            first = runs[0]
            assert (first.created, first.updated, first.records) == (1010.0, 1040.0, 2)
            assert (first.state, first.held, first.owner) == ("running", True, "default")
            assert await store.get("a") == first

    asyncio.run(main())


def test_the_history_has_numbers_and_times(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            clock = Clock(store)
            lease = await store.claim("r1")
            for n in range(3):
                clock.now += 1
                await store.append(lease, [step(n)])
            history = await store.history("r1")
            assert [(entry.number, entry.stored) for entry in history] == [
                (1, 1001.0), (2, 1002.0), (3, 1003.0),
            ]  # fmt: skip

    asyncio.run(main())


def test_a_fork_begins_with_the_first_records_and_goes_its_own_way(
    store: SQLiteCheckpointer,
) -> None:
    async def main() -> None:
        await recorded(store, "r1", 5)
        begun = await store.fork("r1", 3, "r2")
        assert (begun.run_id, begun.records, begun.state, begun.held) == ("r2", 3, "running", False)
        lease = await store.claim("r2")
        await store.append(lease, [step(99)])
        assert numbers(await store.load("r2")) == [0, 1, 2, 99]
        assert numbers(await store.load("r1")) == [0, 1, 2, 3, 4]

    asyncio.run(main())


def test_a_fork_that_ends_with_a_question_is_paused(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        await store.append(lease, [step(1), Record(kind="pause", data={"questions": []}), step(2)])
        assert (await store.fork("r1", 2, "r2")).state == "paused"

    asyncio.run(main())


def test_a_copy_has_all_records_and_the_state(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        await recorded(store, "r1", 3)
        await recorded(store, "empty", 0)
        copied = await store.copy("r1", "r2")
        assert (copied.records, copied.state) == (3, "finished")
        assert await store.load("r2") == await store.load("r1")
        assert (await store.copy("empty", "also empty")).records == 0
        await store.delete("r1")
        assert numbers(await store.load("r2")) == [0, 1, 2]

    asyncio.run(main())


def test_forks_and_copies_that_cannot_be_are_refused(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        await recorded(store, "r1", 2)
        await recorded(store, "r2", 1)
        for call, words in (
            (store.fork("r0", 1, "r3"), "there is no run 'r0'"),
            (store.copy("r0", "r3"), "there is no run 'r0'"),
            (store.fork("r1", 0, "r3"), "has no record 0: it has 2"),
            (store.fork("r1", 3, "r3"), "has no record 3: it has 2"),
            (store.fork("r1", 1, "r2"), "there is a run 'r2' already"),
            (store.copy("r1", "r1"), "there is a run 'r1' already"),
            (store.copy("r1", "r3", owner="other"), "there is no run 'r1' of 'other'"),
        ):
            with pytest.raises(CheckpointError, match=words) as refused:
                await call
            assert refused.value.run_id
        assert len(await store.list()) == 2

    asyncio.run(main())


def test_a_run_that_is_held_is_not_deleted(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        with pytest.raises(RunLocked):
            await store.delete("r1")
        await store.release(lease, "running")
        assert await store.delete("r1") is True
        assert await store.delete("r1") is False

    asyncio.run(main())


def test_deleting_leaves_the_runs_of_others(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        await recorded(store, "r1", 2)
        await recorded(store, "r2", 2)
        other = await store.claim("r1", owner="other")
        await store.append(other, [step(7)])
        assert await store.delete("r1")
        assert await store.load("r1") == ()
        assert numbers(await store.load("r2")) == [0, 1]
        assert numbers(await store.load("r1", owner="other")) == [7]
        await recorded(store, "r1", 1)
        assert numbers(await store.load("r1")) == [0]

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(4))
def test_deleting_leaves_no_trace_in_any_file(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = tmp_path / "runs.db"

    async def main() -> None:
        async with SQLiteCheckpointer(path, durability="process") as store:
            leases: dict[str, Lease] = {}
            for _ in range(150):
                name = f"secret-{chance.randrange(12):02d}-"
                if name not in leases:
                    leases[name] = await store.claim(name)
                text = name * chance.choice([1, 5, 60, 500])
                await store.append(leases[name], [step(1, text=text)])
            gone = chance.sample(sorted(leases), len(leases) // 2)
            for lease in leases.values():
                await store.release(lease, "finished")
            for name in gone:
                assert await store.delete(name)
                assert not _traces(tmp_path, name)
            for name in leases.keys() - set(gone):
                assert _traces(tmp_path, name)
        assert not any(_traces(tmp_path, name) for name in gone)

    asyncio.run(main())


def _traces(folder: Path, text: str) -> list[str]:
    # The index of the log holds numbers of pages alone.
    return [file.name for file in folder.iterdir() if text.encode() in file.read_bytes()]


def test_a_process_that_died_while_it_deleted_leaves_the_rest_to_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        store = SQLiteCheckpointer(path)
        await recorded(store, "secret-", 30, text="secret-" * 50)

        def full(connection: sqlite3.Connection) -> None:
            raise sqlite3.OperationalError("another process is reading the file")

        with monkeypatch.context() as patched, store:
            patched.setattr("teff.checkpoint.sqlite_runs.sweep", full)
            with pytest.raises(CheckpointError, match="is deleted, but traces may be left"):
                await store.delete("secret-")
            assert await store.get("secret-") is None
        async with SQLiteCheckpointer(path) as again:
            assert await again.list() == ()
            with closing(sqlite3.connect(path)) as connection:
                due = "SELECT value FROM teff_meta WHERE name = 'sweep'"
                assert connection.execute(due).fetchone() == (0,)

    asyncio.run(main())


def test_prune_deletes_what_ended_long_ago(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            clock = Clock(store)
            for state in ("finished", "stopped", "failed", "cancelled", "paused", "running"):
                lease = await store.claim(state)
                await store.append(lease, [step(1)])
                await store.release(lease, state)
            lease = await store.claim("held", owner="default")
            other = await store.claim("finished", owner="other")
            await store.release(other, "finished")
            clock.now += 100
            await recorded(store, "young", 1)
            assert await store.prune(older_than=100) == 0
            assert await store.prune(older_than=99) == 4
            left = {run.run_id for run in await store.list()}
            assert left == {"paused", "running", "held", "young"}
            assert await store.get("finished", owner="other") is not None
            with pytest.raises(ConfigError, match="older_than=-1"):
                await store.prune(older_than=-1)

    asyncio.run(main())


def test_a_run_that_is_pruned_frees_its_space(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            clock = Clock(store)
            await recorded(store, "r1", 50, text="x" * 10_000)
            await store.get("r1")  # by now the log was brought into the file
            size = path.stat().st_size
            clock.now += 1
            assert await store.prune(older_than=0) == 1
            assert path.stat().st_size < size / 5

    asyncio.run(main())


def test_a_long_log_is_brought_into_the_file_when_the_last_run_is_released(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            await recorded(store, "r1", 50, text="x" * 10_000)
            await store.get("r1")
            assert path.with_name("runs.db-wal").stat().st_size == 0

    asyncio.run(main())
