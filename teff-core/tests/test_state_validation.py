"""A graph with a schema: what it refuses, and what it lets through."""

from __future__ import annotations

import asyncio
import logging
import operator
from typing import Annotated, Any, TypedDict

import attrs
import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, RunFinished, StateError
from teff.flow import Flow, SubFlow
from teff.graph import Edge, Graph
from teff.node import Command, Node, make_function_node
from teff.state import DELETE, Append, Overwrite, State


class Chat(TypedDict, total=False):
    n: int
    log: Annotated[list[str], "append"]
    total: Annotated[int, operator.add]
    names: list[str]


def returning(
    *updates: Any, state: Any = Chat, edges: list[Edge] | None = None, **options: Any
) -> Graph:
    """Return a graph of nodes ``a``, ``b``, … that return the updates."""

    def node(update: Any) -> Node:
        async def execute(ctx: Any, state: dict[str, Any]) -> Any:
            return update(state) if callable(update) else update

        return make_function_node(execute)

    nodes = {"abcdef"[index]: node(update) for index, update in enumerate(updates)}
    names = list(nodes)
    chained = [Edge(a, b) for a, b in zip(names, names[1:], strict=False)]
    return Graph(nodes, chained if edges is None else edges, "a", state=state, **options)


def run(graph: Graph, state: Any = None, **options: Any) -> Any:
    return asyncio.run(graph.run(state, **options))


# Updates


def test_updates_that_fit_go_in_as_they_are() -> None:
    graph = returning({"n": 1, "log": "x"}, {"log": ["y"], "total": 2}, {"total": 3})
    assert run(graph) == {"n": 1, "log": ["x", "y"], "total": 5}


def test_an_undeclared_key_is_refused_by_name() -> None:
    with pytest.raises(StateError) as caught:
        run(returning({"n": 1}, {"nn": 1}))
    assert str(caught.value) == (
        "node 'b' returned what does not fit the state schema: "
        "'nn' is not declared in the state schema. Did you mean 'n'?"
    )
    assert any("in node 'b'" in note for note in caught.value.__notes__)


def test_a_wrong_type_names_node_key_expectation_and_what_came() -> None:
    with pytest.raises(StateError, match=r"node 'a' .*: 'n' must be a whole number, not text\."):
        run(returning({"n": "1"}))


def test_everything_that_is_wrong_with_an_update_is_said_at_once() -> None:
    with pytest.raises(StateError) as caught:
        run(returning({"n": "1", "names": [1, "b", 2], "x": 1}))
    for name in ("'n'", "'names[0]'", "'names[2]'", "'x'"):
        assert name in str(caught.value)


ANYTHING = object()


@pytest.mark.parametrize(
    ("update", "changed"),
    [
        ({"log": "a"}, {"log": ["z", "a"]}),
        ({"log": ["a", "b"]}, {"log": ["z", "a", "b"]}),
        ({"log": ("a",)}, {"log": ["z", "a"]}),
        ({"log": Append(["a"])}, {"log": ["z", "a"]}),
        ({"log": Overwrite(["a"])}, {"log": ["a"]}),
        ({"names": Append(["a"])}, {"names": ["y", "a"]}),
        ({"n": Overwrite(1)}, {"n": 1}),
        ({"_scratch": ANYTHING}, {"_scratch": ANYTHING}),
        ({"error": "x"}, {"error": "x"}),
        (Command({"n": 1}), {"n": 1}),
        (lambda state: {**state, "n": 2}, {"n": 2}),
        (lambda state: state | {"log": "c"}, {"log": ["z", "c"]}),
        (None, {}),
        ({}, {}),
    ],
)
def test_what_fits(update: Any, changed: dict[str, Any]) -> None:
    before = {"log": ["z"], "names": ["y"]}
    result = run(returning(update), before)
    assert {key: result[key] for key in {**before, **changed}} == {**before, **changed}


def test_a_key_may_be_deleted() -> None:
    result = run(returning({"log": DELETE, "n": DELETE}), {"log": ["z"], "names": ["y"], "n": 1})
    assert not result.keys() & {"log", "n"}


