"""gpt-oss (Harmony): ``to=functions.name`` in the head of a message, its JSON behind ``<|message|>``.

Source: https://cookbook.openai.com/articles/openai-harmony.
"""

from __future__ import annotations

import re

from teff.harness.decode.place import NAME, Place, Reading
from teff.harness.decode.values import Unfinished

__all__ = ["read_harmony", "read_harmony_head"]

_CALL = re.compile(
    rf"(?P<name>{NAME})(?:\s*+<\|channel\|>\s*+\w{{1,16}}+)?+(?:\s*+<\|constrain\|>)?+"
    r"\s*+(?:json|code)?+\s*+(?:<\|message\|>)?+\s*+(?=[{`])"
)
_TO = re.compile(r"(?:<\|start\|>|<\|channel\|>|assistant|[\s\w]){0,12}?\sto=(?:functions\.)?")
_HEAD = re.compile(r"\s{0,4}+(?P<channel>\w{1,16}+)[^<>]{0,40}+<\|message\|>")
_END = re.compile(r"<\|(?:end|start|channel|call|return)\|>")


def read_harmony(place: Place) -> Reading | None:
    """Read the rest of a head behind ``to=functions.``, and an object."""
    if (head := place.match(_CALL, longest=260)) is None or not place.is_at_object():
        return None
    arguments = place.value()
    return place.reading(place.offered.call(head["name"], arguments))


def read_harmony_head(place: Place) -> Reading | None:
    """Read a message from its head on, where it calls something; what is analysis is no text."""
    start = place.position
    if place.match(_TO) is not None:
        return read_harmony(place)
    place.position = start
    place.take("<|channel|>")
    if (head := place.match(_HEAD)) is None:
        return None
    if head["channel"] == "analysis":
        if (end := _END.search(place.text, place.position)) is None:
            raise Unfinished
        place.position = end.end() if end.group() == "<|end|>" else end.start()
    return Reading(place.position, is_markup=True)
