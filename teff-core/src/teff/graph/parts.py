"""What a graph is made from, looked at before anything is done with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from teff.errors import ConfigError
from teff.graph.edge import Edge
from teff.node import Node

__all__ = ["check_parts"]


def check_parts(nodes: object, edges: object) -> None:
    """Refuse what is no mapping of nodes, or no list of edges.

    Raises:
        ConfigError: naming what is wrong.
    """
    if not isinstance(nodes, Mapping):
        raise ConfigError(f"nodes must be a dict from id to node, not {type(nodes).__name__}.")
    for name, node in nodes.items():
        if not isinstance(name, str):
            raise ConfigError(f"the id of a node must be text, not {name!r}.")
        if not isinstance(node, Node):
            raise ConfigError(
                f"node {name!r} is a {type(node).__name__}; give a Node, or a function made into "
                "one with make_function_node().",
                path=name,
            )
    if not isinstance(edges, Iterable):
        raise ConfigError(f"edges must be a list of Edge(...), not {type(edges).__name__}.")
    for edge in edges:
        if not isinstance(edge, Edge):
            raise ConfigError(f"{edge!r} is no edge: write Edge(source, target, condition).")
        for name in (edge.source_id, edge.target_id):
            if not isinstance(name, str):
                raise ConfigError(f"an edge leads from the id of a node to another, not {name!r}.")
