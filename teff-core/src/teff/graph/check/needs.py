"""What a run must have: the providers and models that nodes ask, and the tools that they use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import attrs

from teff.errors import ConfigError, TeffError
from teff.graph.check.problem import Problem
from teff.node import Node
from teff.provider import ProviderRegistry
from teff.runtime import ModelDefaults

if TYPE_CHECKING:
    from teff.graph.graph import Graph
    from teff.tool import Tool

__all__ = [
    "Need",
    "check_models_and_tools",
    "find_needs",
    "missing_models_and_tools",
    "unknown_providers",
]


@attrs.frozen(kw_only=True)
class Need:
    """A node, at any depth, that asks a model or uses tools.

    Attributes:
        name: the outermost node around it, which people know.
        node: the node.
        within: the defaults of the graphs around it; those of an outer one win.
    """

    name: str
    node: Node
    within: ModelDefaults = attrs.field(factory=ModelDefaults)

    def defaults(self, outer: ModelDefaults) -> ModelDefaults:
        """Return the defaults that it finds where those around the graph are ``outer``."""
        return outer.filled_from(self.within)


def find_needs(nodes: Mapping[str, Node]) -> tuple[Need, ...]:
    """Return the nodes at any depth that ask a model or use tools, once for each of their defaults."""
    found: list[Need] = []
    seen: set[tuple[int, ModelDefaults]] = set()
    ahead = [Need(name=name, node=node) for name, node in nodes.items()]
    while ahead:
        need = ahead.pop()
        node = need.node
        if (id(node), need.within) in seen:
            continue
        seen.add((id(node), need.within))
        kind = type(node)
        if kind.asks_model is not Node.asks_model or kind.uses_tools is not Node.uses_tools:
            found.append(need)
        inner: Graph | None = getattr(node, "graph", None)
        within = need.within if inner is None else need.within.filled_from(inner.defaults)
        ahead += [Need(name=need.name, node=child, within=within) for child in node.children()]
    return tuple(found)


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
        PluginError: a plugin cannot be loaded, or two of them offer the same name.
    """
    for need in graph.needs:
        for check in _checks(need, tools, defaults, undeclared):
            try:
                check()
            except ConfigError as error:
                if repr(need.name) in error.message:
                    raise
                raise ConfigError(
                    f"node {need.name!r}: {error.message}", path=need.name, hint=error.hint
                ) from error


def missing_models_and_tools(
    graph: Graph,
    tools: Mapping[str, Tool],
    defaults: ModelDefaults,
    *,
    undeclared: ProviderRegistry,
) -> Iterator[ConfigError]:
    """Give everything that `check_models_and_tools` would refuse; ``path`` is the node."""
    for need in graph.needs:
        for check in _checks(need, tools, defaults, undeclared):
            try:
                check()
            except ConfigError as error:
                yield ConfigError(error.message, path=need.name, hint=error.hint)
            except TeffError as error:  # from a plugin
                yield ConfigError(str(error), path=need.name)


def _checks(
    need: Need, tools: Mapping[str, Tool], defaults: ModelDefaults, undeclared: ProviderRegistry
) -> Iterator[Callable[[], object]]:
    effective = need.defaults(defaults)
    asked = need.node.asks_model()
    if asked is not None:
        provider, model = asked[0] or effective.provider, asked[1] or effective.model
        yield partial(_require, need.name, "provider", provider)
        yield partial(_require, need.name, "model", model)
        if provider:
            registry = effective.providers or undeclared
            yield partial(registry.check, provider)
            for name in _fallback_providers(need.node, provider, registry):
                yield partial(registry.check, name)
    for tool in need.node.uses_tools():
        if tool not in tools:
            yield partial(_find_tool, tool)


def _find_tool(name: str) -> None:
    from teff.tool import default_tool_registry  # loaded where a node names a tool

    default_tool_registry.resolve(name)


def unknown_providers(graph: Graph) -> Iterator[Problem]:
    """Give the nodes that name a provider which the graph does not declare."""
    if graph.defaults.providers is None:
        return  # the run may bring them
    for need in graph.needs:
        effective = need.defaults(graph.defaults)
        asked = need.node.asks_model()
        provider = asked and (asked[0] or effective.provider)
        registry = effective.providers
        if not provider or registry is None:
            continue
        for name in dict.fromkeys([provider, *_fallback_providers(need.node, provider, registry)]):
            try:
                registry.check(name)
            except ConfigError as error:
                yield Problem(
                    code="unknown-provider",
                    severity="error",
                    message=error.message,
                    hint=error.hint,
                    node=need.name,
                )


def _fallback_providers(node: Node, provider: str, registry: ProviderRegistry) -> list[str]:
    fallbacks = list(node.model_fallbacks())
    if not fallbacks:
        return []
    from teff.harness.targets import read_fallback  # loaded where a node names fallbacks

    return [read_fallback(one, provider, registry)[0] for one in fallbacks]


def _require(node: str, what: str, value: str | None) -> None:
    if not value:
        raise ConfigError(
            f"node {node!r} asks a model, but no {what} is named: set {what} on the node or "
            f"default_{what} on the flow.",
            path=node,
        )
