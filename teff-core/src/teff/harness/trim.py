"""Conversations cut to a length, and an estimate of how long they are."""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import attrs

from teff.errors import ContextLimitError
from teff.messages import Message
from teff.provider import ToolSpec

__all__ = ["estimate_tokens", "trim_messages"]

_Message: TypeAlias = Message | Mapping[str, Any]

#: What a message, a call or a tool costs beside its texts: marks, role, names of fields.
_FRAME_TOKENS = 8

#: What an image, or another part that is no text, is counted as.
_PART_TOKENS = 1_500

#: Words are tokens of several letters; figures and marks mostly are tokens of their own.
_WORDS = (string.ascii_letters + " ").encode()
_LETTERS_PER_TOKEN = 4


def estimate_tokens(messages: Sequence[_Message], *, tools: Sequence[ToolSpec] = ()) -> int:
    """Return about how many tokens a conversation and the tools offered beside it are.

    It is an estimate, for no tokenizer is asked, and it errs on the high side: of most texts the
    models of today make fewer tokens. A small model with few words beside the English ones may make
    more of another language. The rule: four of the letters a to z and spaces are a token, every other
    character is one; a message, a call and a tool cost 8 more; an image, or another part that is no
    text, is 1,500. Names, ids, arguments, reasoning and schemas count as the texts they are.

    >>> from teff.messages import user
    >>> estimate_tokens([user("Where is my parcel?")]), estimate_tokens([user("包裹在哪里")])
    (14, 13)
    """
    return sum(map(_message_tokens, messages)) + sum(map(_tool_tokens, tools))


def trim_messages(
    messages: Sequence[_Message],
    *,
    max_tokens: int | None = None,
    max_messages: int | None = None,
    tools: Sequence[ToolSpec] = (),
) -> list[_Message]:
    """Return a conversation without its oldest part, so that it keeps its bounds.

    It is cut between exchanges, which are a user's message with everything up to the next one. Where
    the last exchange alone is too long, it is cut between its rounds of tools. Kept in any case are
    the system texts, the last message of the user, and the results of tools that the conversation
    ends with, with their calls: without them the model would call again. What is kept stays in its
    order and is not changed; a conversation that was valid stays valid.

    Args:
        messages: the conversation; it is not changed.
        max_tokens: the most tokens, by `estimate_tokens`, the tools included; None for no bound.
        max_messages: the most messages beside the system texts; None for no bound. What is kept in
            any case may be more.
        tools: what is offered beside the conversation.

    Raises:
        ContextLimitError: what must be kept is longer than ``max_tokens``.

    >>> from teff.messages import assistant, user
    >>> talk = [user("Hi"), assistant("Hello!"), user("Where is it?"), assistant("On its way.")]
    >>> [message["content"] for message in trim_messages(talk, max_messages=3)]
    ['Where is it?', 'On its way.']
    """
    if max_tokens is None and (max_messages is None or len(messages) <= max_messages):
        return list(messages)
    room = _Room(max_tokens, max_messages)
    costs = [_message_tokens(message) if max_tokens is not None else 0 for message in messages]
    said = [place for place, message in enumerate(messages) if not _is_system(message)]
    kept = {place for place in range(len(messages)) if _is_system(messages[place])}
    room.take(sum(costs[place] for place in kept) + sum(map(_tool_tokens, tools)), 0)

    last_user, rounds, exchanges = _parts(messages, said)
    must = list(last_user)
    if rounds and (not last_user or messages[said[-1]].get("role") == "tool"):
        must += rounds.pop()
    kept.update(must)
    room.take(sum(costs[place] for place in must), len(must))
    if room.is_overdrawn:
        raise ContextLimitError(
            f"what must be sent is about {room.tokens} tokens long, and may be {max_tokens}: the "
            "system text, the tools, the user's last message and the tool results after it. "
            "Shorten them, or raise the bound (max_context_tokens).",
            tokens=room.tokens,
            limit=max_tokens or 0,
        )
    for part in [*reversed(rounds), *reversed(exchanges)]:
        if not room.holds(cost := sum(costs[place] for place in part), len(part)):
            break
        room.take(cost, len(part))
        kept.update(part)
    return [message for place, message in enumerate(messages) if place in kept]


@attrs.define
class _Room:
    """What of the bounds is used."""

    max_tokens: int | None
    max_messages: int | None
    tokens: int = 0
    messages: int = 0

    def take(self, tokens: int, messages: int) -> None:
        self.tokens += tokens
        self.messages += messages

    def holds(self, tokens: int, messages: int) -> bool:
        fits = self.max_tokens is None or self.tokens + tokens <= self.max_tokens
        return fits and (self.max_messages is None or self.messages + messages <= self.max_messages)

    @property
    def is_overdrawn(self) -> bool:
        return self.max_tokens is not None and self.tokens > self.max_tokens


def _parts(
    messages: Sequence[_Message], said: Sequence[int]
) -> tuple[Sequence[int], list[Sequence[int]], list[Sequence[int]]]:
    """Return the user's last message, the rounds after it, and the exchanges before it, as places.

    What stands before the first message of the user is an exchange too.
    """
    users = [index for index, place in enumerate(said) if messages[place].get("role") == "user"]
    last = users[-1] if users else 0
    after = users[-1] + 1 if users else 0
    # A round is a turn of the assistant, and the results of its calls.
    starts = [
        index for index in range(after, len(said)) if messages[said[index]].get("role") != "tool"
    ]
    rounds = _between(said, [after, *starts, len(said)])
    exchanges = _between(said, [0, *users]) if users else []
    return said[last:after], rounds, exchanges


def _between(places: Sequence[int], borders: Sequence[int]) -> list[Sequence[int]]:
    return [places[start:end] for start, end in pairwise(borders) if start < end]


def _is_system(message: _Message) -> bool:
    return message.get("role") in ("system", "developer")


# The estimate.


def _message_tokens(message: _Message) -> int:
    tokens = _FRAME_TOKENS + _content_tokens(message.get("content"))
    for field in ("name", "tool_call_id", "thinking"):
        if value := message.get(field):
            tokens += _text_tokens(value)
    for call in message.get("tool_calls") or ():
        tokens += _FRAME_TOKENS + _text_tokens(call)
    return tokens


def _content_tokens(content: object) -> int:
    if isinstance(content, str) or not isinstance(content, Sequence):
        return _text_tokens(content)
    tokens = 0
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) else part
        tokens += _text_tokens(text) if isinstance(text, str) else _PART_TOKENS
    return tokens


def _tool_tokens(tool: ToolSpec) -> int:
    return (
        _FRAME_TOKENS
        + _text_tokens(tool.name)
        + _text_tokens(tool.description)
        + _text_tokens(tool.schema)
    )


def _text_tokens(value: object) -> int:
    if value is None:
        return 0
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    ascii_text = text.encode("ascii", "ignore")
    others = len(text) - len(ascii_text) + len(ascii_text.translate(None, _WORDS))
    letters = len(text) - others
    return others + math.ceil(letters / _LETTERS_PER_TOKEN)
