"""Checks of what people ask of a store; see `teff.checkpoint.RunStore`. What it lacks is skipped."""

# ruff: noqa: D102  # a check says in its name what must hold

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest

from teff.checkpoint import Record, RunState
from teff.errors import CheckpointError, LeaseLost, RunLocked
from teff.testing.contracts.bench import Bench, check, record, same, same_records, store_run

__all__ = ["PeopleChecks"]

#: Runs that go on no more.
_ENDED: tuple[RunState, ...] = ("finished", "stopped", "failed", "cancelled")


async def _ids(store: Any, owner: str = "default") -> set[str]:
    return {run.run_id for run in await store.list(owner=owner)}


class PeopleChecks:
    """Runs can be listed, looked into, forked, copied and deleted."""

    @check
    async def test_there_is_nothing_of_an_unknown_run(self, bench: Bench) -> None:
        store = await bench.open("get", "history", "list", "delete")
        await store_run(store, "r1", "a")
        same(await store.get("r2"), None, "get")
        same(await store.get("r1", owner="ada"), None, "get of another owner")
        same(list(await store.history("r2")), [], "history")
        same(list(await store.list(owner="ada")), [], "list of another owner")
        same(await store.delete("r2"), False, "delete")
        same(await store.delete("r1", owner="ada"), False, "delete of another owner")
        await store.load("r2")
        same(await _ids(store), {"r1"}, "the runs after all this")

    @pytest.mark.parametrize("state", get_args(RunState))
    @check
    async def test_get_says_how_a_run_was_left(self, bench: Bench, state: RunState) -> None:
        store = await bench.open("get")
        await store_run(store, "r1", "abc", left=state)
        run = await store.get("r1")
        same((run.run_id, run.owner), ("r1", "default"), "whose run it is")
        same((run.state, run.held, run.records), (state, False, 3), "state, held and records")
        if not 0 < run.created <= run.updated:
            raise AssertionError(f"it was created at {run.created}, updated at {run.updated}")

    @check
    async def test_a_claim_begins_a_run_and_shows_that_it_is_held(self, bench: Bench) -> None:
        store = await bench.open("get")
        lease = await store.claim("r1")
        run = await store.get("r1")
        same((run.state, run.held, run.records), ("running", True, 0), "a run that was begun")
        await store.append(lease, [record(1)])
        await store.release(lease, "finished")
        await store.claim("r1")
        run = await store.get("r1")
        same((run.state, run.held, run.records), ("running", True, 1), "a run that goes on")

    @check
    async def test_a_run_whose_process_died_is_running_and_not_held(self, bench: Bench) -> None:
        bench.hook("expire_leases")
        holder = await bench.open("get")
        lease = await holder.claim("r1")
        await holder.append(lease, [record(1)])
        store = await bench.open_again()
        await bench.call("expire_leases", store)
        run = await store.get("r1")
        same((run.state, run.held), ("running", False), "a run that was left")

    @check
    async def test_history_numbers_the_records_from_one(self, bench: Bench) -> None:
        store = await bench.open("history", "get")
        stored = await store_run(store, "r1", range(4))
        lease = await store.claim("r1")
        await store.append(lease, [record("x"), record("y")])
        stored += [record("x"), record("y")]
        history = await store.history("r1")
        same([entry.number for entry in history], [1, 2, 3, 4, 5, 6], "the numbers")
        same_records([entry.record for entry in history], stored, "the records")
        same_records(await store.load("r1"), stored, "the records of load")
        times = [entry.stored for entry in history]
        same(times, sorted(times), "when they were stored")
        run = await store.get("r1")
        same((run.records, run.updated), (6, times[-1]), "number and time of the last record")

    @check
    async def test_list_shows_the_runs_of_an_owner_the_last_written_first(
        self, bench: Bench
    ) -> None:
        store = await bench.open("list", "get")
        for run_id in ("r1", "r2", "r3"):
            await store_run(store, run_id, "ab")
            await asyncio.sleep(0.002)
        await store_run(store, "r1", "c", left="paused")
        await store_run(store, "r4", "a", owner="ada")
        runs = list(await store.list())
        times = [run.updated for run in runs]
        same(times, sorted(times, reverse=True), "when they were written")
        if len(set(times)) == len(times):
            same([run.run_id for run in runs], ["r1", "r3", "r2"], "the runs")
        same(runs, [await store.get(run.run_id) for run in runs], "what list and get say")
        same(await _ids(store, "ada"), {"r4"}, "the runs of another owner")

    @check
    async def test_a_fork_has_the_first_records_and_the_run_stays(self, bench: Bench) -> None:
        store = await bench.open("fork", "get")
        stored = await store_run(store, "r1", range(5))
        before = await store.get("r1")
        for at in range(1, 6):
            run = await store.fork("r1", at, f"fork {at}")
            same((run.run_id, run.records, run.held), (f"fork {at}", at, False), "the fork")
            same(run, await store.get(f"fork {at}"), "what fork and get say")
            same_records(await store.load(f"fork {at}"), stored[:at], "the records of the fork")
        same(await store.get("r1"), before, "the run that was forked")
        same_records(await store.load("r1"), stored, "its records")

    @check
    async def test_a_fork_and_its_run_go_on_apart(self, bench: Bench) -> None:
        store = await bench.open("fork", "history")
        lease = await store.claim("r1")
        stored = [record("a"), record("b"), record("c")]
        await store.append(lease, stored)
        await store.fork("r1", 2, "r2")  # of a run that is held, and within what was stored at once
        second = await store.claim("r2")
        await store.append(second, [record("d")])
        await store.append(lease, [record("e")])
        same_records(await store.load("r1"), [*stored, record("e")], "the records of the run")
        same_records(await store.load("r2"), [*stored[:2], record("d")], "those of the fork")
        same([entry.number for entry in await store.history("r2")], [1, 2, 3], "its numbers")

    @pytest.mark.parametrize("at", [0, -1, 4])
    @check
    async def test_a_fork_at_no_record_is_refused(self, bench: Bench, at: int) -> None:
        store = await bench.open("fork", "list")
        await store_run(store, "r1", "abc")
        with pytest.raises(CheckpointError):
            await store.fork("r1", at, "r2")
        same(await _ids(store), {"r1"}, "the runs")

    @check
    async def test_a_fork_of_no_run_or_onto_a_run_is_refused(self, bench: Bench) -> None:
        store = await bench.open("fork", "list")
        stored = await store_run(store, "r1", "abc")
        await store_run(store, "r2", "d")
        await store_run(store, "r3", "e", owner="ada")
        for run_id, new_id in (("r1", "r2"), ("r1", "r1"), ("none", "r4"), ("r3", "r4")):
            with pytest.raises(CheckpointError):
                await store.fork(run_id, 1, new_id)
        same(await _ids(store), {"r1", "r2"}, "the runs")
        same_records(await store.load("r1"), stored, "the records of the run")
        same_records(await store.load("r2"), [record("d")], "the records of the other run")

    @pytest.mark.parametrize("state", get_args(RunState))
    @check
    async def test_a_copy_has_all_records_and_the_state(
        self, bench: Bench, state: RunState
    ) -> None:
        store = await bench.open("copy", "get")
        stored = await store_run(store, "r1", range(5), left=state)
        before = await store.get("r1")
        run = await store.copy("r1", "r2")
        same((run.run_id, run.records, run.state), ("r2", 5, state), "the copy")
        same(run, await store.get("r2"), "what copy and get say")
        same_records(await store.load("r2"), stored, "its records")
        same(await store.get("r1"), before, "the run that was copied")
        await store_run(store, "r2", "x")
        same_records(await store.load("r1"), stored, "its records after the copy went on")

    @check
    async def test_a_copy_of_no_run_or_onto_a_run_is_refused(self, bench: Bench) -> None:
        store = await bench.open("copy", "list")
        await store_run(store, "r1", "abc")
        await store_run(store, "r2", "d")
        for run_id, new_id in (("r1", "r2"), ("r1", "r1"), ("none", "r4")):
            with pytest.raises(CheckpointError):
                await store.copy(run_id, new_id)
        same(await _ids(store), {"r1", "r2"}, "the runs")
        same_records(await store.load("r2"), [record("d")], "the records of the other run")

    @check
    async def test_delete_leaves_nothing_of_a_run_and_all_of_the_others(self, bench: Bench) -> None:
        store = await bench.open("delete", "get", "list", "history")
        await store_run(store, "r1", "abc")
        other = await store_run(store, "r2", "d")
        foreign = await store_run(store, "r1", "e", owner="ada")
        same(await store.delete("r1"), True, "delete")
        same(await store.get("r1"), None, "get after that")
        same(list(await store.load("r1")), [], "load after that")
        same(list(await store.history("r1")), [], "history after that")
        same(await _ids(store), {"r2"}, "list after that")
        same(await store.delete("r1"), False, "delete after that")
        same_records(await store.load("r2"), other, "the records of another run")
        same_records(await store.load("r1", owner="ada"), foreign, "those of another owner")
        stored = await store_run(store, "r1", "new")
        same_records(await store.load("r1"), stored, "the records of a new run of that id")

    @check
    async def test_a_run_that_is_held_is_not_deleted(self, bench: Bench) -> None:
        store = await bench.open("delete")
        lease = await store.claim("r1")
        await store.append(lease, [record(1)])
        with pytest.raises(RunLocked):
            await store.delete("r1")
        await store.append(lease, [record(2)])
        same_records(await store.load("r1"), [record(1), record(2)], "the records of the run")
        await store.release(lease, "running")
        same(await store.delete("r1"), True, "delete after that")

    @check
    async def test_a_run_whose_process_died_can_be_deleted(self, bench: Bench) -> None:
        bench.hook("expire_leases")
        holder = await bench.open("delete")
        lease = await holder.claim("r1")
        await holder.append(lease, [record(1)])
        store = await bench.open_again()
        await bench.call("expire_leases", store)
        same(await store.delete("r1"), True, "delete")
        same(list(await store.load("r1")), [], "the records of the run")
        with pytest.raises(LeaseLost):
            await holder.renew(lease)
        same(list(await store.load("r1")), [], "the records of the run after that")

    @check
    async def test_prune_deletes_runs_that_ended_and_no_others(self, bench: Bench) -> None:
        store = await bench.open("prune", "list")
        for state in get_args(RunState):
            await store_run(store, state, "ab", left=state)
        await store_run(store, "finished", "c", owner="ada")
        await store_run(store, "held", "a")
        await store.claim("held")
        await asyncio.sleep(0.02)
        same(await store.prune(older_than=3600), 0, "prune of what is older than an hour")
        same(await store.prune(older_than=0, owner="bob"), 0, "prune of another owner")
        same(await store.prune(older_than=0), len(_ENDED), "prune")
        same(await _ids(store), {"running", "paused", "held"}, "what is left")
        same(await store.prune(older_than=0), 0, "prune after that")
        same_records(await store.load("paused"), [record("a"), record("b")], "what is left of one")
        same(await _ids(store, "ada"), {"finished"}, "the runs of another owner")

    @check
    async def test_a_list_can_be_read_while_runs_are_stored_and_deleted(self, bench: Bench) -> None:
        store = await bench.open("list", "delete")
        await store_run(store, "stays", "abc")

        async def come_and_go(name: str) -> None:
            for _ in range(3):
                await store_run(store, name, "ab")
                await store.delete(name)

        working = asyncio.gather(*(come_and_go(f"r{number}") for number in range(6)))
        while not working.done():
            runs = {run.run_id: run for run in await store.list()}
            same(runs["stays"].records, 3, "the number of records of a run that stays")
            await asyncio.sleep(0)
        await working
        same(await _ids(store), {"stays"}, "the runs that are left")

    @check
    async def test_what_people_see_of_hostile_values_is_what_was_stored(self, bench: Bench) -> None:
        store = await bench.open("copy", "history", "get", "list", "delete")
        run_id, new_id, owner = "../'; --/\n\U0001f600", '..\\%2e"*', "a/../b\u2028"
        entry = Record(kind="pause", path="fan/1/[17]", data={"$type": [None, "\n", {"": 1.0}]})
        lease = await store.claim(run_id, owner=owner)
        await store.append(lease, [entry])
        await store.release(lease, "paused")
        await store.copy(run_id, new_id, owner=owner)
        same(await _ids(store, owner), {run_id, new_id}, "the runs")
        (stored,) = await store.history(new_id, owner=owner)
        same_records([stored.record], [entry], "the record of the copy")
        same(await store.delete(run_id, owner=owner), True, "delete")
        same(await _ids(store, owner), {new_id}, "the runs after that")
