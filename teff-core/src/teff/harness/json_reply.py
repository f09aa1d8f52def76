"""JSON in what a model wrote: within thinking, code fences and other text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import attrs

from teff.harness.strict_json import STRICT_JSON, is_nested_deeper
from teff.harness.thinking import THINKING_MARK, is_opening

__all__ = ["Candidate", "Found", "find_json"]

#: A value that is nested more deeply is refused; no answer needs it, and to walk it takes a stack.
_DEEPEST = 100
#: So many values of one reply are looked at, and so many broken ones are passed over.
_MOST = 64

_MARK = re.compile(
    rf"(?P<thinking>{THINKING_MARK.pattern})"
    r"|(?P<final><\|channel\|>\s*final[^<]{0,200}<\|message\|>)"
    r"|(?P<fence>```[ \t]*(?P<label>\w*))"
    r"|(?P<value>[\[{])"
    r'|(?:^|(?<=[>\]]))[ \t]*(?P<line>"(?:[^"\\\n]|\\.)*+")[ \t]*$',
    re.IGNORECASE | re.MULTILINE,
)
# A text that is never closed reaches to the end, so that every character is passed once.
_TEXT_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
#: How every object and list begins; other brackets belong to the text.
_BEGINS = re.compile(
    r'\{\s*["}]|\[\s*(?:["\[\]{]|-?(?:\d|Infinity)|(?:true|false|null|NaN)\b)', re.ASCII
)


@attrs.frozen(kw_only=True)
class Candidate:
    """A JSON value that stands in a reply.

    Attributes:
        value: plain dicts, lists, text, numbers, truth values and None.
        size: how many characters it takes.
        labelled: whether it stands in a code fence that says ``json``.
    """

    value: Any
    size: int
    labelled: bool = False


@attrs.frozen(kw_only=True)
class Found:
    """What `find_json` found.

    Attributes:
        candidates: every value, those in ``json`` fences first, else in the order of the text;
            values inside of others are none, neither is what stands within thinking.
        text: the text outside of thinking and of values.
        answer: the reply without thinking.
        reason: why what looks like a value is none, or "".
    """

    candidates: tuple[Candidate, ...] = ()
    text: str = ""
    answer: str = ""
    reason: str = ""

    @property
    def longest(self) -> Candidate | None:
        """The longest of the candidates, the labelled ones before the others."""
        return max(self.candidates, key=lambda found: (found.labelled, found.size), default=None)


def find_json(reply: str) -> Found:
    """Return the JSON values of a reply.

    The whole reply is one where it is JSON. Else objects and lists count wherever they begin, and
    texts, numbers, truth values and null where they have a line to themselves. NaN, Infinity and
    numbers beyond the range of a float are not JSON; of a key that is there twice the last value
    counts; line breaks within texts are taken. What stands inside of a value that is broken or never
    closed is no value of its own.

    >>> [found.value for found in find_json('<think>{"n": 0}</think> Sure: {"n": 1}!').candidates]
    [{'n': 1}]

    Args:
        reply: any text; nothing in it makes this raise, and the time grows with its length.
    """
    text = reply.strip().removeprefix("\ufeff").strip()
    try:
        value, end = _decode(text, 0)
    except _NoJson:
        pass
    else:
        if end == len(text):
            return Found(candidates=(Candidate(value=value, size=end),), answer=text)
    scan = _Scan(text)
    scan.run()
    found = sorted(scan.candidates, key=lambda candidate: not candidate.labelled)
    outside = "".join(scan.outside)
    if len(found) < _MOST:
        found += _alone_in_line(outside)
    return Found(
        candidates=tuple(found[:_MOST]),
        text=outside.strip(),
        answer="".join(scan.answer).strip(),
        reason=scan.reason,
    )


class _NoJson(ValueError):
    """There is no JSON value here."""


class _Scan:
    """One walk over a reply, from mark to mark."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.labelled = self.fenced = False
        self.candidates: list[Candidate] = []
        self.outside: list[str] = []
        self.answer: list[str] = []
        self.broken = 0
        self.reason = ""
        self.thinking = -1  # where it begins or ends next, as last looked for

    def run(self) -> None:
        while (mark := _MARK.search(self.text, self.position)) is not None:
            self.keep(self.text[self.position : mark.start()])
            self.position = mark.end()
            if mark["value"]:
                self.read_value(mark.start())
            elif mark["line"]:
                self.keep(mark.group())
            elif mark["fence"]:
                self.fenced = not self.fenced
                self.labelled = self.fenced and mark["label"].lower().startswith("json")
                # An end of a fence may be followed by a word: it belongs to the text.
                self.keep(mark.group(), "\n" if self.fenced else f"\n{mark['label']}")
            elif mark["final"] or not is_opening(mark["thinking"]):
                self.candidates.clear()  # all of it was thinking, opened in the prompt
                self.outside.clear()
                self.answer.clear()
                self.reason = ""
                self.labelled = self.fenced = False
            else:
                self.skip_thinking()
        self.keep(self.text[self.position :])

    def keep(self, written: str, outside: str | None = None) -> None:
        """Count a text to the answer, and to what is outside of values."""
        self.answer.append(written)
        self.outside.append(written if outside is None else outside)

    def read_value(self, start: int) -> None:
        if _BEGINS.match(self.text, start) is None:
            self.keep(self.text[start])
            return
        try:
            value, self.position = _decode(self.text, start)
        except _NoJson as error:
            self.reason = self.reason or str(error)
            self.skip_broken(start)
            self.keep(self.text[start : self.position], "")
            return
        self.keep(self.text[start : self.position], " ")
        if len(self.candidates) < _MOST:
            size = self.position - start
            self.candidates.append(Candidate(value=value, size=size, labelled=self.labelled))

    def skip_broken(self, start: int) -> None:
        """Go on after the end of a broken value, or where thinking begins or ends."""
        self.broken += 1
        if self.broken > _MOST:
            self.position = len(self.text)
            return
        stop = self.next_thinking(start + 1)
        depth = 0
        for part in _TEXT_OR_BRACKET.finditer(self.text, start, stop):
            if part.group() in "[{":
                depth += 1
            elif part.group() in "]}":
                depth -= 1
                if depth == 0:
                    self.position = part.end()
                    return
        self.position = stop

    def next_thinking(self, start: int) -> int:
        """Return where thinking begins or ends next, or the end of the text."""
        # The place that an earlier search found is still the next, so the text is searched once.
        if self.thinking < start:
            marks = _MARK.finditer(self.text, start)
            places = (mark.start() for mark in marks if _is_thinking(mark))
            self.thinking = next(places, len(self.text))
        return self.thinking

    def skip_thinking(self) -> None:
        depth = 1
        for mark in _MARK.finditer(self.text, self.position):
            if mark["final"]:
                depth = 0
            elif _is_thinking(mark):
                depth += 1 if is_opening(mark["thinking"]) else -1
            if depth == 0:
                self.position = mark.end()
                return
        self.position = len(self.text)


def _is_thinking(mark: re.Match[str]) -> bool:
    return mark["thinking"] is not None or mark["final"] is not None


def _alone_in_line(text: str) -> Iterator[Candidate]:
    for line in text.split("\n"):
        written = line.strip().strip("`").strip()
        if not written or written[0] not in '"-0123456789tfn':
            continue
        try:
            value, end = _decode(written, 0)
        except _NoJson:
            continue
        if end == len(written):
            yield Candidate(value=value, size=end)


def _decode(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value that begins at ``start``, and its end."""
    try:
        value, end = STRICT_JSON.raw_decode(text, start)
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at").replace("Expecting", "expected")
        shown = text[max(0, error.pos - 20) : error.pos + 20]
        raise _NoJson(f"{reason} near {shown!r}") from None
    except RecursionError:
        raise _NoJson("it is nested too deeply") from None
    except ValueError as error:
        raise _NoJson(str(error)) from None
    if is_nested_deeper(value, _DEEPEST):
        raise _NoJson("it is nested too deeply")
    return value, end
