"""The values of a conversation: messages, tool calls, usage.

Messages live in the state, so they are plain dicts (`Message`), built by the functions below.
Tool calls and usage are attrs values with a JSON form, for they cross from providers to nodes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

import attrs

from teff.errors import StateError

__all__ = [
    "MAX_ARGUMENT_LEVELS",
    "Message",
    "ModelUsage",
    "ToolCall",
    "Usage",
    "assistant",
    "conversation",
    "is_nested_deeper",
    "last_assistant_message",
    "last_user_message",
    "message_text",
    "read_arguments",
    "system",
    "tool_result",
    "user",
    "with_system",
]


#: How many objects and lists of tool arguments may lie within each other. A stored value may have
#: 200 levels, and the arguments are some levels down in it.
MAX_ARGUMENT_LEVELS = 100


class Message(TypedDict):
    """One turn of a conversation, in the shape of the chat-completions format.

    Source: the request format of https://platform.openai.com/docs/api-reference/chat, but with tool
    arguments as a JSON text only on the wire; here ``tool_calls`` are those of `ToolCall.to_json`.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: NotRequired[list[dict[str, Any]]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]
    #: The reasoning behind tool calls: some servers want it back on the next turn.
    thinking: NotRequired[str]


def system(text: str) -> Message:
    """Return a system message."""
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    """Return a user message."""
    return {"role": "user", "content": text}


def assistant(text: str, tool_calls: Sequence[ToolCall] = (), *, thinking: str = "") -> Message:
    """Return an assistant message, with the calls it makes and the reasoning behind them."""
    message: Message = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = [call.to_json() for call in tool_calls]
    if thinking:
        message["thinking"] = thinking
    return message


def tool_result(call: ToolCall, text: str) -> Message:
    """Return the message that answers ``call`` with ``text``."""
    return {"role": "tool", "content": text, "tool_call_id": call.id, "name": call.name}


def message_text(message: object) -> str:
    """Return the text of a message: its content, or the text parts of a content list, else "".

    >>> message_text({"role": "user", "content": [{"type": "text", "text": "hi"}]})
    'hi'
    """
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    if isinstance(content, Iterable) and not isinstance(content, Mapping | bytes):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""


def conversation(state: Mapping[str, Any], key: str) -> list[Message | Mapping[str, Any]]:
    """Return the conversation under ``key`` as a new list; empty where there is none.

    Raises:
        StateError: what is there is no list of messages.
    """
    stored = state.get(key)
    if stored is None:
        return []
    if not isinstance(stored, Sequence) or isinstance(stored, str | bytes):
        raise StateError(
            f"state key {key!r} must hold a list of messages, not {type(stored).__name__}"
        )
    for place, message in enumerate(stored):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise StateError(
                f"message {place} under state key {key!r} must be a dict with role and content, "
                f"not {type(message).__name__}"
            )
    return list(stored)


def _last(messages: object, role: str) -> str:
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        return ""
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role") == role:
            text = message_text(message)
            if text:
                return text
    return ""


def last_user_message(messages: object) -> str:
    """Return the text of the last user message, or "" where there is none.

    Anything may be passed: what is no list of messages has no user message.
    """
    return _last(messages, "user")


def last_assistant_message(messages: object) -> str:
    """Return the text of the last assistant message that has any, or ""."""
    return _last(messages, "assistant")


@attrs.frozen(kw_only=True)
class ToolCall:
    """A model's wish to call a tool.

    Attributes:
        id: unique within a conversation; made up where the server sends none.
        name: the tool's name.
        arguments: the arguments, where they were whole JSON objects.
        error: what is wrong with the arguments as written; a call with an error is never run.
        extra: fields of the provider that must go back to it unchanged.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    error: str = ""
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored in messages and in the journal."""
        data: dict[str, Any] = {"id": self.id, "name": self.name, "args": dict(self.arguments)}
        if self.error:
            data["error"] = self.error
        if self.extra:
            data["extra"] = dict(self.extra)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ToolCall:
        """Read the stored form, or the form of the chat-completions format.

        ``args`` may be an object or its JSON text.
        """
        function = data.get("function")
        if isinstance(function, Mapping):
            name, raw = str(function.get("name", "")), function.get("arguments")
        else:
            name, raw = str(data.get("name", "")), data.get("args", data.get("arguments"))
        arguments, error = read_arguments(raw)
        return cls(
            id=str(data.get("id") or ""),
            name=name,
            arguments=arguments,
            error=str(data.get("error") or error),
            extra=data.get("extra") or {},
        )


