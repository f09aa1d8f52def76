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

__all__ = ["Problem", "check_graph", "check_models_and_tools"]

#: Keys that the engine itself writes.
_ENGINE_KEYS = frozenset({"error", "messages", "input"})


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
    graph: Graph, tools: Mapping[str, Tool], defaults: ModelDefaults
) -> None:
    """Refuse a run whose nodes ask a provider or model, or use a tool, that it does not have.

    Raises:
        ConfigError: naming the node, and what is missing.
    """
    registry = defaults.providers or ProviderRegistry()
    for name, outer in graph.nodes.items():
        for node in walk([outer]):
            asked = node.asks_model()
            if asked is not None:
                provider = _required(name, "provider", asked[0] or defaults.provider)
                _required(name, "model", asked[1] or defaults.model)
                registry.check(provider)
            for tool in node.uses_tools():
                if tool not in tools:
                    default_tool_registry.resolve(tool)


def _required(node: str, what: str, value: str | None) -> str:
    if not value:
        raise ConfigError(
            f"node {node!r} asks a model, but no {what} is named: set {what} on the node or "
            f"default_{what} on the flow.",
            path=node,
        )
    return value


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Give each node once, and the nodes that it runs itself, at any depth."""
    seen: set[int] = set()
    ahead = list(nodes)
    while ahead:
        node = ahead.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            ahead += node.children()


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
    declared = graph.defaults.providers
    if declared is None:
        return
    for node in walk(graph.nodes.values()):
        asked = node.asks_model()
        provider = asked and (asked[0] or graph.defaults.provider)
        if provider:
            try:
                declared.check(provider)
            except ConfigError as error:
                yield Problem(
                    code="unknown-provider",
                    severity="error",
                    message=error.message,
                    hint=error.hint,
                    node=node.id or "",
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
    written = {*_ENGINE_KEYS, *known_keys}
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
