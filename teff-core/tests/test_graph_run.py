"""Running a graph: order, updates, errors, commands, limits."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest

from teff.errors import ConfigError, LimitReached, StateError, WorkflowError
from teff.graph import Edge, Graph
from teff.node import Command, Node, make_function_node
from teff.runtime import Limits
from teff.state import DELETE, Append, Overwrite


def graph_of(*functions: Any, edges: list[Edge] | None = None, **options: Any) -> Graph:
    """Functions as a chain, or with the edges that are given; ids are their names."""
    nodes = {function.__name__: make_function_node(function) for function in functions}
    names = list(nodes)
    chained = [Edge(a, b) for a, b in zip(names, names[1:], strict=False)]
    return Graph(nodes, chained if edges is None else edges, names[0], **options)


def run(graph: Graph, state: dict[str, Any] | None = None, **options: Any) -> Any:
    return asyncio.run(graph.run(state, **options))


async def first(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    return {"seen": [*state.get("seen", []), "first"]}


async def second(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    return {"seen": [*state.get("seen", []), "second"]}


async def third(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    return {"seen": [*state.get("seen", []), "third"]}


def test_nodes_run_in_the_order_of_the_edges() -> None:
    result = run(graph_of(first, second, third))
    assert result == {"seen": ["first", "second", "third"]}
    assert (result.status, result.stop_reason, result.steps) == ("finished", "end", 3)


def test_the_first_edge_that_matches_is_taken() -> None:
    edges = [
        Edge("first", "third", "go=left"),
        Edge("first", "second", lambda state: True),
        Edge("first", "third"),
    ]
    assert run(graph_of(first, second, third, edges=edges))["seen"] == ["first", "second"]
    left = run(graph_of(first, second, third, edges=edges), {"go": "left"})
    assert left["seen"] == ["first", "third"]


def test_a_run_that_ends_because_no_edge_matched_says_so() -> None:
    result = run(graph_of(first, second, edges=[Edge("first", "second", "go=left")]))
    assert (result.status, result.stop_reason) == ("finished", "no_edge_matched")


def test_plain_functions_run_off_the_event_loop() -> None:
    import threading

    def where(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"main": threading.current_thread() is threading.main_thread()}

    assert run(graph_of(where))["main"] is False


def test_the_callers_dict_is_never_changed() -> None:
    given = {"seen": ["start"], "deep": {"list": [1]}}
    before = copy.deepcopy(given)
    run(graph_of(first, second, reducers={"seen": "append"}), given)
    assert given == before


def test_the_result_is_made_of_ordinary_values() -> None:
    result = run(graph_of(first), {"deep": {"list": [1, {"x": {2}}]}})
    result["seen"].append("mine")
    result["deep"]["list"][1]["x"].add(3)
    assert type(result["deep"]) is dict
    assert json.dumps({"seen": result["seen"]})


def test_changing_a_value_in_place_is_refused_with_the_way_out() -> None:
    async def mutate(ctx: Any, state: dict[str, Any]) -> None:
        state["items"].append(1)

    with pytest.raises(TypeError, match="return an update instead") as caught:
        run(graph_of(mutate), {"items": []})
    assert any("mutate" in note for note in caught.value.__notes__)


def test_returning_the_given_dict_means_the_keys_that_were_rebound() -> None:
    async def rebind(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        state["n"] += 1
        state["log"] += ["rebound"]
        del state["old"]
        return state

    result = run(graph_of(rebind), {"n": 1, "log": ["start"], "old": 0, "kept": [1]})
    assert result == {"n": 2, "log": ["start", "rebound"], "kept": [1]}


def test_adding_to_a_list_of_the_given_dict_does_not_double_under_append() -> None:
    async def rebind(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        state["log"] += ["b"]
        return state

    result = run(graph_of(rebind, reducers={"log": "append"}), {"log": ["a"]})
    assert result["log"] == ["a", "b"]


def test_rebinding_without_returning_the_dict_has_no_effect() -> None:
    async def forget(ctx: Any, state: dict[str, Any]) -> None:
        state["n"] = 2

    assert run(graph_of(forget), {"n": 1}) == {"n": 1}


def test_operators_win_over_reducers() -> None:
    async def update(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"a": Overwrite(["new"]), "b": Append(["more"]), "c": DELETE}

    result = run(
        graph_of(update, reducers={"a": "append", "b": "override", "c": "keep"}),
        {"a": ["old"], "b": ["some"], "c": 1},
    )
    assert result == {"a": ["new"], "b": ["some", "more"]}


def test_reducers_of_the_call_win_over_those_of_the_graph_and_its_schema() -> None:
    async def add(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"n": 5}

    graph = graph_of(add, state={"n": {"reducer": "keep"}})
    assert run(graph, {"n": 1})["n"] == 1
    assert run(graph, {"n": 1}, reducers={"n": lambda old, new: old + new})["n"] == 6


def test_an_unknown_reducer_is_refused_when_the_graph_is_made() -> None:
    with pytest.raises(ConfigError, match="appnd.*Did you mean 'append'"):
        graph_of(first, reducers={"seen": "appnd"})


@pytest.mark.parametrize("returned", [3, "text", ["list"], ("a", 1)])
def test_a_result_that_is_no_update_is_refused_by_name(returned: object) -> None:
    async def wrong(ctx: Any, state: dict[str, Any]) -> Any:
        return returned

    with pytest.raises(StateError, match="'wrong' returned"):
        run(graph_of(wrong))


def test_an_update_that_fails_changes_nothing() -> None:
    async def half(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"good": 1, "bad": Append([1])}

    async def handle(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"handled": state["error"]["type"]}

    graph = graph_of(half, handle, edges=[Edge("half", "handle", "__error__")])
    result = run(graph, {"bad": "text"})
    assert result["handled"] == "StateError"
    assert "good" not in result


def test_an_error_edge_gives_the_handler_what_failed() -> None:
    async def fail(ctx: Any, state: dict[str, Any]) -> None:
        raise ValueError("no luck")

    async def handle(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"told": dict(state["error"])}

    result = run(graph_of(fail, handle, edges=[Edge("fail", "handle", "__error__")]))
    assert result["told"] == {
        "node": "fail",
        "path": "fail/1",
        "type": "ValueError",
        "message": "no luck",
    }
    assert result.status == "finished"


def test_an_uncaught_error_is_what_the_node_raised_with_a_note() -> None:
    class Mine(Exception):
        pass

    async def fail(ctx: Any, state: dict[str, Any]) -> None:
        raise Mine("no luck")

    with pytest.raises(Mine, match="no luck") as caught:
        run(graph_of(first, fail))
    assert caught.value.__notes__ == ["in node 'fail' (fail) at fail/1"]


def test_a_command_goes_where_it_says_and_updates_on_the_way() -> None:
    async def jump(ctx: Any, state: dict[str, Any]) -> Command:
        return Command({"jumped": True}, goto="third")

    assert run(graph_of(jump, second, third)) == {"jumped": True, "seen": ["third"]}


def test_a_stop_command_ends_the_run() -> None:
    async def stop(ctx: Any, state: dict[str, Any]) -> Command:
        return Command(goto=Command.STOP)

    result = run(graph_of(stop, second))
    assert (result.status, result.stop_reason) == ("stopped", "command_stop")
    assert result == {}


def test_a_command_to_an_unknown_node_names_the_nodes_there_are() -> None:
    async def jump(ctx: Any, state: dict[str, Any]) -> Command:
        return Command(goto="secnd")

    with pytest.raises(WorkflowError, match="secnd.*Did you mean 'second'"):
        run(graph_of(jump, second))


@pytest.mark.parametrize(
    ("edges", "entry", "words"),
    [
        ([Edge("first", "secnd")], "first", "secnd.*Did you mean 'second'"),
        ([Edge("frst", "second")], "first", "frst.*Did you mean 'first'"),
        ([Edge("first", "second", "a =")], "first", None),
        ([], "frist", "entry point is 'frist'.*Did you mean 'first'"),
        ([Edge("first", "second", "a > ")], "first", "from 'first' to 'second'"),
    ],
)
def test_a_wrong_edge_is_refused_when_the_graph_is_made(
    edges: list[Edge], entry: str, words: str | None
) -> None:
    nodes = {name: make_function_node(first) for name in ("first", "second")}
    if words is None:
        Graph(nodes, edges, entry)
        return
    with pytest.raises(ConfigError, match=words):
        Graph(nodes, edges, entry)


def test_a_graph_does_not_change_with_the_lists_it_was_made_from() -> None:
    nodes, edges = {"first": make_function_node(first)}, [Edge("first", "first", "again=yes")]
    graph = Graph(nodes, edges, "first")
    nodes.clear()
    edges.clear()
    assert run(graph)["seen"] == ["first"]
    assert len(graph.edges) == 1


def cycle() -> Graph:
    async def count(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state.get("n", 0) + 1}

    return Graph({"count": make_function_node(count)}, [Edge("count", "count")], "count")


def test_a_limit_stops_the_run_with_the_state_so_far() -> None:
    result = run(cycle(), limits=Limits(max_steps=7))
    assert (result["n"], result.status, result.stop_reason) == (7, "stopped", "max_steps")


def test_max_iterations_is_the_older_name_of_max_steps() -> None:
    result = run(cycle(), max_iterations=3, limits=Limits(max_steps=7))
    assert (result["n"], result.stop_reason) == (3, "max_steps")


def test_a_limit_raises_with_the_result_where_it_is_asked_to() -> None:
    with pytest.raises(LimitReached) as caught:
        run(cycle(), limits=Limits(max_steps=7), on_limit="raise")
    assert caught.value.reason == "max_steps"
    assert caught.value.result["n"] == 7


def test_a_deadline_ends_a_run_that_waits_and_one_that_never_waits() -> None:
    async def wait(ctx: Any, state: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    for graph in (graph_of(first, wait), cycle()):
        result = run(graph, limits=Limits(deadline=0.05))
        assert (result.status, result.stop_reason) == ("stopped", "deadline")
        assert result


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_steps": 0},
        {"max_steps": -1},
        {"max_tokens": 1.5},
        {"deadline": True},
        {"deadline": "1"},
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Limits(**wrong)


def test_a_busy_graph_lets_the_event_loop_run_and_can_be_cancelled() -> None:
    async def scenario() -> int:
        ticks = 0
        task = asyncio.create_task(cycle().run())
        while ticks < 5:
            await asyncio.sleep(0)
            ticks += 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ticks

    assert asyncio.run(scenario()) == 5


def test_node_timeout_fails_the_node_and_reaches_its_error_edge() -> None:
    async def slow(ctx: Any, state: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    async def handle(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"told": state["error"]["type"]}

    graph = graph_of(slow, handle, edges=[Edge("slow", "handle", "__error__")])
    assert run(graph, node_timeout=0.02)["told"] == "TimeoutError"


def test_one_graph_runs_many_times_at_once() -> None:
    async def add(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"n": state["n"] + 1}

    async def scenario() -> list[int]:
        graph = graph_of(add)
        results = await asyncio.gather(*(graph.run({"n": n}) for n in range(20)))
        return [result["n"] for result in results]

    assert asyncio.run(scenario()) == list(range(1, 21))


def test_an_unknown_run_option_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="limts"):
        run(graph_of(first), limts=Limits())


def test_a_node_without_execute_says_what_is_missing() -> None:
    class Empty(Node):
        type = "empty"

    with pytest.raises(TypeError, match="Empty has no execute"):
        run(Graph({"empty": Empty()}, [], "empty"))


def test_to_mermaid_draws_nodes_conditions_and_error_edges() -> None:
    edges = [Edge("first", "second", 'kind="a b"'), Edge("first", "third", "__error__")]
    drawn = graph_of(first, second, third, edges=edges).to_mermaid()
    assert drawn.startswith("flowchart TD\n")
    assert 'n0["first"]' in drawn
    assert 'n0 -- "kind=#34;a b#34;" --> n1' in drawn
    assert "n0 -. on error .-> n2" in drawn


def test_unreachable_nodes_and_unwritten_keys_are_warnings() -> None:
    graph = graph_of(first, second, edges=[])
    assert [problem.code for problem in graph.check()] == ["unreachable"]


def test_a_function_on_an_edge_cannot_change_the_state_and_is_named_when_it_fails() -> None:
    def sneaky(state: dict[str, Any]) -> bool:
        state["seen"] = "changed"
        return True

    def broken(state: dict[str, Any]) -> bool:
        raise ZeroDivisionError

    result = run(graph_of(first, second, edges=[Edge("first", "second", sneaky)]))
    assert result["seen"] == ["first", "second"]
    with pytest.raises(ZeroDivisionError) as caught:
        run(graph_of(first, second, edges=[Edge("first", "second", broken)]))
    assert "when:broken" in caught.value.__notes__[0]
