"""Values of a stored run: what comes back is what an unbroken run sees, and the rest is refused."""

from __future__ import annotations

import asyncio
import datetime
import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypedDict

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.checkpoint import MemoryCheckpointer
from teff.errors import CheckpointError, GraphInterrupt, StateError
from teff.flow import Flow, SubFlow
from teff.graph import Edge, Graph
from teff.node import ExecContext, Interrupt, make_function_node
from teff.runtime import Limits, RunResult
from teff.state import Append


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Trip:
    city: str
    days: int = 1


@dataclass
class Stay:
    trip: Trip
    colour: Colour


class Declared(TypedDict, total=False):
    stay: Stay
    trips: list[Trip]
    anything: Any
    log: list[Any]
    go: str


def asking(
    value: Any, *, state: Any = None, look: list[Any] | None = None, key: str = "anything"
) -> Graph:
    """Return a graph that writes a value, asks a person, and looks at the value again."""

    async def write(ctx: ExecContext, given: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value, "log": Append([value])}

    async def read(ctx: ExecContext, given: Mapping[str, Any]) -> dict[str, Any]:
        if look is not None:
            look.append((given[key], given["log"]))
        return {}

    nodes = {
        "write": make_function_node(write),
        "ask": Interrupt(key="go"),
        "read": make_function_node(read),
    }
    return Graph(nodes, [Edge("write", "ask"), Edge("ask", "read")], "write", state=state)


def resumed(graph: Graph, store: MemoryCheckpointer | None = None) -> RunResult:
    """Run up to the question, and go on in a second run."""
    where = store or MemoryCheckpointer()

    async def main() -> RunResult:
        options: dict[str, Any] = {"checkpointer": where, "checkpoint_id": "r"}
        with pytest.raises(GraphInterrupt):
            await graph.run({}, **options)
        return await graph.run(resume="yes", **options)

    return asyncio.run(main())


VALUES = [
    datetime.datetime(2026, 3, 1, 9, tzinfo=datetime.UTC),
    datetime.timedelta(days=1, microseconds=3),
    Decimal("1.10"),
    b"\x00\xff",
    {1, 2},
    (1, (2,)),
    uuid.UUID(int=7),
    complex(1, 2),
    10**30,
    "half \ud800 a character",
    {1: "a", None: "b"},
    {"!set": [1]},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_ckp_01_ordinary_values_come_back_as_they_were(value: Any) -> None:
    seen: list[Any] = []
    result = resumed(asking(value, look=seen))
    (again, log) = seen[0]
    assert again == value
    assert log[0] == value
    assert result["anything"] == value
    assert type(result["anything"]) is type(value)


def test_not_a_number_comes_back_as_one() -> None:
    result = resumed(asking(float("nan")))
    assert result["anything"] != result["anything"]


@settings(max_examples=40, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
        max_leaves=12,
    )
)
def test_a_resumed_run_sees_what_an_unbroken_one_sees(value: Any) -> None:
    def kinds(given: Any) -> Any:
        if isinstance(given, dict):
            return {key: kinds(each) for key, each in given.items()}
        if isinstance(given, list | tuple):
            return (type(given).__name__, [kinds(each) for each in given])
        return type(given).__name__

    seen: list[Any] = []
    broken = resumed(asking(value, look=seen))
    whole = asyncio.run(
        Flow("f").step(make_function_node(lambda ctx, state: {"anything": value})).compile().run({})
    )
    assert broken["anything"] == whole["anything"] == seen[0][0]
    assert kinds(broken["anything"]) == kinds(whole["anything"])


def test_types_that_the_schema_declares_come_back() -> None:
    stay = Stay(Trip("Riga", 2), Colour.RED)
    result = resumed(asking(stay, state=Declared, key="stay"))
    assert result["stay"] == stay
    assert isinstance(result["stay"].trip, Trip)


def test_types_that_the_schema_of_a_sub_flow_declares_come_back() -> None:
    inner = Flow("inner", state=Declared)
    inner.step(make_function_node(lambda ctx, state: {"trips": [Trip("Riga")]}), id="plan")
    inner.interrupt("go")
    outer = Flow("outer").step(SubFlow(inner.compile()))
    result = resumed(outer.compile())
    assert result["trips"] == [Trip("Riga")]


class Odd:
    """Nothing declares it."""


