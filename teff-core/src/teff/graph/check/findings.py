"""Everything that can be found in a graph, and in those inside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from teff.graph.check.agents import in_agents, shared_rounds
from teff.graph.check.errors import find_errors
from teff.graph.check.keys import (
    colliding_writes,
    undeclared_writes,
    unwritten_condition_keys,
    unwritten_keys,
    unwritten_results,
    whole_states,
    written_keys,
)
from teff.graph.check.nearest import NearestNames
from teff.graph.check.paths import dead_ends, odd_conditions, unreachable
from teff.graph.check.problem import Problem
from teff.graph.check.rounds import endless_rounds
from teff.graph.check.ways import Ways, nodes_inside
from teff.node import Node
from teff.runtime import Limits
from teff.state.schema import ENGINE_KEYS

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["check_graph"]

#: The keys that the state may have at the start of a graph; None where it may have any.
_Keys = frozenset[str] | None


def check_graph(graph: Graph, *, known_keys: Iterable[str] = ()) -> list[Problem]:
    """Return what is wrong with a graph and with those inside it; the codes are in `CODES`.

    Args:
        graph: the graph.
        known_keys: state keys that the input brings.
    """
    return list(_Check().problems(graph, frozenset({*ENGINE_KEYS, *known_keys}), graph.limits))


class _Check:
    """One check: a graph that is used in several places is looked at once, if nothing differs."""

    def __init__(self) -> None:
        self._seen: set[tuple[int, _Keys, Limits | None]] = set()

    def problems(self, graph: Graph, given: _Keys, limits: Limits | None) -> Iterator[Problem]:
        yield from find_errors(graph)
        ways = Ways(graph)
        yield from unreachable(graph, ways)
        yield from dead_ends(graph, ways)
        yield from odd_conditions(graph, ways)
        yield from endless_rounds(graph, ways, limits)
        yield from shared_rounds(graph)
        yield from colliding_writes(graph)
        yield from undeclared_writes(graph)
        yield from whole_states(graph)
        written = written_keys(graph.nodes.values())
        there = None if given is None or written is None else given | written | _declared(graph)
        if there is not None:
            nearest = NearestNames(there)
            yield from unwritten_keys(graph, there, nearest)
            yield from unwritten_condition_keys(ways, there, nearest)
        yield from self._inside(graph, there, limits)

        def in_agent(alone: Graph, agent: Node, given: frozenset[str]) -> Iterable[Problem]:
            return self._once(alone, agent, given, limits)

        yield from in_agents(graph, in_agent)

    def _inside(self, graph: Graph, there: _Keys, limits: Limits | None) -> Iterator[Problem]:
        """Give the findings about the graphs that nodes run."""
        for name, node in graph.nodes.items():
            for part in nodes_inside(node):
                inner: Graph | None = getattr(part, "graph", None)
                if inner is None:
                    continue
                given = _given(part, node, there)
                yield from unwritten_results(name, part, inner, given)
                for problem in self._once(inner, inner, given, _bounds(part, inner, limits)):
                    yield problem.inside(name)

    def _once(
        self, graph: Graph, of: object, given: _Keys, limits: Limits | None
    ) -> Iterator[Problem]:
        """Give the findings about a graph that stands for ``of``, unless they were given already."""
        key = (id(of), given, limits)
        if key not in self._seen:
            self._seen.add(key)
            yield from self.problems(graph, given, limits)


def _bounds(part: Node, inner: Graph, limits: Limits | None) -> Limits | None:
    """Return the bounds that hold inside of ``part``, those around it included."""
    steps: int | None = getattr(part, "max_iterations", None)
    if steps is not None:
        return Limits(max_steps=steps)
    own: Limits | None = getattr(part, "limits", None) or inner.limits
    if limits is None or own is None:
        return own or limits
    return Limits.of({**limits.to_config(), **own.to_config()})


def _given(part: Node, node: Node, there: _Keys) -> _Keys:
    """Return the keys that a graph starts with which ``part`` runs, somewhere within ``node``."""
    input_map = getattr(part, "input_map", None)
    if input_map is not None:
        return frozenset({*ENGINE_KEYS, *input_map})
    written = written_keys(nodes_inside(node))
    return None if there is None or written is None else there | written


def _declared(graph: Graph) -> frozenset[str]:
    """Return the keys that somebody has said something about, and so knows of."""
    schema = graph.schema.keys if graph.schema is not None else ()
    return frozenset({*graph.reducers, *schema})
