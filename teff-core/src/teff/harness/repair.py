"""Conversations made valid before they go out.

Servers refuse a conversation with a hole: a call without its result, a result without its call, an
empty turn. Such conversations come about by themselves, where a run was interrupted or a history was
cut, and once stored they would fail on every later turn.
"""

from __future__ import annotations

import hashlib
import operator
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import attrs

from teff.errors import ConfigError
from teff.harness.message_form import (
    call_name,
    content_of,
    is_blank,
    is_readable,
    rebuilt,
    role_of,
    text_part,
)
from teff.messages import Message, message_text, system, user

__all__ = ["CONTINUE", "INTERRUPTED", "Repaired", "valid_messages"]

#: What a call is answered with that has no result. The model is to look before it calls again.
INTERRUPTED = "This call was interrupted: it gave no result, and may have taken effect or not."

#: The user's turn that is put where there must be one.
CONTINUE = "Continue."

_Message: TypeAlias = Message | Mapping[str, Any]


@attrs.frozen
class Repaired:
    """A conversation that can be sent.

    Attributes:
        messages: the conversation; those messages that were right are the very ones that were given.
        warnings: what was dropped or added, one sentence each.
    """

    messages: list[_Message]
    warnings: tuple[str, ...] = ()


def valid_messages(messages: Sequence[_Message], *, alternating: bool = False) -> Repaired:
    """Return a conversation as every server takes it.

    - There is at most one system message, and it is the first: the texts of all, each once, with a
      blank line between them. ``developer`` counts as ``system``.
    - Each call of a tool is followed by its one result, in the order of the calls. A call without a
      result is answered with `INTERRUPTED`. A result in the wrong place is moved to its call; one
      that no call, more than one call, or a call with a result could claim is dropped.
    - Each call has an id of its own, a name, and an object as arguments. Ids that are missing or
      used again are replaced, the same way each time; calls without a name are dropped.
    - Turns of the assistant without text and calls are dropped.
    - Content is a text or a list of parts; None is "". Tool results are texts where they can be.

    The result may be empty where nothing that was given says anything; a request must not be. A
    conversation that is right is only looked through.

    Args:
        messages: the conversation; it is not changed.
        alternating: whether the turns must alternate between the user, whose side tool results are
            on, and the assistant, and begin and end with the user's. Neighbours are then joined,
            with a blank line between texts, and `CONTINUE` is said where the user's turn is missing.

    Raises:
        ConfigError: a message is no mapping, its role is unknown, or its content cannot be read.

    >>> call = {"id": "t1", "name": "search", "args": {}}
    >>> asked = [user("Find it."), {"role": "assistant", "content": None, "tool_calls": [call]}]
    >>> repaired = valid_messages([*asked, user("hi")])
    >>> [message["content"] for message in repaired.messages][2:] == [INTERRUPTED, "hi"]
    True
    >>> repaired.warnings
    ("call 't1' of 'search' had no result and was answered as interrupted",)
    """
    if _is_valid(messages) and (not alternating or _alternates(messages)):
        return Repaired(list(messages))
    draft = _Draft()
    for place, message in enumerate(messages):
        draft.add(place, message)
    turns = draft.turns()
    if alternating and (turns or draft.systems):
        turns = _alternated(turns, draft.warnings)
    return Repaired([*_one_system(draft.systems), *turns], tuple(draft.warnings))


# Looking through a conversation that is right, as nearly all are.


def _is_valid(messages: Sequence[_Message]) -> bool:
    """Say whether there is nothing to do but, perhaps, to make the turns alternate."""
    used: set[str] = set()
    awaited: deque[str] = deque()
    for place, message in enumerate(messages):
        role = role_of(place, message)
        content = message.get("content")
        if not isinstance(content, str) and content_of(place, role, content) is not content:
            return False
        if role == "tool":
            if not awaited or message.get("tool_call_id") != awaited.popleft():
                return False
        elif awaited:
            return False
        elif role == "assistant":
            if calls := message.get("tool_calls"):
                if not _are_whole(calls, used):
                    return False
                awaited.extend(call["id"] for call in calls)
            elif is_blank(content):
                return False
        elif role != "user" and (place or role != "system" or not content):
            return False
    return not awaited


