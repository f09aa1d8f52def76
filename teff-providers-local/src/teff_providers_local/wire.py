"""Requests and replies in the chat-completions format, which the engine speaks too.

Source: https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from teff.errors import IncompleteStream, ProviderError
from teff.messages import Message, ModelUsage, ToolCall, message_text
from teff.provider.choices import choice_grammar
from teff.provider.protocol import ChatDelta, ChatReply, ChatRequest
from teff.provider.reading import as_mapping, as_text, read_usage

__all__ = ["ReplyReader", "request_body"]


def request_body(
    request: ChatRequest,
    *,
    defaults: Mapping[str, Any],
    options: Mapping[str, Any],
    provider: str,
) -> dict[str, Any]:
    """Return the engine's form of a request.

    Args:
        request: what is asked.
        defaults: what is sent where the request's own fields say nothing, in the engine's names.
        options: settings that are sent as they are; those of the request win over them, and both
            over what is derived from the other fields of the request.
        provider: the provider's name, for errors.

    Raises:
        ProviderError: the request asks for what no local model can do.
    """
    reason = _why_it_cannot_be_done(request)
    if reason:
        raise ProviderError(reason, provider=provider, model=request.model, permanent=True)
    said = {
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "stop": list(request.stop) or None,
    }
    body: dict[str, Any] = {
        **defaults,
        **{name: value for name, value in said.items() if value is not None},
        **options,
        **request.options,
        "messages": [_wire_message(message) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        # Without it there is no event, and so no way to cancel, while a prompt is read.
        "return_progress": True,
    }
    if request.choices is not None:
        body["grammar"] = choice_grammar(request.choices)
    elif request.json_schema is not None:
        body["json_schema"] = request.json_schema
    return body


def _why_it_cannot_be_done(request: ChatRequest) -> str:
    """Return what is wrong with a request, or ""."""
    if not request.messages:
        return "a request without messages asks for nothing."
    if not all(_is_text(message.get("content")) for message in request.messages):
        return "a local model reads text only, no images or files."
    if request.tools:
        return (
            "a local model cannot call tools: its chat template has no place for them. Take the "
            "tools away, or use a provider such as 'ollama' or 'openai'."
        )
    if request.choices is not None and not any(request.choices):
        return "the choices of a request are texts, of which at least one is not empty."
    return ""


def _is_text(content: object) -> bool:
    if isinstance(content, list):
        return all(isinstance(as_mapping(part).get("text"), str) for part in content)
    return content is None or isinstance(content, str)


def _wire_message(message: Message | Mapping[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message["role"], "content": message_text(message)}
    for name in ("name", "tool_call_id"):
        if message.get(name):
            wire[name] = message[name]
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        wire["tool_calls"] = [_wire_call(ToolCall.from_json(call)) for call in calls]
    return wire


def _wire_call(call: ToolCall) -> dict[str, Any]:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


@attrs.define
class ReplyReader:
    """Puts an answer together from the engine's events.

    Attributes:
        provider, model: for errors and the reply.
        text: the visible text so far.
        thinking: the reasoning so far, of models that send it apart.
    """

    provider: str
    model: str
    text: str = ""
    thinking: str = ""
    _finish_reason: str = ""
    _usage: ModelUsage = attrs.field(factory=ModelUsage)

    def read(self, event: Mapping[str, Any]) -> ChatDelta | None:
        """Return the piece of the answer that an event brings, or None where it brings no text.

        Raises:
            ProviderError: the event is the engine's refusal.
        """
        if event.get("error"):
            raise self._refusal(event["error"])
        if event.get("usage"):
            usage = as_mapping(event["usage"])
            self._usage = read_usage(
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
                usage.get("total_tokens"),
            )
        for choice in event.get("choices") or ():
            delta = as_mapping(choice.get("delta"))
            text, thinking = as_text(delta.get("content")), as_text(delta.get("reasoning_content"))
            self.text += text
            self.thinking += thinking
            self._finish_reason = as_text(choice.get("finish_reason")) or self._finish_reason
            if text or thinking:
                return ChatDelta(text=text, thinking=thinking)
        return None

    def reply(self) -> ChatReply:
        """Return the whole answer, once there are no more events.

        Raises:
            IncompleteStream: the engine was stopped before the answer was whole.
        """
        if not self._finish_reason:
            raise IncompleteStream(
                "the engine was closed before the answer was whole.",
                partial=self.text,
                provider=self.provider,
                model=self.model,
            )
        return ChatReply(
            text=self.text,
            thinking=self.thinking,
            finish_reason=self._finish_reason,
            usage=self._usage,
            model=self.model,
        )

    def _refusal(self, error: object) -> ProviderError:
        """Return the engine's own words, ``{"code": 400, "message": …, "type": …}``, as an error."""
        details = as_mapping(error)
        code = details.get("code")
        status = code if isinstance(code, int) else None
        message = as_text(details.get("message")) or str(error)
        if details.get("type") == "exceed_context_size_error":
            message += ": raise the provider's option context_tokens, or send less"
        return ProviderError(
            f"llama.cpp refused the request: {message}",
            provider=self.provider,
            model=self.model,
            status=status,
            body=json.dumps(error, default=str),
            permanent=status is None or 400 <= status < 500,
        )
