"""Take values out of replies that may hold anything.

Servers leave fields out, send null, or another type than they document. These functions give the
value where it is of the right kind, and the neutral value where it is not.
"""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from teff.messages import ModelUsage

__all__ = [
    "UnreadableReply",
    "as_count",
    "as_mapping",
    "as_text",
    "call_ids",
    "content_text",
    "free_call_id",
    "parse_json",
    "read_usage",
]


class UnreadableReply(ValueError):
    """A reply is not of the shape of an answer; the text goes on after "cannot be read: "."""


_NO_FIELDS: Mapping[str, Any] = {}


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return ``value`` where it is a JSON object, else an empty one."""
    # Parsed JSON is a dict, and that is quicker to see.
    return value if isinstance(value, dict) or isinstance(value, Mapping) else _NO_FIELDS  # noqa: SIM101


def as_text(value: object) -> str:
    """Return ``value`` where it is a text, else ``""``."""
    return value if isinstance(value, str) else ""


def as_count(value: object) -> int | None:
    """Return ``value`` where it is a whole number of at least 0, else None, for "not known".

    >>> as_count(0), as_count(12.0), as_count(-1), as_count(True), as_count("7")
    (0, 12, None, None, None)
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        return None
    return value


def read_usage(
    prompt_tokens: object, completion_tokens: object, total_tokens: object = None
) -> ModelUsage:
    """Return what a server counted; the total is the sum where the server gave only the parts."""
    prompt, completion = as_count(prompt_tokens), as_count(completion_tokens)
    total = as_count(total_tokens)
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    return ModelUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=total)


def content_text(content: object) -> str:
    """Return the text of a message's content: a text, null, or a list of parts.

    Raises:
        UnreadableReply: it is none of these.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise UnreadableReply(f"its content is {type(content).__name__}, not text")
    parts = (part if isinstance(part, str) else as_mapping(part).get("text") for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that came over the wire; a byte order mark and broken UTF-8 do no harm.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig", "replace")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def call_ids(messages: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids of all tool calls that a conversation holds."""
    return {
        as_text(as_mapping(call).get("id"))
        for message in messages
        for call in message.get("tool_calls") or ()
    }


def free_call_id(wanted: object, used: Collection[str]) -> str:
    """Return ``wanted`` where it is a usable id for a tool call, else a new one.

    New ids are nine letters and digits, the one form that every server's templates take.
    """
    if isinstance(wanted, str) and wanted and wanted not in used:
        return wanted
    alphabet = string.ascii_letters + string.digits
    while True:
        made = "".join(secrets.choice(alphabet) for _ in range(9))
        if made not in used:
            return made
