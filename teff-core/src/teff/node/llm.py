"""`LLM`: one question to a model, with tools where it may use some."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from teff.errors import StateError, suggest
from teff.harness import (
    Harness,
    TokenCallback,
    ToolOptions,
    UseTools,
    named_tools,
    offered_tools,
    run_tool_calls,
    tools_in_scope,
)
from teff.messages import Message, assistant, conversation, tool_result, user, with_system
from teff.node.base import options
from teff.node.model import ModelNode
from teff.prompt import compile_template, to_text
from teff.runtime import ExecContext
from teff.state import Append
from teff.tool import Tool
from teff.tool.approval import ApprovalPolicy, check_policy

__all__ = ["LLM"]


@options
class LLM(ModelNode):
    """Ask a model and keep its answer.

    What is sent: the conversation under ``messages_key`` where there is one, else ``prompt`` filled
    in from the state, else the text under ``input_key``, else the whole state as JSON. A ``system``
    text is laid over the request and never stored.

    With tools the node asks again after each round of calls, at most ``max_tool_rounds`` times; then
    it asks once more without tools, for the best answer.

    Args:
        prompt: a template, see `teff.prompt`.
        system: a template for the system text.
        input_key: where the user's text is.
        output_key: where the answer goes.
        messages_key: where the conversation is; the answer is added to it with ``append_reply``.
        stream: emit ``token`` events while the answer comes, where somebody listens.
        on_token: hears each piece; a plain or an async function.
        use_tools: names of tools, ``"all"`` for those of the run, or None for none.
        max_tool_rounds, tool_error_mode, tool_timeout, tool_approval: how tools are used.

    Raises:
        ConfigError: an unknown option, tool, provider or model, or a template key that is missing.
        ProviderError: the model could not be asked.

    >>> node = LLM(prompt="Summarise: {text}", output_key="summary")
    >>> sorted(node.reads()), list(node.writes())
    (['text'], ['summary'])
    """

    type = "llm_chat"

    prompt: str = ""
    system: str = ""
    input_key: str = ""
    output_key: str = "output"
    messages_key: str = ""
    append_reply: bool = False
    stream: bool = True
    on_token: TokenCallback | None = None
    use_tools: UseTools = None
    max_tool_rounds: int = attrs.field(default=10, validator=attrs.validators.ge(1))
    tool_error_mode: Literal["message", "raise"] = "message"
    tool_timeout: float | None = None
    tool_approval: ApprovalPolicy = None

    def __attrs_post_init__(self) -> None:
        check_policy(self.tool_approval)
        self._prompt = compile_template(self.prompt)
        self._system = compile_template(self.system)

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Ask the model; return its text under ``output_key``."""
        harness = self.harness(ctx)
        tools = tools_in_scope(ctx, self.use_tools)
        system = self._system.render(state, name="system", node=ctx.node_id)
        messages = with_system(self._messages(ctx, state), system)
        text = await self._answer(ctx, harness, messages, tools, state)
        updates: dict[str, Any] = {self.output_key: text}
        if self.append_reply and self.messages_key:
            updates[self.messages_key] = Append([assistant(text)])
        return updates

    def _messages(
        self, ctx: ExecContext, state: Mapping[str, Any]
    ) -> list[Message | Mapping[str, Any]]:
        if self.messages_key and (history := conversation(state, self.messages_key)):
            return history
        if self.prompt:
            return [user(self._prompt.render(state, name="prompt", node=ctx.node_id))]
        if self.input_key:
            if self.input_key not in state:
                raise StateError(
                    f"node {ctx.node_id!r} reads state key {self.input_key!r}, which is not there."
                    f"{suggest(self.input_key, state)}"
                )
            return [user(to_text(state[self.input_key]))]
        return [user(json.dumps(state, ensure_ascii=False, default=str))]

    async def _answer(
        self,
        ctx: ExecContext,
        harness: Harness,
        messages: list[Message | Mapping[str, Any]],
        tools: list[Tool],
        state: Mapping[str, Any],
    ) -> str:
        offered = offered_tools(tools, self.use_tools)
        how = ToolOptions(
            error_mode=self.tool_error_mode,
            timeout=self.tool_timeout,
            approval=self.tool_approval,
        )
        for _ in range(self.max_tool_rounds if offered else 0):
            reply = await harness.call(
                messages, tools=offered, stream=self.stream, on_token=self.on_token
            )
            if not reply.tool_calls:
                return reply.text
            results = await run_tool_calls(ctx, reply.tool_calls, tools, state=state, options=how)
            messages = [
                *messages,
                assistant(reply.text, reply.tool_calls, thinking=reply.thinking),
                *(tool_result(result.call, result.text) for result in results),
            ]
        if offered:
            await ctx.emit("limit", {"reason": "max_tool_rounds"})
        reply = await harness.call(messages, stream=self.stream, on_token=self.on_token)
        return reply.text

    def reads(self) -> Iterable[str]:
        """Return the keys of the templates, and the keys for input and history."""
        keys = {*self._prompt.root_keys, *self._system.root_keys}
        return keys | {key for key in (self.input_key, self.messages_key) if key}

    def writes(self) -> Iterable[str]:
        """Return the key of the answer, and that of the history where the reply is added."""
        if self.append_reply and self.messages_key:
            return [self.output_key, self.messages_key]
        return [self.output_key]

    def uses_tools(self) -> Iterable[str]:
        """Return the names of the tools that must be there."""
        return named_tools(self.use_tools)
