"""The methods of `Flow` that add one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import teff.node as nodes
from teff.flow.chain import Chain, Steppable, as_node, as_nodes
from teff.flow.sub_flow import SubFlow
from teff.flow.team import rounds_key_beside
from teff.flow.wiring import Wiring
from teff.graph import Graph

if TYPE_CHECKING:
    from teff.flow.flow import Flow
    from teff.node import (
        LLM,
        AppendAssistant,
        ContextBuilder,
        Gate,
        Supervisor,
        Transform,
    )
    from teff.runtime import Limits

__all__ = ["NodeSteps"]


class NodeSteps(Wiring):
    """One method for each node type; its options are those of the node."""

    def llm(self, node: LLM | None = None, id: str | None = None, **config: Any) -> Self:
        """Add an `LLM`, made already or from its options."""
        return self.step(_made(nodes.LLM, node, config), id)

    def transform(
        self, node: Transform | None = None, id: str | None = None, **config: Any
    ) -> Self:
        """Add a `Transform`, made already or from its options."""
        return self.step(_made(nodes.Transform, node, config), id)

    def context_builder(
        self, node: ContextBuilder | None = None, id: str | None = None, **config: Any
    ) -> Self:
        """Add a `ContextBuilder`, made already or from its options."""
        return self.step(_made(nodes.ContextBuilder, node, config), id)

    def append_assistant(
        self, node: AppendAssistant | None = None, id: str | None = None, **config: Any
    ) -> Self:
        """Add an `AppendAssistant`, made already or from its options."""
        return self.step(_made(nodes.AppendAssistant, node, config), id)

    def supervisor(
        self, node: Supervisor | None = None, id: str | None = None, **config: Any
    ) -> Self:
        """Add a `Supervisor`, made already or from its options; a `route` follows it.

        A second one of a flow counts its rounds under ``supervisor_rounds_2``, if not told
        otherwise, and so on.
        """
        if node is None and "config" not in config:
            config = {**rounds_key_beside(self.nodes.values()), **config}
        return self.step(_made(nodes.Supervisor, node, config), id)

    def delegate(
        self,
        system: str = "",
        *,
        agents: Mapping[str, Any] | Sequence[Any],
        model: str | None = None,
        provider: str | None = None,
        id: str | None = None,
        **config: Any,
    ) -> Self:
        """Add a `Delegate`: a model that has agents as tools and answers itself.

        Args:
            system: what the model is told beside its agents.
            agents: from names to ``description`` and what runs; see `Delegate`.
            model, provider: for it, and for every role among the agents without its own.
            id: the node's id.
            **config: further options of `Delegate`.

        Raises:
            ConfigError: an unknown option, no agents, or an agent that is described wrongly.
        """
        node = nodes.Delegate(
            system=system, agents=agents, model=model or "", provider=provider or "", **config
        )
        return self.step(node, id)

    def gate(self, node: Gate | None = None, id: str | None = None, **config: Any) -> Self:
        """Add a `Gate`, made already or from its options; a `branch` or `loop` follows it."""
        return self.step(_made(nodes.Gate, node, config), id)

    def command(self, *, id: str | None = None, **config: Any) -> Self:
        """Add a `CommandNode` from its options ``routes``, ``goto`` and ``update``.

        Where a `label` stands in place of a node id, the node that it marks is meant.
        """
        if isinstance(config.get("goto"), str):
            config["goto"] = self._labelled(config["goto"])
        if "routes" in config:
            config["routes"] = [
                {**route, "goto": self._labelled(route["goto"])} if "goto" in route else route
                for route in config["routes"]
            ]
        return self.step(nodes.CommandNode(**config), id)

    def parallel(self, *branches: Chain, id: str | None = None, **config: Any) -> Self:
        """Run branches at the same time; each is a step or a list of steps.

        Args:
            *branches: each starts from the state here; what they change is merged in their order.
            id: the node's id.
            **config: further options of `Parallel`.
        """
        made = [as_nodes(branch) for branch in branches]
        return self.step(nodes.Parallel(made, **config), id)

    def map(
        self,
        processor: Steppable,
        *,
        input_keys: str | list[str] = "",
        output_key: str = "",
        id: str | None = None,
        **config: Any,
    ) -> Self:
        """Run a step once for each item of a list; the results come in the items' order.

        Args:
            processor: the step.
            input_keys: where the items are; of several keys the items go together.
            output_key: where the results go.
            id: the node's id.
            **config: further options of `Map`.
        """
        node = nodes.Map(as_node(processor), input_keys=input_keys, output_key=output_key, **config)
        return self.step(node, id)

    def retry(self, step: Steppable, *, id: str | None = None, **config: Any) -> Self:
        """Add a step that is tried again when it fails; see `Retry` for the options."""
        return self.step(nodes.Retry(as_node(step), **config), id)

    def add_flow(
        self,
        flow: Flow | Graph,
        id: str | None = None,
        *,
        input_map: Mapping[str, str] | None = None,
        output_map: Mapping[str, str] | None = None,
        max_iterations: int | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> Self:
        """Add a flow as one step; see `SubFlow` for the options."""
        return self.step(SubFlow(flow, input_map, output_map, max_iterations, limits=limits), id)


def _made(cls: type[Any], node: Any, config: Mapping[str, Any]) -> Any:
    if node is None:
        return cls(**config)
    if config:
        raise TypeError(f"give a {cls.__name__} or its options, not both")
    return node
