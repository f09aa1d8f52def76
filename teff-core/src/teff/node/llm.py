"""`LLM`: one question to a model, with tools where it may use some."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from teff.errors import StateError, suggest
from teff.harness import Asking, ToolOptions, run_tool_calls
from teff.messages import (
    Message,
    assistant,
    conversation,
    tool_result,
    user,
    with_system,
)
from teff.node.answer_form import AnswerForm, ResponseFormat
from teff.node.base import options
from teff.node.model import AssistantNode, Overlay
from teff.prompt import compile_template, to_text
from teff.provider import ChatReply
from teff.runtime import ExecContext
from teff.state import Append
from teff.tool.approval import ApprovalPolicy, check_policy

__all__ = ["LLM"]

_Messages = list[Message | Mapping[str, Any]]


@options
class LLM(AssistantNode):
    """Ask a model and keep its answer.

    What is sent: the conversation under ``messages_key`` where there is one, else ``prompt`` filled
    in from the state, else the text under ``input_key``, else the whole state as JSON. A ``system``
    text is laid over the request and never stored.

    With tools the node asks again after each round of calls, at most ``max_tool_rounds`` times; then
    it asks once more without tools, for the best answer, and emits ``limit``.

    With ``json_schema`` or ``output_type`` the answer is JSON that fits. The model is told the
    schema in the system text; the provider is, where it can enforce one. Most cannot while tools
    are offered: there the model first answers freely, and only if that answer does not fit it is
    asked for it without tools, in its form. The answer is read leniently, checked completely, and
    kept as plain dicts and lists; those of an ``output_type`` with its defaults filled in. Nothing
    is converted to make it fit. An answer that does not fit is asked for again, without tools, with
    what is wrong with it; each time a ``structured`` event comes before the tokens of the new
    answer. One that was cut off by ``max_tokens`` is asked for again with twice the room, once, and
    never taken. Where no answer of a model fits, the next of its ``fallbacks`` is asked.

    Args:
        prompt: a template, see `teff.prompt`.
        system: a template for the system text.
        input_key: where the user's text is.
        output_key: where the answer goes.
        messages_key: where the conversation is; the answer is added to it with ``append_reply``.
        json_schema: a JSON Schema (2020-12) that the answer must fit.
        output_type: the same as a TypedDict, dataclass, attrs class, ``msgspec.Struct``, Enum or
            another type, or as a map from field names to types, see `teff.schema.shape.shape_of`.
        parse: keep the JSON value of the answer; without a schema it is not asked for again.
        max_retries: how often an answer that does not fit the schema is asked for again.
        response_path: keep only what this path leads to in the JSON value; it implies ``parse``.
        response_format: ``"json"`` or ``{"type": "json_object"}`` for a JSON object, which is kept
            as text unless ``parse`` says otherwise; beside a schema it is all that the provider is
            told. ``{"type": "json_schema", …}`` is the schema that it holds. Another mapping is
            sent as it is, in place of the schema.
        stream: emit ``token`` events while the answer comes, where somebody listens.
        on_token: hears each piece; a plain or an async function, which is awaited.
        use_tools: names of tools, ``"all"`` for those of the run, or None for none.
        max_tool_rounds, tool_error_mode, tool_timeout, tool_approval, parse_text_tool_calls,
            stop_when: how tools are used; see `AssistantNode`.

    Raises:
        ConfigError: an unknown option, tool, provider or model, a template key that is missing, or
            a schema that is none.
        ProviderError: the model could not be asked; `TruncatedOutput` where a structured answer was
            cut off by the token limit, and no greater one was enough or allowed.
        StructuredOutputError: no answer was JSON that fits.

    >>> node = LLM(prompt="Summarise: {text}", output_key="summary")
    >>> sorted(node.reads()), list(node.writes())
    (['text'], ['summary'])
    >>> import asyncio
    >>> from teff import Flow
    >>> from teff.testing import ScriptedProvider
    >>> model = ScriptedProvider(['{"city": "Riga"}', '{"city": "Riga", "days": 2}'])
    >>> flow = Flow(providers={"p": model}, default_provider="p", default_model="m")
    >>> trip = flow.llm(input_key="wish", output_type={"city": "string", "days": "integer"})
    >>> asyncio.run(trip.compile().run({"wish": "Two days in Riga"}))["output"]
    {'city': 'Riga', 'days': 2}
    """

    type = "llm_chat"

    prompt: str = ""
    input_key: str = ""
    output_key: str = "output"
    messages_key: str = ""
    append_reply: bool = False
    json_schema: Mapping[str, Any] | None = None
    output_type: Any = None
    parse: bool = False
    max_retries: int = attrs.field(default=2, validator=attrs.validators.ge(0))
    response_path: str = ""
    response_format: ResponseFormat = None
    tool_error_mode: Literal["message", "raise"] = "message"
    tool_timeout: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    tool_approval: ApprovalPolicy = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        check_policy(self.tool_approval)
        self._prompt = compile_template(self.prompt)
        self._form = AnswerForm.of(
            self.response_format,
            json_schema=self.json_schema,
            output_type=self.output_type,
            parse=self.parse,
            response_path=self.response_path,
            what=self._described(self.id),
        )

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Ask the model; return its text, or the value that it was read as, under ``output_key``."""
        asking = self._form.asking(
            ctx, self.harness(ctx), stream=self.stream, on_token=self.on_token
        )
        messages = self._messages(ctx, state)
        overlay = await self.overlay(ctx, state, messages)
        told = [overlay.system, self._form.instruction]
        messages = with_system(messages, "\n\n".join(text for text in told if text))
        reply, messages, is_draft = await self._converse(ctx, asking, messages, overlay, state)
        value, reply = await self._form.settle(
            ctx, asking, reply, messages, max_retries=self.max_retries, is_draft=is_draft
        )
        updates: dict[str, Any] = {self.output_key: value}
        if self.append_reply and self.messages_key and reply.text.strip():
            updates[self.messages_key] = Append([assistant(reply.text)])
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

    async def _converse(
        self,
        ctx: ExecContext,
        asking: Asking,
        messages: _Messages,
        overlay: Overlay,
        state: Mapping[str, Any],
    ) -> tuple[ChatReply, _Messages, bool]:
        """Return the first reply without calls, and the conversation that it answers.

        The third says whether the form of the answer has still to be asked for.
        """
        how = ToolOptions(
            error_mode=self.tool_error_mode,
            timeout=self.tool_timeout,
            approval=self.tool_approval,
        )
        for _ in range(self.max_tool_rounds if overlay.offered else 0):
            reply = await asking.ask(messages, overlay.offered)
            if await self.is_last(reply):
                return reply, messages, not asking.tells_form(overlay.offered)
            results = await run_tool_calls(
                ctx, reply.tool_calls, overlay.tools, state=state, options=how
            )
            messages = [
                *messages,
                assistant(reply.text, reply.tool_calls, thinking=reply.thinking),
                *(tool_result(result.call, result.text) for result in results),
            ]
        if overlay.offered:
            await ctx.emit("limit", {"reason": "max_tool_rounds"})
        return await asking.ask(messages), messages, False

    def reads(self) -> Iterable[str]:
        """Return the keys of the templates, and the keys for input and history."""
        keys = {*self._prompt.root_keys, *self._system.root_keys}
        return keys | {key for key in (self.input_key, self.messages_key) if key}

    def writes(self) -> Iterable[str]:
        """Return the key of the answer, and that of the history where the reply is added."""
        if self.append_reply and self.messages_key:
            return [self.output_key, self.messages_key]
        return [self.output_key]
