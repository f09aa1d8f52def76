"""Draining: wherever a run is told to end, what is under way finishes and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from teff import Flow, Graph
from teff.checkpoint import MemoryCheckpointer
from teff.cli.draining import Draining
from teff.node import Loop, Map, Parallel


class Work:
    """A graph whose steps count how often they were executed."""

    def __init__(self) -> None:
        self.executed: Counter[str] = Counter()
        self.graph = self._graph()

    def step(self, name: str):
        async def work(ctx, state):
            await asyncio.sleep(0)
            self.executed[name] += 1
            await asyncio.sleep(0)
            return {name: True}

        return work

    async def item(self, ctx, state):
        await asyncio.sleep(0)
        self.executed[f"item:{state['items']}"] += 1
        return {"result": state["items"]}

    async def count(self, ctx, state):
        self.executed[f"count:{state['n']}"] += 1
        return {"n": state["n"] + 1}

    def _graph(self) -> Graph:
        inner = (
            Flow("inner").step(self.step("deep_1"), id="one").step(self.step("deep_2"), id="two")
        )
        branches = {"flow": inner, "alone": self.step("alone"), "other": self.step("other")}
        return (
            Flow()
            .step(self.step("first"), id="first")
            .step(Parallel(branches), id="fan")
            .step(
                Map(
                    self.item,
                    input_keys="items",
                    output_key="done",
                    result_key="result",
                    max_concurrency=2,
                ),
                id="map",
            )
            .step(Loop(self.count, key="n", until="3", max_rounds=5), id="loop")
            .step(self.step("last"), id="last")
            .compile()
        )


START = {"items": [1, 2, 3, 4], "n": 0}


def run(work: Work, store: MemoryCheckpointer, at: int | None) -> tuple[str, dict, int]:
    """Run, told to end at the ``at``-th event; return how it ended, its state, its events."""
    seen = 0
    ended: list[dict] = []

    async def main() -> None:
        nonlocal seen
        task = asyncio.current_task()
        draining = Draining(task.cancel)

        def hear(event):
            nonlocal seen
            seen += 1
            if seen == at:
                draining.begin()
            if event.type == "run_end":
                ended.append(event.data)
            return draining.hear(event)

        await work.graph.run(START, checkpointer=store, checkpoint_id="r", emit=hear)

    with suppress(asyncio.CancelledError):
        asyncio.run(main())
    return ended[-1]["status"], ended[-1]["state"], seen


def test_wherever_it_comes_no_step_is_executed_twice_and_the_end_is_the_same():
    unbroken = Work()
    status, expected, events = run(unbroken, MemoryCheckpointer(), None)
    assert (status, set(unbroken.executed.values())) == ("finished", {1})
    for at in range(1, events + 1):
        work, store = Work(), MemoryCheckpointer()
        status, state, _ = run(work, store, at)
        assert status in ("finished", "cancelled")
        if status == "cancelled":
            status, state, _ = run(work, store, None)
        assert (status, state) == ("finished", expected)
        assert work.executed == unbroken.executed, at


def test_it_ends_soon_even_where_it_is_told_at_every_turn():
    work, store = Work(), MemoryCheckpointer()
    for _ in range(40):
        status, _, _ = run(work, store, 12)
        if status == "finished":
            break
    assert status == "finished"
    assert set(work.executed.values()) == {1}


def test_a_step_that_nothing_follows_ends_the_run_as_ever():
    work = Flow().step(lambda ctx, state: {"x": 1}, id="only").compile()
    seen = []

    async def main() -> None:
        draining = Draining(asyncio.current_task().cancel)

        def hear(event):
            seen.append(event.type)
            if event.type == "node_start":
                waiting = draining.hear(event)
                draining.begin()
                return waiting
            return draining.hear(event)

        await work.run({}, emit=hear, checkpointer=MemoryCheckpointer(), checkpoint_id="r")

    asyncio.run(main())
    assert seen[-1] == "run_end"


@pytest.mark.parametrize("again", [True, False])
def test_what_does_not_finish_is_cancelled(monkeypatch, again):
    monkeypatch.setattr("teff.cli.draining.PATIENCE", 600.0 if again else 0.01)

    async def wait(ctx, state):
        await asyncio.sleep(600)

    async def main() -> None:
        draining = Draining(asyncio.current_task().cancel)

        def hear(event):
            waiting = draining.hear(event)
            if event.type == "node_start":
                draining.begin()
                if again:
                    draining.begin()
            return waiting

        graph = Flow().step(wait, id="wait").compile()
        await graph.run({}, emit=hear, checkpointer=MemoryCheckpointer(), checkpoint_id="r")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
