"""One visit of a `Delegate`: ask, carry out, look at the results, until there is an answer."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import attrs

from teff.errors import ProviderError
from teff.harness import Harness, ToolOptions, run_tool_calls
from teff.messages import Message, ToolCall, assistant, tool_result, user
from teff.node.delegation.agents import AgentResult, SubAgent
from teff.node.delegation.record import FINAL, INVALID
from teff.node.delegation.replies import STOP, Said, read_final, read_reply
from teff.node.delegation.reviews import Reviewing
from teff.node.delegation.together import together
from teff.node.delegation.tools import GuardedTool, agent_spec, message_of
from teff.provider import ChatReply, ToolSpec
from teff.runtime import EventType, ExecContext, StreamEvent
from teff.state import thaw
from teff.tool.text import result_text, shorten

if TYPE_CHECKING:
    from teff.node.delegate import Delegate
    from teff.node.model import Overlay

__all__ = ["Answer", "Session", "remaining_depth"]

#: How much of a reply without a decision, and of one in the text protocol, the model sees again.
_SHOWN_AGAIN = 4_000

_LAST_CALL = (
    "No agent can be asked any more. Give the best answer that you can give from what you have, "
    "and say what is missing."
)

#: How many levels of delegation there may still be.
_DEPTH: ContextVar[int | None] = ContextVar("teff_delegation_depth", default=None)


def remaining_depth(depth: int) -> int:
    """Return how many levels of delegation there may be here, of ``depth`` and what is around."""
    around = _DEPTH.get()
    return depth if around is None else min(depth, around)


@attrs.frozen(kw_only=True)
class Answer:
    """What a visit ends with."""

    text: str
    forced: bool = False


@attrs.define(kw_only=True)
class Task:
    """One call of a reply, and what is to become of it.

    Attributes:
        call: with the name as it was offered, and an id that no other call of the visit has.
        part: its part of the step.
        agent: who is asked; None for a tool.
        message: what the agent is told.
        problem: why it is not carried out, or "".
        status, decided_by: of a call that is not carried out.
        text: what the model is told of it in the end.
    """

    call: ToolCall
    part: ExecContext
    agent: SubAgent | None = None
    message: str = ""
    problem: str = ""
    status: str = "invalid"
    decided_by: str = "model"
    text: str = ""


class Session:
    """One visit.

    Args:
        node: whose options count.
        ctx: of the step.
        state: what the node was given.
        messages: the conversation; the node lays the system text over it.
        asked: the user's words.
        overlay: the tools.
    """

    def __init__(
        self,
        node: Delegate,
        ctx: ExecContext,
        state: Mapping[str, Any],
        *,
        messages: Sequence[Message | Mapping[str, Any]],
        asked: str,
        overlay: Overlay,
        harness: Harness,
    ) -> None:
        self.node, self.ctx, self.state, self.asked = node, ctx, state, asked
        self.messages = list(messages)
        self.harness = harness
        self.native = harness.provider.capabilities.tools
        self.depth = remaining_depth(node.depth)
        self.agents = node.sub_agents if self.depth > 0 else {}
        self.overlay = overlay
        self.events: list[StreamEvent] = []
        self.spent = self.round = self.tool_rounds = 0
        self.asked_of: Counter[str] = Counter()
        self.last_output = ""
        self._ids: set[str] = set()
        self._specs = {agent.tool_name: agent_spec(agent) for agent in self.agents.values()}
        self._by_tool = {agent.tool_name: agent for agent in self.agents.values()}

    async def run(self) -> Answer:
        """Return the answer: the model's own, or where a bound is reached its best one."""
        if not self.agents and self.node.sub_agents:
            await self.ctx.emit("limit", {"reason": "max_depth", "depth": self.node.depth})
        while self.spent < self.node.max_delegations:
            self.round += 1
            offered = self.offered()
            reply = await self.ask(self.harness, self.messages, tools=offered)
            said = read_reply(reply, offered, native=self.native, number=self.round)
            if said.answer is not None:
                return await self.finish(said.thought, said.answer, reply.text)
            if said.calls:
                await self._carry_out(reply, said)
            else:
                await self._tell_what_is_valid(reply, said, offered)
        return await self._best_answer()

    def offered(self) -> list[ToolSpec]:
        """Return what the model may call in this round."""
        further = self.overlay.offered if self.tool_rounds < self.node.max_tool_rounds else ()
        return [*self._specs.values(), *further]

    # Asking the model.

    async def ask(
        self,
        harness: Harness,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        tools: Sequence[ToolSpec] = (),
        json_schema: Mapping[str, Any] | None = None,
    ) -> ChatReply:
        """Ask once, within ``llm_timeout``; in the text protocol the tools are not sent.

        Raises:
            ProviderError: the model could not be asked, or took too long.
        """
        node = self.node
        is_step = json_schema is None
        limit = asyncio.timeout(node.llm_timeout)
        try:
            async with limit:
                reply = await harness.call(
                    messages,
                    tools=tools if self.native else (),
                    json_schema=json_schema,
                    stop=STOP if tools and not self.native else (),
                    stream=node.stream and self.native and is_step and not node.guarded("output"),
                    on_token=node.on_token if is_step and not node.guarded("output") else None,
                )
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ProviderError(
                f"node {self.ctx.node_id!r}: the model took longer than {node.llm_timeout:g} "
                "seconds (llm_timeout)",
                provider=harness.provider.name,
                model=harness.model,
            ) from error
        used = {"provider": harness.provider.name, "model": harness.model, **reply.usage.to_json()}
        used["total_tokens"] = reply.usage.total
        self.events.append(_event(self.ctx, "llm", used))  # the harness has told it already
        return reply

    async def tell(self, ctx: ExecContext, type: EventType, data: Mapping[str, Any]) -> None:
        """Tell whoever listens, and keep it for the record."""
        self.events.append(_event(ctx, type, data))
        await ctx.emit(type, data)

    async def decide(self, *, decided_by: str, route: str = "", **data: Any) -> None:
        """Tell of a decision."""
        nothing = {"thought": "", "arguments": {}, "observation": "", "call": "", "next": ""}
        told = {
            "proposal": "",
            "reply": "",
            "route": route,
            "decided_by": decided_by,
            "round": self.round,
            "max_rounds": self.node.max_delegations,
            **nothing,
            "action": "",
            "status": "ok",
            **data,
        }
        await self.tell(self.ctx, "route", told)

    # The end.

    async def finish(
        self, thought: str, answer: str, reply: str, *, decided_by: str = "model"
    ) -> Answer:
        """Return an answer as the guards leave it."""
        forced = decided_by == "max_delegations"
        status = "stopped" if forced else "finished"
        verdict = await self.node.judge(self.ctx, "output", answer)
        if verdict.action == "block":
            answer, status = verdict.reason, "blocked"
        elif verdict.action == "replace":
            answer = result_text(verdict.value)
        await self.decide(
            decided_by=decided_by if forced or status != "blocked" else "guard",
            route="finish",
            proposal=FINAL,
            reply="" if self.node.guarded("output") else reply,
            thought=thought,
            action=FINAL,
            observation=answer,
            status=status,
        )
        return Answer(text=answer, forced=forced)

    async def turn_away(self, reason: str) -> Answer:
        """Return the words of a guard that let the user's not pass."""
        await self.decide(
            decided_by="guard",
            route="finish",
            action=FINAL,
            observation=reason,
            status="blocked",
        )
        return Answer(text=reason)

    async def _best_answer(self) -> Answer:
        reason = {"reason": "max_delegations", "delegations": self.node.max_delegations}
        await self.ctx.emit("limit", {**reason, "forced": True})
        self.round += 1
        reply = await self.ask(self.harness, [*self.messages, user(_LAST_CALL)])
        answer = read_final(reply) or self.last_output
        return await self.finish("", answer, reply.text, decided_by="max_delegations")

    # What a reply asks for.

    async def _tell_what_is_valid(
        self, reply: ChatReply, said: Said, offered: Sequence[ToolSpec]
    ) -> None:
        self.spent += 1
        names = ", ".join(tool.name for tool in offered)
        if self.native:
            ways = [f"call one of {names}"] if names else []
            valid = " or ".join([*ways, "write your answer as text"])
        else:
            ways = [f"ACTION (one of {names}) and ACTION_INPUT"] if names else []
            valid = f"reply with {' or with '.join([*ways, 'FINAL_ANSWER'])}"
        told = f"This cannot be read: {said.problem}. Please {valid}."
        await self.decide(
            decided_by="no_decision",
            reply=reply.text,
            thought=said.thought,
            action=INVALID,
            observation=told,
            status="invalid",
        )
        shown = [assistant(shorten(reply.text, _SHOWN_AGAIN))] if reply.text.strip() else []
        self.messages = [*self.messages, *shown, user(told)]

    async def _carry_out(self, reply: ChatReply, said: Said) -> None:
        """Carry out the calls of a reply at once, and tell the model what came of each."""
        tasks = [await self._planned(call) for call in said.calls]
        for place, task in enumerate(tasks):
            runs = not task.problem
            await self.decide(
                decided_by=task.decided_by,
                route=(task.agent.name if task.agent else task.call.name) if runs else "",
                proposal=task.call.name,
                reply=reply.text if place == 0 else "",
                thought=said.thought if place == 0 else "",
                action=task.call.name if task.status != "invalid" or runs else INVALID,
                arguments=thaw(dict(task.call.arguments)),
                observation=task.problem,
                status="ok" if runs else task.status,
                next=task.call.id,
            )
        running = [task for task in tasks if not task.problem]
        if not running:
            self.spent += 1
        if any(task.agent is None for task in running):
            self.tool_rounds += 1
            if self.tool_rounds == self.node.max_tool_rounds:
                await self.ctx.emit("limit", {"reason": "max_tool_rounds"})
        await self._run(running)
        self.messages = [*self.messages, *self._observed(reply, tasks)]

    async def _planned(self, call: ToolCall) -> Task:
        """Say what is to become of a call, and count it where an agent is asked."""
        call = attrs.evolve(call, id=self.new_id(call.id))
        task = Task(call=call, part=self.ctx.part(f"call:{call.id}"))
        task.agent = agent = self._by_tool.get(call.name)
        if not call.error:
            name = agent.name if agent else call.name
            verdict = await self.node.judge(
                task.part, "tool_args", thaw(dict(call.arguments)), name=name
            )
            if verdict.action == "block":
                return self._refused(task, "blocked", verdict.reason, by="guard")
            if verdict.action == "replace":
                error = "" if isinstance(verdict.value, Mapping) else "a guard left no arguments"
                arguments = verdict.value if not error else {}
                task.call = call = attrs.evolve(call, arguments=arguments, error=error)
        task.message = message_of(call) if agent else ""
        if call.error or (agent and not task.message):
            problem = call.error or 'it needs a text: {"message": "what is to be done"}'
            return self._refused(task, "invalid", problem, by="no_decision")
        if agent is None:
            return task
        if self.spent >= self.node.max_delegations:
            problem = f"only {self.node.max_delegations} delegations are allowed"
            return self._refused(task, "refused", problem, by="max_delegations")
        if not self.may_ask(agent):
            problem = f"{agent.name!r} may be asked {self.node.most_of(agent.name)} times, and was"
            return self._refused(task, "refused", problem, by="per_agent")
        self.count(agent)
        return task

    def may_ask(self, agent: SubAgent) -> bool:
        """Say whether an agent may be given another task."""
        most = self.node.most_of(agent.name)
        is_left = most is None or self.asked_of[agent.name] < most
        return is_left and self.spent < self.node.max_delegations

    def count(self, agent: SubAgent) -> None:
        """Count a delegation, before it is made."""
        self.spent += 1
        self.asked_of[agent.name] += 1

    def new_id(self, wanted: str) -> str:
        """Return an id that no call of this visit has: servers may use one twice."""
        wanted = wanted or "call"
        numbered = (f"{wanted}~{number}" for number in itertools.count(2))
        new = next(free for free in itertools.chain([wanted], numbered) if free not in self._ids)
        self._ids.add(new)
        return new

    @staticmethod
    def _refused(task: Task, status: str, problem: str, *, by: str) -> Task:
        told = {"status": "refused", "error": f"not carried out: {problem}"}
        if status == "blocked":
            told = {"status": "blocked", "error": problem}
        task.problem = task.text = result_text(told)
        task.status, task.decided_by = status, by
        return task

    # Running what was decided.

    async def _run(self, tasks: Sequence[Task]) -> None:
        delegations = [task for task in tasks if task.agent is not None]
        calls = [task for task in tasks if task.agent is None]
        work: list[Awaitable[Any]] = [self.delegate(task) for task in delegations]
        if calls:
            work.append(self._call_tools(calls))
        outcomes = await together(work)
        results = outcomes[: len(delegations)]
        for result, events in results:
            self.take(result, events)
        if calls:
            self._note_tools(calls, outcomes[-1])
        texts = {
            task.call.id: result for task, (result, _) in zip(delegations, results, strict=True)
        }
        if self.node.review:
            texts = await Reviewing(self).settle(delegations, texts)
        for task in delegations:
            task.text = texts[task.call.id].text()

    async def delegate(
        self, task: Task, *, messages: Sequence[Message] | None = None
    ) -> tuple[AgentResult, list[StreamEvent]]:
        """Give an agent its task; return the result as the guards leave it, and what was told."""
        agent, part, call = task.agent, task.part, task.call
        assert agent is not None  # noqa: S101  # a task of a tool does not come here
        called = {"id": call.id, "name": call.name, "arguments": thaw(dict(call.arguments))}
        called["agent"] = agent.name
        await part.emit("tool_call", called)

        async def run() -> dict[str, Any]:
            token = _DEPTH.set(self.depth - 1)
            try:
                given = agent.state(task.message, self.state, messages=messages)
                return attrs.asdict(await agent.run(part, "agent", given), recurse=False)
            finally:
                _DEPTH.reset(token)

        result = AgentResult(**thaw(await part.once("result", run)))
        if result.status == "ok":
            verdict = await self.node.judge(part, "agent_result", result.output, name=agent.name)
            if verdict.action == "block":
                result = result.without_output("blocked", verdict.reason)
            elif verdict.action == "replace":
                result = attrs.evolve(result, output=verdict.value)
        told = {
            "id": call.id,
            "name": call.name,
            "text": result.text(),
            "error": result.status != "ok",
            "duration_ms": result.duration_ms,
            "agent": agent.name,
            "status": result.status,
            "usage": result.usage,
        }
        await part.emit("tool_result", told)
        return result, [_event(part, "tool_call", called), _event(part, "tool_result", told)]

    def take(self, result: AgentResult, events: Iterable[StreamEvent]) -> None:
        """Keep what was told of a result, and the result for the case that no better answer comes."""
        self.events += events
        if result.status == "ok":
            self.last_output = result_text(result.output)

    async def _call_tools(self, tasks: Sequence[Task]) -> list[Any]:
        node = self.node
        tools = [GuardedTool(tool, node) for tool in self.overlay.tools]
        _DEPTH.set(self.depth - 1)  # for this task alone; a tool may be an agent
        return await run_tool_calls(
            self.ctx,
            [task.call for task in tasks],
            tools if node.guarded("tool_result") else self.overlay.tools,
            state=self.state,
            options=ToolOptions(
                error_mode=node.tool_error_mode,
                timeout=node.tool_timeout,
                approval=node.tool_approval,
            ),
        )

    def _note_tools(self, tasks: Sequence[Task], results: Iterable[Any]) -> None:
        """Keep for the record what was told of tool calls while they ran."""
        for task, result in zip(tasks, results, strict=True):
            call = task.call
            task.text = result.text
            called = {"id": call.id, "name": call.name, "arguments": thaw(dict(call.arguments))}
            told = {
                "id": call.id,
                "name": call.name,
                "text": result.text,
                "error": result.error,
                "duration_ms": result.duration * 1000.0,
            }
            self.events += [
                _event(task.part, "tool_call", called),
                _event(task.part, "tool_result", told),
            ]

    def _observed(self, reply: ChatReply, tasks: Sequence[Task]) -> list[Message]:
        """Return a reply and what came of it, as the model sees them in the next round."""
        if reply.tool_calls:
            calls = [task.call for task in tasks]
            said = assistant(reply.text, calls, thinking=reply.thinking)
            return [said, *(tool_result(task.call, task.text) for task in tasks)]
        said = assistant(shorten(reply.text.split(STOP[0])[0].strip(), _SHOWN_AGAIN))
        one = len(tasks) == 1
        texts = [
            f"OBSERVATION{'' if one else f' of {task.call.name}'}: {task.text}" for task in tasks
        ]
        return [said, user("\n\n".join(texts))]


def _event(ctx: ExecContext, type: EventType, data: Mapping[str, Any]) -> StreamEvent:
    return StreamEvent(type, ctx.node_id, ctx.node_type, ctx.path, data, 0.0)
