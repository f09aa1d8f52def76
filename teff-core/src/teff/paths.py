"""Dotted paths into a state: ``verdict.ok``, ``items[0].price``, ``messages[-1].content``.

A path is names joined by dots, with indexes in brackets::

    path   = name { "." name | "[" index "]" }
    name   = any characters but ".", "[" and "]"
    index  = a whole number; a negative one counts from the end

A name steps into a mapping. Into a list it steps where it is all digits, so ``xs.0`` reads like
``xs[0]``. Nothing else can be stepped into: attributes of objects and characters of text are out
of reach.

A key that is written exactly like the whole path wins: in ``{"user.name": "flat", "user": {…}}``
the path ``user.name`` means ``"flat"``. That also makes a key with spaces, slashes or hyphens an
ordinary path of one name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Final

from teff.errors import ConfigError

__all__ = ["MISSING", "Missing", "compile_path", "lookup", "parse_path", "root_key"]


class Missing(Enum):
    """The type of ``MISSING``, for annotations."""

    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"


#: What a path gives where the state holds nothing; compared with ``is``.
MISSING: Final = Missing.MISSING

#: Longer indexes belong to no list, and ``int`` refuses very long texts.
_INDEX_DIGITS = 18
_PART = re.compile(rf"(?:^|(?!^)\.)([^.\[\]]+)|\[(-?[0-9]{{1,{_INDEX_DIGITS}}})\]")


def parse_path(text: str) -> tuple[str | int, ...]:
    """Split a path into its parts: names as text, bracketed indexes as numbers.

    The first part is always a name.

    >>> parse_path("items[0].price")
    ('items', 0, 'price')
    >>> parse_path("xs.0")
    ('xs', '0')

    Raises:
        ConfigError: ``text`` is no path; the message says what was expected where.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or (position == 0 and part[1] is None):
            raise ConfigError(f"{text!r} is not a path: {_expected(text, position)}")
        parts.append(part[1] if part[2] is None else int(part[2]))
        position = part.end()
    if not parts:
        raise ConfigError("a path needs a name, and this one is empty")
    return tuple(parts)


def root_key(text: str) -> str:
    """Return the key of the state that a path starts from.

    >>> root_key("items[0].price")
    'items'

    Raises:
        ConfigError: ``text`` is no path.
    """
    return str(parse_path(text)[0])


def lookup(state: Mapping[str, object], path_text: str, default: object = MISSING) -> object:
    """Return what a path leads to, or ``default`` where the state holds nothing there.

    Where one path is read many times, ``compile_path`` is faster.

    >>> lookup({"user": {"tags": ["new", "paid"]}}, "user.tags[-1]")
    'paid'

    Raises:
        ConfigError: ``path_text`` is no path.
    """
    found = _compiled(path_text)(state)
    return default if found is MISSING else found


def compile_path(text: str) -> Callable[[Mapping[str, object]], object]:
    """Return a function that follows the path in a state, or gives ``MISSING``.

    A path of one name costs what ``state.get`` costs.

    >>> price = compile_path("items[0].price")
    >>> price({"items": [{"price": 5}]}), price({"items": []})
    (5, MISSING)

    Raises:
        ConfigError: ``text`` is no path.
    """
    root, *steps = parse_path(text)
    if not steps:
        return lambda state: state.get(text, MISSING)

    def follow(state: Mapping[str, object]) -> object:
        found = state.get(text, MISSING)
        if found is not MISSING:
            return found
        found = state.get(str(root), MISSING)
        for step in steps:
            if found is MISSING:
                return MISSING
            found = _child(found, step)
        return found

    return follow


_compiled = lru_cache(maxsize=1024)(compile_path)


def _child(value: object, step: str | int) -> object:
    """Step into a mapping or a list; everything else has no children."""
    if isinstance(value, (dict, Mapping)):
        found = value.get(step, MISSING)
        if found is MISSING and isinstance(step, int):
            return value.get(str(step), MISSING)
        return found
    if isinstance(value, (list, tuple)):
        if isinstance(step, str):
            if not (step.isascii() and step.isdigit() and len(step) <= _INDEX_DIGITS):
                return MISSING
            step = int(step)
        return value[step] if -len(value) <= step < len(value) else MISSING
    return MISSING


def _expected(text: str, position: int) -> str:
    """Say what a path needs at a place where it stops making sense."""
    if position == 0:
        return "it starts with a name"
    place = f"at character {position + 1}"
    if text[position] == ".":
        return f"{place}, a name is expected after the dot"
    if text[position] == "[":
        return f"{place}, brackets hold a whole number, as in items[0]"
    return f"{place}, expected '.' or '[' or the end"
