"""Checks of who may write: one at a time, and nobody who was overtaken."""

# ruff: noqa: D102  # a check says in its name what must hold

from __future__ import annotations

import asyncio
from typing import Any, get_args

import attrs
import pytest

from teff.checkpoint import Lease, RunState
from teff.errors import LeaseLost, RunLocked
from teff.testing.contracts.bench import Bench, check, record, same, same_records, store_run

__all__ = ["LeaseChecks"]


async def _refused(store: Any, lease: Lease) -> None:
    """Fail unless ``lease`` can neither append nor be renewed.

    A store that keeps its promises only until the process exits may find out after the append,
    when it writes; then nothing may come of it.
    """
    try:
        await store.append(lease, [record("from a lost lease")])
    except LeaseLost as error:
        same(error.run_id, lease.run_id, "the run_id of LeaseLost")
    else:
        same(store.durability, "exit", "the durability of a store that took a lost lease")
    with pytest.raises(LeaseLost):
        await store.renew(lease)


class LeaseChecks:
    """A run is written by whoever holds its newest lease."""

    @check
    async def test_a_run_that_is_held_is_locked(self, bench: Bench) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        for _ in range(2):
            with pytest.raises(RunLocked, match="r1") as locked:
                await store.claim("r1")
            same(locked.value.run_id, "r1", "the run_id of RunLocked")
        await store.append(lease, [record(1)])
        same_records(await store.load("r1"), [record(1)], "the records of the run")

    @check
    async def test_other_runs_and_other_owners_are_not_locked(self, bench: Bench) -> None:
        store = await bench.open()
        await store.claim("r1")
        await store.claim("r2")
        await store.claim("r1", owner="ada")

    @check
    async def test_of_many_claims_at_once_one_wins(self, bench: Bench) -> None:
        store = await bench.open()
        for run_id in ("r1", "r2", "r3"):
            claims = await asyncio.gather(
                *(store.claim(run_id) for _ in range(20)), return_exceptions=True
            )
            same(sum(isinstance(each, Lease) for each in claims), 1, "how many claims won")
            same(sum(isinstance(each, RunLocked) for each in claims), 19, "how many were refused")

    @check
    async def test_a_run_is_locked_for_every_store_of_it(self, bench: Bench) -> None:
        first = await bench.open()
        lease = await first.claim("r1")
        second = await bench.open_again()
        with pytest.raises(RunLocked):
            await second.claim("r1")
        await first.append(lease, [record(1)])
        await first.release(lease, "finished")
        same_records(await second.load("r1"), [record(1)], "the records of the run")
        await second.claim("r1")
        with pytest.raises(RunLocked):
            await first.claim("r1")

    @pytest.mark.parametrize("state", get_args(RunState))
    @check
    async def test_a_run_that_was_given_back_can_be_claimed(
        self, bench: Bench, state: RunState
    ) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        await store.append(lease, [record(1)])
        await store.release(lease, state)
        later = await store.claim("r1")
        await store.append(later, [record(2)])
        same_records(await store.load("r1"), [record(1), record(2)], "the records of the run")

    @check
    async def test_the_epoch_grows_with_every_claim(self, bench: Bench) -> None:
        store = await bench.open()
        epochs = []
        for _ in range(5):
            lease = await store.claim("r1")
            same((lease.run_id, lease.owner), ("r1", "default"), "the lease")
            epochs.append(lease.epoch)
            await store.release(lease, "paused")
        same(epochs, sorted(set(epochs)), "the epochs")

    @check
    async def test_a_lease_that_was_given_back_appends_nothing(self, bench: Bench) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        await store.append(lease, [record(1)])
        await store.release(lease, "paused")
        await _refused(store, lease)
        later = await store.claim("r1")
        await _refused(store, lease)
        await store.append(later, [record(2)])
        same_records(await store.load("r1"), [record(1), record(2)], "the records of the run")

    @check
    async def test_releasing_a_lost_lease_does_nothing(self, bench: Bench) -> None:
        store = await bench.open()
        old = await store.claim("r1")
        await store.release(old, "paused")
        await store.release(old, "failed")
        lease = await store.claim("r1")
        await store.release(old, "cancelled")
        with pytest.raises(RunLocked):
            await store.claim("r1")
        await store.append(lease, [record(1)])
        same_records(await store.load("r1"), [record(1)], "the records of the run")

    @check
    async def test_a_lease_that_nobody_gave_out_appends_nothing(self, bench: Bench) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        await _refused(store, attrs.evolve(lease, epoch=lease.epoch + 1))
        await _refused(store, attrs.evolve(lease, epoch=lease.epoch - 1))
        await _refused(store, attrs.evolve(lease, run_id="r2"))
        await _refused(store, attrs.evolve(lease, owner="ada"))
        await store.release(attrs.evolve(lease, run_id="r2"), "finished")
        same(list(await store.load("r1")), [], "the records of the run")
        same(list(await store.load("r2")), [], "the records of another run")
        await store.append(lease, [record(1)])

    @check
    async def test_a_renewed_lease_is_the_same_one(self, bench: Bench) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        for number in range(3):
            renewed = await store.renew(lease)
            wanted = (lease.run_id, lease.owner, lease.epoch)
            same((renewed.run_id, renewed.owner, renewed.epoch), wanted, "the renewed lease")
            lease = renewed
            await store.append(lease, [record(number)])
        with pytest.raises(RunLocked):
            await store.claim("r1")

    @check
    async def test_a_lease_that_ran_out_is_fenced_off_once_the_run_is_taken(
        self, bench: Bench
    ) -> None:
        bench.hook("expire_leases")
        await store_run(await bench.open(), "r1", ["slow"])
        slow = await bench.open_again()
        old = await slow.claim("r1")
        store = await bench.open_again()
        await bench.call("expire_leases", store)
        lease = await store.claim("r1")
        if lease.epoch <= old.epoch:
            raise AssertionError(f"the epoch went from {old.epoch} to {lease.epoch}")
        await _refused(slow, old)
        await slow.release(old, "failed")
        await store.append(lease, [record("quick")])
        stored = [record("slow"), record("quick")]
        same_records(await store.load("r1"), stored, "the records of the run")
        await store.release(lease, "finished")
        await _refused(slow, old)

    @check
    async def test_a_lease_that_was_renewed_does_not_run_out(self, bench: Bench) -> None:
        bench.hook("expire_leases")
        store = await bench.open()
        lease = await store.claim("r1")
        await bench.call("expire_leases", store)
        await store.renew(lease)
        with pytest.raises(RunLocked):
            await store.claim("r1")
        await store.append(lease, [record(1)])
        same_records(await store.load("r1"), [record(1)], "the records of the run")

    @check
    async def test_a_lease_from_before_a_deletion_appends_nothing(self, bench: Bench) -> None:
        store = await bench.open("delete")
        old = await store.claim("r1")
        await store.append(old, [record("old")])
        await store.release(old, "finished")
        await store.delete("r1")
        await _refused(store, old)
        lease = await store.claim("r1")
        await _refused(store, old)
        await store.release(old, "finished")
        await store.append(lease, [record("new")])
        same_records(await store.load("r1"), [record("new")], "the records of the run")

    @check
    async def test_a_claim_that_was_cancelled_leaves_the_run_free(self, bench: Bench) -> None:
        store = await bench.open()
        for pauses in range(4):
            claiming = asyncio.ensure_future(store.claim("r1"))
            for _ in range(pauses):
                await asyncio.sleep(0)
            claiming.cancel()
            for claimed in await asyncio.gather(claiming, return_exceptions=True):
                if isinstance(claimed, Lease):
                    await store.release(claimed, "paused")
            await store.release(await _claim_soon(store, "r1"), "paused")

    @check
    async def test_an_append_that_was_cancelled_is_stored_whole_or_not_at_all(
        self, bench: Bench
    ) -> None:
        store = await bench.open()
        lease = await store.claim("r1")
        for call in range(6):
            entries = [record([call, place]) for place in range(3)]
            appending = asyncio.ensure_future(store.append(lease, entries))
            for _ in range(call):
                await asyncio.sleep(0)
            appending.cancel()
            await asyncio.gather(appending, return_exceptions=True)
        await store.append(lease, [record("after")])
        found = [entry.data["value"] for entry in await store.load("r1")]
        same(found.count("after"), 1, "how often the last record is there")
        found.remove("after")
        groups = [found[start : start + 3] for start in range(0, len(found), 3)]
        whole = [[[group[0][0], place] for place in range(3)] for group in groups]
        same(groups, whole, "what was stored together")

    @check
    async def test_reading_needs_no_lease_and_takes_none(self, bench: Bench) -> None:
        store = await bench.open()
        await store_run(store, "r1", "ab")
        await store.load("r1")
        lease = await store.claim("r1")
        same(len(await store.load("r1")), 2, "the number of records")
        await store.append(lease, [record("c")])
        same(len(await store.load("r1")), 3, "the number of records")


async def _claim_soon(store: Any, run_id: str) -> Lease:
    """Claim a run that is about to be free."""
    for _ in range(200):
        try:
            lease: Lease = await store.claim(run_id)
            return lease
        except RunLocked:
            await asyncio.sleep(0.01)
    raise AssertionError(f"run {run_id!r} is held by a claim that was cancelled")