def _are_whole(calls: object, used: set[str]) -> bool:
    """Say whether calls can stay as they are; note their ids."""
    if not isinstance(calls, list):
        return False
    for call in calls:
        if not is_readable(call) or not isinstance(call["id"], str):
            return False
        if not call["id"] or call["id"] in used:
            return False
        used.add(call["id"])
    return True


def _alternates(messages: Sequence[_Message]) -> bool:
    before = "assistant"
    for message in messages:
        role = message["role"]
        if role == "system":
            continue
        if role == before != "tool":
            return False
        before = role
    return before != "assistant" or not messages


# Reading what is there.


@attrs.define(eq=False)
class _Call:
    """A call, the id it is sent with, and the result that was found for it."""

    written: Mapping[str, Any]
    id: str
    sent_id: str
    name: str
    result: _Message | None = None

    def sent(self) -> Mapping[str, Any]:
        if self.written.get("id") == self.sent_id:
            return self.written
        return {**self.written, "id": self.sent_id}

    def sent_result(self) -> _Message:
        if self.result is None:
            return {
                "role": "tool",
                "content": INTERRUPTED,
                "tool_call_id": self.sent_id,
                "name": self.name,
            }
        if self.result.get("tool_call_id") == self.sent_id:
            return self.result
        return {**self.result, "tool_call_id": self.sent_id}


@attrs.define(eq=False)
class _Turn:
    """A turn of the user or the assistant, with the calls it makes."""

    message: _Message
    calls: list[_Call]

    def sent(self) -> _Message:
        calls = [call.sent() for call in self.calls]
        written = self.message.get("tool_calls") or []
        same = len(calls) == len(written) and all(map(operator.is_, calls, written))
        if isinstance(written, list) and same:
            return self.message
        if calls:
            return {**self.message, "tool_calls": calls}
        return {name: value for name, value in self.message.items() if name != "tool_calls"}


@attrs.define(eq=False)
class _Draft:
    """A conversation taken apart: system texts, turns, and the results of their calls."""

    systems: list[_Message] = attrs.field(factory=list)
    warnings: list[str] = attrs.field(factory=list)
    _turns: list[_Turn] = attrs.field(factory=list)
    _used_ids: set[str] = attrs.field(factory=set)
    _calls_by_id: dict[str, list[_Call]] = attrs.field(factory=dict)
    _latest_calls: list[_Call] = attrs.field(factory=list)
    _misplaced: list[tuple[int, _Message]] = attrs.field(factory=list)

    def add(self, place: int, message: _Message) -> None:
        role = role_of(place, message)
        content = content_of(place, role, message.get("content"))
        if message.get("content") is not content:
            message = {**message, "content": content}
        if role in ("system", "developer"):
            self.systems.append(message)
        elif role == "tool":
            self._add_result(place, message)
        else:
            calls = self._read_calls(place, message) if role == "assistant" else []
            if role == "assistant" and not calls and is_blank(content):
                self.warnings.append(
                    f"message {place}, a turn of the assistant without text and calls, was dropped"
                )
                return
            self._turns.append(_Turn(message, calls))

    def _read_calls(self, place: int, message: _Message) -> list[_Call]:
        written = message.get("tool_calls") or []
        if not isinstance(written, Sequence) or isinstance(written, str | bytes):
            raise ConfigError(
                f"message {place} must have a list as tool_calls, not {type(written).__name__}.",
                path=f"messages[{place}].tool_calls",
            )
        calls = []
        for one in written:
            if not call_name(one):
                self.warnings.append(f"message {place} has a call without a name; it was dropped")
                continue
            call_id = _id(one.get("id"))
            sent_id = _free_id(call_id, self._used_ids)
            self._used_ids.add(sent_id)
            call = _Call(
                one if is_readable(one) else rebuilt(one), call_id, sent_id, name=call_name(one)
            )
            self._calls_by_id.setdefault(call_id, []).append(call)
            calls.append(call)
        if calls:
            self._latest_calls = calls
        return calls

    def _add_result(self, place: int, result: _Message) -> None:
        if call := _claimed_by(self._latest_calls, result):
            call.result = result
        else:
            self._misplaced.append((place, result))

    def turns(self) -> list[_Message]:
        """Return the turns, each call with its result."""
        for place, result in self._misplaced:
            call_id = _id(result.get("tool_call_id"))
            calls = self._calls_by_id.get(call_id, [])
            if len(calls) == 1 and calls[0].result is None:
                calls[0].result = result
                continue
            why = ("is not there", "has a result already", "is there more than once")
            self.warnings.append(
                f"message {place}, a result, was dropped, for its call {call_id!r} "
                f"{why[min(len(calls), 2)]}"
            )
        sent: list[_Message] = []
        for turn in self._turns:
            sent.append(turn.sent())
            for call in turn.calls:
                if call.result is None:
                    self.warnings.append(
                        f"call {call.sent_id!r} of {call.name!r} had no result "
                        "and was answered as interrupted"
                    )
                sent.append(call.sent_result())
        return sent


