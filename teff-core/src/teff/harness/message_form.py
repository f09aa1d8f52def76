"""The form of a single message: its role, its content, its calls, as they may be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from teff.errors import ConfigError, suggest
from teff.messages import ToolCall, message_text, read_arguments

__all__ = ["call_name", "content_of", "is_blank", "is_readable", "rebuilt", "role_of", "text_part"]

#: ``developer`` is what some servers call the system.
_ROLES = ("system", "developer", "user", "assistant", "tool")


def role_of(place: int, message: object) -> str:
    """Return the role of the message at ``place``; other roles than the known ones are refused."""
    if not isinstance(message, Mapping):
        raise ConfigError(
            f"message {place} must be a dict with role and content, not {type(message).__name__}.",
            path=f"messages[{place}]",
        )
    role = message.get("role")
    if role not in _ROLES:
        raise ConfigError(
            f"message {place} has the role {role!r}, which no server knows.",
            path=f"messages[{place}].role",
            hint=suggest(str(role), _ROLES).strip(),
        )
    return str(role)


def content_of(place: int, role: str, content: object) -> str | list[Any]:
    """Return content that can be sent; the very same where it can."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    parts = list(content) if isinstance(content, Sequence) and not _is_bytes(content) else None
    if parts is None or not all(isinstance(part, str | Mapping) for part in parts):
        raise ConfigError(
            f"message {place} must have a text or a list of parts as content, "
            f"not {type(content).__name__ if parts is None else 'a list of other things'}.",
            path=f"messages[{place}].content",
        )
    if any(isinstance(part, str) for part in parts):
        parts = [text_part(part) if isinstance(part, str) else part for part in parts]
    elif isinstance(content, list):
        parts = content
    # Some servers lose the id of a result whose content is a list.
    if not parts or (role == "tool" and all(isinstance(part.get("text"), str) for part in parts)):
        return message_text({"content": parts})
    return parts


def is_blank(content: object) -> bool:
    """Say whether content that `content_of` gave says nothing."""
    if isinstance(content, str):
        return not content.strip()
    texts = [part.get("text") for part in content] if isinstance(content, list) else []
    return all(isinstance(text, str) and not text.strip() for text in texts)


def _is_bytes(value: object) -> bool:
    return isinstance(value, bytes | bytearray | memoryview)


def text_part(text: str) -> dict[str, str]:
    """Return a text as a part of a content list."""
    return {"type": "text", "text": text}


# Calls, in the stored form or in that of the chat-completions format.


def _function(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    return function if isinstance(function, Mapping) else call


def call_name(call: object) -> str:
    """Return the name of the tool, or "" where there is none."""
    name = _function(call).get("name") if isinstance(call, Mapping) else ""
    return name if isinstance(name, str) and name.strip() else ""


def is_readable(call: object) -> bool:
    """Say whether a call has an id field, a name, and an object as arguments, or its text."""
    if not isinstance(call, Mapping) or "id" not in call or not call_name(call):
        return False
    written = _function(call)
    arguments = written.get("args", written.get("arguments"))
    return isinstance(arguments, Mapping) or not read_arguments(arguments)[1]


def rebuilt(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call whose arguments are an object; servers refuse others, each time anew."""
    written = ToolCall.from_json(call).to_json()
    known = {"id", "type", "index", "function", "name", "args", "arguments", "error", "extra"}
    unknown = {name: value for name, value in call.items() if name not in known}
    return {**written, "extra": {**unknown, **written.get("extra", {})}} if unknown else written
