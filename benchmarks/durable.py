"""What it costs to record a run in ``SQLiteCheckpointer``, beside the disk and SQLite alone.

Run it with ``python benchmarks/durable.py [FOLDER]``; the folder, by default that of temporary files,
says which disk is measured. In each round the rivals take turns; the median of the rounds counts. It
exits with 1 where a bound does not hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import teff.checkpoint.sqlite_writer
from teff.checkpoint import Durability, Record, SQLiteCheckpointer
from teff.graph import Edge, Graph
from teff.node import Node
from teff.runtime import ExecContext, Limits
from teff.state import Append

ROUNDS = 7
SECONDS = 0.4
RUNS = (1, 4, 16)
DURABILITIES: tuple[Durability, ...] = ("power", "process", "exit")

#: A step as the journal records it, of about 1 KB.
STEP = {
    "node": "writer",
    "effects": {"draft": "x" * 780, "round": 3},
    "next": "reviewer",
    "reason": None,
    "times": [1796100765.84, 1796100767.17],
    "totals": {"steps": 12, "model_calls": 7, "tokens": 1812, "cost": 0.0123, "by_model": {}},
}

MOST_TIMES_A_COMMIT = 2.0
LEAST_COMMITS_PER_SYNC = 4.0
LEAST_OF_A_LOOP = 0.33
MOST_MEGABYTES = 1.5

STEPS = 500
LIST_BYTES = 100_000


def rate(work: Callable[[], object]) -> float:
    """Return how often ``work`` can be done in a second."""
    count = 0
    started = time.perf_counter()
    while (elapsed := time.perf_counter() - started) < SECONDS:
        work()
        count += 1
    return count / elapsed


def bare_sync(folder: Path) -> float:
    """Measure a write of 4 KiB and ``fdatasync``: the floor of each lasting commit."""
    page = os.urandom(4096)
    file = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT)
    sync = getattr(os, "fdatasync", os.fsync)

    def write() -> None:
        os.write(file, page)
        sync(file)

    try:
        return rate(write)
    finally:
        os.close(file)


def by_hand(folder: Path, synchronous: str) -> float:
    """Measure one insert and commit after the other, as a loop that is written by hand does it."""
    connection = sqlite3.connect(folder / "by-hand.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, run TEXT, data TEXT)")

    def commit() -> None:
        connection.execute("BEGIN IMMEDIATE")
        text = json.dumps(STEP)
        connection.execute("INSERT INTO records (run, data) VALUES (?, ?)", ("run", text))
        connection.execute("COMMIT")

    try:
        return rate(commit)
    finally:
        connection.close()


class Counted:
    """Counts the transactions of a store while it is entered."""

    def __init__(self) -> None:
        self.transactions = 0

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count."""
        module: Any = teff.checkpoint.sqlite_writer
        transaction = module.transaction

        def counted(connection: sqlite3.Connection) -> Any:
            self.transactions += 1
            return transaction(connection)

        module.transaction = counted
        try:
            yield
        finally:
            module.transaction = transaction


async def appends(path: Path, durability: Durability, runs: int) -> tuple[float, float]:
    """Return the appends per second of ``runs`` at once, and how many share a commit."""
    async with SQLiteCheckpointer(path, durability=durability) as store:
        leases = [await store.claim(f"run-{number}") for number in range(runs)]
        record = Record(kind="step", path="", data=STEP)
        counted = Counted()
        started = time.perf_counter()

        async def go_on(lease: Any) -> int:
            count = 0
            while time.perf_counter() - started < SECONDS:
                await store.append(lease, [record])
                count += 1
            return count

        with counted.counting():
            count = sum(await asyncio.gather(*map(go_on, leases)))
        seconds = time.perf_counter() - started
        for lease in leases:  # at ``exit`` this writes what was put off, so it belongs to the time
            await store.release(lease, "finished")
        if durability == "exit":
            seconds = time.perf_counter() - started
    return count / seconds, count / max(1, counted.transactions)


