"""`Flow`: a graph, one step after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs

from teff.errors import ConfigError
from teff.flow.agents import AgentSteps
from teff.flow.control import ControlSteps
from teff.flow.steps import NodeSteps
from teff.graph import Graph
from teff.graph.options import Validation
from teff.provider import ProviderRegistry
from teff.runtime import Limits, Price
from teff.state import Reducer

__all__ = ["Flow"]


class Flow(NodeSteps, ControlSteps, AgentSteps):
    """Builds a `Graph`. Every method returns the flow, so that calls can be chained.

    A step follows the one before it; after a branch it follows every way of the branch. Nodes
    without an id are named after their type and number.

    Args:
        name: for people.
        state, validate, reducers, providers, default_provider, default_model, limits, prices: as
            for `Graph`.

    >>> import asyncio
    >>> flow = (
    ...     Flow("greet")
    ...     .transform(action="trim", input_key="name", output_key="name")
    ...     .step(lambda ctx, state: {"greeting": f"Hello, {state['name']}!"}, id="greet")
    ... )
    >>> asyncio.run(flow.compile().run({"name": " Ada "}))["greeting"]
    'Hello, Ada!'
    """

    def __init__(
        self,
        name: str = "",
        *,
        state: object = None,
        validate: Validation = "error",
        reducers: Mapping[str, Reducer] | None = None,
        providers: ProviderRegistry | Mapping[str, Any] | None = None,
        default_provider: str | None = None,
        default_model: str | None = None,
        limits: Limits | None = None,
        prices: Mapping[str, Price | Mapping[str, float]] | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self._options: dict[str, Any] = {
            "state": state,
            "validate": validate,
            "reducers": reducers,
            "providers": providers,
            "default_provider": default_provider,
            "default_model": default_model,
            "limits": limits,
            "prices": prices,
        }

    def limits(self, limits: Limits | None = None, **bounds: Any) -> Self:
        """Bound every run that is given no limits of its own.

        Args:
            limits: the bounds; they replace those that were there.
            **bounds: bounds by name; the others stay as they are.

        Raises:
            ConfigError: a bound that makes no sense.
            TypeError: there is no bound of that name.
        """
        before = self._options["limits"] if limits is None else limits
        self._options["limits"] = attrs.evolve(Limits.of(before or {}), **bounds)
        return self

    def compile(self) -> Graph:
        """Return the graph so far. Building on does not change it.

        Raises:
            ConfigError: there are no steps, or something in them is wrong.
        """
        if not self._nodes:
            raise ConfigError(f"flow {self.name!r} has no steps: add at least one.")
        entry = next(iter(self._nodes))
        return Graph(self._nodes, self._edges, entry, name=self.name, **self._options)

    def to_yaml(
        self, *, tools: Sequence[str] = (), initial: Mapping[str, Any] | None = None
    ) -> str:
        """Return the flow as a workflow file; see `Graph.to_yaml`."""
        return self.compile().to_yaml(tools=tools, initial=initial)

    def __repr__(self) -> str:
        return f"<Flow {self.name!r} of {len(self._nodes)} nodes>"
