"""Findings about rounds: cycles that nothing bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from teff.graph.check.problem import Problem, warning
from teff.graph.check.ways import Ways, components, nodes_inside
from teff.node import Node
from teff.runtime import Limits

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["endless_rounds"]

#: How many nodes of a cycle are named.
_SHOWN = 6


def endless_rounds(graph: Graph, ways: Ways, limits: Limits | None) -> Iterator[Problem]:
    """Give the cycles in which nothing bounds the rounds.

    Args:
        graph: the graph.
        ways: its ways.
        limits: those of the run around it.
    """
    if limits is not None and (limits.max_steps is not None or limits.deadline is not None):
        return
    bounded = {name for name, node in graph.nodes.items() if _bounds_rounds(node, limits)}
    ahead = {
        name: [target for target in ways.following[name] if target not in bounded]
        for name in graph.nodes
        if name not in bounded
    }
    for component in components(ahead):
        first = component[0]
        if len(component) > 1 or first in ahead[first]:
            shown = ", ".join(map(repr, component[:_SHOWN])) + (
                f" and {len(component) - _SHOWN} more" if len(component) > _SHOWN else ""
            )
            yield warning(
                "unbounded-cycle",
                first,
                f"the run may go round for ever: nothing counts the rounds of {shown}.",
                "Set limits, such as max_steps, or use a node with max_rounds.",
            )


def _bounds_rounds(node: Node, limits: Limits | None) -> bool:
    """Say whether a node ends the rounds that go through it, by itself or by a limit of the run."""
    counts_calls = limits is not None and (
        limits.max_model_calls is not None or limits.max_tokens is not None
    )
    for part in nodes_inside(node):
        if part.bounds_rounds() or (counts_calls and part.asks_model() is not None):
            return True
    return False
