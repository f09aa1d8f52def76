"""The types that the values of a stored run may have: those that the state schemas declare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from teff.errors import ConfigError

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["stored_types"]


def stored_types(graph: Graph) -> Mapping[str, type]:
    """Return the types that ``graph`` and the graphs in it declare, by their stored names.

    Raises:
        ConfigError: two of them have one name.
    """
    found: dict[str, type] = {}
    for part in _graphs(graph):
        if part.schema is None:
            continue
        from teff.checkpoint.registered import types_of_schema  # loaded where a run is stored

        for name, declared in types_of_schema(part.schema).items():
            if found.setdefault(name, declared) is not declared:
                raise ConfigError(
                    f"two types of the state are called {name!r}, so a stored value could be "
                    "either.",
                    hint=f"Name one: teff.checkpoint.register_type({name}, name=…).",
                )
    return found


def _graphs(graph: Graph) -> Iterator[Graph]:
    """Give a graph and those inside of it, at any depth, each once."""
    graphs, seen = [graph], {id(graph)}
    while graphs:
        part = graphs.pop()
        yield part
        nodes = list(part.nodes.values())
        while nodes:
            node = nodes.pop()
            nodes += node.children()
            inner: Graph | None = getattr(node, "graph", None)
            if inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                graphs.append(inner)
