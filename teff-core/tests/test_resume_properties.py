"""Whatever a graph does, and wherever it is interrupted: what comes out is the same."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

from teff.checkpoint import Lease, MemoryCheckpointer, Record
from teff.flow import Flow
from teff.graph import Edge, Graph
from teff.node import Node, make_function_node
from teff.runtime import Limits
from teff.state import DELETE, Append, Overwrite

KEYS = st.sampled_from(["a", "b", "log"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
UPDATES = st.dictionaries(
    KEYS,
    st.one_of(
        VALUES,
        st.builds(Overwrite, VALUES),
        st.just(DELETE),
    ),
    max_size=3,
) | st.fixed_dictionaries({"list": st.builds(Append, st.lists(VALUES, max_size=3))})
REDUCERS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["keep", "override"]))


class Crash(Exception):
    pass


class Act(Node):
    """Returns one update after another; breaks once, at the step that it is told."""

    type = "act"

    def __init__(self, updates: list[dict[str, Any]], crash_at: int | None = None) -> None:
        super().__init__()
        self.updates = updates
        self.crash_at = crash_at
        self.done: list[int] = []

    async def execute(self, ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        turn = state["turn"]
        if turn == self.crash_at:
            self.crash_at = None
            raise Crash
        self.done.append(turn)
        return {**self.updates[turn], "turn": turn + 1}


def looping(node: Node, length: int, reducers: dict[str, Any], *, nested: bool) -> Graph:
    edges = [Edge("act", "act", f"turn<{length}")]
    graph = Graph({"act": node}, edges, "act", reducers=reducers)
    return Flow(reducers=reducers).add_flow(graph, id="inner").compile() if nested else graph


START = {"turn": 0, "list": [0]}


@given(
    updates=st.lists(UPDATES, min_size=1, max_size=6),
    reducers=REDUCERS,
    crash_at=st.integers(0, 5),
    nested=st.booleans(),
)
def test_a_run_that_crashed_anywhere_ends_as_one_that_did_not(
    updates: list[dict[str, Any]], reducers: dict[str, str], crash_at: int, nested: bool
) -> None:
    unbroken = looping(Act(updates), len(updates), reducers, nested=nested)
    expected = asyncio.run(unbroken.run(START))
    node = Act(updates, crash_at=crash_at)
    graph = looping(node, len(updates), reducers, nested=nested)
    stored: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    try:
        result = asyncio.run(graph.run(START, **stored))
    except Crash:
        result = asyncio.run(graph.run(**stored))
    assert result == expected
    assert (result.status, result.stop_reason) == (expected.status, expected.stop_reason)
    assert node.done == list(range(len(updates))), "each step was done once"


@given(updates=st.lists(UPDATES, min_size=1, max_size=6), at=st.integers(1, 6))
def test_a_run_that_was_stopped_by_a_limit_goes_on_to_the_same_end(
    updates: list[dict[str, Any]], at: int
) -> None:
    expected = asyncio.run(looping(Act(updates), len(updates), {}, nested=False).run(START))
    graph = looping(Act(updates), len(updates), {}, nested=False)
    stored: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    first = asyncio.run(graph.run(START, limits=Limits(max_steps=at), **stored))
    result = asyncio.run(graph.run(limits=Limits(max_steps=100), **stored))
    assert first.steps == min(at, len(updates))
    assert result == expected


@given(state=st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_a_graph_that_changes_nothing_gives_back_an_equal_state_of_its_own(
    state: dict[str, Any],
) -> None:
    async def nothing(ctx: Any, state: dict[str, Any]) -> None:
        return None

    before = copy.deepcopy(state)
    result = asyncio.run(Flow().step(nothing).compile().run(state))
    assert result == before == state
    assert all(
        value is not state[key] for key, value in result.items() if isinstance(value, list | dict)
    )


class JsonStore(MemoryCheckpointer):
    """Keeps what a file would keep: equal values, and never the same objects."""

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        kept = [attrs.evolve(each, data=json.loads(json.dumps(each.data))) for each in records]
        await super().append(lease, kept)


def paired(old: Any, new: Any) -> Any:
    return [old, new]


GIVEN = st.one_of(
    st.sampled_from(["a", "b", "c"]).map(lambda key: lambda state: state[key]),
    st.sampled_from(["a", "b", "c"]).map(lambda key: lambda state: Overwrite(state[key])),
    st.lists(st.integers(), max_size=2).map(lambda value: lambda state: value),
    st.just(lambda state: DELETE),
)


@given(
    steps=st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "c"]), GIVEN, min_size=1, max_size=2),
        min_size=1,
        max_size=6,
    ),
    reducers=st.dictionaries(
        st.sampled_from(["a", "b"]), st.sampled_from([paired, "append", "keep"]), min_size=1
    ),
    at=st.integers(1, 5),
    nested=st.booleans(),
)
def test_values_that_go_from_key_to_key_come_to_the_same_from_a_file(
    steps: list[dict[str, Any]], reducers: dict[str, Any], at: int, nested: bool
) -> None:
    async def move(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        turn = state["turn"]
        moved = {
            key: make(state) for key, make in steps[turn].items() if {"a", "b", "c"} <= state.keys()
        }
        return {**moved, "turn": turn + 1}

    start = {"turn": 0, "a": [1], "b": [2], "c": [3]}
    graph = looping(make_function_node(move), len(steps), reducers, nested=nested)
    expected = asyncio.run(graph.run(start))
    stored: dict[str, Any] = {"checkpointer": JsonStore(), "checkpoint_id": "r"}
    asyncio.run(graph.run(start, **stored, limits=Limits(max_steps=at)))
    assert asyncio.run(graph.run(**stored, limits=Limits())) == expected
