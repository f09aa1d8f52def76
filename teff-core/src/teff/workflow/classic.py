"""The other way to write a workflow: nodes with ids and types, and edges between them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from teff.errors import ConfigError, suggest
from teff.graph import Edge, Graph
from teff.node import Node
from teff.workflow.nodes import typed_node
from teff.workflow.part import Part
from teff.workflow.sections import check_condition
from teff.workflow.steps import IDIOMS, Steps

__all__ = ["EDGE", "NODE", "classic_graph", "is_classic"]

#: What a step may hold, and what an edge may.
NODE = ("id", "type", "config", "retry")
EDGE = ("from", "to", "condition")


def is_classic(document: Part) -> bool:
    """Say whether the steps of a document are nodes with ids and types."""
    return "edges" in document or any(map(_is_node, document["steps"].elements()))


def classic_graph(document: Part, steps: Steps, options: Mapping[str, Any]) -> Graph:
    """Return the graph of nodes and edges; the first node is the entry.

    Without ``edges`` each node follows the one before it.

    Raises:
        ConfigError: a step of the other kind, an id that is taken, an edge that leads nowhere or
            whose condition does not parse; with the place.
    """
    nodes: dict[str, Node] = {}
    places: dict[str, Part] = {}
    for step in document["steps"].elements():
        name, node = _node(step, document, steps)
        if name in nodes:
            raise step["id"].error(
                f"two steps have the id {name!r}: in {places[name].line()} and in "
                f"{step['id'].line()}."
            )
        nodes[name], places[name] = node, step["id"]
    if "edges" in document:
        edges = [_edge(edge, nodes) for edge in document["edges"].elements()]
    else:
        edges = [Edge(source, target) for source, target in pairwise(nodes)]
    entry = next(iter(nodes))
    try:
        return Graph(nodes, edges, entry, **options)
    except ConfigError as error:
        raise steps.references.located(error, document) from None


def _is_node(step: Part) -> bool:
    if not isinstance(step.value, dict) or "id" not in step or "type" not in step:
        return False
    return not isinstance(step["type"].value, dict) and not any(
        name in IDIOMS for name in step.value if name not in ("type", "retry")
    )


def _node(step: Part, document: Part, steps: Steps) -> tuple[str, Node]:
    if not isinstance(step.value, dict) or not ("type" in step or "id" in step):
        because = "'edges' connect" if "edges" in document else "the other steps are"
        raise step.error(
            f"{because} nodes with an 'id' and a 'type', and this step is none.",
            "Write all steps of a file in one way.",
        )
    for key, part in step.entries().items():
        if key not in NODE and "Did you mean" not in (hint := suggest(key, NODE)):
            what = f"a step with an id and a type: unknown key {key!r}."
            raise part.error(what, f"Options stand under 'config'.{hint}")
    step.check_keys(NODE, what="a step with an id and a type")
    for key in ("id", "type"):
        if key not in step:
            raise step.error(f"a step with an 'id' and a 'type' lacks its {key!r}.")
    name = step["id"].id()
    node = typed_node(step.without(["retry"]), steps)
    if "retry" in step:
        node = steps.retried(node, step["retry"])
    steps.references.made(node, step)
    return name, node


def _edge(part: Part, nodes: Mapping[str, Node]) -> Edge:
    if "when" in part.entries() and "condition" not in part:
        raise part["when"].error("an edge: unknown key 'when'.", "Did you mean 'condition'?")
    part.check_keys(EDGE, what="an edge")
    ends: list[str] = []
    for key in ("from", "to"):
        if key not in part:
            raise part.error(f"an edge: the key {key!r} is missing.")
        end = part[key].id()
        if end not in nodes:
            raise part[key].error(
                f"an edge leads {key} {end!r}, which is no step.", suggest(end, nodes).strip()
            )
        ends.append(end)
    condition = part.find("condition")
    is_always = condition is None or condition.value is None
    source, target = ends
    return Edge(source, target, None if is_always else check_condition(part["condition"]))
