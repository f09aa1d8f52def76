"""Agents as parts of a flow: `agent_step`, and `AgentRole` for teams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import teff.node as nodes
from teff.errors import ConfigError
from teff.flow.sub_flow import SubFlow
from teff.graph import Edge, Graph
from teff.runtime import Limits

if TYPE_CHECKING:
    from teff.node import Node, ReActAgent, ToolExec

__all__ = ["AgentRole", "agent_step", "tool_loop"]

#: Options of the tool loop that belong to the node which carries the calls out.
_TOOL_OPTIONS = frozenset({"tool_error_mode", "tool_timeout", "tool_approval", "human_key"})


def agent_step(
    system: str,
    output_key: str,
    *,
    model: str | None = None,
    provider: str | None = None,
    sections: Mapping[str, str] | None = None,
    messages_key: str = "messages",
    use_tools: str | Sequence[str] | bool | None = None,
    stream: bool = True,
    limits: Limits | Mapping[str, Any] | None = None,
    id: str | None = None,
    **config: Any,
) -> SubFlow:
    """Return an agent as one node: it reads its context, works with tools, and answers.

    Its conversation with the model is its own, under ``_<output_key>_messages`` inside; outside only
    the answer appears, under ``output_key`` and as an assistant message under ``messages_key``.

    Args:
        system: what the agent is told to be.
        output_key: where its answer goes.
        model, provider: those of the run where they are None.
        sections: state keys with labels that are put before the user's message.
        messages_key: where the user's message is read, and the answer added.
        use_tools: names of tools, ``"all"`` for those of the run, or None.
        stream: emit the answer as ``token`` events.
        limits: bounds of each run of the agent; see `SubFlow`.
        id: the node's id; the nodes inside are named after it, or else after ``output_key``.
        **config: further options of `ReActAgent` and `ToolExec`.

    Raises:
        ConfigError: an unknown option.
    """
    name = id or output_key
    scratch = f"_{output_key}_messages"
    inside: dict[str, Node] = {
        f"{name}/context": nodes.ContextBuilder(
            sections=dict(sections or {}),
            messages_key=messages_key,
            output_key="input",
            reset_keys=[scratch],
        )
    }
    agent, tools = tool_loop(
        system=system,
        output_key=output_key,
        messages_key=scratch,
        model=model or "",
        provider=provider or "",
        use_tools=use_tools,
        stream=stream,
        **config,
    )
    inside |= {f"{name}/agent": agent, f"{name}/tools": tools}
    inside[f"{name}/reply"] = nodes.AppendAssistant(
        output_key=output_key, messages_key=messages_key
    )
    edges = [
        Edge(f"{name}/context", f"{name}/agent"),
        Edge(f"{name}/agent", f"{name}/tools", f"{agent.tool_call_key}!="),
        Edge(f"{name}/tools", f"{name}/agent"),
        Edge(f"{name}/agent", f"{name}/reply"),
    ]
    graph = Graph(inside, edges, f"{name}/context", name=name)
    returned = {output_key: output_key, messages_key: messages_key}
    return SubFlow(graph, output_map=returned, turn_keys=[output_key], limits=limits, id=id)


def tool_loop(
    *, agent: ReActAgent | type[ReActAgent] | None = None, **config: Any
) -> tuple[ReActAgent, ToolExec]:
    """Return an agent and the node that carries its calls out, from the options of both."""
    for_tools = {name: config.pop(name) for name in _TOOL_OPTIONS & config.keys()}
    if isinstance(agent, nodes.ReActAgent):
        if config:
            raise ConfigError(
                f"an agent that is made already takes no options; {', '.join(sorted(config))} "
                "belong to its class."
            )
        made = agent
    else:
        kind: Any = nodes.ReActAgent if agent is None else agent
        if not (isinstance(kind, type) and issubclass(kind, nodes.ReActAgent)):
            raise ConfigError(
                f"agent= takes a ReActAgent, or a class of them, not {agent!r}.", path="agent"
            )
        made = kind(**config)
    tools = nodes.ToolExec(
        messages_key=made.messages_key,
        tool_call_key=made.tool_call_key,
        use_tools=made.use_tools,
        skills=made.skills,
        skill_dir=made.skill_dir,
        skill_mount=made.skill_mount,
        **for_tools,
    )
    return made, tools


class AgentRole:
    """An agent of a team, before the team says which model it has by default.

    Args:
        system: what the agent is told to be.
        output_key: where its answer goes.
        model, provider: its own; they win over those of the team.
        sections, messages_key, use_tools, stream, **config: as for `agent_step`.

    >>> role = AgentRole("You answer questions about bills.", output_key="billing_reply")
    >>> role.build(model="llama3.1:8b", provider="ollama", id="billing").id
    'billing'
    """

    def __init__(
        self,
        system: str = "",
        *,
        output_key: str,
        model: str | None = None,
        provider: str | None = None,
        sections: Mapping[str, str] | None = None,
        messages_key: str = "messages",
        use_tools: str | Sequence[str] | bool | None = None,
        stream: bool = True,
        **config: Any,
    ) -> None:
        self.system = system
        self.output_key = output_key
        self.model = model
        self.provider = provider
        self.sections = sections
        self.messages_key = messages_key
        self.use_tools = use_tools
        self.stream = stream
        self.config = config

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], *, name: str) -> Self:
        """Make a role from the form it has in workflow files.

        ``tools`` is the older name of ``use_tools``; without ``output_key`` the role's name is it.

        Raises:
            ConfigError: both names of the tools are given.
        """
        options = dict(data)
        if "tools" in options:
            if "use_tools" in options:
                raise ConfigError(
                    f"role {name!r}: give use_tools or tools, not both.", path=f"{name}.tools"
                )
            options["use_tools"] = options.pop("tools")
        options.setdefault("output_key", name)
        return cls(options.pop("system", ""), **options)

    def build(
        self,
        *,
        model: str | None = None,
        provider: str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        id: str | None = None,
    ) -> SubFlow:
        """Return the agent as a node; model, provider and limits are for a role without its own."""
        return agent_step(
            self.system,
            self.output_key,
            model=self.model or model,
            provider=self.provider or provider,
            sections=self.sections,
            messages_key=self.messages_key,
            use_tools=self.use_tools,
            stream=self.stream,
            id=id,
            **{"limits": limits, **self.config},
        )

    def __repr__(self) -> str:
        return f"<AgentRole that writes {self.output_key!r}>"
