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
from typing import Any, NamedTuple

import teff.checkpoint.sqlite_writer
from teff.checkpoint import Durability, Record, SQLiteCheckpointer
from teff.graph import Edge, Graph
from teff.node import Node
from teff.runtime import ExecContext, Limits
from teff.state import Append

ROUNDS = 7
SECONDS = 0.25
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
LEAST_OF_A_LOOP_BY_FOUR = 1.0
MOST_MEGABYTES = 1.5

STEPS = 500
LIST_BYTES = 100_000


class Measured(NamedTuple):
    """A figure of one round: per second, as a ratio to SQLite by hand, and appends in a commit."""

    rate: float
    ratio: float
    shared: float


def repeat(work: Callable[[], object]) -> float:
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
        return repeat(write)
    finally:
        os.close(file)


def by_hand(folder: Path, synchronous: str) -> float:
    """Measure one insert and commit after the other, as a loop that is written by hand does it."""
    file = folder / "by-hand.db"
    for old in folder.glob(f"{file.name}*"):
        old.unlink()
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, run TEXT, data TEXT)")

    def commit() -> None:
        connection.execute("BEGIN IMMEDIATE")
        text = json.dumps(STEP)
        connection.execute("INSERT INTO records (run, data) VALUES (?, ?)", ("run", text))
        connection.execute("COMMIT")

    try:
        return repeat(commit)
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


def measure() -> dict[str, list[Measured]]:
    """Return what each scenario came to in each round."""
    found: dict[str, list[Measured]] = {}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as name:
            folder = Path(name)
            bare = bare_sync(folder)
            hand = by_hand(folder, "FULL")
            found.setdefault("bare sync", []).append(Measured(bare, bare / hand, 0))
            for durability in DURABILITIES:
                for runs in RUNS:
                    # The disk and the machine change from second to second: the rival is measured
                    # again each time.
                    hand = by_hand(folder, "FULL" if durability == "power" else "NORMAL")
                    path = folder / f"{durability}-{runs}.db"
                    rate, shared = asyncio.run(appends(path, durability, runs))
                    measured = Measured(rate, rate / hand, shared)
                    found.setdefault(f"{durability}, {runs} at once", []).append(measured)
                    found.setdefault(f"by hand for {durability}", []).append(Measured(hand, 1, 1))
    return found


class Grow(Node):
    """Adds to a list."""

    type = "grow"

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        """Add an item."""
        return {"items": Append(["x" * (LIST_BYTES // STEPS - 4)])}


async def run_growing(store: SQLiteCheckpointer) -> None:
    """Run a graph of one node that grows a list."""
    graph = Graph({"grow": Grow()}, [Edge("grow", "grow")], "grow")
    result = await graph.run(
        {"items": []}, limits=Limits(max_steps=STEPS), checkpointer=store, checkpoint_id="growing"
    )
    assert len(result["items"]) == STEPS
    await store.get("growing")  # by now the log is brought into the file


def growing_list(folder: Path) -> tuple[float, float]:
    """Return the megabytes of a run that grows a list: when it has ended, and when it is closed."""

    def megabytes() -> float:
        return sum(file.stat().st_size for file in folder.glob("runs.db*")) / 1e6

    with SQLiteCheckpointer(folder / "runs.db", durability="process") as store:
        asyncio.run(run_growing(store))
        open_megabytes = megabytes()
    return open_megabytes, megabytes()


def main() -> int:
    """Measure, print a line for each rival and each bound, and return the exit code."""
    found = measure()
    print(f"python {sys.version.split()[0]}, SQLite {sqlite3.sqlite_version}, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}, median of {ROUNDS} rounds")
    print(
        f"{'records of 1 KB':22}{'per second':>11}{'x by hand':>11}{'lowest':>8}{'highest':>8}",
        end="",
    )
    print(f"{'a commit':>10}")
    middle: dict[str, Measured] = {}
    for name, rounds in found.items():
        ratios = [measured.ratio for measured in rounds]
        middle[name] = Measured(
            *(statistics.median(values) for values in zip(*rounds, strict=True))
        )
        print(f"{name:22}{middle[name].rate:11,.0f}{middle[name].ratio:11.2f}", end="")
        print(f"{min(ratios):8.2f}{max(ratios):8.2f}{middle[name].shared:10.1f}")
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as name:
        megabytes, closed = growing_list(Path(name))
    times = 1 / middle["power, 1 at once"].ratio
    shared = middle["power, 16 at once"].shared
    one, four = middle["process, 1 at once"].ratio, middle["process, 4 at once"].ratio
    bounds = (
        (
            times <= MOST_TIMES_A_COMMIT,
            f"a commit at power takes {times:.2f} times one by hand: at most {MOST_TIMES_A_COMMIT:g}",
        ),
        (
            shared >= LEAST_COMMITS_PER_SYNC,
            f"at power, {shared:.1f} of 16 runs share a sync: at least {LEAST_COMMITS_PER_SYNC:g}",
        ),
        (
            one >= LEAST_OF_A_LOOP,
            f"at process, one run has {one:.2f} of the rate by hand: at least {LEAST_OF_A_LOOP:g}",
        ),
        (
            four >= LEAST_OF_A_LOOP_BY_FOUR,
            f"at process, 4 runs have {four:.2f} of the rate by hand: "
            f"at least {LEAST_OF_A_LOOP_BY_FOUR:g}",
        ),
        (
            megabytes < MOST_MEGABYTES,
            f"{STEPS} steps that grow a list to {LIST_BYTES // 1000} kB leave {megabytes:.2f} MB, "
            f"{closed:.2f} once the store is closed: less than {MOST_MEGABYTES:g}",
        ),
    )
    for holds, words in bounds:
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {words}")
    return 0 if all(holds for holds, _ in bounds) else 1


if __name__ == "__main__":
    sys.exit(main())
