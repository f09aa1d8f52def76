"""The flow builder: what each method wires."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.errors import ConfigError, WorkflowError
from teff.flow import Case, Flow, SubFlow
from teff.graph import Edge, Graph
from teff.node import Command, Node, Transform
from teff.runtime import Limits
from teff.state import Append


def add(name: str) -> Any:
    async def step(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"seen": Append([name])}

    return step


def seen(flow: Flow, state: Any = None, **options: Any) -> list[str]:
    result = asyncio.run(flow.compile().run(state, **options))
    return list(result.get("seen", []))


def edges(graph: Graph) -> list[tuple[str, str, Any]]:
    return [(edge.source_id, edge.target_id, edge.condition) for edge in graph.edges]


def test_steps_follow_each_other_and_get_stable_ids() -> None:
    flow = Flow().step(add("a"), id="first").transform(action="now").step(add("b"), id="last")
    assert list(flow.compile().nodes) == ["first", "transform_2", "last"]
    assert seen(flow) == ["a", "b"]


def test_inserting_a_step_renames_nothing_that_was_named() -> None:
    flow = Flow().step(add("a"), id="a").step(add("new")).step(add("b"), id="b")
    assert [name for name in flow.compile().nodes if name in "ab"] == ["a", "b"]


def test_two_steps_with_one_id_are_refused() -> None:
    with pytest.raises(ConfigError, match="two steps have the id 'a'"):
        Flow().step(add("a"), id="a").step(add("b"), id="a")


def test_building_on_does_not_change_a_compiled_graph() -> None:
    flow = Flow().step(add("a"), id="a")
    graph = flow.compile()
    flow.step(add("b"), id="b")
    assert list(graph.nodes) == ["a"]
    assert asyncio.run(graph.run())["seen"] == ["a"]
    assert seen(flow) == ["a", "b"]


def test_a_guarded_step_and_its_default_join_again() -> None:
    flow = (
        Flow()
        .step(add("start"))
        .step(add("urgent"), when="urgent")
        .default(add("calm"))
        .step(add("end"))
    )
    assert seen(flow, {"urgent": True}) == ["start", "urgent", "end"]
    assert seen(flow) == ["start", "calm", "end"]


def test_default_without_a_guarded_step_is_refused() -> None:
    with pytest.raises(ConfigError, match="default"):
        Flow().step(add("a")).default(add("b"))
    with pytest.raises(ConfigError, match="before it"):
        Flow().step(add("a"), when="x")


def test_a_branch_goes_one_way_and_the_next_step_joins_them() -> None:
    flow = (
        Flow()
        .step(add("start"))
        .branch(
            "kind",
            Case("bill").add(add("bill 1")).add(add("bill 2")),
            Case("two, words").add(add("words")),
            Case(True).add(add("yes")),
            Case(3).add(add("three")),
            default=add("other"),
        )
        .converge(add("end"))
    )
    for value, way in [
        ("Bill.", ["bill 1", "bill 2"]),
        ("two, words", ["words"]),
        (True, ["yes"]),
        (3, ["three"]),
        ("else", ["other"]),
        (None, ["other"]),
    ]:
        assert seen(flow, {"kind": value}) == ["start", *way, "end"]


def test_a_branch_without_a_default_ends_where_nothing_matches() -> None:
    flow = Flow().step(add("start")).branch("kind", Case("a").add(add("a"))).step(add("end"))
    assert seen(flow, {"kind": "b"}) == ["start"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Flow().branch("kind", Case("a").add(add("a"))),
        lambda: Flow().step(add("a")).branch("kind"),
        lambda: Flow().step(add("a")).branch("kind", Case("a")),
        lambda: Flow().route("next", agents={"a": add("a")}),
        lambda: Flow().step(add("a")).route("next"),
        lambda: Flow().step(add("a")).route("next", agents={"a": []}),
        lambda: Flow().compile(),
        lambda: Flow().step(3),  # type: ignore[arg-type]
    ],
)
def test_a_flow_that_makes_no_sense_is_refused_in_a_sentence(wrong: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        wrong()
    assert str(caught.value).endswith(".")


class Decide(Node):
    """Routes through a list that the test gives."""

    type = "decide"

    async def execute(self, ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        ahead = state["plan"]
        return {"next": ahead[0], "plan": ahead[1:]}


def test_a_route_goes_to_each_agent_and_back_until_it_finishes() -> None:
    flow = (
        Flow()
        .step(Decide(), id="lead")
        .route(
            "next",
            agents={"c++": add("c++"), "key": [add("k1"), add("k2")], "finish line": add("fl")},
            self_help=add("self"),
            finish=[add("f1"), add("f2")],
        )
        .step(add("end"))
    )
    plan = ["key", "c++", "finish line", "self_help", "finish"]
    assert seen(flow, {"plan": plan}) == ["k1", "k2", "c++", "fl", "self", "f1", "f2", "end"]


def test_names_that_differ_only_in_case_are_kept_apart() -> None:
    agents = {"QA": add("upper"), "qa": add("lower")}
    flow = Flow().step(Decide()).route("next", agents=agents)
    assert seen(flow, {"plan": ["qa", "QA", "finish"]}) == ["lower", "upper"]


def test_a_route_without_a_finish_chain_goes_on_with_the_next_step() -> None:
    flow = Flow().step(Decide()).route("next", agents={"a": add("a")}).step(add("end"))
    assert seen(flow, {"plan": ["a", "finish"]}) == ["a", "end"]


def test_a_flow_is_a_step_of_another() -> None:
    inner = Flow("inner").step(add("i1")).step(add("i2"))
    assert seen(Flow().step(add("a")).step(inner).add_flow(inner, id="again").step(add("z"))) == [
        "a",
        "i1",
        "i2",
        "i1",
        "i2",
        "z",
    ]


def test_red_02_nothing_doubles_over_levels_of_nesting() -> None:
    async def child(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"log": ["yo"]}

    async def grandchild(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"log": ["zz"]}

    inner = Flow().step(grandchild)
    middle = Flow().step(child).step(inner)
    flow = Flow(reducers={"log": "append"}).step(middle)
    assert asyncio.run(flow.compile().run({"log": ["hi"]}))["log"] == ["hi", "yo", "zz"]


def test_a_sub_flow_maps_keys_in_and_out() -> None:
    async def square(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        assert set(state) == {"x"}
        return {"y": state["x"] ** 2, "scratch": 1}

    flow = Flow().add_flow(
        Flow().step(square), id="area", input_map={"x": "side"}, output_map={"area": "y"}
    )
    assert asyncio.run(flow.compile().run({"side": 3})) == {"side": 3, "area": 9}


def test_a_sub_flow_that_deletes_a_key_deletes_it_outside() -> None:
    async def forget(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        del state["secret"]
        return state

    flow = Flow().step(Flow().step(forget))
    assert asyncio.run(flow.compile().run({"secret": 1, "kept": 2})) == {"kept": 2}


def test_limits_count_the_steps_inside_and_keep_what_was_done() -> None:
    inner = Flow().step(add("i1")).step(add("i2")).step(add("i3"))
    result = asyncio.run(
        Flow()
        .step(add("a"))
        .step(SubFlow(inner.compile(), id="in"))
        .compile()
        .run(limits=Limits(max_steps=4))
    )
    assert (result.status, result.stop_reason) == ("stopped", "max_steps")
    assert result["seen"] == ["a", "i1", "i2"]


def test_a_command_inside_a_sub_flow_stays_inside() -> None:
    async def stop(ctx: Any, state: dict[str, Any]) -> Command:
        return Command({"seen": Append(["stop"])}, goto=Command.STOP)

    assert seen(Flow().step(Flow().step(stop).step(add("never"))).step(add("after"))) == [
        "stop",
        "after",
    ]


def test_a_made_node_and_its_options_exclude_each_other() -> None:
    node = Transform(action="trim")
    assert list(Flow().transform(node, id="t").compile().nodes) == ["t"]
    with pytest.raises(TypeError, match="not both"):
        Flow().transform(node, action="trim")


def test_the_options_of_the_graph_pass_through() -> None:
    graph = Flow("named", limits=Limits(max_steps=1), default_model="m").step(add("a")).compile()
    assert (graph.name, graph.limits, graph.defaults.model) == ("named", Limits(max_steps=1), "m")


def test_a_harness_is_an_agent_and_its_tools() -> None:
    graph = Flow().harness(system="Help.", id="ag", tool_timeout=1.0).step(add("end")).compile()
    assert edges(graph) == [
        ("ag/agent", "ag/tool", "_tool_call_name!="),
        ("ag/tool", "ag/agent", None),
        ("ag/agent", "step_3", None),
    ]
    with pytest.raises(ConfigError, match="tool_timout"):
        Flow().harness(tool_timout=1.0)


def test_a_sub_flow_may_have_a_bound_of_its_own() -> None:
    endless = Flow().step(add("a"), id="a").step(add("b"), id="b")
    graph = endless.compile()
    looped = Graph(graph.nodes, [*graph.edges, Edge("b", "a")], "a")
    flow = Flow().add_flow(looped, "inner", max_iterations=5)
    with pytest.raises(WorkflowError, match="took its 5 steps"):
        seen(flow)
    assert seen(Flow().add_flow(endless, max_iterations=2)) == ["a", "b"]
    stopped = asyncio.run(flow.compile().run(limits=Limits(max_steps=4)))
    assert (stopped.stop_reason, stopped["seen"]) == ("max_steps", ["a", "b", "a"])
    with pytest.raises(ConfigError, match="max_iterations"):
        Flow().add_flow(endless, max_iterations=0)
