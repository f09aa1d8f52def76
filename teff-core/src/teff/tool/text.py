"""What a tool returned, as the text that a model reads."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping, Set
from typing import Any

import attrs

__all__ = ["DEFAULT_MAX_CHARS", "result_text", "shorten"]

#: The longest text of one tool result, in characters.
DEFAULT_MAX_CHARS = 30_000


def result_text(value: object) -> str:
    """Return text as it is and anything else as JSON; what JSON cannot carry becomes its ``str``.

    Halves of surrogate pairs are put together, and a lone one becomes U+FFFD, since no encoding
    could send it.

    >>> result_text({"city": "Rīga", "days": {3}})
    '{"city": "Rīga", "days": [3]}'
    """
    if isinstance(value, str):
        text = str(value)
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, default=_plain)
        except (TypeError, ValueError, RecursionError):  # odd keys, a circle, too deep
            text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _plain(value: Any) -> Any:
    if attrs.has(type(value)):
        return attrs.asdict(value, recurse=False)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return list(value)
    if isinstance(value, bytes | bytearray):
        return f"<{len(value)} bytes>"
    return str(value)


def shorten(text: str, max_chars: int) -> str:
    """Cut the middle out of a text that is longer than ``max_chars``, and say so in its place.

    The result, with its note of the original size, is at most ``max_chars`` long.
    """
    if len(text) <= max_chars:
        return text
    note = f"\n\n[... shortened: the whole result has {len(text)} characters ...]\n\n"
    room = max_chars - len(note)
    if room <= 0:
        return text[:max_chars]
    tail = room // 4
    return text[: room - tail] + note + (text[-tail:] if tail else "")
