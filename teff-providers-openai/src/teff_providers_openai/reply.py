"""From the replies of a chat-completions server to `ChatReply`, whole or piece by piece.

What is read leniently: content may be null or missing, the reasoning may have one of two names,
unknown fields mean nothing, and whether tools are called is decided by the calls that are there and
not by ``finish_reason``. What has no content at all raises `UnreadableReply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.messages import ModelUsage
from teff.provider.choices import settled
from teff.provider.failures import error_in, shorten
from teff.provider.protocol import ChatDelta, ChatReply, ChatRequest
from teff.provider.reading import (
    CharacterJoiner,
    UnreadableReply,
    as_mapping,
    as_text,
    call_ids,
    content_text,
    read_usage,
)
from teff_providers_openai.reasoning import ReasoningDetails, read_reasoning
from teff_providers_openai.tool_calls import ToolCallAssembler

__all__ = ["ReplyBuilder", "read_reply"]

#: Words of other servers for what the format calls ``stop`` and ``length``.
_FINISH_REASONS = {
    "": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "function_call": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "stop_sequence": "stop",
    "tool_calls": "stop",
}


def read_reply(data: Mapping[str, Any], request: ChatRequest) -> ChatReply:
    """Read a whole reply.

    Raises:
        UnreadableReply: it is none.
    """
    builder = ReplyBuilder(request, whole=True)
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices:
        raise UnreadableReply("it has no choices")
    if not isinstance(as_mapping(choices[0]).get("message"), Mapping):
        raise UnreadableReply("its first choice has no message")
    builder.add(data)
    return builder.reply()


class ReplyBuilder:
    """Puts a reply together from its pieces.

    Args:
        request: what was asked.
        whole: there will be one piece, which is all of it.

    Attributes:
        is_whole: the server has said that the answer is whole.
    """

    def __init__(self, request: ChatRequest, *, whole: bool = False) -> None:
        self.is_whole = False
        self._request = request
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._text_joiner = CharacterJoiner()
        self._thinking_joiner = CharacterJoiner()
        self._details = ReasoningDetails()
        self._calls = ToolCallAssembler(whole=whole)
        self._finish_reason = ""
        self._refused = False
        self._usage = ModelUsage()
        self._model = ""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def add(self, data: Mapping[str, Any]) -> ChatDelta | None:
        """Take in one piece, and return what it adds to the text and the reasoning, if anything.

        Text of a constrained choice is not returned: it may be JSON around the choice.

        Raises:
            UnreadableReply: it is none, or says that the model failed.
        """
        self._model = as_text(data.get("model")) or self._model
        if usage := as_mapping(data.get("usage")):
            # Counts are of the whole answer so far: the last ones count.
            self._usage = read_usage(
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
                usage.get("total_tokens"),
            )
        # Pieces without choices carry counts, or the marks of a filter.
        choice = _first_choice(data.get("choices"))
        return self._shown(*self._take(choice)) if choice else None

    def close(self) -> ChatDelta | None:
        """Return what was held back to the end, if anything: half a character, as U+FFFD."""
        text, thinking = self._text_joiner.close(), self._thinking_joiner.close()
        self._text.append(text)
        self._thinking.append(thinking)
        return self._shown(text, thinking)

    def reply(self) -> ChatReply:
        """Return the reply, of what has come.

        Raises:
            UnreadableReply: it calls a tool without a name.
        """
        self.close()
        reason = _FINISH_REASONS.get(self._finish_reason, self._finish_reason)
        if self._refused:
            reason = "content_filter"
        calls = self._calls.finish(
            used_ids=call_ids(self._request.messages),
            cut_off=reason == "length",
            complete=bool(self._finish_reason) and reason == "stop",
            of_message=self._details.fields(),
        )
        text, reason = settled(self.text, reason, self._request.choices)
        return ChatReply(
            text=text,
            thinking="".join(self._thinking),
            tool_calls=calls,
            finish_reason="tool_calls" if calls and reason == "stop" else reason,
            usage=self._usage,
            model=self._model or self._request.model,
        )

    def _take(self, choice: Mapping[str, Any]) -> tuple[str, str]:
        delta = as_mapping(choice.get("delta")) or as_mapping(choice.get("message"))
        content, thinking = delta.get("content"), ""
        # Most pieces have a word of the text and nothing else.
        if isinstance(content, str) and len(delta) == 1:
            text = content
        else:
            thinking = read_reasoning(delta)
            thinking = self._thinking_joiner.feed(thinking)
            text = content_text(content) + self._take_rest(delta)
        text = self._text_joiner.feed(text)
        self._text.append(text)
        if thinking:
            self._thinking.append(thinking)
        if reason := choice.get("finish_reason"):
            self._finish(reason, choice)
        return text, thinking

    def _shown(self, text: str, thinking: str) -> ChatDelta | None:
        shown = "" if self._request.choices else text
        return ChatDelta(text=shown, thinking=thinking) if shown or thinking else None

    def _take_rest(self, delta: Mapping[str, Any]) -> str:
        """Take in what is neither text nor reasoning, and return the words of a refusal."""
        if details := delta.get("reasoning_details"):
            self._details.add(details)
        self._calls.add(delta.get("tool_calls"))
        if call := as_mapping(delta.get("function_call")):
            # The older form of a call, of which there is one at most.
            self._calls.add([{"function": call}])
        refusal = as_text(delta.get("refusal"))
        self._refused = self._refused or bool(refusal)
        return refusal

    def _finish(self, reason: object, choice: Mapping[str, Any]) -> None:
        if not isinstance(reason, str):
            return
        self._finish_reason = reason
        self.is_whole = True
        if reason == "error":
            found = error_in(choice)
            words = found[0] if found else ""
            raise UnreadableReply(f"the model failed: {shorten(words) or 'no reason is given'}")


def _first_choice(choices: object) -> Mapping[str, Any]:
    if choices is None:
        return {}
    if not isinstance(choices, list):
        raise UnreadableReply(f"its choices are {type(choices).__name__}, not a list")
    for choice in choices:
        if not isinstance(choice, Mapping):
            raise UnreadableReply(f"one of its choices is {type(choice).__name__}, not an object")
        if choice.get("index") in (None, 0):
            return choice
    return {}
