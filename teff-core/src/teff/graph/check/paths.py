"""Findings about where a run goes: dead nodes, dead ends, and conditions that cannot be meant."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from teff.conditions import And, Compare, Condition, Not, Or, Value
from teff.graph.check.possible import Possibilities, TooManyCombinations
from teff.graph.check.problem import Problem, warning
from teff.graph.check.ways import Way, Ways, may_jump, unwrapped
from teff.node import Node, Supervisor

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["dead_ends", "odd_conditions", "unreachable"]


def unreachable(graph: Graph, ways: Ways) -> Iterator[Problem]:
    """Give the nodes that nothing leads to; none where a node that is reached may go anywhere."""
    reached = ways.reached_from([graph.entry_point])
    if any(may_jump(graph.nodes[name]) for name in reached):
        return
    for name in graph.nodes:
        if name not in reached:
            yield warning(
                "unreachable",
                name,
                f"no edge leads to node {name!r}.",
                "Add an edge to it, or remove it.",
            )


def dead_ends(graph: Graph, ways: Ways) -> Iterator[Problem]:
    """Give the nodes after which it may be that no condition holds, so that the run just ends.

    Where every way leads back to the node, ending is the way out of the rounds, and is meant.
    """
    for name, node in graph.nodes.items():
        out = ways.ordered[name]
        conditions = [way.condition for way in out]
        if not out or None in conditions:
            continue
        closed = closed_values(graph, node)
        if isinstance(lead := unwrapped(node), Supervisor):
            # Where no edge takes the finish token, the run ends and says why.
            for key, values in closed.items():
                closed[key] = [value for value in values if value != lead.finish]
        elif all(ways.leads_back(way) for way in out):
            continue
        try:
            state = Possibilities(conditions, closed).find(fails=conditions)
        except TooManyCombinations:
            state = {}
        if state is not None:
            example = " and ".join(f"{key!r} {words}" for key, words in state.items())
            yield warning(
                "missing-default",
                name,
                f"after node {name!r} the run ends where none of its conditions holds"
                f"{f', as where {example}' if example else ''}.",
                "Add a default: `default` in a flow, in a graph a last edge without a condition.",
            )


def closed_values(graph: Graph, node: Node) -> dict[str, Collection[str]]:
    """Return the keys that a node sets to one of a few values, with the values."""
    outcomes = node.outcomes() or {}
    # A reducer may make something else of what is written.
    return {key: tuple(values) for key, values in outcomes.items() if key not in graph.reducers}


def odd_conditions(graph: Graph, ways: Ways) -> Iterator[Problem]:
    """Give the ways that are never taken, and the conditions that may mean something else."""
    for name, out in ways.ordered.items():
        if len(out) > 1 or _conditional(out):
            closed = closed_values(graph, graph.nodes[name])
            with suppress(TooManyCombinations):
                yield from _Judge(out, closed).problems()
    for failing in ways.on_error.values():
        for way in failing[1:]:
            yield _shadowed(way, failing[:1])


class _Judge:
    """Looks at the ways out of one node."""

    def __init__(self, out: Sequence[Way], closed: Mapping[str, Collection[str]]) -> None:
        conditions = [way.condition for way in out]
        self._out = out
        self._closed = closed
        self._any = Possibilities(conditions)
        self._here = Possibilities(conditions, closed) if closed else self._any

    def problems(self) -> Iterator[Problem]:
        """Give a finding for each way, at most one."""
        for number, way in enumerate(self._out):
            problem = self._trap(way) or self._untaken(way, self._out[:number])
            if problem is not None:
                yield problem
            if way.condition is not None and self._any.find(fails=[way.condition]) is None:
                return  # what comes after it is never taken, and that has been said

    def _trap(self, way: Way) -> Problem | None:
        condition = way.condition
        if condition is None or callable(condition):
            return None
        said = f"the condition {way.label!r} after node {way.source!r}"
        if (key := _compared_with_nothing(condition)) is not None:
            meant = f"{key}!="
            message = f"{said} is true where {key!r} is missing."
            return _trap(way, message, f"Write {meant!r} where there must be a value.")
        if self._any.find(holds=[condition]) is None:
            return _trap(way, f"{said} is never true.", "Join tests with 'or' where one is enough.")
        if self._here.find(holds=[condition]) is None:
            keys = sorted(way.keys & self._closed.keys())
            values = ", ".join(repr(value) for key in keys for value in self._closed[key])
            message = f"{said} is never true: under {keys[0]!r} the node writes one of {values}."
            return _trap(way, message, "Compare with one of these, or remove it.")
        if self._any.find(fails=[condition]) is None:
            hint = "Leave it out, or join its tests with 'and' where all of them are meant."
            return _trap(way, f"{said} is always true.", hint)
        return None

    def _untaken(self, way: Way, before: Sequence[Way]) -> Problem | None:
        conditions = [earlier.condition for earlier in before]
        if before and self._here.find(holds=[way.condition], fails=conditions) is None:
            return _shadowed(way, before)
        return None


def _conditional(out: Sequence[Way]) -> bool:
    return any(way.condition is not None for way in out)


def _trap(way: Way, message: str, hint: str) -> Problem:
    return warning("condition-trap", way.source, message, hint, edge=way.edge)


def _shadowed(way: Way, before: Sequence[Way]) -> Problem:
    same = next((other for other in before if other.condition in (way.condition, None)), None)
    reason = f"{same.what} comes first" if same else "one before it is always taken"
    when = f" with the condition {way.label!r}" if way.label else ""
    return warning(
        "shadowed-edge",
        way.source,
        f"{way.what} from node {way.source!r}{when} is never taken: {reason}.",
        "Move it up, narrow the conditions before it, or remove it.",
        edge=way.edge,
    )


def _compared_with_nothing(condition: Condition) -> str | None:
    """Return the key of a test ``key!=null`` or ``key!=''``, which a missing key passes."""
    match condition:
        case Compare(key, "!=", (Value("null", False) | Value("", True),)):
            return str(key)
        case Not(operand):
            return _compared_with_nothing(operand)
        case And(operands) | Or(operands):
            return next(filter(None, map(_compared_with_nothing, operands)), None)
    return None
