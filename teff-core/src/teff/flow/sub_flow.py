"""`SubFlow`: a graph as one node of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import teff.node as nodes
from teff.errors import ConfigError
from teff.graph import Graph
from teff.graph.options import check_keys, check_mapping
from teff.graph.running import run_nested
from teff.graph.turn_keys import is_turn_key
from teff.node import Node
from teff.runtime import ExecContext, Frame, Limits
from teff.state import DELETE, Append, Overwrite, Reducers, in_one

if TYPE_CHECKING:
    from teff.flow.flow import Flow

__all__ = ["SubFlow"]

_MISSING: Any = object()


class SubFlow(Node):
    """Run a graph with a state of its own, and bring back what it changed.

    Limits, tools, providers, events, answers and the journal are those of the run. A list that grew
    comes back as what was added to it, so nothing doubles, whatever reducer a key has. A supervisor
    that leads a loop inside counts its rounds anew in each visit, and not in the state outside: so a
    team may be an agent of another one.

    Args:
        graph: what to run, a graph or a flow.
        input_map: from keys of its state to keys of the state outside; without one it starts from
            the whole state.
        output_map: from keys outside to keys of its state; without one every change comes back.
        max_iterations: how many of its nodes may be executed; more than that fails. None: no
            bound but those of the run.
        limits: bounds of what each visit does inside, beside those around it; a mapping will do;
            where it is None, those of the graph. Reaching one ends the graph inside with what it
            has, not the run, and is told by a ``limit`` event with ``reason`` and ``scope``, the
            path of this step.
        turn_keys: further keys outside that belong to one turn of a chat; see `Node.turn_keys`.
        id: the node's id.

    >>> import asyncio
    >>> from teff.node import make_function_node
    >>> inner = Graph({"square": make_function_node(lambda ctx, s: {"y": s["x"] ** 2})}, [], "square")
    >>> node = SubFlow(inner, input_map={"x": "side"}, output_map={"area": "y"}, id="area")
    >>> asyncio.run(Graph({"area": node}, [], "area").run({"side": 3}))
    {'side': 3, 'area': 9}
    """

    type = "subflow"

    def __init__(
        self,
        graph: Graph | Flow,
        input_map: Mapping[str, str] | None = None,
        output_map: Mapping[str, str] | None = None,
        max_iterations: int | None = None,
        *,
        turn_keys: Iterable[str] = (),
        limits: Limits | Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        compile_flow = getattr(graph, "compile", None)
        if compile_flow is None:
            raise ConfigError(f"a SubFlow needs a Graph or a Flow, not {type(graph).__name__}.")
        bound: object = max_iterations
        if bound is not None and not (type(bound) is int and bound >= 1):
            raise ConfigError(
                f"max_iterations must be a whole number above 0, not {max_iterations!r}.",
                path="max_iterations",
            )
        check_mapping("input_map", input_map, "from keys inside to keys outside")
        check_mapping("output_map", output_map, "from keys outside to keys inside")
        check_keys("turn_keys", turn_keys)
        self.graph: Graph = compile_flow()
        self.max_iterations = max_iterations
        #: The bounds of what is done inside.
        self.limits = None if limits is None else Limits.of(limits)
        self.input_map = input_map
        self.output_map = output_map
        self._turn_keys = tuple(turn_keys)
        self._loop_keys = _loop_keys(self.graph)

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Run the graph; return what it changed."""
        if self.input_map is None:
            given: Mapping[str, Any] = {
                key: value for key, value in state.items() if key not in self._loop_keys
            }
        else:
            given = {inner: state.get(outer) for inner, outer in self.input_map.items()}

        given = self.graph.nested_input(given)

        def changes(frame: Frame) -> Mapping[str, Any]:
            return self._changes(given, frame, ctx.frame.reducers)

        frame = await run_nested(
            self.graph,
            ctx,
            given,
            keep=changes,
            max_steps=self.max_iterations,
            limits=self.limits if self.limits is not None else self.graph.limits,
        )
        return changes(frame)

    def _changes(
        self, before: Mapping[str, Any], frame: Frame, reducers: Reducers
    ) -> dict[str, Any]:
        """Return what the graph did, as an update for the graph around it with its ``reducers``."""
        after, written = frame.state, frame.written or {}

        def change(outer: str, inner: str) -> Any:
            reducer = reducers.get(outer)
            if inner in written and frame.reducers.get(inner) is reducer:
                return in_one(inner, written[inner], before, frame.reducers)
            return _change(before.get(inner, _MISSING), after.get(inner))

        if self.output_map is None:
            own = self._loop_keys if self.input_map is None else frozenset[str]()
            changed = {
                key: change(key, key)
                for key, value in after.items()
                if before.get(key, _MISSING) is not value and key not in own
            }
            if self.input_map is None:
                changed |= {key: DELETE for key in before if key not in after}
            return changed
        changed = {}
        for outer, inner in self.output_map.items():
            new = after.get(inner, _MISSING)
            if self._given_from(inner) != outer:
                changed[outer] = None if new is _MISSING else new  # for the reducer outside
            elif new is not before.get(inner, _MISSING):
                changed[outer] = change(outer, inner)
        return changed

    def _given_from(self, inner: str) -> str | None:
        return inner if self.input_map is None else self.input_map.get(inner)

    def reads(self) -> Iterable[str] | None:
        """Return the keys outside that the input map names; without one, what is known of inside."""
        if self.input_map is not None:
            return self.input_map.values()
        read: set[str] = set()
        written: set[str] = set()
        for node in self.graph.nodes.values():
            read |= set(node.reads() or ())
            written |= set(node.writes() or ())
        return read - written

    def writes(self) -> Iterable[str] | None:
        """Return the keys that the output map names, or those that any node inside writes."""
        if self.output_map is not None:
            return self.output_map.keys()
        written: set[str] = set()
        for node in self.graph.nodes.values():
            keys = node.writes()
            if keys is None:
                return None
            written |= set(keys)
        return written

    def to_config(self) -> dict[str, Any]:
        """Return the graph, and what else was given."""
        options = {
            "graph": self.graph,
            "input_map": self.input_map,
            "output_map": self.output_map,
            "max_iterations": self.max_iterations,
            "turn_keys": list(self._turn_keys) or None,
            "limits": None if self.limits is None else self.limits.to_config(),
        }
        return {name: value for name, value in options.items() if value is not None}

    def signature(self) -> Any:
        """Return the signature of the graph inside."""
        return {"type": self.type, "graph": self.graph.plan.signature}

    def turn_keys(self) -> Iterable[str]:
        """Return the keys outside under which what belongs to a turn inside comes back."""
        inside = [key for node in self.graph.nodes.values() for key in node.turn_keys()]
        if self.output_map is None:
            return [*inside, *self._turn_keys]
        back = [outer for outer, inner in self.output_map.items() if is_turn_key(inner, inside)]
        return [*back, *self._turn_keys]

    def children(self) -> Iterable[Node]:
        """Return the nodes of the graph."""
        return self.graph.nodes.values()


def _loop_keys(graph: Graph) -> frozenset[str]:
    """Return the keys that supervisors which lead a loop of this graph have for themselves."""
    leads = (
        node
        for name, node in graph.nodes.items()
        if isinstance(node, nodes.Supervisor) and _leads_back_to(name, graph)
    )
    return frozenset(key for lead in leads for key in lead.loop_keys())


def _leads_back_to(name: str, graph: Graph) -> bool:
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        here = ahead.pop()
        following = {edge.target_id for edge in graph.edges if edge.source_id == here}
        if here in graph.nodes:
            following |= set(graph.nodes[here].targets())
        if name in following:
            return True
        ahead += following - seen
        seen |= following
    return False


def _change(old: Any, new: Any) -> Any:
    """Return the operator that turns ``old`` into ``new``, as small as it can be said."""
    if isinstance(old, list) and isinstance(new, list) and new[: len(old)] == old:
        return Append(new[len(old) :])
    return Overwrite(new)