@pytest.mark.parametrize(
    ("update", "problem"),
    [
        ({"log": 1}, r"'log\[0\]' must be text"),
        ({"log": ["a", 1]}, r"'log\[1\]' must be text"),
        ({"log": Append([1])}, r"'log\[0\]' must be text"),
        ({"log": Overwrite("a")}, r"'log' must be a list of texts"),
        ({"n": Append([1])}, r"'n' must be a whole number, not a list"),
        ({"n": Overwrite("1")}, r"'n' must be a whole number"),
        ({"nn": DELETE}, r"'nn' is not declared"),
        ({"names": "a"}, r"'names' must be a list of texts"),
        (Command({"n": "1"}), r"'n' must be a whole number"),
        (lambda state: {**state, "n": "x"}, r"'n' must be"),
    ],
)
def test_what_does_not_fit(update: Any, problem: str) -> None:
    with pytest.raises(StateError, match=problem):
        run(returning(update), {"log": ["z"]})


def test_a_dict_that_is_rebound_in_place_is_checked_too() -> None:
    def rebind(state: dict[str, Any]) -> dict[str, Any]:
        state["n"] = "x"
        return state

    with pytest.raises(StateError, match="'n' must be"):
        run(returning(rebind), {"n": 1})


def test_of_a_reducer_function_the_outcome_is_checked() -> None:
    schema = {"seen": Annotated[list[int], lambda old, new: [*old, new]]}
    assert run(returning({"seen": 2}, state=schema), {"seen": [1]}) == {"seen": [1, 2]}
    with pytest.raises(StateError, match=r"'seen\[1\]' must be a whole number"):
        run(returning({"seen": "x"}, state=schema), {"seen": [1]})


def test_a_reducer_function_is_called_once() -> None:
    calls: list[Any] = []

    def add(old: int, new: int) -> int:
        calls.append(new)
        return old + new

    assert run(returning({"n": 2}, state={"n": Annotated[int, add]}), {"n": 1}) == {"n": 3}
    assert calls == [2]


def test_the_reducers_of_the_run_say_how_an_update_is_read() -> None:
    graph = returning({"names": "a"})
    assert run(graph, reducers={"names": "append"}) == {"names": ["a"]}


def test_a_refused_update_changes_nothing_and_goes_to_the_error_edge() -> None:
    graph = returning(
        {"n": 2, "log": 1}, {"log": "b"}, edges=[Edge("a", "b", "__error__")], state=Chat
    )
    result = run(graph, {"n": 1})
    assert (result["n"], result["log"]) == (1, ["b"])
    assert result["error"]["type"] == "StateError"
    assert result["error"]["node"] == "a"


def test_a_refused_update_is_told_as_a_failure_of_the_node() -> None:
    told: list[Any] = []
    with pytest.raises(StateError):
        run(returning({"x": 1}), emit=told.append)
    failures = [event for event in told if event.type == "node_error"]
    assert [event.node_id for event in failures] == ["a"]


