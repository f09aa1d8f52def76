"""Which values are JSON as they are, and how one text or number is written that is not."""

from __future__ import annotations

import json
import math
from typing import Any, cast

from teff.state import FrozenDict, FrozenList

__all__ = [
    "MARK",
    "MAX_DEPTH",
    "TOO_DEEP",
    "integer",
    "is_plain",
    "is_text",
    "number",
    "read_integer",
    "read_number",
    "read_text",
    "sort_key",
    "text",
]

#: What the one key of an object begins with that stands for a value JSON does not have.
MARK = "!"

#: How many levels of objects and lists a stored value may have, which every JSON library reads.
MAX_DEPTH = 200

#: What is said of a value that has more.
TOO_DEEP = f"contains itself, or is nested more than {MAX_DEPTH} levels deep"

# Whole numbers beyond these are read as something else by most programs but Python.
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
#: Up to so many bits a number is written in decimal digits; `int` refuses to read very long ones.
_DECIMAL_BITS = 2048
_LARGEST = 1.7976931348623157e308
_SURROGATES = range(0xD800, 0xE000)


def is_plain(value: object, room: int = MAX_DEPTH) -> bool:
    """Say whether a value is stored as it is: JSON of at most ``room`` levels, which no tag looks like.

    This is what every value goes through, so it costs less than writing the JSON does.
    """
    kind = type(value)
    if kind is FrozenDict or kind is dict:
        return room > 0 and _is_plain_mapping(cast("dict[Any, Any]", value), room)
    if kind is FrozenList or kind is list:
        return room > 0 and _is_plain_items(value, room)
    return _is_plain_items([value], room)


def _is_plain_mapping(value: dict[Any, Any], room: int) -> bool:
    for key in value:
        if type(key) is not str or not (key.isascii() or is_text(key)):
            return False
    if len(value) == 1 and next(iter(value)).startswith(MARK):
        return False
    return _is_plain_items(value.values(), room)


def _is_plain_items(items: Any, room: int) -> bool:
    for item in items:
        kind = type(item)
        if kind is str:
            if not (item.isascii() or is_text(item)):
                return False
        elif kind is int:
            if not _LOWEST <= item <= _HIGHEST:
                return False
        elif kind is float:
            if not -_LARGEST <= item <= _LARGEST:
                return False
        elif kind is bool or item is None:
            continue
        elif kind is FrozenDict or kind is dict:
            if room <= 1 or not _is_plain_mapping(item, room - 1):
                return False
        elif kind is FrozenList or kind is list:
            if room <= 1 or not _is_plain_items(item, room - 1):
                return False
        else:
            return False
    return True


def is_text(value: str) -> bool:
    """Say whether a text can be written as UTF-8: it has no lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(value: str) -> Any:
    """Return a text as JSON: lone surrogates as numbers, between the pieces around them."""
    if is_text(value):
        return value
    pieces: list[str | int] = []
    start = 0
    for place, letter in enumerate(value):
        if ord(letter) in _SURROGATES:
            pieces += [value[start:place], ord(letter)]
            start = place + 1
    pieces.append(value[start:])
    return {"!text": [piece for piece in pieces if piece != ""]}


def read_text(data: Any) -> str:
    """Read what `text` gave.

    Raises:
        ValueError: it is something else.
    """
    if type(data) is str:
        return data
    pieces = _content(data, "text")
    if not isinstance(pieces, list):
        raise ValueError("a text is a list of texts and surrogates")
    return "".join(piece if type(piece) is str else _surrogate(piece) for piece in pieces)


def _surrogate(piece: Any) -> str:
    if type(piece) is not int or piece not in _SURROGATES:
        raise ValueError(f"{piece!r} is no surrogate")
    return chr(piece)


def integer(value: int) -> Any:
    """Return a whole number as JSON: one that needs more than 64 bits as its digits."""
    if _LOWEST <= value <= _HIGHEST:
        return value
    return {"!int": str(value) if value.bit_length() <= _DECIMAL_BITS else hex(value)}


def read_integer(data: Any) -> int:
    """Read what `integer` gave.

    Raises:
        ValueError: it is something else.
    """
    if type(data) is int:
        return data
    digits = _content(data, "int")
    if type(digits) is not str:
        raise ValueError("a whole number is a number or its digits")
    return int(digits, 16 if "0x" in digits[:3] else 10)


def number(value: float) -> Any:
    """Return a number as JSON: ``nan``, ``inf`` and ``-inf`` by name."""
    return value if math.isfinite(value) else {"!float": str(value)}


def read_number(data: Any) -> float:
    """Read what `number` gave.

    Raises:
        ValueError: it is something else.
    """
    if type(data) is float or type(data) is int:
        return float(data)
    name = _content(data, "float")
    if name not in ("nan", "inf", "-inf"):
        raise ValueError("a number that JSON does not have is nan, inf or -inf")
    return float(name)


def _content(data: Any, tag: str) -> Any:
    if not isinstance(data, dict) or data.keys() != {MARK + tag}:
        raise ValueError(f"{tag} is expected, not {type(data).__name__}")
    return data[MARK + tag]


def sort_key(data: Any) -> str:
    """Return by what the members of a set are ordered, so that equal sets are stored equally."""
    return json.dumps(data)
