"""The methods of `Flow` that add agents: one with its tools, several under a supervisor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from teff.conditions import compile_condition
from teff.errors import ConfigError
from teff.flow.agent import AgentRole, tool_loop
from teff.flow.chain import Chain, as_nodes, equals
from teff.flow.team import keys_of_team, role_chain, team_supervisor
from teff.flow.wiring import Wiring
from teff.graph import Edge
from teff.graph.options import check_mapping

if TYPE_CHECKING:
    from teff.node import ReActAgent
    from teff.runtime import Limits

__all__ = ["AgentSteps"]


class AgentSteps(Wiring):
    """Methods that add agents, and the ways there and back."""

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

    #: `harness` by its other name.
    react = harness

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
            ConfigError: there is no decider, or there are no agents, or one has no steps, or is
                called as the word that ends the loop.
        """
        check_mapping("agents", agents, "from name to steps")
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
        token = getattr(self._nodes[decider], "finish", "finish")
        if token in chains:
            raise ConfigError(
                f"route({key!r}) has an agent called {token!r}, which is the word that ends it."
            )
        for name, chain in chains.items():
            steps = as_nodes(chain)
            if not steps:
                raise ConfigError(f"agent {name!r} of route({key!r}) has no steps.")
            first_id = steps[0].id or (name if name not in self._nodes else None)
            ids = [first_id, *(None for _ in steps[1:])]
            self._open = [(decider, None)]
            self._chain(
                list(zip(steps, ids, strict=True)),
                when=equals(key, name, exact=_ambiguous(name, [*chains, token])),
            )
            self._connect(decider)
        self._open = [(decider, equals(key, token, exact=_ambiguous(token, chains)))]
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
        limits: Limits | Mapping[str, Any] | None = None,
        finish: Chain | str | None = None,
        finish_token: str = "finish",  # noqa: S107 - a word, no password
        id: str | None = None,
        **supervisor: Any,
    ) -> Self:
        """Add a supervisor and its agents.

        Args:
            system: what the supervisor is told.
            roles: from names to agents: an `AgentRole` or the mapping of one, or any steps.
            model, provider: for the supervisor, and for every role without its own.
            limits: bounds of each run of an agent, for every role without its own.
            finish: what follows when the team is done; without it, the next step does. A text is
                the token instead.
            finish_token: the word with which the supervisor ends the loop.
            id: the supervisor's id.
            **supervisor: further options of `Supervisor`; ``fallback`` is short for
                ``fallback_agent``, and ``route_keys`` is each role's ``output_key`` by default. A second
                team of a flow writes ``next_agent_2`` and ``supervisor_rounds_2``, if not told
                otherwise, and so on.

        Raises:
            ConfigError: an unknown option, or no roles.
        """
        check_mapping("roles", roles or None, "from name to agent")
        built = {
            name: role_chain(name, role, model=model, provider=provider, limits=limits)
            for name, role in (roles or {}).items()
        }
        steps, token = (None, finish) if isinstance(finish, str) else (finish, finish_token)
        lead = team_supervisor(
            system,
            built,
            model=model,
            provider=provider,
            finish=token,
            **{**keys_of_team(self.nodes.values()), **supervisor},
        )
        self.step(lead, id)
        chains = {name: role.chain for name, role in built.items()}
        return self.route(lead.output_key, agents=chains, finish=steps)


def _ambiguous(name: str, others: Iterable[str]) -> bool:
    """Return whether a condition on ``name`` that is not exact would take another name too."""
    takes = compile_condition(equals("key", name))
    return any(other != name and takes({"key": other}) for other in others)
