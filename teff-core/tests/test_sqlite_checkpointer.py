from __future__ import annotations

import asyncio
import gc
import os
import random
import sqlite3
import subprocess
import sys
import threading
import weakref
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
from teff.checkpoint import sqlite_schema
from teff.errors import CheckpointError, ConfigError, LeaseLost, RunLocked
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
    store = catalogue().load("teff.checkpointers", "sqlite")(path)
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


# --- Leases --------------------------------------------------------------------------------------


def test_an_expired_lease_is_taken_over_and_its_writer_is_fenced(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as first, SQLiteCheckpointer(path) as second:
            clock, other = Clock(first), Clock(second)
            lease = await first.claim("r1")
            await first.append(lease, [step(1)])
            other.now = clock.now + 29
            with pytest.raises(RunLocked, match="in 1.0 seconds"):
                await second.claim("r1")
            other.now = clock.now + 31
            taken = await second.claim("r1")
            assert taken.epoch == lease.epoch + 1
            for write in (first.append(lease, [step(2)]), first.renew(lease)):
                with pytest.raises(LeaseLost, match="'r1'.*Nothing was recorded"):
                    await write
            await first.release(lease, "finished")
            await second.append(taken, [step(3)])
            assert numbers(await second.load("r1")) == [1, 3]
            summary = await second.get("r1")
            assert summary is not None
            assert (summary.state, summary.held) == ("running", True)

    asyncio.run(main())


def test_a_lease_that_ran_out_and_was_not_taken_is_still_good(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            clock = Clock(store)
            lease = await store.claim("r1")
            clock.now += 3600
            await store.append(lease, [step(1)])
            with pytest.raises(RunLocked):
                await store.claim("r1")

    asyncio.run(main())


def test_each_append_renews_the_lease(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as first, SQLiteCheckpointer(path) as second:
            clock, other = Clock(first), Clock(second)
            lease = await first.claim("r1")
            clock.now += 20
            await first.append(lease, [step(1)])
            other.now = clock.now + 20
            with pytest.raises(RunLocked):
                await second.claim("r1")

    asyncio.run(main())


def test_a_lease_is_renewed_by_itself_while_it_is_held(path: Path) -> None:
    async def main() -> None:
        async with (
            SQLiteCheckpointer(path, lease_ttl=0.3) as first,
            SQLiteCheckpointer(path, lease_ttl=0.3) as second,
        ):
            lease = await first.claim("r1")
            renewed = 0
            until = await _held_until(path)
            while renewed < 3:
                with pytest.raises(RunLocked):
                    await second.claim("r1")
                await asyncio.sleep(0.01)
                now = await _held_until(path)
                renewed, until = renewed + (now > until), now
            await first.append(lease, [step(1)])

    asyncio.run(main())


async def _held_until(path: Path) -> float:
    with closing(sqlite3.connect(path)) as connection:
        found: float = connection.execute("SELECT held_until FROM teff_runs").fetchone()[0]
    return found


def test_a_clock_that_was_set_back_locks_no_run(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as first, SQLiteCheckpointer(path) as second:
            clock, other = Clock(first), Clock(second)
            await first.claim("r1")
            other.now = clock.now - 3600
            await second.claim("r1")

    asyncio.run(main())


def test_a_lease_that_was_given_back_cannot_be_used(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        await store.release(lease, "paused")
        with pytest.raises(LeaseLost):
            await store.append(lease, [step(1)])
        with pytest.raises(LeaseLost):
            await store.renew(lease)
        await store.release(lease, "failed")
        summary = await store.get("r1")
        assert summary is not None
        assert (summary.state, summary.records) == ("paused", 0)

    asyncio.run(main())


def test_a_lease_that_nobody_gave_out_is_refused(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        for wrong in (
            Lease(run_id="r1", owner="default", epoch=lease.epoch + 1),
            Lease(run_id="r1", owner="other", epoch=lease.epoch),
            Lease(run_id="r2", owner="default", epoch=lease.epoch),
        ):
            with pytest.raises(LeaseLost):
                await store.append(wrong, [step(1)])

    asyncio.run(main())


def test_a_new_run_of_a_deleted_id_does_not_honour_an_old_lease(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as first, SQLiteCheckpointer(path) as second:
            clock, other = Clock(first), Clock(second)
            lease = await first.claim("r1")
            other.now = clock.now + 60
            assert await second.delete("r1")
            begun = await second.claim("r1")
            assert begun.epoch > lease.epoch
            with pytest.raises(LeaseLost):
                await first.append(lease, [step(1)])

    asyncio.run(main())


def test_closing_gives_back_every_run(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as first, SQLiteCheckpointer(path) as second:
            lease = await first.claim("r1")
            await first.append(lease, [step(1)])
            await first.aclose()
            summary = await second.get("r1")
            assert summary is not None
            assert (summary.state, summary.held) == ("running", False)
            await second.claim("r1")

    asyncio.run(main())


# --- Many at once --------------------------------------------------------------------------------


def test_appends_that_wait_are_committed_together(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    opened = sqlite_schema.open_database

    def traced(*arguments: Any) -> sqlite3.Connection:
        connection = opened(*arguments)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr("teff.checkpoint.sqlite_runs.open_database", traced)

    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            leases = [await store.claim(f"r{n}") for n in range(50)]
            statements.clear()
            await asyncio.gather(*(store.append(lease, [step(1)]) for lease in leases))
            assert statements.count("COMMIT") < 25
            assert statements.count("BEGIN IMMEDIATE") == statements.count("COMMIT")

    asyncio.run(main())


def test_one_that_is_refused_does_not_hurt_the_others_of_its_commit(
    store: SQLiteCheckpointer,
) -> None:
    async def main() -> None:
        good = [await store.claim(f"good-{n}") for n in range(5)]
        bad = await store.claim("bad")
        await store.release(bad, "stopped")
        outcomes = await asyncio.gather(
            *(store.append(lease, [step(1)]) for lease in (*good[:3], bad, *good[3:])),
            store.claim("good-0"),
            return_exceptions=True,
        )
        assert [type(outcome) for outcome in outcomes] == [
            *[type(None)] * 3, LeaseLost, *[type(None)] * 2, RunLocked,
        ]  # fmt: skip
        for n in range(5):
            assert numbers(await store.load(f"good-{n}")) == [1]

    asyncio.run(main())


def test_a_commit_that_fails_is_tried_again_without_what_spoiled_it(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as store:
            good, bad = await store.claim("good"), await store.claim("bad")
            with closing(sqlite3.connect(path)) as connection, connection:
                # Another program has written where the next record of one run belongs.
                (id,) = connection.execute(
                    "SELECT id FROM teff_runs WHERE run_id = 'bad'"
                ).fetchone()
                connection.execute(
                    "INSERT INTO teff_records VALUES (?, '', '', '', 0, 0)", (id * 2**32 + 1,)
                )
            outcomes = await asyncio.gather(
                store.append(good, [step(1)]),
                store.append(bad, [step(1)]),
                store.append(good, [step(2)]),
                return_exceptions=True,
            )
            assert [type(outcome).__name__ for outcome in outcomes] == [
                "NoneType", "CheckpointCorrupt", "NoneType",
            ]  # fmt: skip
            assert numbers(await store.load("good")) == [1, 2]
            await store.append(good, [step(3)])
            assert numbers(await store.load("good")) == [1, 2, 3]

    asyncio.run(main())


def test_many_runs_at_once_keep_their_records_in_order(store: SQLiteCheckpointer) -> None:
    async def run(name: str) -> None:
        lease = await store.claim(name)
        for n in range(20):
            await store.append(lease, [step(n)])
        await store.release(lease, "finished")

    async def main() -> None:
        names = [f"r{n}" for n in range(20)]
        await asyncio.gather(*map(run, names))
        for name in names:
            assert numbers(await store.load(name)) == list(range(20))

    asyncio.run(main())


def test_appends_of_one_run_at_once_are_kept_in_the_order_of_their_calls(
    store: SQLiteCheckpointer,
) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        await asyncio.gather(*(store.append(lease, [step(n)]) for n in range(600)))
        assert numbers(await store.load("r1")) == list(range(600))

    asyncio.run(main())


def test_event_loops_one_after_the_other_can_share_a_store(store: SQLiteCheckpointer) -> None:
    lease = asyncio.run(store.claim("r1"))
    for n in range(3):
        asyncio.run(store.append(lease, [step(n)]))
    asyncio.run(store.release(lease, "finished"))
    assert numbers(asyncio.run(store.load("r1"))) == [0, 1, 2]


def test_threads_with_loops_of_their_own_can_share_a_store(store: SQLiteCheckpointer) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        async def main() -> None:
            lease = await store.claim(name)
            for n in range(20):
                await store.append(lease, [step(n)])
            await store.release(lease, "finished")

        try:
            asyncio.run(main())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"r{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for n in range(6):
        assert numbers(asyncio.run(store.load(f"r{n}"))) == list(range(20))


def test_one_of_many_claims_of_a_run_wins(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        for race in range(10):
            claims = [store.claim(f"r{race}") for _ in range(10)]
            outcomes = await asyncio.gather(*claims, return_exceptions=True)
            assert sum(isinstance(outcome, Lease) for outcome in outcomes) == 1
            assert sum(isinstance(outcome, RunLocked) for outcome in outcomes) == 9

    asyncio.run(main())


# --- Cancellation and the end --------------------------------------------------------------------


@pytest.mark.parametrize("yields", range(6))
def test_a_cancelled_append_is_recorded_or_not(store: SQLiteCheckpointer, yields: int) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        task = asyncio.create_task(store.append(lease, [step(1), step(2)]))
        for _ in range(yields):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await store.append(lease, [step(3)])
        assert numbers(await store.load("r1")) in ([1, 2, 3], [3])

    asyncio.run(main())


@pytest.mark.parametrize("yields", range(6))
def test_a_cancelled_claim_leaves_the_run_free(store: SQLiteCheckpointer, yields: int) -> None:
    async def main() -> None:
        await recorded(store, "r1", 1)
        task = asyncio.create_task(store.claim("r1"))
        for _ in range(yields):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if task.cancelled():
            summary = await store.get("r1")
            assert summary is not None
            assert (summary.state, summary.held) == ("finished", False)
            await store.claim("r1")

    asyncio.run(main())


def test_a_loop_that_is_closed_while_it_waits_does_not_hold_up_the_store(
    store: SQLiteCheckpointer,
) -> None:
    lease = asyncio.run(store.claim("r1"))
    for n in range(20):
        loop = asyncio.new_event_loop()
        task: Any = loop.create_task(store.append(lease, [step(n)]))
        task._log_destroy_pending = False  # asyncio would complain that nobody waited for it
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    asyncio.run(store.append(lease, [step(99)]))
    assert numbers(asyncio.run(store.load("r1")))[-1] == 99


def test_a_closed_store_says_so(store: SQLiteCheckpointer) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        store.close()
        store.close()
        await store.aclose()
        for call in (store.append(lease, [step(1)]), store.claim("r2"), store.list()):
            with pytest.raises(CheckpointError, match="is closed: make a new"):
                await call

    asyncio.run(main())


def test_a_store_that_was_never_used_can_be_closed(path: Path) -> None:
    SQLiteCheckpointer(path).close()
    asyncio.run(SQLiteCheckpointer(path).aclose())
    assert not path.exists()


def test_what_was_asked_for_before_the_end_is_done(store: SQLiteCheckpointer, path: Path) -> None:
    async def main() -> None:
        lease = await store.claim("r1")
        appends = [asyncio.create_task(store.append(lease, [step(n)])) for n in range(50)]
        await asyncio.sleep(0)
        await asyncio.gather(store.aclose(), store.aclose())
        await asyncio.gather(*appends)

    asyncio.run(main())
    with SQLiteCheckpointer(path) as again:
        assert numbers(asyncio.run(again.load("r1"))) == list(range(50))


def _threads_of(path: Path) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"teff store {path.name}"]


def test_a_store_that_is_dropped_ends_its_thread_and_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "dropped.db"
    store = SQLiteCheckpointer(path, durability="exit")
    lease = asyncio.run(store.claim("r1"))
    asyncio.run(store.append(lease, [step(1)]))
    (thread,) = _threads_of(path)
    reference = weakref.ref(store)
    del store
    gc.collect()
    assert reference() is None
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert [file.name for file in tmp_path.iterdir()] == ["dropped.db"]
    with SQLiteCheckpointer(path) as again:
        assert numbers(asyncio.run(again.load("r1"))) == [1]
        asyncio.run(again.claim("r1"))


@pytest.mark.parametrize("durability", DURABILITIES)
def test_an_interpreter_that_ends_writes_what_is_left_and_complains_about_nothing(
    path: Path, durability: Durability
) -> None:
    code = f"""
import asyncio
from teff.checkpoint import Record, SQLiteCheckpointer
store = SQLiteCheckpointer({str(path)!r}, durability={durability!r})
async def main():
    lease = await store.claim("r1")
    for n in range(10):
        await store.append(lease, [Record(kind="step", data={{"n": n}})])
asyncio.run(main())
"""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with SQLiteCheckpointer(path) as store:
        assert numbers(asyncio.run(store.load("r1"))) == list(range(10))
        asyncio.run(store.claim("r1"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_forked_process_is_told_to_make_a_store_of_its_own(
    path: Path, durability: Durability
) -> None:
    code = f"""
import asyncio, os, sys, warnings
from teff.checkpoint import Record, SQLiteCheckpointer
from teff.errors import CheckpointError
store = SQLiteCheckpointer({str(path)!r}, durability={durability!r})
lease = asyncio.run(store.claim("r1"))
warnings.simplefilter("ignore", DeprecationWarning)  # of forking a process that has threads
child = os.fork()
if child == 0:
    try:
        asyncio.run(store.append(lease, [Record(kind="step", data={{"n": 0}})]))
    except CheckpointError as error:
        print(error, flush=True)
    store.close()
    asyncio.run(store.aclose())
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
asyncio.run(store.append(lease, [Record(kind="step", data={{"n": 1}})]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "forked" in done.stdout
    assert "make a new SQLiteCheckpointer in this one" in done.stdout
    with SQLiteCheckpointer(path) as store:
        assert numbers(asyncio.run(store.load("r1"))) == [1]


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
            for name, lease in leases.items():
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
                await store.release(lease, state)  # type: ignore[arg-type]  # each is a state
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
