"""What a reply asks for, call by call, and what each may cost."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from teff.messages import ToolCall
from teff.node.delegation.agents import SubAgent
from teff.node.delegation.tools import message_of
from teff.runtime import ExecContext
from teff.state import thaw
from teff.tool.text import result_text

if TYPE_CHECKING:
    from teff.node.delegate import Delegate

__all__ = ["Ledger", "Task", "planned"]


@attrs.define(kw_only=True)
class Task:
    """One call of a reply, and what is to become of it.

    Attributes:
        call: with the name as it was offered, and an id that no other call of the visit has.
        part: its part of the step.
        agent: who is asked; None for a tool.
        message: what the agent is told.
        problem: why it is not carried out, as the model is told it, or "".
        status, decided_by: of a call that is not carried out.
        text: what the model is told of it in the end.
    """

    call: ToolCall
    part: ExecContext
    agent: SubAgent | None = None
    message: str = ""
    problem: str = ""
    status: str = "ok"
    decided_by: str = "model"
    text: str = ""

    @property
    def runs(self) -> bool:
        """Whether it is carried out."""
        return not self.problem

    def refuse(self, status: str, problem: str, *, by: str) -> Task:
        """Say why it is not carried out; return it."""
        told = {"status": "refused", "error": f"not carried out: {problem}"}
        if status == "blocked":
            told = {"status": "blocked", "error": problem}
        self.problem = self.text = result_text(told)
        self.status, self.decided_by = status, by
        return self


class Ledger:
    """What one visit has used of its bounds.

    Args:
        node: whose bounds they are.
    """

    def __init__(self, node: Delegate) -> None:
        self._node = node
        self.spent = self.tool_rounds = 0
        self._tasks: Counter[str] = Counter()
        self._ids: set[str] = set()

    @property
    def is_used_up(self) -> bool:
        """Whether no further delegation is left."""
        return self.spent >= self._node.max_delegations

    def may_ask(self, agent: SubAgent) -> bool:
        """Say whether an agent may be given another task."""
        most = self._node.most_of(agent.name)
        return not self.is_used_up and (most is None or self._tasks[agent.name] < most)

    def count(self, agent: SubAgent) -> None:
        """Count a delegation, before it is made."""
        self.spent += 1
        self._tasks[agent.name] += 1

    def new_id(self, wanted: str) -> str:
        """Return an id that no call of this visit has: servers may use one twice."""
        wanted = wanted or "call"
        numbered = (f"{wanted}~{number}" for number in itertools.count(2))
        new = next(free for free in itertools.chain([wanted], numbered) if free not in self._ids)
        self._ids.add(new)
        return new


async def planned(
    node: Delegate,
    ctx: ExecContext,
    call: ToolCall,
    *,
    ledger: Ledger,
    agents: Mapping[str, SubAgent],
) -> Task:
    """Return what is to become of a call; it is counted where an agent is asked.

    Args:
        node: its guards look at the arguments.
        ctx: of the step.
        call: as it was read.
        ledger: of the visit.
        agents: by the names of their tools.
    """
    call = attrs.evolve(call, id=ledger.new_id(call.id))
    agent = agents.get(call.name)
    task = Task(call=call, part=ctx.part(f"call:{call.id}"), agent=agent)
    if not call.error:
        name = agent.name if agent else call.name
        arguments = thaw(dict(call.arguments))
        verdict = await node.judge(task.part, "tool_args", arguments, name=name)
        if verdict.action == "block":
            return task.refuse("blocked", verdict.reason, by="guard")
        if verdict.action == "replace":
            fits = isinstance(verdict.value, Mapping)
            task.call = call = attrs.evolve(
                call,
                arguments=verdict.value if fits else {},
                error="" if fits else "a guard left no arguments",
            )
    task.message = message_of(call) if agent else ""
    if call.error or (agent and not task.message):
        problem = call.error or 'it needs a text: {"message": "what is to be done"}'
        return task.refuse("invalid", problem, by="no_decision")
    if agent is None:
        return task
    if ledger.is_used_up:
        problem = f"only {node.max_delegations} delegations are allowed"
        return task.refuse("refused", problem, by="max_delegations")
    if not ledger.may_ask(agent):
        problem = f"{agent.name!r} may be asked {node.most_of(agent.name)} times, and was"
        return task.refuse("refused", problem, by="per_agent")
    ledger.count(agent)
    return task
