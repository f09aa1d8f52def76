"""`Ways`: where a run may go after each node, by edges and by what nodes say themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

import attrs

from teff.conditions import compile_condition, keys_of, parse
from teff.graph.check.possible import Formula
from teff.graph.edge import ERROR
from teff.node import CommandNode, Delegate, FunctionNode, Node
from teff.node.retry import Retry

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["Way", "Ways", "components", "may_jump", "nodes_inside", "unwrapped"]


@attrs.frozen(kw_only=True)
class Way:
    """One way out of a node.

    Attributes:
        source, target: node ids; the target is "" where the run ends.
        condition: when it is taken; None for always.
        label: the condition as it is written, or "".
        what: the way in words: ``the edge to 'b'``.
        edge: the number of the edge in the graph; None where the node goes there by itself.
    """

    source: str
    target: str
    condition: Formula = None
    label: str = ""
    what: str = ""
    edge: int | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The state keys that the condition looks at, as far as they are known."""
        return frozenset() if self.condition is None else keys_of(self.condition)


class Ways:
    """The ways of a graph.

    Attributes:
        ordered: for each node the ways that are looked at after it, in order, those that the node
            decides itself first.
        on_error: for each node the ways that its failure takes; only the first of them counts.
        following: the nodes that may come next, whatever leads there.
    """

    def __init__(self, graph: Graph) -> None:
        self.ordered: dict[str, list[Way]] = {name: [] for name in graph.nodes}
        self.on_error: dict[str, list[Way]] = {}
        for name, node in graph.nodes.items():
            if isinstance(decider := unwrapped(node), CommandNode):
                self.ordered[name] += _routes(name, decider)
        functions: dict[int, Formula] = {}
        for number, edge in enumerate(graph.edges):
            condition: Formula
            if isinstance(edge.condition, str):
                condition = None if edge.condition == ERROR else parse(edge.condition)
            else:
                condition = functions.setdefault(id(edge.condition), _opaque(edge.condition))
            way = Way(
                source=edge.source_id,
                target=edge.target_id,
                condition=condition,
                label=edge.label or "",
                what=f"the edge to {edge.target_id!r}",
                edge=number,
            )
            if edge.condition == ERROR:
                self.on_error.setdefault(edge.source_id, []).append(way)
            else:
                self.ordered[edge.source_id].append(way)
        self.following: dict[str, list[str]] = {}
        for name, node in graph.nodes.items():
            ways = (*self.ordered[name], *self.on_error.get(name, ()))
            targets = (*(way.target for way in ways), *node.targets())
            self.following[name] = [
                target for target in dict.fromkeys(targets) if target in graph.nodes
            ]
        self._round_of = {
            name: number
            for number, component in enumerate(components(self.following))
            for name in component
        }

    def all(self) -> Iterator[Way]:
        """Give every way that has nothing to do with failures."""
        for ways in self.ordered.values():
            yield from ways

    def leads_back(self, way: Way) -> bool:
        """Say whether a way leads back to where it starts, at once or by further ways."""
        return self._round_of.get(way.target) == self._round_of[way.source]

    def reached_from(self, start: Iterable[str]) -> set[str]:
        """Return the nodes that may come after some nodes, those nodes included."""
        reached: set[str] = set()
        ahead = list(start)
        while ahead:
            name = ahead.pop()
            if name not in reached:
                reached.add(name)
                ahead += self.following[name]
        return reached


def _opaque(condition: Callable[..., Any] | None) -> Formula:
    """Return a stand-in for a function of the state, which may be an object that has no hash."""
    return None if condition is None else partial(condition)


def unwrapped(node: Node) -> Node:
    """Return the node that decides where to go, within those that only repeat it."""
    while isinstance(node, Retry):
        node = node.node
    return node


def _routes(name: str, node: CommandNode) -> Iterator[Way]:
    # Edges look at the state after the update: what a route says of it before is another matter.
    is_changed = not frozenset(node.reads()).isdisjoint(node.writes())
    read = compile_condition if is_changed else parse
    targets = [*(route["goto"] for route in node.routes), node.goto]
    conditions = [*(route["when"] for route in node.routes), None]
    for number, (condition, target) in enumerate(zip(conditions, targets, strict=True)):
        if target is None:
            continue  # without a goto the edges decide
        yield Way(
            source=name,
            target=target if isinstance(target, str) and target != "STOP" else "",
            condition=None if condition is None else read(condition),
            label=condition or "",
            what="goto" if condition is None else f"routes[{number}]",
        )


def may_jump(node: Node) -> bool:
    """Say whether a node may return a `Command` to nodes that it does not announce.

    That is read off its code, which is not run: one that never names a ``Command`` makes none.
    """
    node = unwrapped(node)
    if type(node).targets is not Node.targets:
        return False
    function = node.function if isinstance(node, FunctionNode) else type(node).execute
    code = _code_of(function)
    return code is None or _names_a_command(code)


def _code_of(function: Any) -> CodeType | None:
    for name in ("__wrapped__", "func", "__func__"):
        function = getattr(function, name, function)
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(getattr(type(function), "__call__", None), "__code__", None)  # noqa: B004
    return code if isinstance(code, CodeType) else None


def _names_a_command(code: CodeType) -> bool:
    names = (*code.co_names, *code.co_freevars)
    if any("command" in name.lower() or "goto" in name.lower() for name in names):
        return True
    return any(_names_a_command(part) for part in code.co_consts if isinstance(part, CodeType))


def nodes_inside(node: Node) -> Iterator[Node]:
    """Give a node, and at any depth those that it runs in the state around it."""
    yield node
    # A graph inside has a state of its own, and so has an agent that is given tasks.
    if getattr(node, "graph", None) is None and not isinstance(node, Delegate):
        for child in node.children():
            yield from nodes_inside(child)


def components(ahead: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Give the strongly connected components of a graph, without recursion (Tarjan's algorithm).

    R. E. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1(2), 1972.
    """
    order = {name: number for number, name in enumerate(ahead)}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    standing: set[str] = set()
    for root in ahead:
        if root in index:
            continue
        work = [(root, iter(ahead[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        standing.add(root)
        while work:
            name, following = work[-1]
            for target in following:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    standing.add(target)
                    work.append((target, iter(ahead[target])))
                    break
                if target in standing:
                    low[name] = min(low[name], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    component = [stack.pop()]
                    while component[-1] != name:
                        component.append(stack.pop())
                    standing.difference_update(component)
                    yield sorted(component, key=order.__getitem__)
