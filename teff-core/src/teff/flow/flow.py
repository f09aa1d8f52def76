"""`Flow`: a graph, one step after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

from teff.errors import ConfigError
from teff.flow.agent import AgentRole, tool_loop
from teff.flow.chain import Case, Chain, Steppable, as_node, as_nodes, both, equals
from teff.flow.sub_flow import SubFlow
from teff.flow.team import role_chain, team_supervisor
from teff.graph import Edge, Graph
from teff.graph.edge import Condition
from teff.node import (
    LLM,
    AppendAssistant,
    CommandNode,
    ContextBuilder,
    Interrupt,
    Node,
    ReActAgent,
    Supervisor,
    Transform,
)
from teff.provider import ProviderRegistry
from teff.runtime import Limits
from teff.state import Reducer

__all__ = ["Flow"]

#: A way out of the flow so far: a node, and the condition of the edge to whatever comes next.
_OpenEnd = tuple[str, Condition]


class Flow:
    """Builds a `Graph`. Every method returns the flow, so that calls can be chained.

    A step follows the one before it; after a branch it follows every way of the branch. Nodes
    without an id are named after their type and number.

    Args:
        name: for people.
        state, reducers, providers, default_provider, default_model, limits: as for `Graph`.

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
        reducers: Mapping[str, Reducer] | None = None,
        providers: ProviderRegistry | Mapping[str, Any] | None = None,
        default_provider: str | None = None,
        default_model: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.name = name
        self._options: dict[str, Any] = {
            "state": state,
            "reducers": reducers,
            "providers": providers,
            "default_provider": default_provider,
            "default_model": default_model,
            "limits": limits,
        }
        self._nodes: dict[str, Node] = {}
        self._edges: list[Edge] = []
        self._open: list[_OpenEnd] = []
        #: The ends that a guarded step was added to, for `default`.
        self._guarded: list[_OpenEnd] = []

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

    def llm(self, node: LLM | None = None, id: str | None = None, **config: Any) -> Self:
        """Add an `LLM`, made already or from its options."""
        return self.step(_made(LLM, node, config), id)

    def transform(
        self, node: Transform | None = None, id: str | None = None, **config: Any
    ) -> Self:
        """Add a `Transform`, made already or from its options."""
        return self.step(_made(Transform, node, config), id)

    def context_builder(
        self, node: ContextBuilder | None = None, id: str | None = None, **config: Any
    ) -> Self:
        """Add a `ContextBuilder`, made already or from its options."""
        return self.step(_made(ContextBuilder, node, config), id)

    def append_assistant(
        self, node: AppendAssistant | None = None, id: str | None = None, **config: Any
    ) -> Self:
        """Add an `AppendAssistant`, made already or from its options."""
        return self.step(_made(AppendAssistant, node, config), id)

    def supervisor(
        self, node: Supervisor | None = None, id: str | None = None, **config: Any
    ) -> Self:
        """Add a `Supervisor`, made already or from its options; a `route` follows it."""
        return self.step(_made(Supervisor, node, config), id)

    def interrupt(
        self, key: str, prompt: str = "", *, id: str | None = None, **config: Any
    ) -> Self:
        """Ask a person; the answer goes into the state under ``key``."""
        return self.step(Interrupt(key=key, prompt=prompt, **config), id)

    def command(self, *, id: str | None = None, **config: Any) -> Self:
        """Add a `CommandNode` from its options ``routes``, ``goto`` and ``update``."""
        return self.step(CommandNode(**config), id)

    def add_flow(
        self,
        flow: Flow | Graph,
        id: str | None = None,
        *,
        input_map: Mapping[str, str] | None = None,
        output_map: Mapping[str, str] | None = None,
    ) -> Self:
        """Add a flow as one step; see `SubFlow` for the maps."""
        return self.step(SubFlow(flow.compile(), input_map, output_map), id)

    def harness(
        self,
        model: str | None = None,
        system: str = "",
        *,
        agent: ReActAgent | type[ReActAgent] | None = None,
        id: str | None = None,
        **config: Any,
    ) -> Self:
        """Add an agent with its tool loop: a `ReActAgent` and a `ToolExec`.

        Args:
            model: None for the default.
            system: the system text.
            agent: an agent that is made already, or a class to make it from.
            id: the nodes are ``<id>/agent`` and ``<id>/tool``.
            **config: further options of both nodes.

        Raises:
            ConfigError: an unknown option.
        """
        texts = {"system": system, "model": model}
        config = {**{name: text for name, text in texts.items() if text}, **config}
        made, tools = tool_loop(agent=agent, **config)
        self.step(made, f"{id}/agent" if id else None)
        agent_id = self._open[0][0]
        tool_id = self._add(tools, f"{id}/tool" if id else None)
        self._edges += [
            Edge(agent_id, tool_id, f"{made.tool_call_key}!="),
            Edge(tool_id, agent_id),
        ]
        return self

    def branch(self, key: str, *cases: Case, default: Chain | None = None) -> Self:
        """Go one of several ways by the value under ``key``; the next step joins them again.

        Args:
            key: a state key, or a dotted path.
            *cases: looked at in order; see `Case`.
            default: for every other value; without it the run ends there.

        Raises:
            ConfigError: there is no step before, or no case, or a case without steps.
        """
        self._need_predecessor("branch()")
        if not cases:
            raise ConfigError(f"branch({key!r}) needs at least one Case.")
        for case in cases:
            if not case.steps:
                raise ConfigError(f"Case({case.value!r}) of branch({key!r}) has no steps.")
        start, ends = list(self._open), []
        for case in cases:
            self._open = start
            self._chain(
                [(as_node(step), name) for step, name in case.steps], when=equals(key, case.value)
            )
            ends += self._open
        if default is not None:
            self._open = start
            self._chain([(node, None) for node in as_nodes(default)])
            ends += self._open
        self._open = ends
        return self

    def converge(self, node: Steppable, id: str | None = None) -> Self:
        """Join every open way in one step; the same as `step`, said aloud."""
        return self.step(node, id)

    def route(
        self,
        key: str,
        *,
        agents: Mapping[str, Chain] | None = None,
        finish: Chain | None = None,
        **named: Chain,
    ) -> Self:
        """Send the run to the agent that the last step chose, and back, until it says finish.

        Args:
            key: where the last step, the decider, writes its choice.
            agents: from names to the steps of each agent; any name is possible here.
            finish: what follows when the choice is to finish; without it, the next step does.
            **named: agents whose names are Python names.

        Raises:
            ConfigError: there is no decider, or there are no agents, or one has no steps.
        """
        twice = sorted((agents or {}).keys() & named.keys())
        if twice:
            raise ConfigError(f"route({key!r}) has two agents called {twice[0]!r}.")
        chains = {**(agents or {}), **named}
        self._need_predecessor("route()")
        if len(self._open) != 1:
            raise ConfigError("route() follows the one step that decides; join the branches first.")
        if not chains:
            raise ConfigError(f"route({key!r}) has no agents: name at least one.")
        decider = self._open[0][0]
        for name, chain in chains.items():
            nodes = as_nodes(chain)
            if not nodes:
                raise ConfigError(f"agent {name!r} of route({key!r}) has no steps.")
            first_id = nodes[0].id or (name if name not in self._nodes else None)
            ids = [first_id, *(None for _ in nodes[1:])]
            self._open = [(decider, None)]
            self._chain(
                list(zip(nodes, ids, strict=True)),
                when=equals(key, name, exact=_ambiguous(name, chains)),
            )
            self._connect(decider)
        token = getattr(self._nodes[decider], "finish", "finish")
        self._open = [(decider, equals(key, token))]
        if finish is not None:
            self._chain([(node, None) for node in as_nodes(finish)])
        return self

    def team(
        self,
        system: str = "",
        *,
        roles: Mapping[str, AgentRole | Mapping[str, Any] | Chain],
        model: str | None = None,
        provider: str | None = None,
        finish: Chain | None = None,
        id: str | None = None,
        **supervisor: Any,
    ) -> Self:
        """Add a supervisor and its agents.

        Args:
            system: what the supervisor is told.
            roles: from names to agents: an `AgentRole` or the mapping of one, or any steps.
            model, provider: for the supervisor, and for every role without its own.
            finish: what follows when the team is done; without it, the next step does.
            id: the supervisor's id.
            **supervisor: further options of `Supervisor`; ``fallback`` is short for
                ``fallback_agent``, and ``route_keys`` is each role's ``output_key`` by default.

        Raises:
            ConfigError: an unknown option, or no roles.
        """
        built = {
            name: role_chain(name, role, model=model, provider=provider)
            for name, role in roles.items()
        }
        lead = team_supervisor(system, built, model=model, provider=provider, **supervisor)
        self.step(lead, id)
        chains = {name: role.chain for name, role in built.items()}
        return self.route(lead.output_key, agents=chains, finish=finish)

    def compile(self) -> Graph:
        """Return the graph so far. Building on does not change it.

        Raises:
            ConfigError: there are no steps, or something in them is wrong.
        """
        if not self._nodes:
            raise ConfigError(f"flow {self.name!r} has no steps: add at least one.")
        entry = next(iter(self._nodes))
        return Graph(self._nodes, self._edges, entry, name=self.name, **self._options)

    def __repr__(self) -> str:
        return f"<Flow {self.name!r} of {len(self._nodes)} nodes>"

    def _add(self, node: Node, id: str | None) -> str:
        name = id or node.id or self._made_up_id(node)
        if name in self._nodes:
            raise ConfigError(f"two steps have the id {name!r}; give one of them another.")
        self._nodes[name] = node
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

    def _need_predecessor(self, what: str) -> None:
        if not self._open:
            raise ConfigError(f"{what} needs a step before it.")


def _made(cls: type[Any], node: Node | None, config: Mapping[str, Any]) -> Any:
    if node is None:
        return cls(**config)
    if config:
        raise TypeError(f"give a {cls.__name__} or its options, not both")
    return node


def _ambiguous(name: str, names: Mapping[str, Any]) -> bool:
    """Return whether another name differs from ``name`` only in case."""
    return sum(other.casefold() == name.casefold() for other in names) > 1
