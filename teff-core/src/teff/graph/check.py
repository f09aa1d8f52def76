"""Static checks: what can be known of a graph before its first step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import attrs

from teff.errors import ConfigError, suggest
from teff.node import Node
from teff.provider import ProviderRegistry
from teff.runtime import ModelDefaults
from teff.tool import Tool, default_tool_registry

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["Need", "Problem", "check_graph", "check_models_and_tools", "find_needs"]

#: Keys that are there in most runs: what a user says, and what an error edge brings.
_USUAL_KEYS = frozenset({"error", "messages", "input"})


@attrs.frozen(kw_only=True)
class Problem:
    """One finding.

    Attributes:
        code: a short name of the kind, for programs.
        severity: ``error`` keeps the graph from running; a ``warning`` does not.
        message: what is wrong, in a sentence.
        hint: the way out, in a sentence, or "".
        node: the node it is about, or "".
    """

    code: str
    severity: Literal["error", "warning"]
    message: str
    hint: str = ""
    node: str = ""

    def as_error(self) -> ConfigError:
        """Return it as an exception."""
        return ConfigError(self.message, path=self.node, hint=self.hint)


def check_graph(graph: Graph, *, known_keys: Iterable[str] = ()) -> list[Problem]:
    """Return what is wrong with a graph: unknown targets and providers, dead nodes, unknown keys."""
    return [
        *_unknown_targets(graph),
        *_unknown_providers(graph),
        *_unreachable(graph),
        *_unwritten_keys(graph, known_keys),
    ]


def check_models_and_tools(
    graph: Graph,
    tools: Mapping[str, Tool],
    defaults: ModelDefaults,
    *,
    undeclared: ProviderRegistry,
) -> None:
    """Refuse a run whose nodes ask a provider or model, or use a tool, that it does not have.

    Args:
        graph: what is to be run.
        tools: those of the run, by name.
        defaults: for its model calls.
        undeclared: finds the providers of nodes whose graph declares none.

    Raises:
        ConfigError: naming the node, and what is missing.
    """
    for need in graph.needs:
        effective = need.defaults(defaults)
        asked = need.node.asks_model()
        if asked is not None:
            provider = _required(need.name, "provider", asked[0] or effective.provider)
            _required(need.name, "model", asked[1] or effective.model)
            (effective.providers or undeclared).check(provider)
        for tool in need.node.uses_tools():
            if tool not in tools:
                default_tool_registry.resolve(tool)


@attrs.frozen(kw_only=True)
class Need:
    """A node, at any depth, that asks a model or uses tools.

    Attributes:
        name: the outermost node around it, which people know.
        node: the node.
        within: the defaults of the graphs around it, from the outside in.
    """

    name: str
    node: Node
    within: tuple[ModelDefaults, ...] = ()

    def defaults(self, outer: ModelDefaults) -> ModelDefaults:
        """Return the defaults that it finds where those around the graph are ``outer``."""
        for defaults in self.within:
            outer = outer.filled_from(defaults)
        return outer


def find_needs(nodes: Mapping[str, Node]) -> tuple[Need, ...]:
    """Return the nodes at any depth that ask a model or use tools, each once."""
    found: list[Need] = []
    seen: set[int] = set()
    ahead = [Need(name=name, node=node) for name, node in nodes.items()]
    while ahead:
        need = ahead.pop()
        node = need.node
        if id(node) in seen:
            continue
        seen.add(id(node))
        kind = type(node)
        if kind.asks_model is not Node.asks_model or kind.uses_tools is not Node.uses_tools:
            found.append(need)
        inner: Graph | None = getattr(node, "graph", None)
        within = need.within if inner is None else (*need.within, inner.defaults)
        ahead += [Need(name=need.name, node=child, within=within) for child in node.children()]
    return tuple(found)


def _required(node: str, what: str, value: str | None) -> str:
    if not value:
        raise ConfigError(
            f"node {node!r} asks a model, but no {what} is named: set {what} on the node or "
            f"default_{what} on the flow.",
            path=node,
        )
    return value


def _unknown_targets(graph: Graph) -> Iterator[Problem]:
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


def _unknown_providers(graph: Graph) -> Iterator[Problem]:
    if graph.defaults.providers is None:
        return  # the run may bring them
    for need in graph.needs:
        effective = need.defaults(graph.defaults)
        asked = need.node.asks_model()
        provider = asked and (asked[0] or effective.provider)
        if provider and effective.providers is not None:
            try:
                effective.providers.check(provider)
            except ConfigError as error:
                yield Problem(
                    code="unknown-provider",
                    severity="error",
                    message=error.message,
                    hint=error.hint,
                    node=need.name,
                )


def _unreachable(graph: Graph) -> Iterator[Problem]:
    reached: set[str] = set()
    ahead = [graph.entry_point]
    ways: dict[str, list[str]] = {}
    for edge in graph.edges:
        ways.setdefault(edge.source_id, []).append(edge.target_id)
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            commanded = [target for target in graph.nodes[name].targets() if target in graph.nodes]
            ahead += [*ways.get(name, ()), *commanded]
    for name in graph.nodes:
        if name not in reached:
            yield Problem(
                code="unreachable",
                severity="warning",
                message=f"no edge leads to node {name!r}.",
                hint="Add an edge to it, or remove it.",
                node=name,
            )


def _unwritten_keys(graph: Graph, known_keys: Iterable[str]) -> Iterator[Problem]:
    written = {*_USUAL_KEYS, *known_keys}
    for node in graph.nodes.values():
        keys = node.writes()
        if keys is None:
            return  # a node may write anything, so nothing can be said
        written |= set(keys)
    for name, node in graph.nodes.items():
        for key in node.reads() or ():
            if key not in written:
                yield Problem(
                    code="unwritten-key",
                    severity="warning",
                    message=f"node {name!r} reads state key {key!r}, which nothing writes.",
                    hint=suggest(key, written).strip() or "Give it in the input.",
                    node=name,
                )
