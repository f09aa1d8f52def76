"""`ToolExec`: carries out the calls that an agent left in the state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from teff.harness import ToolOptions, UseTools, named_tools, run_tool_calls, tools_in_scope
from teff.messages import ToolCall, tool_result
from teff.node.base import options
from teff.node.skilled import SkilledNode
from teff.runtime import ExecContext
from teff.state import Append
from teff.tool import ToolResult
from teff.tool.approval import ApprovalPolicy, check_policy

__all__ = ["ToolExec"]


@options
class ToolExec(SkilledNode):
    """Run the calls under ``_tool_calls``, at once, and add their results to the conversation.

    Results stand in the order of the calls. A call that was declined or failed has a result that
    says so. A call that waits for a person pauses the run; the others are finished first, and are
    not run again when it goes on.

    Args:
        messages_key: where the conversation is.
        tool_call_key: set to "" when the calls are done.
        use_tools: names of the tools that may run, ``"all"`` for those of the run, or None.
        tool_error_mode: ``message`` tells the model of a failure; ``raise`` fails the node.
        tool_timeout: seconds for one call, or None.
        tool_approval: None or ``"auto"``, ``"deny"``, ``"pause"``, or a function
            ``(name, arguments)`` that returns True, False or one of these words.
        human_key: the name of the tool that asks a person.
        skills, skill_dir, skill_mount: those of the agent; calls that they do not allow are refused.

    >>> ToolExec(tool_approval="pause").config["tool_approval"]
    'pause'
    """

    type = "tool_exec"

    messages_key: str = "messages"
    tool_call_key: str = "_tool_call_name"
    use_tools: UseTools = "all"
    tool_error_mode: Literal["message", "raise"] = "message"
    tool_timeout: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    tool_approval: ApprovalPolicy = None
    human_key: str = "ask_human"

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_policy(self.tool_approval)

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Carry out the calls; return their results as messages."""
        calls = [ToolCall.from_json(call) for call in state.get("_tool_calls") or ()]
        results = await run_tool_calls(
            ctx,
            calls,
            [
                *self._skills.narrowed(tools_in_scope(ctx, self.use_tools)),
                *self._skills.tools(),
            ],
            state=state,
            options=ToolOptions(
                error_mode=self.tool_error_mode,
                timeout=self.tool_timeout,
                approval=self.tool_approval,
                human_key=self.human_key,
            ),
            keep=lambda results: ctx.keep(self._answered(results)),
        )
        return self._answered(results)

    def _answered(self, results: Sequence[ToolResult]) -> dict[str, Any]:
        messages = [tool_result(result.call, result.text) for result in results]
        return {
            self.messages_key: Append(messages),
            "_tool_calls": [],
            self.tool_call_key: "",
            "_tool_call_args": {},
            "_tool_call_id": "",
        }

    def reads(self) -> list[str]:
        """Return the key of the calls that wait."""
        return ["_tool_calls"]

    def writes(self) -> list[str]:
        """Return the keys of the conversation and the tool loop."""
        return [self.messages_key, *self.turn_keys()]

    def turn_keys(self) -> list[str]:
        """Return the keys of the calls that wait."""
        return ["_tool_calls", self.tool_call_key, "_tool_call_args", "_tool_call_id"]

    def uses_tools(self) -> Iterable[str]:
        """Return the names of the tools that must be there."""
        return named_tools(self.use_tools)
