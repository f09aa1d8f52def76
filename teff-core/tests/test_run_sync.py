"""`Graph.run_sync`: running a graph in a program without an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from teff import Flow, GraphInterrupt
from teff.checkpoint import MemoryCheckpointer
from teff.errors import WorkflowError

GRAPH = Flow().step(lambda ctx, state: {"n": state["n"] + 1}, id="add").compile()


def test_it_returns_what_run_returns():
    result = GRAPH.run_sync({"n": 1})
    assert (result["n"], result.status, result.stop_reason) == (2, "finished", "end")


def test_it_takes_the_options_of_run():
    seen = []
    GRAPH.run_sync({"n": 1}, emit=lambda event: seen.append(event.type))
    assert (seen[0], seen[-1]) == ("run_start", "run_end")
    with pytest.raises(TypeError, match="colour"):
        GRAPH.run_sync({"n": 1}, colour="red")


def test_it_raises_what_run_raises():
    def fail(ctx, state):
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        Flow().step(fail).compile().run_sync({})


def test_a_pause_is_answered_in_the_next_call():
    graph = Flow().interrupt("ok", "Go on?").compile()
    stored = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        graph.run_sync({}, **stored)
    assert graph.run_sync(resume=False, **stored)["ok"] is False


def test_evl_01_inside_of_a_running_loop_it_says_what_to_write():
    ran = []
    graph = Flow().step(lambda ctx, state: ran.append(1)).compile()

    async def inside() -> None:
        graph.run_sync({})

    with pytest.raises(WorkflowError, match=r"event loop is running: write `await graph\.run"):
        asyncio.run(inside())
    assert ran == []


def test_evl_04_it_needs_no_loop_that_was_there_before():
    asyncio.run(GRAPH.run({"n": 1}))
    assert [GRAPH.run_sync({"n": n})["n"] for n in (1, 2)] == [2, 3]
    found = []
    thread = threading.Thread(target=lambda: found.append(GRAPH.run_sync({"n": 5})["n"]))
    thread.start()
    thread.join()
    assert found == [6]


def test_it_works_in_a_thread_beside_a_running_loop():
    async def inside() -> int:
        return (await asyncio.to_thread(GRAPH.run_sync, {"n": 1}))["n"]

    assert asyncio.run(inside()) == 2
