"""Functionary 2 and 3.2: a recipient, then its JSON; the recipient ``all`` is the user.

Source: https://github.com/MeetKai/functionary, the prompt templates v2 and v3.
"""

from __future__ import annotations

import re

from teff.harness.decode.place import NAME, Place, Reading

__all__ = ["read_recipient", "read_recipient_line"]

_LINE = re.compile(rf"[ ]?(?P<name>{NAME})[ \t\r]{{0,8}}+\n")
_TOKENS = re.compile(rf"[ ]?(?P<name>{NAME})\s{{0,8}}+<\|content\|>")


def read_recipient_line(place: Place) -> Reading | None:
    """Read a name that has the rest of its line, and an object."""
    return _read(place, _LINE)


def read_recipient(place: Place) -> Reading | None:
    """Read a name, ``<|content|>`` and an object."""
    return _read(place, _TOKENS)


def _read(place: Place, pattern: re.Pattern[str]) -> Reading | None:
    if (head := place.match(pattern)) is None:
        return None
    is_for_user = head["name"] == "all" and "all" not in place.offered.names
    if is_for_user and not place.before.strip():
        return Reading(place.position, is_markup=True)
    if not place.is_at_object():
        return None
    arguments = place.value()
    return place.reading(place.offered.call(head["name"], arguments))
