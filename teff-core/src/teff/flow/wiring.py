"""`Wiring`: nodes and edges so far, and the ends that the next step is joined to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

from teff.errors import ConfigError
from teff.flow.chain import Steppable, as_node, both
from teff.graph import Edge
from teff.graph.edge import Condition
from teff.graph.options import check_text
from teff.node import Node

__all__ = ["Wiring"]

#: A way out of the flow so far: a node, and the condition of the edge to whatever comes next.
OpenEnd = tuple[str, Condition]


class Wiring:
    """What every method of a `Flow` does in the end: add nodes, and lead the open ends to them."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._edges: list[Edge] = []
        self._open: list[OpenEnd] = []
        #: The ends that a guarded step was added to, for `default`.
        self._guarded: list[OpenEnd] = []
        self._labels: dict[str, str] = {}
        #: The node that decides the loop which was added last, for `label`.
        self._loop_decider: str | None = None

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes so far, by id, in the order in which they were added."""
        return MappingProxyType(self._nodes)

    def step(self, node: Steppable, id: str | None = None, *, when: Condition = None) -> Self:
        """Add a node, a function ``(ctx, state)`` or a flow after what is there.

        Args:
            node: the step.
            id: its id; the node's own or a made-up one where it is None.
            when: a condition on the way into this step; see `default` for the other way.

        Raises:
            ConfigError: the id is taken, or ``when`` is given for the first step.
        """
        if when is not None:
            self._need_predecessor("a step with when=")
        before = list(self._open)
        name = self._add(as_node(node), id)
        self._connect(name, when)
        self._open = [(name, None)]
        self._guarded = before if when is not None else []
        return self

    def default(self, node: Steppable, id: str | None = None) -> Self:
        """Add the step for when the condition of the guarded step just before does not hold."""
        if not self._guarded:
            raise ConfigError("default() follows a step(..., when=...), and nothing else.")
        guarded_ends, self._open = self._open, self._guarded
        name = self._add(as_node(node), id)
        self._connect(name)
        self._open = [*guarded_ends, (name, None)]
        self._guarded = []
        return self

    def converge(self, node: Steppable, id: str | None = None) -> Self:
        """Join every open way in one step; the same as `step`, said aloud."""
        return self.step(node, id)

    def _add(self, node: Node, id: str | None) -> str:
        check_text("id", id)
        name = id or node.id or self._made_up_id(node)
        if name in self._nodes:
            raise ConfigError(f"two steps have the id {name!r}; give one of them another.")
        if name in self._labels:
            raise ConfigError(f"{name!r} is a label already; give the step another id.")
        self._nodes[name] = node
        self._loop_decider = None
        return name

    def _made_up_id(self, node: Node) -> str:
        kind, number = node.type or type(node).__name__, len(self._nodes) + 1
        while f"{kind}_{number}" in self._nodes:
            number += 1
        return f"{kind}_{number}"

    def _connect(self, target: str, when: Condition = None) -> None:
        """Lead every open end to ``target``."""
        for source, condition in self._open:
            self._edges.append(Edge(source, target, both(condition, when)))

    def _chain(self, steps: Sequence[tuple[Node, str | None]], *, when: Condition = None) -> None:
        for node, given in steps:
            name = self._add(node, given)
            self._connect(name, when)
            self._open, when = [(name, None)], None
        self._guarded = []

    def _labelled(self, target: Any) -> Any:
        """Return the node id that a label stands for; anything else as it is."""
        return self._labels.get(target, target) if isinstance(target, str) else target

    def _need_predecessor(self, what: str) -> None:
        if not self._open:
            raise ConfigError(f"{what} needs a step before it.")
