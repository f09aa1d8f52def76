"""Take values out of replies that may hold anything.

Servers leave fields out, send null, or another type than they document. These functions give the
value where it is of the right kind, and the neutral value where it is not.
"""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from teff.messages import MAX_ARGUMENT_LEVELS, ModelUsage, is_nested_deeper, read_arguments

__all__ = [
    "MAX_TOOL_CALLS",
    "CharacterJoiner",
    "UnreadableReply",
    "as_count",
    "as_mapping",
    "as_text",
    "call_ids",
    "content_text",
    "free_call_id",
    "parse_json",
    "read_usage",
    "read_whole_arguments",
    "unknown_fields",
    "whole_text",
]

#: An answer may make so many tool calls; readers refuse one that makes more.
MAX_TOOL_CALLS = 1_000

#: No answer has more tokens than the first, and nothing that is counted is above the second.
_MOST_TOKENS = 10**12
_MOST = 2**63 - 1

_HALF = re.compile("[\ud800-\udfff]")


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

    So is one that has no room in 64 bits.

    >>> as_count(0), as_count(12.0), as_count(-1), as_count(True), as_count("7")
    (0, 12, None, None, None)
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        return None
    return value


def read_usage(
    prompt_tokens: object, completion_tokens: object, total_tokens: object = None
) -> ModelUsage:
    """Return what a server counted; the total is the sum where the server gave only the parts.

    Counts that no answer has are not known: those above a million millions too.
    """
    prompt, completion = _as_tokens(prompt_tokens), _as_tokens(completion_tokens)
    total = _as_tokens(total_tokens)
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    return ModelUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=total)


def _as_tokens(value: object) -> int | None:
    count = as_count(value)
    return None if count is None or count > _MOST_TOKENS else count


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


def whole_text(text: str) -> str:
    r"""Return ``text`` with the halves of characters joined, and U+FFFD for each without the other.

    JSON writes characters above U+FFFF as two escapes, which may come in two texts.

    >>> whole_text("\ud83c" + "\udf0a"), whole_text("a\ud83c")
    ('🌊', 'a\ufffd')
    """
    if text.isascii() or _HALF.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class CharacterJoiner:
    r"""Joins characters that were cut in two between the pieces of a text.

    Servers cut there that count as JavaScript does. The first half waits for the second.

    >>> joiner = CharacterJoiner()
    >>> joiner.feed("a\ud83c"), joiner.feed("\udf0a b\ud83c"), joiner.close()
    ('a', '🌊 b', '\ufffd')
    """

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        """Take in the next piece; return what is whole."""
        if not piece or (piece.isascii() and not self._half):
            return piece
        text = self._half + piece
        self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return whole_text(text.removesuffix(self._half))

    def close(self) -> str:
        """Return what stands for a half that was left alone, or ""."""
        half, self._half = self._half, ""
        return whole_text(half)


def read_whole_arguments(raw: object) -> tuple[dict[str, Any], str]:
    """Read tool arguments as `teff.messages.read_arguments` does, and as `whole_text` their texts."""
    arguments, error = read_arguments(whole_text(raw) if isinstance(raw, str) else raw)
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return {}, "the arguments hold a number that JSON does not have"
    whole = whole_text(text)
    return (arguments if whole == text else json.loads(whole)), error


def unknown_fields(fields: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the fields that are not among ``known``, to be kept and sent back.

    Left out are those that could not be: nested more deeply than tool arguments may be, or with a
    number that JSON does not have.
    """
    return {
        name: value for name, value in fields.items() if name not in known and _can_be_kept(value)
    }


def _can_be_kept(value: object) -> bool:
    if is_nested_deeper(value, MAX_ARGUMENT_LEVELS):
        return False
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def call_ids(messages: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the ids of all tool calls that a conversation holds."""
    return {
        as_text(as_mapping(call).get("id"))
        for message in messages
        for call in message.get("tool_calls") or ()
    }


def free_call_id(wanted: object, used: Collection[str]) -> str:
    """Return ``wanted``, as `whole_text`, where it is a usable id for a tool call, else a new one.

    New ids are nine letters and digits, the one form that every server's templates take.
    """
    wanted = whole_text(wanted) if isinstance(wanted, str) else ""
    if wanted and wanted not in used:
        return wanted
    alphabet = string.ascii_letters + string.digits
    while True:
        made = "".join(secrets.choice(alphabet) for _ in range(9))
        if made not in used:
            return made
