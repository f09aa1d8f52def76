"""From the frames of Ollama's ``/api/chat`` to `ChatReply`.

A reply that is not streamed is one frame. Every frame is read alike, the last one too: servers put
tool calls and text into it. What is no answer raises `UnreadableReply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.messages import ModelUsage, ToolCall
from teff.provider.choices import settled
from teff.provider.protocol import ChatDelta, ChatReply, ChatRequest
from teff.provider.reading import (
    MAX_TOOL_CALLS,
    CharacterJoiner,
    UnreadableReply,
    as_mapping,
    as_text,
    call_ids,
    content_text,
    free_call_id,
    read_usage,
    read_whole_arguments,
    unknown_fields,
    whole_text,
)

__all__ = ["ReplyBuilder", "read_reply"]

_KNOWN_CALL_FIELDS = {"function", "id", "type"}
_KNOWN_FUNCTION_FIELDS = {"arguments", "index", "name"}


def read_reply(data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
    """Read a reply that is one frame.

    Raises:
        UnreadableReply: it is none.
    """
    if not isinstance(data.get("message"), Mapping):
        raise UnreadableReply("it has no message")
    if data.get("done") is False:
        raise UnreadableReply("the server says that it is not done")
    builder = ReplyBuilder(request)
    builder.add(data)
    return builder.reply()


class ReplyBuilder:
    """Puts a reply together from its frames.

    Attributes:
        is_whole: the server has sent its last frame.
    """

    def __init__(self, request: ChatRequest) -> None:
        self.is_whole = False
        self._request = request
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._text_joiner = CharacterJoiner()
        self._thinking_joiner = CharacterJoiner()
        self._calls: list[ToolCall] = []
        self._used_ids = call_ids(request.messages)
        self._done_reason = ""
        self._usage = ModelUsage()
        self._model = ""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def add(self, frame: Mapping[str, Any]) -> ChatDelta | None:
        """Take in one frame, and return what it adds to the text and the reasoning, if anything.

        Text of a constrained choice is not returned: it may be a JSON string of the choice.

        Raises:
            UnreadableReply: it is no frame of an answer.
        """
        self._model = as_text(frame.get("model")) or self._model
        message = as_mapping(frame.get("message"))
        text = self._text_joiner.feed(content_text(message.get("content")))
        thinking = self._thinking_joiner.feed(as_text(message.get("thinking")))
        self._text.append(text)
        self._thinking.append(thinking)
        self._add_calls(message.get("tool_calls"))
        if frame.get("done") is True:
            self._finish(frame)
        return self._shown(text, thinking)

    def close(self) -> ChatDelta | None:
        """Return what was held back to the end, if anything: half a character, as U+FFFD."""
        text, thinking = self._text_joiner.close(), self._thinking_joiner.close()
        self._text.append(text)
        self._thinking.append(thinking)
        return self._shown(text, thinking)

    def reply(self) -> ChatReply:
        """Return the reply, of what has come."""
        self.close()
        text, reason = settled(self.text, self._done_reason or "stop", self._request.choices)
        return ChatReply(
            text=text,
            thinking="".join(self._thinking),
            tool_calls=self._calls,
            finish_reason="tool_calls" if self._calls and reason == "stop" else reason,
            usage=self._usage,
            model=self._model or self._request.model,
        )

    def _shown(self, text: str, thinking: str) -> ChatDelta | None:
        shown = "" if self._request.choices else text
        return ChatDelta(text=shown, thinking=thinking) if shown or thinking else None

    def _finish(self, frame: Mapping[str, Any]) -> None:
        self.is_whole = True
        self._done_reason = as_text(frame.get("done_reason"))
        self._usage = read_usage(frame.get("prompt_eval_count"), frame.get("eval_count"))
        if self._done_reason in ("load", "unload"):
            raise UnreadableReply(f"the server only says that it did {self._done_reason} the model")
        if self._done_reason == "error":
            raise UnreadableReply("the model failed, and the server does not say why")

    def _add_calls(self, calls: object) -> None:
        if calls is None:
            return
        if not isinstance(calls, list):
            raise UnreadableReply(f"its tool_calls are {type(calls).__name__}, not a list")
        for call in calls:
            function = as_mapping(as_mapping(call).get("function"))
            if not isinstance(function.get("name"), str) or not function["name"]:
                raise UnreadableReply("it calls a tool without saying which")
            if len(self._calls) >= MAX_TOOL_CALLS:
                raise UnreadableReply(f"it makes more than {MAX_TOOL_CALLS:,} tool calls")
            self._calls.append(self._call(call, function))

    def _call(self, call: Mapping[str, Any], function: Mapping[str, Any]) -> ToolCall:
        call_id = free_call_id(call.get("id"), self._used_ids)
        self._used_ids.add(call_id)
        arguments, error = read_whole_arguments(function.get("arguments"))
        extra = unknown_fields(call, _KNOWN_CALL_FIELDS)
        if unknown := unknown_fields(function, _KNOWN_FUNCTION_FIELDS):
            extra["function"] = unknown
        return ToolCall(
            id=call_id,
            name=whole_text(function["name"]),
            arguments=arguments,
            error=error,
            extra=extra,
        )
