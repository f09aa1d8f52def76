"""What a check claims holds for every state, and it never fails itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teff.conditions import compile_condition, parse
from teff.graph import Edge, Graph
from teff.graph.check import CODES
from teff.graph.check.possible import Possibilities, TooManyCombinations
from teff.node import Node

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
edge_conditions = st.one_of(st.none(), st.just("__error__"), conditions)
edges = st.lists(st.builds(Edge, names, names, edge_conditions), max_size=10)


@settings(max_examples=150, deadline=None)
@given(edges, states)
def test_what_is_not_reported_does_not_happen(ways: list[Edge], state: dict[str, Any]) -> None:
    nodes = {name: Mark() for name in "abcde"}
    graph = Graph(nodes, ways, "a")
    problems = graph.check(known_keys=KEYS)
    assert {problem.code for problem in problems} <= CODES.keys()
    reported = {(problem.code, problem.node) for problem in problems}

    bound = len(nodes)
    result = asyncio.run(graph.run(state, max_iterations=bound))
    visited = result["visited"]
    if result.stop_reason == "no_edge_matched":
        assert ("missing-default", visited[-1]) in reported or all_lead_back(ways, visited[-1])
    if result.stop_reason == "max_steps":
        assert any(code == "unbounded-cycle" for code, _ in reported)
    assert not any(("unreachable", name) in reported for name in visited)


def all_lead_back(ways: list[Edge], name: str) -> bool:
    def leads_to(start: str) -> set[str]:
        found, ahead = set(), [start]
        while ahead:
            at = ahead.pop()
            if at not in found:
                found.add(at)
                ahead += [way.target_id for way in ways if way.source_id == at]
        return found

    out = [way for way in ways if way.source_id == name and way.condition != "__error__"]
    return all(name in leads_to(way.target_id) for way in out)
