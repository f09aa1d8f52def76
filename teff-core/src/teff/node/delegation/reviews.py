"""The review: a separate question whether an agent's result will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from teff.errors import StructuredOutputError, TruncatedOutput
from teff.harness import StructuredOutput, settle
from teff.messages import Message, ToolCall, assistant, user, with_system
from teff.node.delegation.agents import AgentResult
from teff.node.delegation.tasks import Task
from teff.node.delegation.together import together
from teff.provider import ChatReply

if TYPE_CHECKING:
    from teff.node.delegation.session import Session

__all__ = ["Review", "Reviewing"]


@attrs.frozen(kw_only=True)
class Review:
    """What the model thinks of a result.

    Attributes:
        verdict: ``accept``, ``revise`` or ``reject``.
        feedback: what is to be done better, or why it will not do.
        is_read: whether the model said so; what could not be read accepts.
    """

    verdict: Literal["accept", "revise", "reject"] = "accept"
    feedback: str = ""
    is_read: bool = True


class Reviewing:
    """The reviews of what the agents gave in one round."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._said: dict[str, list[Message]] = {}

    async def settle(
        self, tasks: Sequence[Task], results: Mapping[str, AgentResult]
    ) -> dict[str, AgentResult]:
        """Have every answer reviewed, and send back what is to be revised.

        Args:
            tasks: what was carried out; what tools gave is not reviewed.
            results: by the ids of the calls.

        Returns:
            The results in the end, by the same ids.
        """
        final = dict(results)
        open_tasks = {
            task.call.id: task
            for task in tasks
            if task.agent is not None and final[task.call.id].status == "ok"
        }
        while open_tasks:
            open_tasks = await self._round(open_tasks, final)
        return final

    async def _round(
        self, open_tasks: Mapping[str, Task], final: dict[str, AgentResult]
    ) -> dict[str, Task]:
        """Review what is open; return, under the ids of the first calls, what was done again."""
        session = self._session
        may_revise = not session.ledger.is_used_up
        reviews = await together(
            [self._review(task, final[call], may_revise) for call, task in open_tasks.items()]
        )
        again: dict[str, Task] = {}
        for (call, task), review in zip(open_tasks.items(), reviews, strict=True):
            follow_up = await self._decide(task, final[call], review)
            if follow_up is not None:
                again[call] = follow_up
            elif review.verdict == "reject":
                final[call] = final[call].without_output("rejected", review.feedback)
        done = await session.work.delegate_all(list(again.values()), self._said)
        final.update(zip(again, done, strict=True))
        return {call: task for call, task in again.items() if final[call].status == "ok"}

    async def _decide(self, task: Task, result: AgentResult, review: Review) -> Task | None:
        """Tell of a review; return the task that follows from it where the result is sent back."""
        session, agent = self._session, task.agent
        assert agent is not None  # noqa: S101  # only what agents gave is reviewed
        verdict, follow_up = review.verdict, None
        if verdict == "revise" and not session.ledger.may_ask(agent):
            verdict = "accept"
        told: dict[str, Any] = {}
        if verdict == "revise":
            session.ledger.count(agent)
            follow_up = self._again(task, result, review)
            told = {
                "action": follow_up.call.name,
                "arguments": dict(follow_up.call.arguments),
                "next": follow_up.call.id,
            }
        elif verdict == "reject":
            rejected = result.without_output("rejected", review.feedback)
            told = {"observation": rejected.text(), "status": "rejected"}
        await session.decide(
            decided_by="review",
            route=agent.name if follow_up else "",
            proposal=verdict,
            thought=review.feedback,
            call=task.call.id,
            is_read=review.is_read,
            **told,
        )
        return follow_up

    def _again(self, task: Task, result: AgentResult, review: Review) -> Task:
        """Return the task with what the agent gave and what it is to do better."""
        session = self._session
        feedback = review.feedback or "Do it again, and better."
        call = ToolCall(
            id=session.ledger.new_id(task.call.id),
            name=task.call.name,
            arguments={"message": feedback},
        )
        before = self._said.get(task.call.id) or [user(task.message)]
        said = [*before, assistant(_text(result)), user(feedback)]
        self._said[call.id] = said
        part = session.ctx.part(f"call:{call.id}")
        message = f"{task.message}\n\nYour last result:\n{_text(result)}\n\nDo better: {feedback}"
        return attrs.evolve(task, call=call, part=part, message=message)

    async def _review(self, task: Task, result: AgentResult, may_revise: bool) -> Review:
        session = self._session
        wanted = _wanted(may_revise=may_revise)
        harness = session.node.harness(task.part)
        messages = with_system(
            [user(_question(session.asked, task.message, result))],
            f"You review the work of agents. {wanted.instruction}",
        )

        async def ask(asked: Sequence[Any]) -> ChatReply:
            return await session.ask(harness, asked, json_schema=wanted.schema)

        try:
            answer, _ = await settle(
                task.part, wanted, await ask(messages), messages, ask=ask, max_retries=1
            )
        except (StructuredOutputError, TruncatedOutput):
            return Review(is_read=False)
        feedback = answer.get("feedback") or answer.get("reason") or ""
        return Review(verdict=answer["verdict"], feedback=str(feedback))


def _wanted(*, may_revise: bool) -> StructuredOutput:
    verdicts = ["accept", "revise", "reject"] if may_revise else ["accept", "reject"]
    feedback = "With revise: what the agent has to do better. With reject: why it will not do."
    return StructuredOutput.of(
        json_schema={
            "type": "object",
            "properties": {
                "verdict": {"enum": verdicts},
                "feedback": {"type": "string", "description": feedback},
            },
            "required": ["verdict"],
        }
    )


def _question(asked: str, task: str, result: AgentResult) -> str:
    return (
        f"The user asked:\n{asked}\n\n"
        f"The agent {result.agent!r} was given this task:\n{task}\n\n"
        f"Its result:\n{result.text()}\n\n"
        "Judge whether the result does what the task says. Accept it where it will do; have it "
        "revised where the agent could do better with your feedback; reject it where it is wrong "
        "or of no use."
    )


def _text(result: AgentResult) -> str:
    return result.output if isinstance(result.output, str) else result.text()
