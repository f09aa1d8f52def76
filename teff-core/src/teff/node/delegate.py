"""`Delegate`: a model that has agents as tools, under bounds, guards and reviews."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import attrs

from teff.errors import ConfigError, StateError, suggest
from teff.messages import (
    Message,
    assistant,
    conversation,
    last_user_message,
    message_text,
    user,
    with_system,
)
from teff.node.base import Node, options
from teff.node.delegation.agents import PREFIX, SubAgent, sub_agents
from teff.node.delegation.guards import Guards, Verdict
from teff.node.delegation.record import steps_record
from teff.node.delegation.replies import protocol
from teff.node.delegation.session import Answer, Session
from teff.node.model import AssistantNode, Overlay
from teff.prompt import to_text
from teff.runtime import ExecContext, LimitSignal
from teff.state import Append, is_filled
from teff.tool.approval import ApprovalPolicy, check_policy

__all__ = ["Delegate"]

_ABOVE_0: Any = attrs.validators.optional(attrs.validators.gt(0))

_SYSTEM = (
    "You answer the user, and you have agents that do parts of the work. Assess what is needed; "
    "give an agent a task that says all it has to know; look at what it gives back; then answer "
    "yourself. What has the status error is no answer."
)


@options
class Delegate(AssistantNode):
    """Ask a model that has agents as tools: assess, delegate, review, answer.

    Each agent is offered as ``delegate_to_<name>``: as a tool where the provider can call tools, else
    by a text protocol (``THOUGHT:``, ``ACTION:``, ``ACTION_INPUT:``, ``FINAL_ANSWER:``). An agent
    sees its task and the context that was chosen for it, never this conversation; what comes back is
    JSON with a ``status``, so a failure cannot look like an answer. Several tasks of one reply are
    worked on at once.

    Agents run as children of the step: they are recorded, counted against the limits of the run and
    told of with their paths, and a question to a person inside one pauses the run and is answered in
    place.

    The node is bounded. Every task counts against ``max_delegations``, so does sending one back, and
    so does each reply by which nothing could be done, to which the model is told what is valid. When
    all are used the model is asked once more, without tools, for its best answer, and the run ends
    with the stop reason ``max_delegations``.

    Every decision is an event ``route``. The record under ``steps_key`` is the fold of the events,
    see `teff.node.delegation.steps_record`.

    Args:
        agents: from names to ``description`` (the model chooses by it) and ``flow``, ``node`` or
            ``role``, or the options of a role; further ``output_key``, ``context``, the keys of
            the state that it sees, and ``limits`` of each of its tasks. Or a list of these with ``name``; or of `SubAgent`.
        max_delegations: how many tasks may be given, at least 1.
        per_agent: how many of them to each agent; a mapping gives agents bounds of their own.
        depth: how many levels of delegation there may be, with the agents' own; below, agents that
            could delegate answer themselves.
        llm_timeout: seconds for one question to the model, its retries included; None for ever.
        review: whether each answer of an agent is judged by a question of its own: it is accepted,
            sent back with feedback, or rejected.
        guards: from points to functions that return `allow`, `replace` or `block` of
            `teff.node.delegation`; see `GUARD_POINTS`. Where ``output`` has any, nothing is streamed.
        system: a template for the system text; a short one of its own where it is empty.
        input_key, messages_key: where the user's text and the conversation are. The text is added to
            the conversation unless it ends with it.
        output_key: where the answer goes; ``<output_key>_forced`` says whether the bound forced it.
        append_reply: whether the answer is added to the conversation; nothing else ever is.
        steps_key: where the record goes; ``<output_key>_steps`` where it is empty.
        use_tools, max_tool_rounds, tool_error_mode, tool_timeout, tool_approval: further tools, as
            for `LLM`.

    Raises:
        ConfigError: no agents, an agent without description, an unknown option, point or tool.
        StateError: there is nothing to answer.
        ProviderError: the model could not be asked, or took too long.
        WorkflowError: a guard returned no verdict.

    >>> import asyncio
    >>> from teff import Flow
    >>> from teff.testing import ScriptedProvider, call_tool
    >>> async def look_up(ctx, state):
    ...     return {"output": f"{state['input']}: 3 open invoices"}
    >>> task = call_tool("delegate_to_billing", {"message": "customer 7"})
    >>> model = ScriptedProvider([task, "You have 3 open invoices."])
    >>> flow = Flow(providers={"p": model}, default_provider="p", default_model="m")
    >>> billing = {"description": "Knows the invoices.", "node": look_up}
    >>> graph = flow.step(Delegate(agents={"billing": billing})).compile()
    >>> result = asyncio.run(graph.run({"input": "What do I owe?"}))
    >>> result["output"], result["output_steps"]["agents_used"]
    ('You have 3 open invoices.', ['billing'])
    """

    type = "delegate"

    needs_agents: ClassVar[bool] = True

    agents: Any
    max_delegations: int = attrs.field(default=5, validator=attrs.validators.ge(1))
    per_agent: int | Mapping[str, int] | None = None
    depth: int = attrs.field(default=3, validator=attrs.validators.ge(1))
    llm_timeout: float | None = attrs.field(default=120.0, validator=_ABOVE_0)
    review: bool = False
    guards: Mapping[str, Any] = attrs.field(factory=dict)
    input_key: str = "input"
    output_key: str = "output"
    messages_key: str = "messages"
    append_reply: bool = True
    steps_key: str = ""
    tool_error_mode: Literal["message", "raise"] = "message"
    tool_timeout: float | None = attrs.field(default=None, validator=_ABOVE_0)
    tool_approval: ApprovalPolicy = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_policy(self.tool_approval)
        what = self._described(self.id)
        try:
            self._agents = sub_agents(self.agents, model=self.model, provider=self.provider)
        except ConfigError as error:
            raise ConfigError(f"{what}: {error.message}", path="agents", hint=error.hint) from error
        self._guards = Guards(self.guards, what=what)
        for problem, option in self._problems():
            raise ConfigError(f"{what}: {problem}", path=option)

    def _problems(self) -> Iterable[tuple[str, str]]:
        if not self._agents and self.needs_agents:
            yield "option 'agents' names no agent.", "agents"
        if not self.output_key:
            yield "option 'output_key' is empty.", "output_key"
        bounds = self.per_agent if isinstance(self.per_agent, Mapping) else {"": self.per_agent}
        for name, most in bounds.items():
            if name and name not in self._agents:
                hint = suggest(name, self._agents)
                yield f"option 'per_agent' names {name!r}, which is no agent.{hint}", "per_agent"
            if most is not None and (isinstance(most, bool) or most < 1):
                yield (
                    f"option 'per_agent' must be a whole number of at least 1, not {most!r}.",
                    "per_agent",
                )

    # What its session asks of it.

    @property
    def sub_agents(self) -> Mapping[str, SubAgent]:
        """The agents by name."""
        return self._agents

    def most_of(self, agent: str) -> int | None:
        """Return how many tasks an agent may be given, or None for no bound of its own."""
        if isinstance(self.per_agent, Mapping):
            return self.per_agent.get(agent)
        return self.per_agent

    def guarded(self, point: str) -> bool:
        """Say whether a point has guards."""
        return self._guards.at(point)

    async def judge(self, ctx: ExecContext, point: str, value: Any, *, name: str = "") -> Verdict:
        """Ask the guards of a point."""
        return await self._guards.judge(ctx, point, value, name=name)

    # One visit.

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Work on the user's words; return the answer, the record, and what is said of it."""
        history = conversation(state, self.messages_key) if self.messages_key else []
        added = self._opening(state, history)
        messages = [*history, *added]
        asked = last_user_message(messages)
        if not messages:
            raise StateError(
                f"node {ctx.node_id!r} has nothing to answer: there is no conversation under "
                f"{self.messages_key!r} and no text under {self.input_key!r}"
            )
        verdict = await self.judge(ctx, "input", asked)
        if verdict.action == "replace":
            asked = to_text(verdict.value)
            messages = _said_instead(messages, asked)
            added = [user(asked)] if added else []
        overlay = await self._overlay(ctx, state, messages)
        session = Session(
            self,
            ctx,
            state,
            messages=messages,
            asked=asked,
            overlay=overlay,
            harness=self.harness(ctx),
        )
        session.messages = with_system(messages, self._told(session, overlay))
        try:
            if verdict.action == "block":
                answer = await session.turn_away(verdict.reason)
            else:
                answer = await session.run()
        except (LimitSignal, asyncio.CancelledError):
            ctx.keep(self._kept(ctx, session))
            raise
        ctx.stop_reason = None  # why an agent ended is not why the run does
        if answer.forced:
            ctx.set_stop_reason("max_delegations")
        return self._updates(ctx, session, answer, added)

    async def _overlay(
        self,
        ctx: ExecContext,
        state: Mapping[str, Any],
        messages: Sequence[Message | Mapping[str, Any]],
    ) -> Overlay:
        overlay = await self.overlay(ctx, state, messages)
        for tool in overlay.offered:
            if tool.name.removeprefix(PREFIX) in self._agents and tool.name.startswith(PREFIX):
                raise ConfigError(
                    f"node {ctx.node_id!r}: the tool {tool.name!r} is called like an agent; "
                    "give one of them another name.",
                    path="use_tools",
                )
        return overlay

    def _told(self, session: Session, overlay: Overlay) -> str:
        texts = [text for text in ("" if self.system else _SYSTEM, overlay.system) if text]
        if not session.native:
            texts.append(protocol(session.offered()))
        return "\n\n".join(texts)

    def _opening(
        self, state: Mapping[str, Any], history: Sequence[Message | Mapping[str, Any]]
    ) -> list[Message]:
        """Return the user's text as a message, unless the conversation ends with it already."""
        given = state.get(self.input_key) if self.input_key else None
        text = to_text(given) if is_filled(given) else ""
        last = history[-1] if history else {}
        said = last.get("role") == "user" and message_text(last) == text
        return [user(text)] if text and not said else []

    def _updates(
        self, ctx: ExecContext, session: Session, answer: Answer, added: Sequence[Message]
    ) -> dict[str, Any]:
        updates: dict[str, Any] = {
            self.output_key: answer.text,
            self.forced_key: answer.forced,
            self.record_key: steps_record(session.events, ctx.path),
        }
        if self.append_reply and self.messages_key:
            said = [assistant(answer.text)] if answer.text.strip() else []
            updates[self.messages_key] = Append([*added, *said])
        return updates

    def _kept(self, ctx: ExecContext, session: Session) -> dict[str, Any]:
        """Return what there is where a limit ends the run."""
        kept: dict[str, Any] = {self.record_key: steps_record(session.events, ctx.path)}
        if session.work.last_output:
            kept |= {self.output_key: session.work.last_output, self.forced_key: True}
        return kept

    @property
    def record_key(self) -> str:
        """The state key of the record."""
        return self.steps_key or f"{self.output_key}_steps"

    @property
    def forced_key(self) -> str:
        """The state key that says whether the answer was forced by the bound."""
        return f"{self.output_key}_forced"

    # What it says of itself.

    def reads(self) -> Iterable[str]:
        """Return the keys of the system text, the input, the conversation and the contexts."""
        contexts = (key for agent in self._agents.values() for key in agent.context)
        keys = [*self._system.root_keys, self.input_key, self.messages_key, *contexts]
        return [key for key in dict.fromkeys(keys) if key]

    def writes(self) -> list[str]:
        """Return the keys of the answer, of the record, and of the conversation."""
        keys = [self.output_key, self.forced_key, self.record_key]
        return [*keys, self.messages_key] if self.append_reply and self.messages_key else keys

    def turn_keys(self) -> list[str]:
        """Return the keys of the record and of the mark of a forced answer."""
        return [self.forced_key, self.record_key]

    def to_config(self) -> dict[str, Any]:
        """Return the options, with the agents by name and what each runs as a node."""
        agents = {name: agent.to_config() for name, agent in self._agents.items()}
        return {**super().to_config(), "agents": agents}

    def children(self) -> Iterable[Node]:
        """Return the nodes of the agents."""
        return [agent.node for agent in self._agents.values()]

    def signature(self) -> Any:
        """Return the signatures of the agents by name."""
        agents = {name: agent.node.signature() for name, agent in self._agents.items()}
        return {"type": self.type, "agents": agents}


def _said_instead(
    messages: Sequence[Message | Mapping[str, Any]], text: str
) -> list[Message | Mapping[str, Any]]:
    """Return a conversation in which the last words of the user are others."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].get("role") == "user" and message_text(messages[place]):
            return [*messages[:place], user(text), *messages[place + 1 :]]
    return [*messages, user(text)]
