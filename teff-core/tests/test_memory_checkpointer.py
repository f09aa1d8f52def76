"""`MemoryCheckpointer`: what it does beside the contract that every checkpointer keeps."""

from __future__ import annotations

import asyncio

import pytest

from teff.checkpoint import Checkpointer, Lease, MemoryCheckpointer, Record, RunStore
from teff.errors import CheckpointError, ConfigError, LeaseLost, RunLocked
from teff.flow import Flow


def value(content: object) -> Record:
    return Record(kind="value", path="p", data={"value": content})


def test_it_is_a_checkpointer_and_a_store_that_people_can_look_into():
    store = MemoryCheckpointer()
    assert isinstance(store, Checkpointer)
    assert isinstance(store, RunStore)
    assert store.durability == "exit"


def test_two_stores_share_nothing():
    async def scenario() -> None:
        first, second = MemoryCheckpointer(), MemoryCheckpointer()
        lease = await first.claim("r1")
        await first.append(lease, [value(1)])
        assert await second.get("r1") is None
        await second.claim("r1")

    asyncio.run(scenario())


def test_a_store_can_be_used_in_one_event_loop_after_the_other():
    store = MemoryCheckpointer()
    lease = asyncio.run(store.claim("r1"))
    asyncio.run(store.append(lease, [value(1)]))
    asyncio.run(store.release(lease, "paused"))
    run = asyncio.run(store.get("r1"))
    assert run is not None
    assert (run.state, run.held, run.records) == ("paused", False, 1)


def test_the_epoch_grows_over_all_runs_so_that_a_deleted_run_never_gets_an_old_one_again():
    async def scenario() -> None:
        store = MemoryCheckpointer()
        epochs = []
        for _ in range(3):
            lease = await store.claim("r1")
            epochs.append(lease.epoch)
            await store.release(lease, "finished")
            assert await store.delete("r1")
        assert epochs == sorted(set(epochs))

    asyncio.run(scenario())


def test_frozen_data_are_shared_and_not_copied():
    async def scenario() -> None:
        store = MemoryCheckpointer()
        lease = await store.claim("r1")
        await store.append(lease, [value([1, 2])])
        await store.copy("r1", "r2")
        (first,), (second,) = await store.load("r1"), await store.load("r2")
        assert first.data is second.data

    asyncio.run(scenario())


def test_the_errors_name_the_run_and_the_way_out():
    async def scenario() -> None:
        store = MemoryCheckpointer()
        lease = await store.claim("order-7")
        await store.append(lease, [value(1), value(2)])
        with pytest.raises(RunLocked, match="'order-7' is being worked on: wait for it") as locked:
            await store.claim("order-7")
        assert locked.value.run_id == "order-7"
        with pytest.raises(RunLocked, match="was not deleted: wait for it"):
            await store.delete("order-7")
        with pytest.raises(LeaseLost, match="no longer held.*nothing was recorded"):
            await store.append(Lease(run_id="order-7", owner="default", epoch=99), [value(1)])
        with pytest.raises(CheckpointError, match="has no record 3: it has 2, counted from 1"):
            await store.fork("order-7", 3, "new")
        with pytest.raises(
            CheckpointError, match="there is a run 'order-7' already: give the copy"
        ):
            await store.copy("order-7", "order-7")
        with pytest.raises(CheckpointError, match="there is no run 'none' of owner 'default'"):
            await store.copy("none", "new")
        with pytest.raises(ConfigError, match="new_id='' is empty") as refused:
            await store.copy("order-7", "")
        assert refused.value.path == "new_id"

    asyncio.run(scenario())


def test_prune_goes_by_the_time_of_the_last_record():
    async def scenario() -> None:
        store = MemoryCheckpointer()
        now = 1000.0
        store._clock = lambda: now
        for run_id in ("old", "new"):
            lease = await store.claim(run_id)
            await store.append(lease, [value(1)])
            await store.release(lease, "finished")
            now += 100
        assert await store.prune(older_than=150) == 1
        assert [run.run_id for run in await store.list()] == ["new"]

    asyncio.run(scenario())


def test_the_runs_of_a_graph_can_be_listed_and_forked():
    flow = Flow().transform(action="render", template="Hello {name}", output_key="greeting")
    graph = flow.compile()
    store = MemoryCheckpointer()
    options = {"checkpointer": store, "checkpoint_id": "r1"}
    result = asyncio.run(graph.run({"name": "Ada"}, **options))
    (run,) = asyncio.run(store.list())
    assert (run.run_id, run.state) == ("r1", "finished")
    asyncio.run(store.copy("r1", "r2"))
    again = asyncio.run(graph.run({"name": "Ada"}, checkpointer=store, checkpoint_id="r2"))
    assert again["greeting"] == result["greeting"] == "Hello Ada"
