"""What keeps a graph from running, found when it is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from teff.errors import suggest
from teff.graph.check.needs import unknown_providers
from teff.graph.check.problem import Problem

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["find_errors"]


def find_errors(graph: Graph) -> Iterator[Problem]:
    """Give what keeps a graph from running."""
    yield from _unknown_targets(graph)
    yield from unknown_providers(graph)


def _unknown_targets(graph: Graph) -> Iterator[Problem]:
    """Give the nodes that go to nodes which the graph does not have."""
    for name, node in graph.nodes.items():
        for target in node.targets():
            if target not in graph.nodes:
                yield Problem(
                    code="unknown-target",
                    severity="error",
                    message=f"node {name!r} goes to {target!r}, which is no node of the graph.",
                    hint=suggest(target, graph.nodes).strip(),
                    node=name,
                )
