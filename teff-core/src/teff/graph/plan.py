"""`Plan`: a graph made ready to run, so that a step looks nothing up that does not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from teff.conditions import compile_condition
from teff.errors import ConfigError, suggest
from teff.graph.edge import ERROR, Edge
from teff.node import Node
from teff.node.base import is_composite
from teff.runtime import Place

__all__ = ["Plan", "Step", "make_plan"]

_Test = Callable[[Mapping[str, Any]], Any]


class Step(Place):
    """A node in its place: what to execute, and where the edges lead.

    Attributes:
        node: what is executed.
        next: the next step where the first edge is unconditional.
        is_composite: whether the node runs nodes of its own.
        edges: else the ways out: ``(test, target, label)``; looked at in order.
        on_error: where a failure leads, or None.
    """

    __slots__ = ("edges", "execute", "is_composite", "next", "node", "on_error")

    def __init__(self, id: str, node: Node) -> None:
        super().__init__(id, node.type or type(node).__name__)
        self.node = node
        self.execute = node.execute
        self.is_composite = is_composite(node)
        self.next: Step | None = None
        self.edges: tuple[tuple[_Test, Step, str | None], ...] = ()
        self.on_error: Step | None = None


class Plan:
    """The steps of a graph by id, its entry, and its signature (what a stored run must match)."""

    __slots__ = ("entry", "signature", "steps")

    def __init__(self, steps: Mapping[str, Step], entry: str, signature: Mapping[str, Any]) -> None:
        self.steps = steps
        self.entry = entry
        self.signature = signature


def make_plan(nodes: Mapping[str, Node], edges: Sequence[Edge], entry_point: str) -> Plan:
    """Index the edges by their source and compile their conditions.

    Raises:
        ConfigError: an entry or an edge end that is no node, or a condition that does not parse.
    """
    if not nodes:
        raise ConfigError("the graph has no nodes: add at least one.")
    steps = {name: Step(name, node) for name, node in nodes.items()}
    _require(entry_point, steps, "the entry point")
    outgoing: dict[str, list[tuple[_Test, Step, str | None]]] = {}
    for edge in edges:
        _require(edge.source_id, steps, f"the source of the edge to {edge.target_id!r}")
        _require(edge.target_id, steps, f"the target of the edge from {edge.source_id!r}")
        source, target = steps[edge.source_id], steps[edge.target_id]
        if edge.condition == ERROR:
            source.on_error = source.on_error or target
        else:
            ways = outgoing.setdefault(edge.source_id, [])
            ways.append((_compile(edge), target, edge.label))
    for name, ways in outgoing.items():
        step = steps[name]
        if ways[0][0] is _always:
            step.next = ways[0][1]
        else:
            step.edges = tuple(ways)
    return Plan(steps, entry_point, _signature(nodes, edges, entry_point))


def _always(state: Mapping[str, Any]) -> bool:
    return True


def _compile(edge: Edge) -> _Test:
    if edge.condition is None:
        return _always
    if callable(edge.condition):
        return _on_a_copy(compile_condition(edge.condition), edge)
    try:
        return compile_condition(edge.condition)
    except ConfigError as error:
        raise ConfigError(
            f"the edge from {edge.source_id!r} to {edge.target_id!r}: {error.message}",
            path=f"{edge.source_id}->{edge.target_id}",
            hint=error.hint,
        ) from None


def _on_a_copy(test: _Test, edge: Edge) -> _Test:
    """Give a user's function a dict of its own, and name the edge where it fails."""

    def look(state: Mapping[str, Any]) -> Any:
        try:
            return test(dict(state))
        except Exception as error:
            error.add_note(
                f"in the condition {edge.label} of the edge from {edge.source_id!r} "
                f"to {edge.target_id!r}"
            )
            raise

    return look


def _require(id: str, steps: Mapping[str, Step], what: str) -> None:
    if id not in steps:
        raise ConfigError(
            f"{what} is {id!r}, which is no node of the graph.",
            path=id,
            hint=suggest(id, steps).strip(),
        )


def _signature(
    nodes: Mapping[str, Node], edges: Sequence[Edge], entry_point: str
) -> dict[str, Any]:
    return {
        "entry": entry_point,
        "nodes": {name: node.signature() for name, node in nodes.items()},
        "edges": [[edge.source_id, edge.target_id, edge.label] for edge in edges],
    }