def _claimed_by(calls: Sequence[_Call], result: _Message) -> _Call | None:
    """Return the call of the latest round that a result answers, or None.

    Servers that number no calls, or all of them alike, are matched by name and by order.
    """
    call_id, name = _id(result.get("tool_call_id")), result.get("name")
    waiting = [call for call in calls if call.result is None and call_id in ("", call.id)]
    for call in waiting:
        if call.name == name:
            return call
    if name and not call_id:
        return None
    return waiting[0] if waiting else None


def _id(value: object) -> str:
    return "" if value is None else str(value)


def _free_id(wanted: str, used: set[str]) -> str:
    """Return ``wanted`` where it is free, else an id that is the same each time.

    A request that is made again must be the same, for its recorded reply to be found.
    """
    number, made = len(used), wanted
    while not made or made in used:
        # Nine letters and digits are the one form that every server's templates take.
        told = f"{wanted}/{number}".encode(errors="surrogatepass")
        made = hashlib.sha256(told).hexdigest()[:9]
        number += 1
    return made


# Putting it together.


def _one_system(messages: Sequence[_Message]) -> list[_Message]:
    if len(messages) == 1 and messages[0].get("role") == "system":
        return [messages[0]] if messages[0].get("content") else []
    texts = dict.fromkeys(text for text in map(message_text, messages) if text)
    return [system("\n\n".join(texts))] if texts else []


def _alternated(turns: Sequence[_Message], warnings: list[str]) -> list[_Message]:
    result: list[_Message] = []
    for role, group in groupby(turns, key=lambda message: message["role"]):
        neighbours = list(group)
        if role == "tool" or len(neighbours) == 1:
            result += neighbours
        else:
            result.append(_joined(neighbours))
    if not result or result[0]["role"] != "user":
        result.insert(0, user(CONTINUE))
        warnings.append(f"the conversation began without the user: {CONTINUE!r} was put first")
    if result[-1]["role"] == "assistant":
        result.append(user(CONTINUE))
        warnings.append(f"the conversation ended with the assistant: {CONTINUE!r} was added")
    return result


def _joined(messages: Sequence[_Message]) -> _Message:
    """Return neighbours of one role as one message; nothing that they say is lost."""
    joined: dict[str, Any] = {}
    for message in reversed(messages):
        joined |= message
    joined["content"] = _joined_content([message["content"] for message in messages])
    if len({message.get("name") for message in messages}) > 1:
        del joined["name"]
    if "thinking" in joined:
        joined["thinking"] = _joined_texts(message.get("thinking") for message in messages)
    if "tool_calls" in joined:
        joined["tool_calls"] = [
            call for message in messages for call in message.get("tool_calls") or ()
        ]
    return joined


def _joined_content(contents: Sequence[Any]) -> str | list[Any]:
    if all(isinstance(content, str) for content in contents):
        return _joined_texts(contents)
    parts: list[Any] = []
    for content in contents:
        if isinstance(content, str):
            parts += [text_part(content)] if content else []
        else:
            parts += content
    return parts


def _joined_texts(texts: Iterable[Any]) -> str:
    return "\n\n".join(text for text in texts if text)