@pytest.mark.parametrize("place", ["top", "deep"])
def test_ckp_03_an_object_is_refused_before_its_step_counts(place: str) -> None:
    value = Odd() if place == "top" else {"cfg": [1, {"path": Odd()}]}
    store = MemoryCheckpointer()
    with pytest.raises(StateError) as refused:
        asyncio.run(asking(value).run({}, checkpointer=store, checkpoint_id="r"))
    where = "state.anything" if place == "top" else "state.anything.cfg[1].path"
    assert "'write'" in str(refused.value)
    assert where in str(refused.value)
    assert "Odd" in str(refused.value)
    records = asyncio.run(store.load("r"))
    assert [record.kind for record in records if record.kind == "step"] == []


def test_a_refused_value_is_a_failure_that_an_error_edge_takes() -> None:
    caught = make_function_node(lambda ctx, state: {"told": state["error"]["type"]})
    graph = Graph(
        {"write": make_function_node(lambda ctx, state: {"x": Odd()}), "caught": caught},
        [Edge("write", "caught", condition="__error__")],
        "write",
    )
    result = asyncio.run(graph.run({}, checkpointer=MemoryCheckpointer(), checkpoint_id="r"))
    assert result["told"] == "StateError"
    assert "x" not in result


def test_an_input_that_cannot_be_stored_is_refused_before_the_first_step() -> None:
    with pytest.raises(StateError, match="the input: state.x"):
        asyncio.run(
            asking(1).run({"x": Odd()}, checkpointer=MemoryCheckpointer(), checkpoint_id="r")
        )


def test_what_once_returns_has_to_be_storable() -> None:
    async def once(ctx: ExecContext, state: Any) -> dict[str, Any]:
        await ctx.once("made", lambda: Odd())
        return {}

    graph = Flow("f").step(make_function_node(once), id="n").compile()
    with pytest.raises(StateError, match="n/1/made"):
        asyncio.run(graph.run({}, checkpointer=MemoryCheckpointer(), checkpoint_id="r"))


def test_without_a_checkpointer_any_value_may_stand_in_the_state() -> None:
    odd = Odd()
    flow = Flow("f").step(make_function_node(lambda ctx, state: {"x": odd}))
    assert asyncio.run(flow.compile().run({}))["x"] is odd


def test_ckp_a_type_that_is_gone_is_said_by_run_and_name() -> None:
    store = MemoryCheckpointer()

    async def start() -> None:
        with pytest.raises(GraphInterrupt):
            await asking([Trip("Riga")], state=Declared, key="trips").run(
                {}, checkpointer=store, checkpoint_id="r"
            )

    asyncio.run(start())
    plain = asking([Trip("Riga")], key="trips")
    with pytest.raises(CheckpointError, match=r"run 'r' cannot be read: .*Trip") as raised:
        asyncio.run(plain.run(resume="yes", checkpointer=store, checkpoint_id="r"))
    assert raised.value.run_id == "r"


def test_what_a_step_kept_at_a_limit_is_dropped_where_it_cannot_be_stored() -> None:
    """The bound is told, and not an error about what was kept."""
    store = MemoryCheckpointer()

    async def slow(ctx: ExecContext, state: Any) -> dict[str, Any]:
        ctx.keep({"partial": Odd()})
        await asyncio.sleep(60)
        return {}

    graph = Flow("f").step(make_function_node(slow), id="slow").compile()
    result = asyncio.run(
        graph.run({}, checkpointer=store, checkpoint_id="r", limits=Limits(deadline=0.05))
    )
    assert (result.status, result.stop_reason) == ("stopped", "deadline")
    assert "partial" not in result


def test_once_may_be_asked_again_where_its_result_could_not_be_stored() -> None:
    async def once(ctx: ExecContext, state: Any) -> dict[str, Any]:
        try:
            await ctx.once("made", Odd)
        except StateError:
            return {"made": await ctx.once("made", lambda: "plain")}
        return {}

    graph = Flow("f").step(make_function_node(once), id="n").compile()
    result = asyncio.run(graph.run({}, checkpointer=MemoryCheckpointer(), checkpoint_id="r"))
    assert result["made"] == "plain"


def test_a_question_that_an_error_edge_left_behind_is_not_asked_again() -> None:
    async def twice(ctx: ExecContext, state: Any) -> dict[str, Any]:
        await asyncio.gather(ctx.interrupt("k"), ctx.interrupt("k"))
        return {}

    graph = Graph(
        {"t": make_function_node(twice), "ask": Interrupt(key="other")},
        [Edge("t", "ask", condition="__error__")],
        "t",
    )

    async def main() -> list[str]:
        store = MemoryCheckpointer()
        with pytest.raises(GraphInterrupt) as paused:
            await graph.run({}, checkpointer=store, checkpoint_id="r")
        return [question.key for question in paused.value.interrupts]

    assert asyncio.run(main()) == ["other"]
