"""Registered names in text: found however they are written, but never inside a longer word."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator

import attrs

__all__ = ["MARKS", "RouteNames", "fold", "folded_name", "route_names", "strip_enclosing"]

#: Stand for names in text whose names were found: one private-use character for each name.
MARKS = "\ue000-\uf8ff"
_FIRST_MARK = 0xE000
_MOST_NAMES = 0xF8FF - _FIRST_MARK + 1

_PRIVATE = re.compile(f"[{MARKS}]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
    "|[\U000e0000-\U000e01ef]"
)
_PUNCTUATION = str.maketrans("\u2018\u2019\u02bc\u2010\u2011\u2012\u2212", "'''----")
_SEPARATORS = re.compile(r"[\s_\-]+")

# Scripts that put no space between words.
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff]"
    "|[\U00020000-\U0003ffff]"
)
_HANGUL = re.compile("[\u1100-\u11ff\uac00-\ud7ff]")

# `non-technical`, `billing's`, `billing.py`, `me@billing`, `R&D`: one word each, whatever it holds.
_GLUE = frozenset("-_'.@&+#")
_HAND_OFF = re.compile(
    r"(?<![^\W_])(?:transfer|hand_?-?off|hand_?over|delegate|route|send|go|switch|assign|forward)"
    r"[_-]?(?:back[_-]?)?to[_-]?$"
)
_HAND_OFF_LENGTH = 24


def fold(text: str) -> str:
    """Return ``text`` in the form in which names are compared: NFKC, casefold, nothing invisible."""
    folded = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold()
    return unicodedata.normalize("NFKC", folded).translate(_PUNCTUATION)


def folded_name(name: str) -> str:
    """Return the form in which two names are the same one, or "" where nothing is left of it.

    >>> folded_name("Code-Reviewer") == folded_name("code_reviewer") == "codereviewer"
    True
    """
    return _squeezed(name) or _squeezed(strip_enclosing(name))


def _squeezed(text: str) -> str:
    return _SEPARATORS.sub("", fold(text))


def strip_enclosing(text: str) -> str:
    """Take spaces, punctuation and symbols off both ends; ``c++`` and ``c#`` keep theirs.

    >>> strip_enclosing("**c++**."), strip_enclosing("#billing!")
    ('c++', 'billing')
    """
    start, end = 0, len(text)
    while start < end and _encloses(text[start]):
        start += 1
    while end > start and _encloses(text[end - 1]) and text[end - 1] not in "+#":
        end -= 1
    return text[start:end]


def _encloses(character: str) -> bool:
    return unicodedata.category(character)[0] in "PSZC"


@attrs.frozen
class RouteNames:
    """The names that a reply may choose from. Made by `route_names`, which keeps those in use."""

    names: tuple[str, ...]
    _patterns: tuple[tuple[re.Pattern[str], str], ...]
    _whole: re.Pattern[str]
    _whole_names: tuple[str, ...]
    _longest: int

    def whole(self, text: str) -> str:
        """Return the name that ``text`` is, whatever encloses it, or ""."""
        text = text.strip()
        if text in self.names:
            return text
        if len(text) > 4 * self._longest + 32:
            return ""
        for reading in (text, strip_enclosing(text)):
            found = self._whole.fullmatch(fold(reading))
            if found and found.lastindex:
                return self._whole_names[found.lastindex - 1]
        return ""

    def last_word(self, text: str) -> str:
        """Return the last word of ``text`` that is a name once its enclosing punctuation is off."""
        words = re.split(r"[\s,:]+", text)
        most = max((len(_SEPARATORS.split(name)) for name in self.names), default=1)
        whole = functools.lru_cache(maxsize=4096)(self.whole)
        for end in range(len(words), 0, -1):
            for size in range(min(most, end), 0, -1):
                if found := whole(" ".join(words[end - size : end])):
                    return found
        return ""

    def mark(self, text: str) -> str:
        """Return ``text`` folded, with the mark of a name in place of each name."""
        text = _PRIVATE.sub(" ", fold(text))
        found: list[tuple[int, int, str]] = []
        taken = bytearray(len(text))
        for pattern, mark in self._patterns:
            for match in pattern.finditer(text):
                start, end = match.span()
                if any(taken[start:end]):
                    continue
                start = _start_of_word(text, start)
                if start < 0 or _goes_on(text, end):
                    continue
                taken[start:end] = b"\x01" * (end - start)
                found.append((start, end, mark))
        return "".join(_replace(text, sorted(found)))

    def found_in(self, text: str) -> bool:
        """Say whether a name stands anywhere in ``text``."""
        return bool(_PRIVATE.search(self.mark(text)))

    def name(self, mark: str) -> str:
        """Return the name that a mark stands for."""
        return self.names[ord(mark) - _FIRST_MARK]


def _replace(text: str, found: list[tuple[int, int, str]]) -> Iterator[str]:
    position = 0
    for start, end, mark in found:
        yield text[position:start]
        yield mark
        position = end
    yield text[position:]


def route_names(names: Iterable[str]) -> RouteNames:
    """Prepare names for being looked for. The order in which they are given plays no part."""
    return _prepared(tuple(sorted(set(names))))


@functools.lru_cache(maxsize=64)
def _prepared(names: tuple[str, ...]) -> RouteNames:
    names = tuple(name for name in names if folded_name(name))[:_MOST_NAMES]
    marks = {name: chr(_FIRST_MARK + number) for number, name in enumerate(names)}
    longest_first = sorted(names, key=lambda name: -len(folded_name(name)))
    # `<end>` alone may be written `end`; inside a sentence it may not.
    readings = [(name, name) for name in longest_first]
    readings += [(strip_enclosing(name), name) for name in longest_first]
    readings = [(reading, name) for reading, name in readings if reading]
    return RouteNames(
        names,
        tuple((re.compile(_pattern(name)), marks[name]) for name in longest_first),
        re.compile("|".join(f"({_pattern(reading)})" for reading, _ in readings) or r"(?!)"),
        tuple(name for _, name in readings),
        max(map(len, names), default=0),
    )


def _pattern(name: str) -> str:
    return r"[\s_\-]{0,3}".join(map(re.escape, _words(name)))


def _words(name: str) -> list[str]:
    """Take a name apart at separators, at the humps of camel case, and at digits."""
    name = unicodedata.normalize("NFKC", name)
    spaced = name[:1]
    for before, character, after in zip(name, name[1:], f"{name[2:]} ", strict=False):
        hump = character.isupper() and (before.islower() or (before.isupper() and after.islower()))
        if hump or (before.isalnum() and character.isalnum() and _changes(before, character)):
            spaced += " "
        spaced += character
    return [word for word in _SEPARATORS.split(fold(spaced)) if word]


def _changes(before: str, character: str) -> bool:
    return before.isdigit() != character.isdigit()


@functools.lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    if not character.isalnum() and unicodedata.category(character)[0] != "M":
        return ""
    if _SPACELESS.match(character):
        return "spaceless"
    return "hangul" if _HANGUL.match(character) else "spaced"


def _start_of_word(text: str, start: int) -> int:
    """Return where the word begins that a name at ``start`` is, or -1 where it is a part of one.

    A hand-off such as ``transfer_to_`` belongs to the name.
    """
    before = text[max(0, start - _HAND_OFF_LENGTH) : start]
    if hand_off := _HAND_OFF.search(before):
        return start - (len(before) - hand_off.start())
    if not before:
        return start
    kind, first = _kind(before[-1]), _kind(text[start])
    if kind:
        joined = "spaceless" not in (kind, first) and (kind == first or not first)
        return -1 if joined else start
    glued = before[-1] in _GLUE and _kind(before[-2:-1] or " ") in ("spaced", "hangul")
    return -1 if glued else start


def _goes_on(text: str, end: int) -> bool:
    """Say whether the word that holds a name goes on after ``end``."""
    after = text[end : end + 2]
    if not after:
        return False
    if after[0] in "+#" or unicodedata.category(after[0])[0] == "M":
        return True
    kind, last = _kind(after[0]), _kind(text[end - 1])
    if after[0].isdigit() and last:
        return True
    if kind:
        return kind == "spaced" and last in ("spaced", "")
    return after[0] in _GLUE and _kind(after[1:] or " ") in ("spaced", "hangul")