def read_arguments(raw: object) -> tuple[dict[str, Any], str]:
    """Read tool arguments as servers send them; return them with what is wrong, or "".

    An object is taken as it is, an empty text or None is no arguments, other text must be a JSON
    object. NaN and Infinity are not JSON. Values that lie more than `MAX_ARGUMENT_LEVELS` deep are
    refused, for no state could hold them.

    >>> read_arguments('{"city": "Rig')[1]
    'the arguments are not whole JSON: Unterminated string starting at character 10'
    """
    if isinstance(raw, Mapping):
        return _not_too_deep(dict(raw))
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}, ""
    if not isinstance(raw, str):
        return {}, f"the arguments must be a JSON object, not {type(raw).__name__}"
    try:
        value = json.loads(raw, parse_constant=_refuse_constant, parse_float=_finite_number)
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at")
        return {}, f"the arguments are not whole JSON: {reason} at character {error.pos + 1}"
    except RecursionError:
        return {}, _TOO_DEEP
    except ValueError as error:
        return {}, f"the arguments are not JSON: {error}"
    if not isinstance(value, dict):
        return {}, f"the arguments must be a JSON object, not {type(value).__name__}"
    return _not_too_deep(value)


_TOO_DEEP = "the arguments are nested too deeply"


def _not_too_deep(arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
    if is_nested_deeper(arguments, MAX_ARGUMENT_LEVELS):
        return {}, _TOO_DEEP
    return arguments, ""


def is_nested_deeper(value: object, most: int) -> bool:
    """Say whether objects and lists lie within each other more than ``most`` levels deep.

    >>> is_nested_deeper([[1]], 1), is_nested_deeper([[1]], 2)
    (True, False)
    """
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        if not level:
            return False
        level = [
            below
            for item in level
            for below in (item.values() if isinstance(item, dict) else item)
            if isinstance(below, dict | list)
        ]
    return bool(level)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON value")


def _finite_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too great a number")
    return number


@attrs.frozen(kw_only=True)
class ModelUsage:
    """What one model used. Counts are None where the server did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None

    @property
    def total(self) -> int:
        """The total, or the sum of the parts that are known."""
        if self.total_tokens is not None:
            return self.total_tokens
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0)

    def to_json(self) -> dict[str, int | None]:
        """Return the form that is stored in the journal."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
        }


@attrs.define(kw_only=True)
class Usage:
    """What a run used so far, sub-flows and retried calls included.

    Attributes:
        prompt_tokens, completion_tokens, total_tokens: what the servers counted; calls for which a
            server counted nothing add nothing.
        model_calls, tool_calls: how many were made.
        cost: by the price table of the user, in its currency; 0.0 without one.
        by_model: the same counts for each ``provider/model``, those of answered calls; ``cost`` where
            the model has a price.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    cost: float = 0.0
    by_model: dict[str, dict[str, Any]] = attrs.field(factory=dict)

    def add_model_tokens(self, model: str, usage: ModelUsage, cost: float | None = None) -> None:
        """Add the tokens of one answered call to ``model`` (``provider/model``), and its cost."""
        prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
        self.prompt_tokens += prompt
        self.completion_tokens += completion
        self.total_tokens += usage.total
        entry = self.by_model.setdefault(
            model,
            {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "model_calls": 0},
        )
        entry["prompt_tokens"] += prompt
        entry["completion_tokens"] += completion
        entry["total_tokens"] += usage.total
        entry["model_calls"] += 1
        if cost is not None:
            self.cost += cost
            entry["cost"] = entry.get("cost", 0.0) + cost

    def to_json(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        """Read what `to_json` gave."""
        known = {field.name for field in attrs.fields(cls)}
        copied = {name: data[name] for name in known if name in data}
        models = copied.get("by_model", {})
        copied["by_model"] = {name: dict(counts) for name, counts in models.items()}
        return cls(**copied)


def with_system(
    messages: Sequence[Message | Mapping[str, Any]], text: str
) -> list[Message | Mapping[str, Any]]:
    """Return ``messages`` with one system message at the start: ``text``, then what they had.

    The same text is not said twice. Nothing is stored: a system text is laid over the request.
    """
    said = [text, *(message_text(m) for m in messages if m.get("role") == "system")]
    texts = list(dict.fromkeys(part for part in said if part))
    others = [message for message in messages if message.get("role") != "system"]
    return [system("\n\n".join(texts)), *others] if texts else others
