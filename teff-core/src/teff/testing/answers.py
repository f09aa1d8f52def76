"""What a script of `teff.testing.ScriptedProvider` is made of, and short ways to write it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import attrs

from teff.errors import ProviderError
from teff.messages import ModelUsage, ToolCall, message_text
from teff.provider import ChatDelta, ChatReply, ChatRequest
from teff.provider.failures import is_permanent, shorten, status_name

__all__ = [
    "Delayed",
    "Pieces",
    "Rule",
    "ScriptedAnswer",
    "after",
    "call_tool",
    "fail",
    "pieces",
    "say",
    "shown",
    "when",
]


@attrs.frozen
class Pieces:
    """An answer that streams as it is written here. Made by `pieces`."""

    deltas: Sequence[ChatDelta]
    then: ChatReply | BaseException | None
    pause: float

    @property
    def text(self) -> str:
        """The visible text of all pieces."""
        return "".join(delta.text for delta in self.deltas)

    @property
    def thinking(self) -> str:
        """The reasoning of all pieces."""
        return "".join(delta.thinking for delta in self.deltas)


@attrs.frozen
class Delayed:
    """An answer that takes its time. Made by `after`."""

    seconds: float
    answer: ScriptedAnswer


@attrs.frozen
class Rule:
    """An answer for the requests that fit. Made by `when`."""

    condition: str | Callable[[ChatRequest], bool]
    answer: ScriptedAnswer
    times: int | None

    def fits(self, request: ChatRequest) -> bool:
        """Say whether this rule answers ``request``."""
        if isinstance(self.condition, str):
            return self.condition in message_text(request.messages[-1])
        return bool(self.condition(request))


#: What a script says to one request: a text, a whole reply, an error to raise, what `pieces` and
#: `after` return, or a function of the request, plain or async, that gives one of these.
ScriptedAnswer = (
    str
    | ChatReply
    | BaseException
    | Pieces
    | Delayed
    | Callable[[ChatRequest], "ScriptedAnswer | Awaitable[ScriptedAnswer]"]
)


def say(
    text: str,
    *,
    thinking: str = "",
    usage: ModelUsage | None = None,
    finish_reason: Literal["stop", "length", "content_filter"] | str = "stop",
) -> ChatReply:
    """Return a reply with more to it than its text.

    Args:
        text: the visible text.
        thinking: the reasoning before it.
        usage: what the model counted; by default ten tokens of prompt and one for each word.
        finish_reason: why the text ends.

    >>> say("The answer is", finish_reason="length").usage.completion_tokens
    3
    """
    counted = ModelUsage(prompt_tokens=10, completion_tokens=len(text.split()))
    return ChatReply(
        text=text, thinking=thinking, usage=usage or counted, finish_reason=finish_reason
    )


def call_tool(name: str, arguments: Mapping[str, Any] | None = None, *, id: str = "") -> ChatReply:
    """Return a reply that calls one tool.

    >>> call_tool("add", {"a": 1}).tool_calls[0].name
    'add'
    """
    call = ToolCall(id=id or f"call_{name}", name=name, arguments=dict(arguments or {}))
    return ChatReply(tool_calls=(call,), finish_reason="tool_calls")


def fail(
    status: int | None = 429,
    message: str = "",
    *,
    retry_after: float | None = None,
    permanent: bool | None = None,
) -> ProviderError:
    """Return the error of a server that refuses.

    Args:
        status: the HTTP status; None where the server cannot be reached.
        message: what the server says.
        retry_after: seconds it asks to wait.
        permanent: whether a retry cannot help; by default as the status has it.

    >>> fail(503).permanent, fail(401).permanent
    (False, True)
    """
    if permanent is None:
        permanent = status is not None and is_permanent(status)
    refusal = "cannot be reached" if status is None else f"answered {status_name(status)}"
    said = f": {message}" if message else ""
    return ProviderError(
        f"the scripted server {refusal}{said}",
        status=status,
        body=message,
        retry_after=retry_after,
        permanent=permanent,
    )


def pieces(
    *parts: str | ChatDelta,
    then: ChatReply | BaseException | None = None,
    pause: float = 0.0,
) -> Pieces:
    """Return an answer that streams in these pieces; asked for as a whole, it is their sum.

    Args:
        *parts: texts, or deltas with ``thinking``.
        then: the reply that ends the stream, where it is more than the text: tool calls, a finish
            reason. Or an error that is raised after the pieces.
        pause: seconds before each piece.

    >>> pieces("Hel", "lo.", then=fail(500)).text
    'Hello.'
    """
    deltas = [part if isinstance(part, ChatDelta) else ChatDelta(text=part) for part in parts]
    if any(delta.reply is not None for delta in deltas):
        raise TypeError("a piece carries text or thinking; the reply that ends the stream is then=")
    return Pieces(tuple(deltas), then, pause)


def after(seconds: float, answer: ScriptedAnswer) -> Delayed:
    """Return an answer that comes, or fails, ``seconds`` after it was asked for."""
    return Delayed(seconds, answer)


def when(
    condition: str | Callable[[ChatRequest], bool],
    answer: ScriptedAnswer,
    *,
    times: int | None = None,
) -> Rule:
    """Return an answer for the requests that fit a condition, whatever their order.

    Args:
        condition: a text that the last message contains, letter for letter, or a function of the
            request.
        answer: what is answered.
        times: how often; None is as often as it fits, at least once.

    >>> when("refund", "billing").fits(ChatRequest(model="m", messages=[{"content": "a refund"}]))
    True
    """
    if times is not None and times < 1:
        raise ValueError(f"times must be at least 1, or None, not {times}")
    return Rule(condition, answer, times)


def shown(answer: ScriptedAnswer | Rule) -> str:
    """Return a few words for an answer or a rule, for messages about it."""
    match answer:
        case Rule(condition=condition):
            named = repr(condition) if isinstance(condition, str) else _name_of(condition)
            return f"when({named})"
        case Delayed(answer=later):
            return shown(later)
        case Pieces():
            return repr(shorten(answer.text, 60))
        case ChatReply():
            calls = [f"a call of {call.name}" for call in answer.tool_calls]
            texts = [repr(shorten(answer.text, 60))] if answer.text or not calls else []
            return " with ".join([*texts, *calls])
        case BaseException():
            return f"{type(answer).__name__}({shorten(str(answer), 60)})"
        case str():
            return repr(shorten(answer, 60))
    return _name_of(answer)


def _name_of(function: object) -> str:
    return getattr(function, "__name__", type(function).__name__)
