"""Findings about state keys: read and never written, written twice at once, sent as a whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from teff.graph.check.nearest import NearestNames
from teff.graph.check.problem import Problem, warning
from teff.graph.check.ways import Ways, nodes_inside
from teff.graph.turn_keys import is_turn_key, turn_keys
from teff.node import LLM, Node, Transform

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = [
    "colliding_writes",
    "undeclared_writes",
    "unwritten_condition_keys",
    "unwritten_keys",
    "unwritten_results",
    "whole_states",
    "written_keys",
]


def written_keys(nodes: Iterable[Node]) -> frozenset[str] | None:
    """Return the keys that nodes write, or None where one of them may write anything."""
    written: set[str] = set()
    for node in nodes:
        keys = node.writes()
        if keys is None:
            return None
        written |= set(keys)
    return frozenset(written)


def undeclared_writes(graph: Graph) -> Iterator[Problem]:
    """Give the keys that a node may write, and that the schema of the graph does not declare."""
    schema = graph.schema
    if schema is None or graph.validate == "off":
        return
    nearest = NearestNames(schema.keys)
    is_own = partial(is_turn_key, turn_keys=turn_keys(graph.nodes.values()))
    for name, node in graph.nodes.items():
        for key in dict.fromkeys(node.writes() or ()):
            if key not in schema.keys and not schema.allows(key, is_own):
                yield warning(
                    "undeclared-key",
                    name,
                    f"node {name!r} writes state key {key!r}, which the state schema does not "
                    "declare.",
                    nearest.suggest(key).strip() or "Declare it there.",
                )


def unwritten_keys(
    graph: Graph, there: Collection[str], nearest: NearestNames
) -> Iterator[Problem]:
    """Give the keys that a node cannot do without, and that are not ``there``.

    What the graphs inside read is left to their own check, which can say which of their nodes it is.

    Args:
        graph: the graph.
        there: the keys that are written or given.
        nearest: finds the one of them that was probably meant.
    """
    for name, node in graph.nodes.items():
        missing = [key for key in dict.fromkeys(node.reads() or ()) if key not in there]
        if not missing:
            continue
        parts = list(nodes_inside(node))
        inner = {key for part in parts if takes_whole_state(part) for key in part.reads() or ()}
        own = {
            key
            for part in parts
            if not takes_whole_state(part) and (part is not node or len(parts) == 1)
            for key in part.reads() or ()
        }
        for key in missing:
            if key not in inner or key in own:
                yield warning(
                    "unwritten-key",
                    name,
                    f"node {name!r} reads state key {key!r}, which nothing writes.",
                    _where_from(key, nearest),
                )


def unwritten_results(
    name: str, node: Node, inner: Graph, given: frozenset[str] | None
) -> Iterator[Problem]:
    """Give the keys that an ``output_map`` takes out of a graph, and that are never in there."""
    output_map: Mapping[str, str] = getattr(node, "output_map", None) or {}
    written = written_keys(inner.nodes.values())
    if written is None or given is None:
        return
    schema = inner.schema.keys if inner.schema is not None else ()
    there = {*written, *given, *schema, *inner.reducers}
    nearest = NearestNames(written)
    for key in dict.fromkeys(output_map.values()):
        if key not in there:
            yield warning(
                "unwritten-key",
                name,
                f"node {name!r} takes state key {key!r} out of its flow, where nothing writes it.",
                nearest.suggest(key).strip(),
            )


def _where_from(key: str, nearest: NearestNames) -> str:
    """Return the key that was probably meant, else where a value may come from."""
    meant = nearest.suggest(key).strip()
    if meant.startswith("Did you mean"):
        return meant
    return f"Give it in the input or the initial state. {meant}".rstrip()


def takes_whole_state(node: Node) -> bool:
    """Say whether a node runs a graph that begins with the whole state around it."""
    return getattr(node, "graph", None) is not None and getattr(node, "input_map", None) is None


def unwritten_condition_keys(
    ways: Ways, there: Collection[str], nearest: NearestNames
) -> Iterator[Problem]:
    """Give the keys that a condition looks at, and that are not ``there``; see `unwritten_keys`."""
    for way in ways.all():
        if way.edge is None:
            continue  # the node itself says that it reads them
        for key in sorted(way.keys):
            if key not in there:
                yield warning(
                    "unwritten-condition-key",
                    way.source,
                    f"the condition {way.label!r} after node {way.source!r} looks at {key!r}, "
                    "which nothing writes.",
                    _where_from(key, nearest),
                    edge=way.edge,
                )


def colliding_writes(graph: Graph) -> Iterator[Problem]:
    """Give the keys that two branches of one node write, and that no reducer brings together."""
    for name, node in graph.nodes.items():
        for part in nodes_inside(node):
            branches = getattr(part, "branches", None) or ()
            writers: dict[str, int] = {}
            for branch in branches.values() if isinstance(branches, Mapping) else branches:
                for key in _written_by(branch):
                    writers[key] = writers.get(key, 0) + 1
            for key, count in writers.items():
                if count > 1 and key not in graph.reducers:
                    yield warning(
                        "colliding-writes",
                        name,
                        f"{count} branches of node {name!r} write the state key {key!r}, and only "
                        "the value of the last one stays.",
                        f"Give them keys of their own, or the key {key!r} a reducer.",
                    )


def _written_by(branch: object) -> set[str]:
    """Return the keys that a branch puts a value under; what is only added to cannot collide."""
    nodes: Iterable[object] = branch if isinstance(branch, Iterable) else (branch,)
    written: set[str] = set()
    for node in nodes:
        if isinstance(node, Node):
            added = {key for part in _all_in(node, set()) for key in _added_to(part)}
            written |= {key for key in node.writes() or () if not key.startswith("_")} - added
    return written


def _added_to(node: Node) -> tuple[str, ...]:
    if isinstance(node, Transform):
        return (node.output_key,) if node.action == "append" else ()
    return (getattr(node, "messages_key", ""),)


def _all_in(node: Node, seen: set[int]) -> Iterator[Node]:
    """Give a node and everything that it runs, at any depth, each once."""
    if id(node) not in seen:
        seen.add(id(node))
        yield node
        for child in node.children():
            yield from _all_in(child, seen)


def whole_states(graph: Graph) -> Iterator[Problem]:
    """Give the nodes that send everything in the state to a model."""
    for name, node in graph.nodes.items():
        for part in nodes_inside(node):
            if isinstance(part, LLM) and not (part.prompt or part.input_key or part.messages_key):
                yield warning(
                    "whole-state-prompt",
                    name,
                    f"node {name!r} sends the whole state to the model: it has no prompt, "
                    "input_key or messages_key.",
                    "Write a prompt with the keys that the model needs.",
                )
