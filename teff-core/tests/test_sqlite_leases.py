"""Who may write to a run in an SQLite file, and many who write at once."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from teff.checkpoint import (
    Durability,
    Lease,
    Record,
    SQLiteCheckpointer,
    sqlite_schema,
)
from teff.errors import LeaseLost, RunLocked

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


def test_a_clock_that_is_put_right_a_little_gives_no_run_away(path: Path) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path) as first, SQLiteCheckpointer(path) as second:
            clock, other = Clock(first), Clock(second)
            await first.claim("r1")
            other.now = clock.now - 0.5
            with pytest.raises(RunLocked):
                await second.claim("r1")

    asyncio.run(main())


def test_what_was_put_off_and_came_too_late_is_dropped_and_said_by_the_next_append(
    path: Path,
) -> None:
    async def main() -> None:
        async with SQLiteCheckpointer(path, durability="exit") as first:
            clock = Clock(first)
            lease = await first.claim("r1")
            async with SQLiteCheckpointer(path) as second:
                Clock(second).now = clock.now + 60
                taken = await second.claim("r1")
                await first.append(lease, [step(1)])
                await first.list()  # what was put off is written before anything is read
                with pytest.raises(LeaseLost, match="Nothing was recorded"):
                    await first.append(lease, [step(1)])
                await first.release(lease, "finished")
                await second.append(taken, [step(2)])
                assert numbers(await second.load("r1")) == [2]

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
                (row_id,) = connection.execute(
                    "SELECT id FROM teff_runs WHERE run_id = 'bad'"
                ).fetchone()
                connection.execute(
                    "INSERT INTO teff_records VALUES (?, '', '', '', 0, 0)", (row_id * 2**32 + 1,)
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
        texts = dict.fromkeys(range(0, 600, 50), "x" * 100000)  # some are written at once
        records = (step(n, text=texts.get(n, "")) for n in range(600))
        await asyncio.gather(*(store.append(lease, [record]) for record in records))
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