def test_keys_that_nodes_keep_for_one_turn_need_no_declaration() -> None:
    class Counts(Node):
        def turn_keys(self) -> list[str]:
            return ["rounds", "slot_*"]

        async def execute(self, ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
            return {"rounds": 1, "slot_a": 2}

    written = {"rounds": 1, "slot_a": 2}
    assert run(Graph({"a": Counts()}, [], "a", state=Chat)) == written
    outside = SubFlow(Graph({"a": Counts()}, [], "a"))
    assert run(Graph({"a": outside}, [], "a", state=Chat)) == written
    assert run(Graph({"a": Counts()}, [], "a", state=Chat), {"slot_b": 1}) == {
        "slot_b": 1,
        **written,
    }


# Inputs


def test_an_input_that_does_not_fit_is_refused_before_the_first_step() -> None:
    ran: list[str] = []
    graph = returning(lambda state: ran.append("a"))
    with pytest.raises(ConfigError) as caught:
        run(graph, {"n": "1", "nn": 2, "log": ["a", 3]})
    assert str(caught.value) == (
        "the input does not fit the state schema: 'n' must be a whole number, not text. "
        "'nn' is not declared in the state schema. Did you mean 'n'? "
        "'log[1]' must be text, not a whole number."
    )
    assert ran == []


def test_a_required_key_must_be_given() -> None:
    schema = {"q": {"type": "text", "required": True}}
    graph = returning({}, state=schema)
    nothing: tuple[Any, ...] = (None, {})
    for state in nothing:
        with pytest.raises(ConfigError, match="'q' is missing; it must be text"):
            run(graph, state)
    assert run(graph, {"q": "why"}) == {"q": "why"}


def test_defaults_are_filled_in_and_nobody_shares_them() -> None:
    @attrs.define
    class Start:
        names: list[str] = attrs.field(factory=list)
        n: int = 1

    graph = returning(lambda state: {"names": Append(["a"]), "n": state["n"] + 1}, state=Start)
    given: dict[str, Any] = {}
    assert run(graph, given) == run(graph) == {"names": ["a"], "n": 2}
    assert given == {}
    assert run(graph, {"n": 5})["n"] == 6


def test_a_state_brings_its_reducers() -> None:
    graph = returning({"log": "b"}, state=None)
    state = State({"log": "append"}, {"log": ["a"]})
    assert run(graph, state) == {"log": ["a", "b"]}
    assert run(graph, state, reducers={"log": "override"}) == {"log": "b"}
    assert state == {"log": ["a"]}


def test_a_chat_needs_no_declaration_of_what_its_turns_bring() -> None:
    schema = {"n": {"type": "integer", "default": 0}}
    graph = returning(lambda state: {"n": state["n"] + 1}, state=schema)
    chat: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "c"}
    for number in (1, 2):
        assert asyncio.run(graph.turn("hi", **chat)).state["n"] == number


def test_what_the_engine_brings_is_checked_where_it_is_declared() -> None:
    graph = returning({}, state={"input": "text", "messages": "append"})
    with pytest.raises(ConfigError, match="'input' must be text"):
        run(graph, {"input": 1})


# off, warn, error


def test_off_does_not_look_but_reduces_and_fills() -> None:
    schema = {"log": "append", "n": {"type": "integer", "default": 1}}
    graph = returning({"log": "b", "x": 1}, state=schema, validate="off")
    assert run(graph, {"log": ["a"], "y": 2}) == {"log": ["a", "b"], "n": 1, "x": 1, "y": 2}


def test_warn_says_each_thing_once_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    graph = returning(
        {"n": "x"},
        lambda state: {"n": str(len(state))},
        edges=[Edge("a", "b"), Edge("b", "b")],
        validate="warn",
    )
    with caplog.at_level(logging.WARNING, logger="teff"):
        result = run(graph, {"y": 1}, max_iterations=5)
    assert result == {"n": "2", "y": 1}
    assert [record.getMessage() for record in caplog.records] == [
        "the input does not fit the state schema: 'y' is not declared in the state schema. "
        "Known: log, n, names, total.",
        "node 'a' returned what does not fit the state schema: "
        "'n' must be a whole number, not text.",
        "node 'b' returned what does not fit the state schema: "
        "'n' must be a whole number, not text.",
    ]


@pytest.mark.parametrize("make", [Graph, Flow])
@pytest.mark.parametrize("word", ["eror", "", None, True])
def test_an_unknown_way_to_validate_is_refused(make: Any, word: Any) -> None:
    with pytest.raises(ConfigError, match="validate is 'off', 'warn' or 'error'") as caught:
        if make is Graph:
            returning({}, validate=word)
        else:
            Flow(validate=word).step(lambda ctx, state: {}).compile()
    assert caught.value.path == "validate"


def test_a_wrong_schema_is_refused_when_the_graph_is_made() -> None:
    with pytest.raises(ConfigError, match="unknown type 'strng' for state key 'n'"):
        returning({}, state={"n": "strng"})


def test_a_flow_passes_both_on() -> None:
    def flow(**options: Any) -> Graph:
        return Flow(state={"n": int}, **options).step(lambda ctx, state: {"x": 1}).compile()

    with pytest.raises(StateError, match="'x' is not declared"):
        run(flow())
    assert run(flow(validate="off")) == {"x": 1}


def test_without_a_schema_everything_goes() -> None:
    assert run(returning({"x": object}, state=None), {"y": 1}) == {"x": object, "y": 1}


# Graphs in graphs


def nested(inner: Graph, **options: Any) -> Graph:
    maps = {key: options.pop(key) for key in ("input_map", "output_map") if key in options}
    return Graph({"sub": SubFlow(inner, **maps)}, [], "sub", **options)


