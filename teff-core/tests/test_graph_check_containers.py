"""What `Graph.check` finds in nodes that run nodes, and around nodes that decide."""

from __future__ import annotations

from typing import Any

import pytest

from teff.flow import SubFlow
from teff.graph import Edge, Graph
from teff.node import LLM, CommandNode, Interrupt, Node, Supervisor, Transform
from teff.node.gate import Gate
from teff.node.loop import Loop
from teff.node.map import Map
from teff.node.parallel import Parallel
from teff.node.retry import Retry
from teff.node.validate import Validate
from teff.runtime import Limits


def codes(node: Node, *edges: tuple[str, str] | tuple[str, str, str], known: str = "") -> list[str]:
    """Check a graph of a node ``a`` and plain ones."""
    made = [Edge(*edge) for edge in edges]
    names = {name for edge in made for name in (edge.source_id, edge.target_id)} - {"a"}
    nodes = {"a": node, **{name: now("time") for name in sorted(names)}}
    return [problem.code for problem in Graph(nodes, made, "a").check(known_keys=known.split())]


def now(key: str) -> Transform:
    return Transform(action="now", output_key=key)


def shows(key: str) -> Transform:
    return Transform(action="render", template=f"{{{key}}}", output_key="shown")


def graph_that_shows(key: str) -> Graph:
    return Graph({"show": shows(key)}, [], "show")


# Bounds of a part.


def test_the_limits_of_a_part_bound_the_rounds_inside_of_it() -> None:
    nodes = {"a": now("x"), "b": now("y")}
    edges = [Edge("a", "b"), Edge("b", "a")]
    assert codes(SubFlow(Graph(nodes, edges, "a"))) == ["unbounded-cycle"]
    assert codes(SubFlow(Graph(nodes, edges, "a"), limits={"max_model_calls": 9})) == [
        "unbounded-cycle"
    ]
    for bound in ({"max_steps": 9}, {"deadline": 1}):
        assert codes(SubFlow(Graph(nodes, edges, "a"), limits=bound)) == []
        assert codes(SubFlow(Graph(nodes, edges, "a", limits=Limits(**bound)))) == []
    around = Graph(
        {"part": SubFlow(Graph(nodes, edges, "a"), limits={"max_tokens": 9})}, [], "part"
    )
    assert [problem.code for problem in around.check()] == ["unbounded-cycle"]


# Branches side by side.


@pytest.mark.parametrize(
    ("branches", "found"),
    [
        ([now("x"), now("x")], ["colliding-writes"]),
        ({"one": now("x"), "two": [now("y"), now("x")]}, ["colliding-writes"]),
        ([now("x"), now("y")], []),
        ([[now("x"), now("x")], now("y")], []),
        ([SubFlow(Graph({"n": now("x")}, [], "n")), now("x")], ["colliding-writes"]),
    ],
)
def test_branches_that_write_one_key(branches: Any, found: list[str]) -> None:
    assert codes(Parallel(branches)) == found
    assert codes(Retry(Parallel(branches))) == found


def test_branches_that_add_to_one_list_do_not_collide() -> None:
    def adds() -> Transform:
        return Transform(action="append", value=1, output_key="log")

    def says(key: str) -> LLM:
        return LLM(prompt="hi", output_key=key, messages_key="talk", append_reply=True)

    assert codes(Parallel([adds(), Retry(adds())]), known="talk") == []
    assert codes(Parallel([says("one"), [Retry(says("two"))]]), known="talk") == []
    flow = SubFlow(Graph({"say": says("one")}, [], "say"))
    assert codes(Parallel([flow, says("two")]), known="talk") == []


def test_two_models_with_the_same_output_key() -> None:
    assert codes(Parallel([LLM(prompt="a"), LLM(prompt="b")])) == ["colliding-writes"]
    apart = [LLM(prompt="a", output_key="one"), LLM(prompt="b", output_key="two")]
    assert codes(Parallel(apart)) == []


# Keys within containers.


