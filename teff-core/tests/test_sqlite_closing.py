"""Stores in SQLite files that are cancelled, closed, dropped or forked."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from teff.checkpoint import (
    Durability,
    Record,
    SQLiteCheckpointer,
)
from teff.errors import CheckpointError

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
