"""Checks of what survives: closing the store, other processes, the death of one, and damage."""

# ruff: noqa: D102  # a check says in its name what must hold

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import pytest

from teff.errors import CheckpointCorrupt, RunLocked
from teff.testing.contracts.bench import Bench, check, record, same, same_records, store_run
from teff.testing.contracts.capabilities import goes_to_other_processes

__all__ = ["SurvivalChecks"]

#: Runs that several processes race for.
_RACES = [f"race {number}" for number in range(20)]


class SurvivalChecks:
    """What was stored is there again, or the store says what is missing."""

    @check
    async def test_a_store_that_is_opened_again_has_everything(self, bench: Bench) -> None:
        store = await bench.open()
        stored = await store_run(store, "r1", ["a", None, "ü\n", [1.0]], left="paused")
        await store_run(store, "r2", "b", owner="ada")
        await bench.close()
        store = await bench.open_again()
        same_records(await store.load("r1"), stored, "the records of the run")
        same_records(await store.load("r2", owner="ada"), [record("b")], "those of another owner")
        same(list(await store.load("r2")), [], "a run of another owner")

    @check
    async def test_what_people_see_is_the_same_in_a_store_opened_again(self, bench: Bench) -> None:
        store = await bench.open("list", "history", "fork")
        await store_run(store, "r1", "abc", left="paused")
        await store.fork("r1", 2, "r2")
        runs, history = await store.list(), await store.history("r1")
        await bench.close()
        store = await bench.open_again("list", "history")
        same(list(await store.list()), list(runs), "the runs")
        same(list(await store.history("r1")), list(history), "the history")

    @check
    async def test_a_run_goes_on_in_stores_that_are_opened_one_after_the_other(
        self, bench: Bench
    ) -> None:
        epochs, stored = [], []
        for number in range(4):
            store = await bench.open_again()
            lease = await store.claim("r1")
            epochs.append(lease.epoch)
            stored.append(record(number))
            await store.append(lease, stored[-1:])
            await store.release(lease, "paused")
            same_records(await store.load("r1"), stored, "the records of the run")
            await bench.close()
        same(epochs, sorted(set(epochs)), "the epochs")

    @check
    async def test_damage_is_told_and_never_taken_for_the_truth(self, bench: Bench) -> None:
        bench.hook("damage")
        store = await bench.open()
        await store_run(store, "r1", ["a" * 100, "b" * 100, "c" * 100])
        other = await store_run(store, "r2", "xyz")
        await bench.close()
        await bench.call("damage", "r1", "default")
        store = await bench.open_again()
        with pytest.raises(CheckpointCorrupt, match="r1") as told:
            await store.load("r1")
        same(told.value.run_id, "r1", "the run_id of CheckpointCorrupt")
        same_records(await store.load("r2"), other, "the records of another run")
        if callable(getattr(store, "delete", None)):
            same(await store.delete("r1"), True, "delete of a damaged run")
            same(list(await store.load("r1")), [], "the records after that")

    @check
    async def test_of_several_processes_one_gets_a_run(self, bench: Bench) -> None:
        store = await _shared(bench)
        with _processes(bench.make_store, _claim_all, count=3) as pipes:
            won = [await _received(pipe) for pipe in pipes]
            same(
                sorted(run_id for runs in won for run_id in runs),
                sorted(_RACES),
                "the runs that were won",
            )
            for pipe, runs in zip(pipes, won, strict=True):
                pipe.send("append")
                same(await _received(pipe), len(runs), "how many runs were appended to")
            for run_id in _RACES:
                if store.durability != "exit":  # else they may be written later
                    same(len(await store.load(run_id)), 3, f"how many records {run_id!r} has")
                with pytest.raises(RunLocked):
                    await store.claim(run_id)

    @check
    async def test_processes_that_take_turns_at_a_run_lose_nothing(self, bench: Bench) -> None:
        store = await _shared(bench)
        with _processes(bench.make_store, _take_turns, count=2) as pipes:
            stored = [value for pipe in pipes for value in await _received(pipe)]
        found = [entry.data["value"] for entry in await store.load("turns")]
        same(sorted(found), sorted(stored), "the values that both have stored")
        lease = await store.claim("turns")
        await store.append(lease, [record("after")])
        if callable(getattr(store, "history", None)):
            numbers = [entry.number for entry in await store.history("turns")]
            same(numbers, list(range(1, len(found) + 2)), "the numbers of the records")

    @check
    async def test_what_a_killed_process_has_stored_is_there(self, bench: Bench) -> None:
        store = await _shared(bench)
        if store.durability == "exit":
            pytest.skip("the store promises nothing after a crash of the process")
        with _processes(bench.make_store, _append_for_ever, count=1) as pipes:
            told = [await _received(pipes[0]) for _ in range(30)]
        found = [entry.data["value"] for entry in await store.load("killed")]
        same(found[: len(told)], told, "what the process was told is stored")
        same(found, list(range(len(found))), "the values")
        await bench.call("expire_leases", store)
        lease = await store.claim("killed")
        await store.append(lease, [record("after")])
        same(len(await store.load("killed")), len(found) + 1, "the number of records")


async def _shared(bench: Bench) -> Any:
    store = await bench.open_again()
    if missing := goes_to_other_processes(bench.make_store):
        pytest.skip(missing)
    return store


@contextmanager
def _processes(
    make_store: Callable[[], Any], work: Callable[..., Any], *, count: int
) -> Iterator[list[Connection]]:
    """Let new processes do ``work`` with the store, and kill them at the end."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_run, args=(work, make_store, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        for pipe in pipes:
            pipe.recv()
        for pipe in pipes:
            pipe.send("go")
        yield pipes
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()
        for pipe in pipes:
            pipe.close()


def _run(work: Callable[..., Any], make_store: Callable[[], Any], pipe: Connection) -> None:
    pipe.send("ready")
    pipe.recv()
    asyncio.run(work(make_store, pipe))


async def _received(pipe: Connection) -> Any:
    return await asyncio.to_thread(pipe.recv)


async def _claim_all(make_store: Callable[[], Any], pipe: Connection) -> None:
    """Claim every run that is free; when told, append to those that were won; wait."""
    store = await Bench(make_store, {}).open()
    leases = []
    for run_id in _RACES:
        try:
            leases.append(await store.claim(run_id))
        except RunLocked:
            continue
    pipe.send([lease.run_id for lease in leases])
    await _received(pipe)
    for lease in leases:
        await store.append(lease, [record(1), record(2)])
        await store.append(lease, [record(3)])
    pipe.send(len(leases))
    await _received(pipe)


async def _take_turns(make_store: Callable[[], Any], pipe: Connection) -> None:
    """Let twenty tasks claim one run, append to it and give it back; tell what was stored."""
    store = await Bench(make_store, {}).open()

    async def turn(number: int) -> str:
        value = f"{os.getpid()}/{number}"
        while True:
            try:
                lease = await store.claim("turns")
            except RunLocked:
                await asyncio.sleep(0.003)
            else:
                break
        await store.append(lease, [record(value)])
        await store.release(lease, "paused")
        return value

    pipe.send(await asyncio.gather(*(turn(number) for number in range(20))))
    await _received(pipe)


async def _append_for_ever(make_store: Callable[[], Any], pipe: Connection) -> None:
    """Append numbers to one run, and tell each of them once it is stored."""
    store = await Bench(make_store, {}).open()
    lease = await store.claim("killed")
    number = 0
    while True:
        await store.append(lease, [record(number)])
        pipe.send(number)
        number += 1
