"""Loop: rounds until a value is there, and no more than allowed."""

from __future__ import annotations

import asyncio
import operator
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt
from teff.flow import Flow
from teff.graph import Graph
from teff.node import Loop, Node, Parallel, Transform, make_function_node
from teff.runtime import Limits, StreamEvent


def alone(node: Node, **options: Any) -> Graph:
    return Graph({"l": node}, [], "l", **options)


def run(node: Node, state: Any = None, *, reducers: Any = None, **options: Any) -> Any:
    return asyncio.run(alone(node, reducers=reducers).run(state or {}, **options))


async def count(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    return {"n": state.get("n", 0) + 1}


def test_the_body_runs_until_the_value_is_there() -> None:
    assert run(Loop(count, key="n", until=4)) == {"n": 4}


def test_all_ways_to_give_the_body() -> None:
    how: Any = {"key": "n", "until": 3}
    for node in (
        Loop(count, **how),
        Loop(body=count, **how),
        Loop({"body": count, **how}),
        Loop(how, body=count),
        Loop([count], id="l", **how),
        Loop(Flow().step(count), **how),
        Loop(Flow().step(count).compile(), **how),
        Loop(make_function_node(count), **how),
    ):
        assert run(node) == {"n": 3}


def test_the_body_runs_at_least_once() -> None:
    assert run(Loop(count, key="ok", until="yes"), {"ok": "yes"}) == {"ok": "yes", "n": 1}


def test_running_out_of_rounds_is_told_and_no_error() -> None:
    events: list[StreamEvent] = []
    result = run(Loop(count, key="ok", until="yes", max_rounds=3), emit=events.append)
    assert (result, result.status) == ({"n": 3}, "finished")
    assert [(event.node_id, event.data) for event in events if event.type == "limit"] == [
        ("l", {"reason": "max_rounds", "rounds": 3})
    ]
    assert run(Loop(count, key="ok", until="yes"))["n"] == 10


def test_a_value_that_is_there_in_the_last_round_is_no_limit() -> None:
    events: list[StreamEvent] = []
    run(Loop(count, key="n", until=3, max_rounds=3), emit=events.append)
    assert not [event for event in events if event.type == "limit"]


@pytest.mark.parametrize(
    ("until", "value", "ends"),
    [
        ("yes", "Yes!", True),
        ("yes", "yes and no", False),
        ("yes, but", "yes, but", True),
        ("yes, but", "yes", False),
        ("or", "or", True),
        ("in progress", "in progress", True),
        (1, "1.0", True),
        (0.5, 0.5, True),
        (-1, -1, True),
        (True, True, True),
        (True, "true", True),
        (True, "yes", False),
        (False, False, True),
        (None, None, True),
        ("", "", True),
        ("", [], True),
        ("", 0, False),
        (["a", "b"], "b", True),
        (["a", "b"], "c", False),
        ([], [], True),
    ],
)
def test_values_are_compared_like_the_condition_of_an_edge(
    until: Any, value: Any, ends: bool
) -> None:
    async def write(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"v": value, "n": state["n"] + 1}

    result = run(Loop(write, key="v", until=until, max_rounds=2), {"n": 0})
    assert result["n"] == (1 if ends else 2)


def test_the_key_may_be_a_path() -> None:
    async def judge(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"verdict": {"ok": state["n"] == 2}, "n": state["n"] + 1}

    assert run(Loop(judge, key="verdict.ok", until=True), {"n": 0})["n"] == 3


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_rounds": -1}, "max_rounds"),
        ({"max_rounds": "x"}, "max_rounds"),
        ({"key": ""}, "key"),
        ({"key": "a b"}, "key"),
        ({"until": object()}, "until"),
        ({"body": []}, "body"),
        ({"body": 3}, "body"),
        ({"untill": "yes"}, "untill"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigError, match=option):
        Loop({"body": count, "key": "n", "until": 1, **options})


@pytest.mark.parametrize("missing", ["body", "key", "until"])
def test_a_missing_option_is_named(missing: str) -> None:
    given: dict[str, Any] = {"body": count, "key": "n", "until": 1}
    del given[missing]
    with pytest.raises(ConfigError, match=f"'{missing}' is missing"):
        Loop(**given)


# What comes back.


def test_d23_appended_items_come_once() -> None:
    async def note(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"log": f"round {len(state['log'])}"}

    async def note_all(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "all": [*state["all"], "x"]}

    body = [note, note_all]
    result = run(
        Loop(body, key="ok", until="yes", max_rounds=2),
        {"log": ["round 0"], "all": []},
        reducers={"log": "append"},
    )
    assert result == {"log": ["round 0", "round 1", "round 2"], "all": ["x", "x"]}


def test_only_what_changed_comes_back() -> None:
    changed: list[Any] = []
    run(
        Loop(count, key="n", until=2),
        {"big": list(range(100))},
        emit=lambda event: changed.append(event.data.get("keys")),
    )
    assert ("n",) in changed
    assert not [keys for keys in changed if keys and "big" in keys]


def test_d24_a_loop_in_parallel_brings_its_updates() -> None:
    flow = Flow().step(count).step(lambda ctx, state: {"log": f"{state['n']}"})
    loop = Loop(flow, key="n", until=2)
    node = Parallel([loop, [loop, lambda ctx, state: {"m": state["n"]}]])
    result = run(node, {"log": []}, reducers={"log": "append"})
    assert result == {"log": ["1", "2", "1", "2"], "n": 2, "m": 2}


def test_parallel_in_a_loop_merges_in_every_round() -> None:
    add = Transform(action="value", value=1, output_key="sum")
    node = Loop([Parallel([add, add]), count], key="n", until=3)
    assert run(node, {"sum": 0}, reducers={"sum": operator.add}) == {"sum": 6, "n": 3}


def test_loops_in_loops() -> None:
    inner = Loop([count, lambda ctx, state: {"r": state["n"] % 3}], key="r", until=0)
    assert run(Loop(inner, key="n", until=9)) == {"n": 9, "r": 0}


def test_removed_keys_stay_removed() -> None:
    async def clear(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        state.pop("draft", None)
        state["n"] = state.get("n", 0) + 1
        return state

    assert run(Loop(clear, key="n", until=2), {"draft": "x"}) == {"n": 2}


# Pauses, limits, cancelling.


def test_int_04_each_round_asks_once_and_repeats_nothing() -> None:
    after: list[Any] = []

    async def ask(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"age": await ctx.interrupt("age", "How old?")}

    async def check(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        after.append(state["age"])
        return {"ok": isinstance(state["age"], int) and state["age"] > 0}

    graph, store = alone(Loop([ask, check], key="ok", until=True)), MemoryCheckpointer()
    stored: Any = {"checkpointer": store, "checkpoint_id": "r"}
    ids = set()
    with pytest.raises(GraphInterrupt) as caught:
        asyncio.run(graph.run({}, **stored))
    for answer in ("x", -1):
        (question,) = caught.value.interrupts
        ids.add(question.id)
        with pytest.raises(GraphInterrupt) as caught:
            asyncio.run(graph.run(resume={"age": answer}, **stored))
    ids.add(caught.value.interrupts[0].id)
    result = asyncio.run(graph.run(resume={"age": 30}, **stored))
    assert (result["age"], len(ids), after) == (30, 3, ["x", -1, 30])


@pytest.mark.parametrize("body", [count, [count], Flow().step(count)])
def test_a_limit_keeps_what_the_rounds_changed_so_far(body: Any) -> None:
    node = Parallel([Loop([count, Loop(body, key="ok", until=True)], key="ok", until=True)])
    result = run(node, limits=Limits(max_steps=9))
    assert result.stop_reason == "max_steps"
    assert result["n"] >= 3


def test_d69_a_loop_that_never_waits_can_be_cancelled_and_has_a_deadline() -> None:
    node = Loop(count, key="ok", until="yes", max_rounds=10**9)
    result = run(node, limits=Limits(deadline=0.05))
    assert (result.stop_reason, result["n"] > 1) == ("deadline", True)

    async def main() -> None:
        task = asyncio.ensure_future(alone(node).run({}))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), 30))


def test_d69_the_steps_of_rounds_count() -> None:
    node = Loop(Flow().step(count), key="ok", until="yes", max_rounds=10**6)
    result = run(node, limits=Limits(max_steps=101))
    assert (result.status, result.steps) == ("stopped", 101)


def test_what_is_known_of_keys_and_children() -> None:
    body = [
        Transform(action="trim", input_key="a", output_key="b"),
        Transform(action="trim", input_key="b", output_key="c"),
    ]
    node = Loop(body, key="ok.x", until=True)
    assert set(node.reads()) == {"a", "ok"}
    assert set(node.writes() or ()) == {"b", "c"}
    assert list(node.children()) == body
    assert Loop(body[0], key="b", until=1).signature() != node.signature()
