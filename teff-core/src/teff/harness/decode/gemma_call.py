"""``call:name{key:value}`` with texts between tokens of their own: FunctionGemma, Gemma 4.

Source: https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices.
"""

from __future__ import annotations

import re
from typing import Any, Final

from teff.harness.decode.place import NAME, Place, Reading
from teff.harness.decode.values import DEEPEST, Broken, whole_value

__all__ = ["read_gemma_call"]

_HEAD = re.compile(rf"\s{{0,20}}+call:(?P<name>{NAME})(?=\{{)")
_QUOTES: Final = ("<escape>", '<|"|>', '"')
_KEY = re.compile(r"\s{0,20}+(?P<key>[^\s<>{}\[\]:,\"|]{1,128}+)\s{0,8}+:\s{0,8}+")
_BARE = re.compile(r"[^\s<>{}\[\]:,\"|]{1,4000}+")


def read_gemma_call(place: Place) -> Reading | None:
    """Read ``call:``, a name and its arguments between braces."""
    if (head := place.match(_HEAD)) is None:
        return None
    arguments = _value(place, 0)
    return place.reading(place.offered.call(head["name"], arguments))


def _value(place: Place, depth: int) -> Any:
    place.skip()
    if depth > DEEPEST:
        raise Broken(place.position)
    if quote := place.take(*_QUOTES):
        end = place.find(quote)
        text = place.text[place.position : end]
        place.position = end + len(quote)
        return text
    if place.take("{"):
        return dict(_pairs(place, depth))
    if place.take("["):
        items: list[Any] = []
        while not _is_over(place, "]", items):
            items.append(_value(place, depth + 1))
        return items
    if (bare := _BARE.match(place.text, place.position)) is None:
        raise place.missing()
    place.position = bare.end()
    try:
        return whole_value(bare.group())
    except ValueError:
        return bare.group()


def _pairs(place: Place, depth: int) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    while not _is_over(place, "}", pairs):
        if (key := place.match(_KEY)) is None:
            raise place.missing()
        pairs.append((key["key"], _value(place, depth + 1)))
    return pairs


def _is_over(place: Place, closing: str, items: list[Any]) -> bool:
    """Pass the closing sign, or the comma before the next item."""
    place.skip()
    if place.take(closing):
        return True
    if items:
        if not place.take(","):
            raise place.missing()
        place.skip()
        return bool(place.take(closing))
    return False