@pytest.mark.parametrize(
    "node",
    [
        Parallel([shows("topic"), now("x")]),
        Map(shows("topic"), input_keys="topic", output_key="found", result_key="shown"),
        Loop(shows("topic"), key="shown", until="x"),
        Retry(shows("topic")),
        Retry(Parallel([[shows("topic")]])),
        Parallel([SubFlow(graph_that_shows("topic")), now("x")]),
        Retry(SubFlow(graph_that_shows("topic"))),
    ],
)
def test_a_key_that_a_child_reads_and_nothing_writes(node: Node) -> None:
    assert codes(node) == ["unwritten-key"]
    assert codes(node, known="topic") == []


def test_children_write_for_each_other() -> None:
    steps: list[Node] = [now("topic"), shows("topic")]
    assert codes(Parallel([steps, now("x")])) == []
    assert codes(Loop(steps, key="shown", until="x")) == []
    flow: list[Node] = [now("topic"), SubFlow(graph_that_shows("topic"))]
    assert codes(Loop(flow, key="shown", until="x")) == []


def test_a_model_within_containers_that_is_sent_everything() -> None:
    assert codes(Loop([Retry(LLM())], key="output", until="x")) == ["whole-state-prompt"]


# Decisions.


BACK = ("a", "b", "decision=fix"), ("b", "a")


def test_a_gate_needs_a_way_for_both_decisions() -> None:
    gate = Gate(input_key="input")
    assert codes(gate, *BACK, ("a", "c", "decision=yes")) == []
    assert codes(gate, ("a", "c", "decision=yes")) == ["missing-default"]
    assert codes(gate, ("a", "b", "decision=fix"), ("a", "c", "decision=pass")) == [
        "missing-default",
        "condition-trap",
    ]
    assert codes(Retry(gate), *BACK, ("a", "c", "decision=yes")) == []


def test_a_gate_whose_failures_lead_back_may_end_with_a_pass() -> None:
    assert codes(Gate(input_key="input"), *BACK) == []


def test_an_unclear_answer_needs_a_way() -> None:
    def judge(**how: Any) -> Validate:
        return Validate(input_key="input", equals="x", pass_value="go", fail_value="no", **how)

    ways = ("a", "b", "decision=go"), ("a", "c", "decision=no")
    assert codes(judge(), *ways) == []
    assert codes(judge(clarify_value="ask"), *ways) == ["missing-default"]
    assert codes(judge(clarify_value="ask"), *ways, ("a", "d", "decision=ask")) == []


def test_only_decisions_that_pass_in_the_end_bound_the_rounds() -> None:
    def judge(on_exhausted: Any) -> Validate:
        return Validate(input_key="input", equals="x", fail_value="fix", on_exhausted=on_exhausted)

    assert codes(judge("pass"), *BACK) == []
    assert codes(judge("fail"), *BACK) == ["unbounded-cycle"]


def test_a_person_within_containers_bounds_the_rounds() -> None:
    ask = Parallel([Interrupt(key="go"), now("x")])
    assert codes(ask, ("a", "b", "go=yes"), ("b", "a")) == []


def test_a_supervisor_that_is_tried_again_is_a_supervisor() -> None:
    lead = Supervisor(agents=["b"])
    assert codes(Retry(lead), ("a", "b", "next_agent=b"), ("b", "a")) == []


# Commands.


def test_routes_look_at_the_state_before_the_update() -> None:
    routes: Any = [{"when": "k=x", "goto": "b"}]
    plain = CommandNode(routes=routes)
    changed = CommandNode(routes=routes, update={"k": "x"})
    assert "missing-default" not in codes(plain, ("a", "b", "k!=x"), known="k")
    assert "missing-default" in codes(changed, ("a", "b", "k!=x"))
    assert "shadowed-edge" in codes(plain, ("a", "b", "k=x"), ("a", "c"), known="k")
    assert "shadowed-edge" not in codes(changed, ("a", "b", "k=x"), ("a", "c"))


def test_a_command_that_is_tried_again_is_a_command() -> None:
    routes: Any = [{"when": "k=x", "goto": "b"}]
    edges = [("b", "b", "k=never")]
    assert codes(Retry(CommandNode(routes=routes)), *edges, known="k")[0] == "missing-default"
    assert "missing-default" not in codes(
        Retry(CommandNode(routes=routes, goto="STOP")), *edges, known="k"
    )
