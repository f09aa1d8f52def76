"""The marks at which a walk over a reply stops, and how they may begin at the end of a piece."""

from __future__ import annotations

import re
from typing import Final

from teff.harness.decode.bare import BARE_JSON, MAY_BE_BARE_JSON
from teff.harness.decode.place import CLOSINGS, RESULTS, any_of, beginning_of, prefixes
from teff.harness.decode.react import ACTION, ANSWER, OBSERVATION
from teff.harness.decode.table import OPENINGS
from teff.harness.thinking import THINKING_MARK, THINKING_MARKS
from teff.harness.turn_marks import OTHER_TURNS

__all__ = [
    "AT_LINE",
    "FENCE",
    "LONGEST_MARK",
    "MARK",
    "MAY_BE_LINE",
    "MOST_MARKS",
    "PLAIN",
    "REST_OF_LINE",
    "SPACE_ONLY",
    "certain_end",
    "common_end",
]

#: So many marks of one reply are looked at; what follows them is text.
MOST_MARKS: Final = 2_000

LINE = rf"(?:(?P<action>{ACTION})|(?P<answer>{ANSWER})|(?P<observation>{OBSERVATION}))"
MARK = re.compile(
    rf"(?P<thinking>(?i:{THINKING_MARK.pattern}))|(?P<closing>{any_of(CLOSINGS)})"
    rf"|(?P<result>{any_of(RESULTS)})|(?P<opening>{any_of(OPENINGS)})|(?P<turn>{any_of(OTHER_TURNS)})"
    rf"|(?P<comment><!--)|(?P<fence>`{{3,}}+|~{{3,}}+)|(?P<bare>{BARE_JSON})|(?P<list>\[\s{{0,20}}+(?=[^\W\d][\w.-]{{0,127}}+\())"
    rf"|(?P<line>\n(?={LINE}))"
)
AT_LINE = re.compile(LINE)
SPACE_ONLY = re.compile(r"\s*+\Z")
FENCE = re.compile(r"`{3,}+|~{3,}+")
REST_OF_LINE = re.compile(r"[ \t\r]*+(?:\n|\Z)")

LITERALS: Final = (*THINKING_MARKS, *CLOSINGS, *RESULTS, *OPENINGS, *OTHER_TURNS)
BEGINNINGS = prefixes((*LITERALS, "```", "~~~", "<!--"))
LONGEST_MARK = max(map(len, LITERALS))
LINE_BEGINNING = (
    r"[ \t>#*_`-]{0,8}"
    rf"(?:(?i:{'|'.join(map(beginning_of, ('action', 'final answer', 'final_answer', 'finalanswer')))}"
    rf"|{beginning_of('observation')}))?[ \t*_`]{{0,4}}\Z"
)
MAY_BEGIN = re.compile(
    rf"{MAY_BE_BARE_JSON}|\[\s{{0,20}}+(?:[^\W\d][\w.-]{{0,127}}+)?+\Z"
    rf"|\n{LINE_BEGINNING}"
)
#: No mark begins in it, nor at its end: ``functools`` and ``to=`` are the only ones with a letter.
PLAIN = re.compile(r"(?:[^<\[{`~\n>\]\u25c1\u273fft]|f(?!u|\Z)|t(?!o|\Z)|to(?!=|\Z))*+\Z")
MAY_BE_LINE = re.compile(LINE_BEGINNING)


def common_end(text: str, mark: str) -> int:
    """Return how many characters at the end of a text are the beginning of a mark."""
    lengths = range(min(len(mark) - 1, len(text)), 0, -1)
    return next((length for length in lengths if text.endswith(mark[:length])), 0)


def certain_end(text: str, position: int) -> int:
    """Return where a mark may begin that has not wholly come yet, in what follows ``position``."""
    lengths = range(min(LONGEST_MARK, len(text) - position), 0, -1)
    length = next((length for length in lengths if text[-length:].lower() in BEGINNINGS), 0)
    partial = MAY_BEGIN.search(text, max(position, len(text) - 200))
    end = len(text) - length
    return min(end, partial.start()) if partial is not None else end
