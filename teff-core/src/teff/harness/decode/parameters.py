"""Arguments that are written as tags with text between them, whatever the tags are called."""

from __future__ import annotations

import re
from typing import Any

import attrs

from teff.harness.decode.place import Place, Reading
from teff.harness.decode.values import Broken, Unfinished

__all__ = ["Tags", "read_parameters", "without_line_ends"]

_MOST = 256


@attrs.frozen(kw_only=True)
class Tags:
    """How the tags of one syntax are written.

    Attributes:
        opening: of a parameter. Has the group ``key``, and may have ``is_text``: ``true`` for a text
            as it stands, ``false`` for JSON.
        closing: of a parameter.
        next: how the next opening begins.
        ends: what ends the call.
    """

    opening: re.Pattern[str]
    closing: str
    next: str
    ends: tuple[str, ...]


def read_parameters(place: Place, name: str, tags: Tags) -> Reading | None:
    """Read the object of the arguments, or parameters and the end of their call.

    None where something else stands here.

    A closing tag within a text is text, unless a parameter or the end of the call follows it.

    Raises:
        Unfinished: the call has no end.
        Broken: something else stands between or behind the parameters, or one is not closed.
    """
    if place.is_at_object():
        value = place.value()
        place.end_fence()
        return place.reading(place.offered.call(name, value))
    known = place.offered.known(name) or ""
    arguments: dict[str, Any] = {}
    place.skip()
    while not place.take(*tags.ends):
        if place.is_at_end:
            raise Unfinished
        opening = place.match(tags.opening, longest=200)
        if opening is None or len(arguments) == _MOST:
            if not arguments:
                return None
            raise Broken(place.position)
        key = opening["key"].strip()
        kind = opening["is_text"] if "is_text" in opening.re.groupindex else None
        text = _read_text(place, tags)
        arguments[key] = place.offered.typed(known, key, text, is_text=kind)
        place.skip()
    return place.reading(place.offered.call(name, arguments))


def _read_text(place: Place, tags: Tags) -> str:
    start = place.position
    while True:
        end = place.find(tags.closing)
        place.position = end + len(tags.closing)
        after = place.at(place.position)
        after.skip()
        if after.is_at_end or after.take(tags.next, *tags.ends):
            text = place.text[start:end]
            # An opening within a text is text where it is closed there, else a closing was left out.
            if text.count(f"\n{tags.next}") > text.count(tags.closing):
                raise Broken(place.position)
            return without_line_ends(text)


def without_line_ends(text: str) -> str:
    r"""Return a text without the one line end at its start and the one at its end.

    >>> without_line_ends("\n  two\nlines\n")
    '  two\nlines'
    """
    text = text.removeprefix("\r").removeprefix("\n")
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
