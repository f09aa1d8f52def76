"""Calls that a reply only speaks of: quoted, documented, or in the middle of a sentence.

What a model repeats from a page or a manual was not asked for by the model itself.
"""

from __future__ import annotations

import re
from typing import Final

from teff.harness.decode.place import CLOSINGS, RESULTS, Place, Reading, any_of, prefixes
from teff.harness.decode.react import read_react
from teff.harness.decode.table import OPENINGS
from teff.harness.decode.values import Unfinished
from teff.harness.thinking import THINKING_MARK, THINKING_MARKS
from teff.harness.turn_marks import OTHER_TURNS

__all__ = [
    "HEAD",
    "goes_on",
    "is_documented",
    "is_in_quotes",
    "is_indented",
    "is_quotation",
    "is_within_sentence",
    "read_spoken_action",
    "without_calls",
]

#: So many signs at the start of a line say whether it is quoted.
HEAD: Final = 8

_QUOTATION = re.compile(r" {0,3}>(?!>>)")
_INDENTED = re.compile(r" {4}| {0,3}\t")

_BEFORE_QUOTE: Final = r"(?:\A|[\s(\[{:,=\\])"
_DIRECTLY = re.compile(
    rf"(?:{_BEFORE_QUOTE}[\"'\u201c-\u201e\u2018\u2019\u00ab\u00bb]|[\u300c\u300e])\s*\Z"
)
_NOT_CLOSED = re.compile(
    rf"(?:{_BEFORE_QUOTE}[\"\u201c-\u201e\u00ab\u00bb]|[\u300c\u300e])(?=\S)"
    r"[^\"\u201c\u201d\u00ab\u00bb\u300d\u300f]*\Z"
)
_DOCUMENTED = re.compile(
    r"(?:\b(?:format|syntax|notation|template|example)(?:[ ]\w{1,20}){0,4}?(?:[ ](?:is|are))?"
    r"|\blooks?[ ]like(?:[ ]this|[ ]the[ ]following)?"
    r"|\b(?:for[ ](?:example|instance)|such[ ]as)|\be\.g\.)\s?[:,]?\s*\Z",
    re.IGNORECASE,
)
_IN_SENTENCE = re.compile(r"[\w,;)]['\"]?[ \t]+\Z")
_CLOSINGS = re.compile(rf"(?:\s*+(?:{any_of(CLOSINGS)}))*+")
_LOWER = re.compile(r"[ \t]*+(?:[a-z\u00df-\u00f6\u00f8-\u00ff\u0430-\u044f]|,[ ])")

_SEPARATORS = re.compile(r"[ \t,;}\])]*+")
_MARKS: Final = (*CLOSINGS, *RESULTS, *OPENINGS, *THINKING_MARKS, *OTHER_TURNS, "```", "~~~")
_STOPS = re.compile(
    rf"\Z|[\r\n{{\[]|{any_of(dict.fromkeys(_MARKS))}|(?i:{THINKING_MARK.pattern})"
    r"|[*_]{0,2}(?i:observation|thought|final answer|pause|action)"
)
_BEGINNINGS = prefixes((*_MARKS, "**observation", "thought", "final answer", "pause", "action"))
_LONGEST = max(map(len, _MARKS))
_ENDS = re.compile(rf"(?:{any_of(CLOSINGS)})\Z")
_LONGEST_CLOSING = max(map(len, CLOSINGS))


def is_quotation(head: str) -> bool:
    """Say whether a line that begins so is a quotation: ``> ``."""
    return _QUOTATION.match(head) is not None


def is_indented(head: str) -> bool:
    """Say whether a line that begins so is one of an indented block of code."""
    return _INDENTED.match(head) is not None


def is_in_quotes(before: str) -> bool:
    """Say whether what follows a text stands in quotes, by its last paragraph."""
    if _DIRECTLY.search(before) is not None:
        return True
    return _NOT_CLOSED.search(before.rpartition("\n\n")[2]) is not None


def is_documented(before: str) -> bool:
    """Say whether a text says at its end that what follows is an example."""
    return _DOCUMENTED.search(before[-160:]) is not None


def is_within_sentence(place: Place, end: int) -> bool:
    """Say whether a call that ends at ``end`` is a part of a sentence that begins before it."""
    if _IN_SENTENCE.search(place.before[-8:]) is None:
        return False
    behind = place.at(end)
    behind.skip(_CLOSINGS)
    rest = place.text[behind.position : behind.position + _LONGEST].lower().lstrip()
    if not place.final and (len(rest) < 2 or rest in _BEGINNINGS):
        raise Unfinished
    return _LOWER.match(place.text, behind.position) is not None


def goes_on(place: Place, end: int) -> bool:
    """Say whether prose goes on in the line behind a call that no closing mark ends."""
    if (
        _ENDS.search(place.text[max(0, end - _LONGEST_CLOSING) : end])
        or place.text[end - 1] in "\r\n"
    ):
        return False
    behind = place.at(end)
    behind.skip(_SEPARATORS)
    rest = place.text[behind.position : behind.position + _LONGEST].lower()
    if not place.final and (not rest or rest in _BEGINNINGS):
        raise Unfinished
    return _STOPS.match(place.text, behind.position) is None


def without_calls(reading: Reading | None) -> Reading | None:
    """Return what was read as text that calls nothing."""
    return Reading(reading.end) if reading is not None else None


def read_spoken_action(place: Place) -> Reading | None:
    """Read an action of the text protocol, which is no call where the sentence goes on."""
    reading = read_react(place)
    if reading is not None and reading.calls and goes_on(place, reading.end):
        return without_calls(reading)
    return reading
