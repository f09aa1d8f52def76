"""Carrying out what was decided: agents and tools at once, as the guards let them."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from teff.harness import ToolOptions, run_tool_calls
from teff.messages import Message
from teff.node.delegation.agents import AgentResult
from teff.node.delegation.depth import one_level_down
from teff.node.delegation.tasks import Task
from teff.node.delegation.together import together
from teff.node.delegation.tools import GuardedTool
from teff.runtime import EventType, ExecContext, StreamEvent
from teff.state import is_filled, thaw
from teff.tool import ToolResult
from teff.tool.text import result_text

if TYPE_CHECKING:
    from teff.node.delegation.session import Session

__all__ = ["Done", "Work", "event_of"]


@attrs.frozen(kw_only=True)
class Done:
    """What became of one task of an agent.

    Attributes:
        result: as the guards leave it.
        events: what was told of it.
    """

    result: AgentResult
    events: Sequence[StreamEvent]


class Work:
    """The work of one visit.

    Attributes:
        last_output: the text of the last answer that an agent gave, or "".
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.last_output = ""

    async def run(self, tasks: Sequence[Task]) -> dict[str, AgentResult]:
        """Carry out tasks at once; return the agents' results by the ids of the calls.

        What tools gave is in their tasks.
        """
        for_agents = [task for task in tasks if task.agent is not None]
        for_tools = [task for task in tasks if task.agent is None]
        work: list[Awaitable[Any]] = [self.delegate(task) for task in for_agents]
        if for_tools:
            work.append(self._call_tools(for_tools))
        outcomes = await together(work, finished=self._take)
        done = outcomes[: len(for_agents)]
        return {task.call.id: one.result for task, one in zip(for_agents, done, strict=True)}

    async def delegate_all(
        self, tasks: Sequence[Task], messages: Mapping[str, Sequence[Message]]
    ) -> list[AgentResult]:
        """Give agents their tasks at once, with conversations by the ids of the calls."""
        work = [self.delegate(task, messages=messages[task.call.id]) for task in tasks]
        return [done.result for done in await together(work, finished=self._take)]

    async def delegate(self, task: Task, *, messages: Sequence[Message] | None = None) -> Done:
        """Give an agent its task."""
        agent, part, call, session = task.agent, task.part, task.call, self._session
        assert agent is not None  # noqa: S101  # a task of a tool does not come here
        called = {
            "id": call.id,
            "name": call.name,
            "arguments": thaw(dict(call.arguments)),
            "agent": agent.name,
        }
        await part.emit("tool_call", called)

        async def run() -> dict[str, Any]:
            given = agent.state(task.message, session.state, messages=messages)
            with one_level_down(session.depth):
                return attrs.asdict(await agent.run(part, "agent", given), recurse=False)

        result = AgentResult(**thaw(await part.once("result", run)))
        if is_filled(result.output):
            verdict = await session.node.judge(part, "agent_result", result.output, name=agent.name)
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
        events = [event_of(part, "tool_call", called), event_of(part, "tool_result", told)]
        return Done(result=result, events=events)

    async def _call_tools(self, tasks: Sequence[Task]) -> list[StreamEvent]:
        """Call tools; return for the record what was told of them while they ran."""
        session = self._session
        node = session.node
        tools = session.overlay.tools
        if node.guarded("tool_result"):
            tools = [GuardedTool(tool, node) for tool in tools]
        with one_level_down(session.depth), session.counted():  # a tool may be an agent
            results = await run_tool_calls(
                session.ctx,
                [task.call for task in tasks],
                tools,
                state=session.state,
                options=ToolOptions(
                    error_mode=node.tool_error_mode,
                    timeout=node.tool_timeout,
                    approval=node.tool_approval,
                ),
            )
        events: list[StreamEvent] = []
        for task, result in zip(tasks, results, strict=True):
            task.text = result.text
            events += _events_of(task, result)
        return events

    def _take(self, finished: Done | list[StreamEvent]) -> None:
        """Keep what was told, and an answer for the case that no better one comes."""
        if isinstance(finished, list):
            self._session.events += finished
            return
        self._session.events += finished.events
        if is_filled(finished.result.output):
            self.last_output = result_text(finished.result.output)


def _events_of(task: Task, result: ToolResult) -> list[StreamEvent]:
    call = task.call
    told = {
        "id": call.id,
        "name": call.name,
        "text": result.text,
        "error": result.error,
        "duration_ms": result.duration * 1000.0,
    }
    called = {"id": call.id, "name": call.name, "arguments": thaw(dict(call.arguments))}
    return [event_of(task.part, "tool_call", called), event_of(task.part, "tool_result", told)]


def event_of(ctx: ExecContext, type: EventType, data: Mapping[str, Any]) -> StreamEvent:
    """Return what is told of a step, as it is kept for the record: without the time."""
    return StreamEvent(type, ctx.node_id, ctx.node_type, ctx.path, data, 0.0)