def test_a_graph_inside_is_held_against_its_own_schema() -> None:
    inner = returning({"n": "x"}, state={"n": int})
    with pytest.raises(StateError, match="node 'a' .*'n' must be"):
        run(nested(inner))
    outer = nested(returning({"n": "x"}, state=None), state={"n": int})
    with pytest.raises(StateError, match="node 'sub' .*'n' must be"):
        run(outer)


def test_keys_from_outside_need_no_declaration_inside() -> None:
    inner = returning({"n": 2}, state={"n": int})
    assert run(nested(inner), {"other": 1, "n": 1}) == {"other": 1, "n": 2}


def test_an_input_from_outside_that_does_not_fit_is_a_failure_of_the_step() -> None:
    inner = returning({}, state={"n": {"type": "integer", "required": True}})
    graph = Graph(
        {"sub": SubFlow(inner), "caught": make_function_node(lambda ctx, state: {"ok": True})},
        [Edge("sub", "caught", "__error__")],
        "sub",
    )
    result = run(graph, {"n": "x"})
    assert result["ok"]
    assert "'n' must be a whole number, not text" in result["error"]["message"]
    assert "'n' is missing" in run(graph)["error"]["message"]


def test_what_is_not_there_outside_gets_the_default_inside() -> None:
    inner = returning(
        lambda state: {"n": state["n"] + 1}, state={"n": {"type": "integer", "default": 1}}
    )
    graph = nested(inner, input_map={"n": "m"}, output_map={"m": "n"})
    assert run(graph) == {"m": 2}
    assert run(graph, {"m": 5}) == {"m": 6}


# Stored runs


def test_a_stored_run_goes_on_with_the_defaults_that_it_began_with() -> None:
    counter = iter(range(10))

    @attrs.define
    class Start:
        number: int = attrs.field(factory=lambda: next(counter))
        topic: str = ""
        answer: str = ""

    async def ask(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"answer": await ctx.interrupt("answer", "?")}

    graph = Graph({"ask": make_function_node(ask)}, [], "ask", state=Start)
    store = MemoryCheckpointer()
    stored = {"checkpointer": store, "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        run(graph, {"topic": "t"}, **stored)
    result = run(graph, {"topic": "t"}, resume="yes", **stored)
    assert result == {"number": 0, "topic": "t", "answer": "yes"}
    with pytest.raises(RunFinished):
        run(graph, {"topic": "u"}, **stored)
    assert run(graph, **stored) == result


def test_an_input_that_is_refused_leaves_no_stored_run() -> None:
    graph = returning({"n": 1})
    stored = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(ConfigError, match="'x' is not declared"):
        run(graph, {"x": 1}, **stored)
    assert run(graph, {"log": ["a"]}, **stored) == {"n": 1, "log": ["a"]}


def test_what_a_reducer_function_made_is_there_when_a_stored_run_goes_on() -> None:
    async def ask(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"total": await ctx.interrupt("more", "?")}

    nodes = {
        "add": make_function_node(lambda ctx, state: {"total": 2}),
        "ask": make_function_node(ask),
    }
    graph = Graph(nodes, [Edge("add", "ask")], "add", state=Chat)
    stored = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        run(graph, {"total": 1}, **stored)
    assert run(graph, resume=4, **stored) == {"total": 7}


def test_an_answer_that_does_not_fit_is_a_failure_of_the_node_that_asked() -> None:
    async def ask(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        raise GraphInterrupt("n", "how many?")

    nodes = {
        "ask": make_function_node(ask),
        "caught": make_function_node(lambda ctx, state: {"log": state["error"]["message"]}),
    }
    graph = Graph(nodes, [Edge("ask", "caught", "__error__")], "ask", state=Chat)

    def answered(answer: object) -> Any:
        stored = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
        with pytest.raises(GraphInterrupt):
            run(graph, **stored)
        return run(graph, resume=answer, **stored)

    assert answered(3) == {"n": 3}
    assert "'n' must be a whole number" in answered("x")["log"][0]


def test_the_schema_is_no_part_of_the_signature() -> None:
    assert returning({}).plan.signature == returning({}, state=None).plan.signature