def measure() -> tuple[dict[str, float], dict[str, float]]:
    """Return the median rates by name, and how many appends shared a commit."""
    rates: dict[str, list[float]] = {}
    shared: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as name:
            folder = Path(name)
            rates.setdefault("bare sync", []).append(bare_sync(folder))
            for synchronous in ("FULL", "NORMAL"):
                (folder / synchronous).mkdir()
                hand = by_hand(folder / synchronous, synchronous)
                rates.setdefault(f"by hand, {synchronous}", []).append(hand)
            for durability in DURABILITIES:
                for runs in RUNS:
                    path = folder / f"{durability}-{runs}.db"
                    title = f"{durability}, {runs} runs"
                    found, together = asyncio.run(appends(path, durability, runs))
                    rates.setdefault(title, []).append(found)
                    shared.setdefault(title, []).append(together)
    return (
        {name: statistics.median(values) for name, values in rates.items()},
        {name: statistics.median(values) for name, values in shared.items()},
    )


class Grow(Node):
    """Adds to a list."""

    type = "grow"

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        """Add an item."""
        return {"items": Append(["x" * (LIST_BYTES // STEPS - 4)])}


async def growing_list(folder: Path) -> tuple[float, float]:
    """Return the megabytes of a run that grows a list: when it has ended, and when it is closed."""
    graph = Graph({"grow": Grow()}, [Edge("grow", "grow")], "grow")
    async with SQLiteCheckpointer(folder / "runs.db", durability="process") as store:
        result = await graph.run(
            {"items": []},
            limits=Limits(max_steps=STEPS),
            checkpointer=store,
            checkpoint_id="growing",
        )
        assert len(result["items"]) == STEPS
        open_bytes = sum(file.stat().st_size for file in folder.glob("runs.db*"))
    return open_bytes / 1e6, sum(file.stat().st_size for file in folder.glob("runs.db*")) / 1e6


def main() -> int:
    """Measure, print a line for each rival and each bound, and return the exit code."""
    rates, shared = measure()
    print(f"python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}, median of {ROUNDS} rounds")
    print(f"{'a record of 1 KB':20}{'per second':>11}{'x FULL':>9}{'x NORMAL':>9}{'shared':>8}")
    for name, found in rates.items():
        full, normal = found / rates["by hand, FULL"], found / rates["by hand, NORMAL"]
        together = f"{shared[name]:8.1f}" if name in shared else ""
        print(f"{name:20}{found:11,.0f}{full:9.2f}{normal:9.2f}{together}")
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as folder:
        megabytes, closed = asyncio.run(growing_list(Path(folder)))
    bounds = (
        (
            f"a commit at power takes at most {MOST_TIMES_A_COMMIT:g} times one by hand",
            rates["by hand, FULL"] / rates["power, 1 runs"],
            lambda value: value <= MOST_TIMES_A_COMMIT,
        ),
        (
            f"at power, 16 runs share a sync by {LEAST_COMMITS_PER_SYNC:g} or more",
            shared["power, 16 runs"],
            lambda value: value >= LEAST_COMMITS_PER_SYNC,
        ),
        (
            f"at process, one run is at least {LEAST_OF_A_LOOP:g} of the loop by hand",
            rates["process, 1 runs"] / rates["by hand, NORMAL"],
            lambda value: value >= LEAST_OF_A_LOOP,
        ),
        (
            "at process, 4 runs are faster than the loop by hand",
            rates["process, 4 runs"] / rates["by hand, NORMAL"],
            lambda value: value >= 1,
        ),
        (
            f"{STEPS} steps that grow a list to {LIST_BYTES // 1000} kB leave less than "
            f"{MOST_MEGABYTES:g} MB ({closed:.2f} when closed)",
            megabytes,
            lambda value: value < MOST_MEGABYTES,
        ),
    )
    for words, value, holds in bounds:
        print(f"{'holds' if holds(value) else 'DOES NOT HOLD'}: {words}: {value:.2f}")
    return 0 if all(holds(value) for _, value, holds in bounds) else 1


if __name__ == "__main__":
    sys.exit(main())
