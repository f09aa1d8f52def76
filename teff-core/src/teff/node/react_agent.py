"""`ReActAgent`: one turn of a tool loop that the graph can see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from teff.errors import WorkflowError
from teff.messages import Message, assistant, conversation, last_user_message, user, with_system
from teff.node.answer_form import AnswerForm, ResponseFormat
from teff.node.base import options
from teff.node.model import AssistantNode
from teff.prompt import to_text
from teff.runtime import ExecContext
from teff.state import Append, is_filled

__all__ = ["ReActAgent"]

#: What `tool_call_key` holds while calls wait to be carried out.
PENDING = "pending"
#: How often a final answer that is not of its form is asked for again.
_RETRIES = 2


@options
class ReActAgent(AssistantNode):
    """Ask a model that may call tools: one model call for each visit.

    Its calls go into the state under ``_tool_calls``; a `ToolExec` node carries them out, and an
    edge on ``_tool_call_name!=`` leads there and back. `Flow.harness` wires the two.

    A visit that does not follow tool results begins a turn: the text under ``input_key`` is added to
    the conversation as the user's, and the count of rounds starts again. After ``max_tool_rounds``
    rounds of one turn the model is asked once more without tools, for the best answer.

    Args:
        system: a template for the system text; laid over the request, never stored.
        input_key, output_key, messages_key: where the user's text, the answer and the conversation
            are.
        tool_call_key: holds ``"pending"`` while calls wait, else "".
        use_tools: names of tools, ``"all"`` for those of the run, or None for none.
        max_tool_rounds: rounds of calls in one turn.
        response_format: as for `LLM`; it counts for the final answer of a turn. One that does not
            fit is asked for again within the visit, at most twice, and none of that is stored.
        stream, on_token: as for `LLM`.
        max_retries: as ``http_max_retries``, which it replaces where it is given.

    >>> ReActAgent(use_tools=["calculator"]).writes()[:2]
    ['messages', 'output']
    """

    type = "react_agent"

    input_key: str = "input"
    output_key: str = "output"
    messages_key: str = "messages"
    tool_call_key: str = "_tool_call_name"
    response_format: ResponseFormat = None
    max_retries: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(0))
    )

    def __attrs_post_init__(self) -> None:
        if self.max_retries is not None:
            self.http_max_retries = self.max_retries
        super().__attrs_post_init__()
        self._form = AnswerForm.of(self.response_format, what=self._described(self.id))

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Ask the model once; return the conversation, its answer, and the calls it wants."""
        history = conversation(state, self.messages_key)
        self._check_carried_out(ctx, state, history)
        added = self._opening(state, history)
        round_key = f"_react_round_{ctx.node_id}"
        within_turn = bool(history) and history[-1].get("role") == "tool"
        rounds = _whole(state.get(round_key)) if within_turn else 0
        exhausted = rounds >= self.max_tool_rounds
        if exhausted:
            await ctx.emit("limit", {"reason": "max_tool_rounds"})
        messages = [*history, *added]
        overlay = await self.overlay(ctx, state, messages)
        offered = () if exhausted else overlay.offered
        told = [overlay.system, self._form.instruction]
        asked = with_system(messages, "\n\n".join(text for text in told if text))
        asking = self._form.asking(
            ctx, self.harness(ctx), stream=self.stream, on_token=self.on_token
        )
        reply = await asking.ask(asked, offered)
        output: Any = reply.text
        goes_on = bool(offered) and not await self.is_last(reply)
        calls = [call.to_json() for call in reply.tool_calls] if goes_on else []
        if not calls:
            is_draft = not asking.tells_form(offered)
            output, reply = await self._form.settle(
                ctx, asking, reply, asked, max_retries=_RETRIES, is_draft=is_draft
            )
        said = [assistant(reply.text, reply.tool_calls, thinking=reply.thinking)] if calls else []
        if not calls and reply.text.strip():
            said = [assistant(reply.text)]
        first = calls[0] if calls else {"name": "", "args": {}, "id": ""}
        return {
            self.messages_key: Append([*added, *said]),
            self.output_key: output,
            round_key: rounds + 1 if calls else 0,
            "_tool_calls": calls,
            self.tool_call_key: PENDING if calls else "",
            "_tool_call_args": first["args"],
            "_tool_call_id": first["id"],
        }

    def _check_carried_out(
        self,
        ctx: ExecContext,
        state: Mapping[str, Any],
        history: Sequence[Message | Mapping[str, Any]],
    ) -> None:
        """Refuse a visit that comes before the calls of the last one were carried out."""
        waits = state.get(self.tool_call_key) == PENDING and bool(state.get("_tool_calls"))
        if waits and history and history[-1].get("tool_calls"):
            raise WorkflowError(
                f"agent {ctx.node_id!r} was visited again before its tool calls were carried out: "
                f"lead the edge on {self.tool_call_key}!= to a ToolExec, and from there back."
            )

    def _opening(
        self, state: Mapping[str, Any], history: Sequence[Message | Mapping[str, Any]]
    ) -> list[Message]:
        """Return the user's text as a message, unless the conversation ends with it already."""
        given = state.get(self.input_key)
        text = to_text(given) if is_filled(given) else ""
        last = history[-1].get("role") if history else None
        if not text or last == "tool":
            return []
        if last == "user" and last_user_message(history) == text:
            return []
        return [user(text)]

    def reads(self) -> Iterable[str]:
        """Return the keys of the system template, the input and the conversation."""
        return [*self._system.root_keys, self.input_key, self.messages_key]

    def writes(self) -> list[str]:
        """Return the keys of the conversation, the answer and the tool loop."""
        counter = [f"_react_round_{self.id}"] if self.id else []
        return [self.messages_key, self.output_key, *self._loop_keys(), *counter]

    def turn_keys(self) -> list[str]:
        """Return the keys of the calls that wait, and those that count rounds."""
        # The counter is named by the node's id in its graph, which the node itself need not have.
        return [*self._loop_keys(), "_react_round_*"]

    def _loop_keys(self) -> list[str]:
        return ["_tool_calls", self.tool_call_key, "_tool_call_args", "_tool_call_id"]

    def bounds_rounds(self) -> bool:
        """Say that a cycle through this node ends: it counts its rounds."""
        return True


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
