"""Processes that share an SQLite file of runs, and that are stopped or killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from teff.checkpoint import Durability, Record, SQLiteCheckpointer
from teff.errors import RunLocked

POSIX = pytest.mark.skipif(os.name != "posix", reason="it needs the signals and limits of POSIX")


def step(n: int, **more: Any) -> Record:
    return Record(kind="step", path="plan/1", data={"n": n, **more})


def numbers(records: Sequence[Record]) -> list[int]:
    return [record.data["n"] for record in records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


PRELUDE = """
import asyncio, json, os, signal, sys
from teff.checkpoint import Record, SQLiteCheckpointer
from teff.errors import CheckpointError, LeaseLost, RunLocked
def step(n, **more):
    return Record(kind="step", data={"n": n, **more})
"""


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
            assert process.stdout is not None
            rest = process.stdout.read().split("\n")
        for last in rest[:-1]:  # what follows the last line was not told to its end
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
    races = 200
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
