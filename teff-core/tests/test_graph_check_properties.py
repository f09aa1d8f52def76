"""What a check claims holds for every state, and it never fails itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.conditions import compile_condition, parse
from teff.graph import Edge, Graph
from teff.graph.check import CODES
from teff.graph.check.possible import Possibilities, TooManyCombinations
from teff.graph.edge import ERROR
from teff.node import CommandNode, Node
from teff.node.gate import Gate
from teff.runtime import StreamEvent

KEYS = ("k", "n")
WORDS = ("a", "A", "b", "no", "1", "2", "1.0", "true", "null", "'a'", "'A'", "'1'", "''", "z.")


class Mark(Node):
    """Writes down that it was here."""

    type = "mark"

    async def execute(self, ctx: Any, state: dict[str, Any]) -> Mapping[str, Any]:
        return {"visited": [*state.get("visited", ()), ctx.node_id]}

    def reads(self) -> tuple[str, ...]:
        return ()

    def writes(self) -> tuple[str, ...]:
        return ("visited",)


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 3),
    st.sampled_from([0.5, 1.0, 1.5, 2.5, float("nan"), float("inf"), 10**30]),
    st.sampled_from(
        ["", " ", "a", "A.", "b", "B!", "ab", "no", "No.", "off", "1", "1.", "2", "null"]
    ),
    st.sampled_from([[], {}, ["a"], {"a": 1}]),
    st.text(max_size=2),
)
states = st.dictionaries(st.sampled_from(KEYS), values)

keys = st.sampled_from(KEYS)
words = st.sampled_from(WORDS)
tests = st.one_of(
    keys,
    st.builds("{}=".format, keys),
    st.builds("{}!=".format, keys),
    st.builds("{}={}".format, keys, words),
    st.builds("{}!={}".format, keys, words),
    st.builds("{}={},{}".format, keys, words, words),
    st.builds("{}!={},{}".format, keys, words, words),
    st.builds("{}{}{}".format, keys, st.sampled_from([">", ">=", "<", "<="]), words),
    st.builds("{} contains {}".format, keys, st.sampled_from(["a", "1"])),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
    ),
    max_leaves=3,
)


def opposite(texts: list[str]) -> list[str]:
    return [*texts, f"not ({' or '.join(f'({text})' for text in texts)})"]


condition_lists = st.one_of(
    st.lists(conditions, min_size=1, max_size=4),
    st.lists(conditions, min_size=1, max_size=3).map(opposite),
)


@settings(max_examples=300)
@given(condition_lists, st.lists(states, min_size=1, max_size=5))
def test_where_no_state_is_found_there_is_none(
    texts: list[str], some: list[dict[str, Any]]
) -> None:
    trees = [parse(text) for text in texts]
    possible = Possibilities(trees)
    asked = [compile_condition(tree) for tree in trees]
    try:
        misses_all = possible.find(fails=trees)
        takes_last = possible.find(holds=trees[-1:], fails=trees[:-1])
    except TooManyCombinations:
        return
    for state in some:
        says = [test(state) for test in asked]
        assert any(says) or misses_all is not None
        assert not says[-1] or any(says[:-1]) or takes_last is not None


@given(condition_lists)
def test_a_list_with_its_opposite_is_complete(texts: list[str]) -> None:
    trees = [parse(text) for text in opposite(texts)]
    try:
        assert Possibilities(trees).find(fails=trees) is None
    except TooManyCombinations:
        return


names = st.sampled_from(["a", "b", "c", "d", "e"])
edge_conditions = st.one_of(st.none(), st.just(ERROR), conditions)
edges = st.lists(st.builds(Edge, names, names, edge_conditions), max_size=10)


routes = st.lists(st.fixed_dictionaries({"when": conditions, "goto": names}), max_size=2)
updates = st.one_of(st.none(), st.fixed_dictionaries({"k": values}))
plain_nodes = st.builds(Mark)
all_nodes = st.one_of(
    plain_nodes,
    st.builds(CommandNode, routes=routes, goto=st.one_of(st.none(), names), update=updates),
    st.builds(Gate, input_key=keys, output_key=keys, rounds_key=st.just("rounds")).filter(
        lambda gate: gate.input_key != gate.output_key
    ),
)


def graphs(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Graph]:
    made = st.fixed_dictionaries(dict.fromkeys("abcde", nodes))
    return st.builds(Graph, made, edges, st.just("a"))


def run(graph: Graph, state: Mapping[str, Any], steps: int) -> tuple[str | None, list[str]]:
    """Run a graph; return why it ended, and the nodes in order."""
    visited: list[str] = []

    def listen(event: StreamEvent) -> None:
        if event.type == "node_start":
            visited.append(event.node_id)

    result = asyncio.run(graph.run(state, max_iterations=steps, emit=listen))
    return result.stop_reason, visited


def reported(graph: Graph) -> set[tuple[str, str]]:
    problems = graph.check(known_keys=KEYS)
    assert {problem.code for problem in problems} <= CODES.keys()
    json.dumps([attrs.asdict(problem) for problem in problems])
    return {(problem.code, problem.node) for problem in problems}


@settings(max_examples=150, deadline=None)
@given(graphs(plain_nodes), states)
def test_rounds_that_are_not_reported_end(graph: Graph, state: dict[str, Any]) -> None:
    reason, _ = run(graph, state, len(graph.nodes))
    codes = {code for code, _ in reported(graph)}
    assert reason != "max_steps" or "unbounded-cycle" in codes


@settings(max_examples=200, deadline=None)
@given(graphs(all_nodes), states)
def test_what_is_not_reported_does_not_happen(graph: Graph, state: dict[str, Any]) -> None:
    found = reported(graph)
    reason, visited = run(graph, state, 20)
    if reason == "no_edge_matched":
        assert ("missing-default", visited[-1]) in found or all_lead_back(graph, visited[-1])
    assert not any(("unreachable", name) in found for name in visited)


def all_lead_back(graph: Graph, name: str) -> bool:
    ahead = {node_id: [*node.targets()] for node_id, node in graph.nodes.items()}
    for edge in graph.edges:
        ahead[edge.source_id].append(edge.target_id)

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        left = [start]
        while left:
            at = left.pop()
            if at not in found:
                found.add(at)
                left += ahead[at]
        return found

    out = [
        edge.target_id for edge in graph.edges if edge.source_id == name and edge.condition != ERROR
    ]
    return all(name in reached(target) for target in (*out, *graph.nodes[name].targets()))
