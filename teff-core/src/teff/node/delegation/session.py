"""One visit of a `Delegate`: ask, carry out, look at the results, until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from teff.errors import ProviderError
from teff.harness import Harness
from teff.harness.usage import recorded_usage
from teff.messages import Message, Usage, assistant, tool_result, user
from teff.node.delegation.depth import remaining_depth
from teff.node.delegation.record import FINAL, INVALID, is_of_agent
from teff.node.delegation.replies import STOP, Said, read_final, read_reply
from teff.node.delegation.reviews import Reviewing
from teff.node.delegation.tasks import Ledger, Task, planned
from teff.node.delegation.tools import agent_spec
from teff.node.delegation.work import Work, event_of
from teff.provider import ChatReply, ToolSpec
from teff.runtime import EventType, ExecContext, StreamEvent
from teff.runtime.meter import metered
from teff.state import thaw
from teff.tool.text import result_text, shorten

if TYPE_CHECKING:
    from teff.node.delegate import Delegate
    from teff.node.model import Overlay

__all__ = ["Answer", "Session"]

#: How much of a reply without a decision, and of one in the text protocol, the model sees again.
_SHOWN_AGAIN = 4_000

_LAST_CALL = (
    "No agent can be asked any more. Give the best answer that you can give from what you have, "
    "and say what is missing."
)


@attrs.frozen(kw_only=True)
class Answer:
    """What a visit ends with."""

    text: str
    forced: bool = False


class Session:
    """One visit.

    Args:
        node: whose options count.
        ctx: of the step.
        state: what the node was given.
        messages: the conversation; the node lays the system text over it.
        asked: the user's words.
        overlay: the tools.
        harness: asks the model.
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
        self.round = 0
        self.ledger = Ledger(node)
        self.work = Work(self)
        self._specs = {agent.tool_name: agent_spec(agent) for agent in self.agents.values()}
        self._by_tool = {agent.tool_name: agent for agent in self.agents.values()}

    async def run(self) -> Answer:
        """Return the answer: the model's own, or where a bound is reached its best one."""
        self._keep_usage(recorded_usage(self.ctx, without=is_of_agent))  # before a resume
        if not self.agents and self.node.sub_agents:
            await self.ctx.emit("limit", {"reason": "max_depth", "depth": self.node.depth})
        while not self.ledger.is_used_up:
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
        further = (
            self.overlay.offered if self.ledger.tool_rounds < self.node.max_tool_rounds else ()
        )
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
                with self.counted():
                    reply = await harness.call(
                        messages,
                        tools=tools if self.native else (),
                        json_schema=json_schema,
                        stop=STOP if tools and not self.native else (),
                        stream=node.stream
                        and self.native
                        and is_step
                        and not node.guarded("output"),
                        on_token=node.on_token if is_step and not node.guarded("output") else None,
                    )
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ProviderError(
                f"node {self.ctx.node_id!r}: the model took longer than {node.llm_timeout:g} "
                "seconds (llm_timeout)",
                provider=harness.first.provider_name,
                model=harness.model,
            ) from error
        return reply

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Keep for the record what is asked within; the harness has told of it already."""
        with metered() as used:
            try:
                yield
            finally:
                self._keep_usage(used)

    def _keep_usage(self, used: Usage) -> None:
        for asked, counts in used.by_model.items():
            self.events.append(event_of(self.ctx, "llm", {"asked": asked, **counts}))

    async def tell(self, ctx: ExecContext, type: EventType, data: Mapping[str, Any]) -> None:
        """Tell whoever listens, and keep it for the record."""
        self.events.append(event_of(ctx, type, data))
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
        answer = read_final(reply) or self.work.last_output
        return await self.finish("", answer, reply.text, decided_by="max_delegations")

    # What a reply asks for.

    async def _tell_what_is_valid(
        self, reply: ChatReply, said: Said, offered: Sequence[ToolSpec]
    ) -> None:
        self.ledger.spent += 1
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
        tasks = [
            await planned(self.node, self.ctx, call, ledger=self.ledger, agents=self._by_tool)
            for call in said.calls
        ]
        for place, task in enumerate(tasks):
            await self.decide(
                decided_by=task.decided_by,
                route=(task.agent.name if task.agent else task.call.name) if task.runs else "",
                proposal=task.call.name,
                reply=reply.text if place == 0 else "",
                thought=said.thought if place == 0 else "",
                action=INVALID if task.status == "invalid" else task.call.name,
                arguments=thaw(dict(task.call.arguments)),
                observation=task.problem,
                status=task.status,
                next=task.call.id,
            )
        running = [task for task in tasks if task.runs]
        if not running:
            self.ledger.spent += 1
        if any(task.agent is None for task in running):
            self.ledger.tool_rounds += 1
            if self.ledger.tool_rounds == self.node.max_tool_rounds:
                await self.ctx.emit("limit", {"reason": "max_tool_rounds"})
        results = await self.work.run(running)
        if self.node.review:
            results = await Reviewing(self).settle(running, results)
        for task in running:
            if task.agent is not None:
                task.text = results[task.call.id].text()
        self.messages = [*self.messages, *self._observed(reply, tasks)]

    def _observed(self, reply: ChatReply, tasks: Sequence[Task]) -> list[Message]:
        """Return a reply and what came of it, as the model sees them in the next round."""
        if reply.tool_calls and self.native:
            calls = [task.call for task in tasks]
            said = assistant(reply.text, calls, thinking=reply.thinking)
            return [said, *(tool_result(task.call, task.text) for task in tasks)]
        text = shorten(reply.text.split(STOP[0])[0].strip(), _SHOWN_AGAIN)
        one = len(tasks) == 1
        texts = [
            f"OBSERVATION{'' if one else f' of {task.call.name}'}: {task.text}" for task in tasks
        ]
        return [*([assistant(text)] if text else []), user("\n\n".join(texts))]
