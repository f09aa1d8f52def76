"""`Graph`: nodes, ordered edges, one entry; run it, stream it, draw it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self, Unpack

from teff.errors import ConfigError
from teff.graph.check import Problem, check_graph, check_models_and_tools, find_needs
from teff.graph.draw import draw_mermaid
from teff.graph.edge import Edge
from teff.graph.options import RunOptions
from teff.graph.plan import Plan, make_plan
from teff.graph.running import run_graph
from teff.node import Node
from teff.provider import ProviderRegistry
from teff.runtime import (
    EventChannel,
    Limits,
    Listener,
    ModelDefaults,
    Run,
    RunResult,
    StreamEvent,
    tell_all,
)
from teff.state import Reducer, compile_reducers, reducers_from_schema

__all__ = ["Graph"]


class Graph:
    """A workflow: nodes change the state, edges choose the next node.

    A graph does not change once it is made. It is checked as far as it can be when it is made, and
    may be run any number of times, also at the same time.

    Args:
        nodes: the nodes by id.
        edges: looked at in their order; the first one that matches is taken.
        entry_point: the id of the first node.
        name: for people.
        state: a schema of the state: a TypedDict, an attrs class, or a mapping.
        reducers: by key: ``override`` (the default), ``append``, ``keep``, or a function
            ``(old, new) -> value``; they win over those of the schema.
        providers: a `ProviderRegistry`, or a mapping from name to options or provider objects.
        default_provider, default_model: for nodes that name none.
        limits: bounds of every run that is given none.

    Raises:
        ConfigError: an entry or an edge that leads nowhere, a condition that does not parse, an
            unknown reducer, provider or command target.

    >>> import asyncio
    >>> from teff.node import make_function_node
    >>> graph = Graph({"double": make_function_node(lambda ctx, state: {"n": 2 * state["n"]})},
    ...               edges=[], entry_point="double")
    >>> result = asyncio.run(graph.run({"n": 21}))
    >>> result["n"], result.status, result.stop_reason
    (42, 'finished', 'end')
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        edges: Sequence[Edge],
        entry_point: str,
        *,
        name: str = "",
        state: object = None,
        reducers: Mapping[str, Reducer] | None = None,
        providers: ProviderRegistry | Mapping[str, Any] | None = None,
        default_provider: str | None = None,
        default_model: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        _check_parts(nodes, edges)
        self.name = name
        self.nodes: Mapping[str, Node] = MappingProxyType(dict(nodes))
        self.edges: tuple[Edge, ...] = tuple(edges)
        self.entry_point = entry_point
        self.reducers: Mapping[str, Reducer] = {**reducers_from_schema(state), **(reducers or {})}
        self.limits = limits
        self.defaults = ModelDefaults(
            providers=None if providers is None else ProviderRegistry.of(providers),
            provider=default_provider,
            model=default_model,
        )
        self.compiled_reducers = compile_reducers(self.reducers)
        #: Finds the providers of nodes while none are declared; its clients live as long as this.
        self.undeclared_providers = ProviderRegistry()
        #: What a run must have a provider, a model or a tool for.
        self.needs = find_needs(self.nodes)
        self.plan: Plan = make_plan(self.nodes, self.edges, entry_point)
        for problem in check_graph(self):
            if problem.severity == "error":
                raise problem.as_error()

    def compile(self) -> Graph:
        """Return this graph; it was compiled when it was made."""
        return self

    def check(self, *, known_keys: Iterable[str] = ()) -> list[Problem]:
        """Return everything that looks wrong without running anything.

        Args:
            known_keys: state keys that the input brings.
        """
        return check_graph(self, known_keys=known_keys)

    def check_run(self, run: Run, defaults: ModelDefaults) -> None:
        """Refuse a run whose nodes name a provider, model or tool that it does not have."""
        undeclared = self.undeclared_providers
        check_models_and_tools(self, run.tools, defaults, undeclared=undeclared)

    async def run(
        self, state: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> RunResult:
        """Run to the end and return the final state.

        The dict that is passed in is never changed. With a ``checkpointer`` and a ``checkpoint_id``
        a run that was killed or paused goes on where it stopped; a run that has ended returns its
        recorded result.

        Args:
            state: what to start from; may be left out when a stored run goes on.
            **options: see `RunOptions`.

        Raises:
            GraphInterrupt: a question is open; answer it with ``resume=``.
            LimitReached: a limit was reached and ``on_limit="raise"``.
            ConfigError: an unknown tool, provider or model, or an answer that nobody asked for.
            RunLocked, GraphChanged, RunFinished: see `teff.errors`.
            Exception: what a node raised that no error edge caught, with a note naming the node.
        """
        return await run_graph(self, state, options)

    async def stream(
        self, state: Mapping[str, Any] | None = None, **options: Unpack[RunOptions]
    ) -> AsyncIterator[StreamEvent]:
        """Run, and give each event as it happens; the last one is ``run_end``.

        A slow reader slows the run down. Closing the stream cancels the run. After the last event
        it raises what `run` would raise.
        """
        channel = EventChannel()
        listeners: list[Listener] = [channel.offer]
        if (given := options.get("emit")) is not None:
            listeners.append(given)
        options["emit"] = tell_all(listeners)
        task = asyncio.create_task(run_graph(self, state, options))
        task.add_done_callback(lambda _: channel.close())
        try:
            async for event in channel:
                yield event
            await task
        finally:
            if not task.done():
                channel.close()
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def to_mermaid(self, *, show_conditions: bool = True) -> str:
        """Return the graph as a Mermaid flowchart."""
        return draw_mermaid(self, show_conditions=show_conditions)

    async def aclose(self) -> None:
        """Free the connections of the graph's providers. The graph may be run again."""
        for registry in (self.defaults.providers, self.undeclared_providers):
            if registry is not None:
                await registry.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Graph {self.name!r} of {len(self.nodes)} nodes>"


def _check_parts(nodes: object, edges: object) -> None:
    """Refuse what is no mapping of nodes, or no list of edges."""
    if not isinstance(nodes, Mapping):
        raise ConfigError(f"nodes must be a dict from id to node, not {type(nodes).__name__}.")
    for name, node in nodes.items():
        if not isinstance(name, str):
            raise ConfigError(f"the id of a node must be text, not {name!r}.")
        if not isinstance(node, Node):
            raise ConfigError(
                f"node {name!r} is a {type(node).__name__}; give a Node, or a function made into "
                "one with make_function_node().",
                path=name,
            )
    if not isinstance(edges, Iterable):
        raise ConfigError(f"edges must be a list of Edge(...), not {type(edges).__name__}.")
    for edge in edges:
        if not isinstance(edge, Edge):
            raise ConfigError(f"{edge!r} is no edge: write Edge(source, target, condition).")
