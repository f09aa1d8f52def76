"""A reply taken apart into clauses, and what each says of the names in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs

from teff.node.routing import words
from teff.node.routing.names import MARKS

__all__ = ["Clause", "clauses_of", "is_decision_label", "is_remark_label"]

_MARK = re.compile(f"[{MARKS}]")
_ARROW = re.compile(r"[-=]{1,3}>|[\u2192\u21d2\u279c\u27a1]")
_BOUNDARY = re.compile(r"([()]|[;!?\u3002\u2022|{}\[\]<>]+|\.+(?=[\"'*_\s]|$))")
_PART = re.compile(r"(,|\u3001|:|=|\s[-\u2013\u2014]+\s|[\u2013\u2014]+)")
_TOKEN = re.compile(r"[^\W_]+")


@attrs.define
class Clause:
    """One statement.

    Attributes:
        text: in folded form, with marks for names.
        chosen: the marks of the names that it does not deny.
        label: the number of the decision label that it stands under, or 0.
        remark: it stands under a label that announces something else.
        aside: it stands in parentheses.
        asks: it is a question.
    """

    text: str
    chosen: frozenset[str]
    label: int = 0
    remark: bool = False
    aside: bool = False
    asks: bool = False

    @property
    def denied(self) -> frozenset[str]:
        """The marks of the names that it denies."""
        return frozenset(_MARK.findall(self.text)) - self.chosen

    @property
    def bare(self) -> bool:
        """Whether nothing but names is said."""
        return bool(self.chosen) and all(
            token in words.FILLERS or (token.isdigit() and len(token) < 4)
            for token in _TOKEN.findall(self.text)
        )

    @property
    def pointed_at(self) -> bool:
        """Whether a cue points at the one name that it chooses."""
        if len(self.chosen) != 1:
            return False
        (mark,) = self.chosen
        before, _, after = self.text.partition(mark)
        return bool(words.BEFORE_NAME.search(before[-120:]) or words.AFTER_NAME.match(after))

    @property
    def says_why(self) -> bool:
        """Whether it only gives a reason or a condition."""
        return bool(words.SUBORDINATE.match(self.text.lstrip(" \"'*_")))

    @property
    def closing(self) -> bool:
        """Whether it is empty, or politeness."""
        return not self.chosen and (
            not _TOKEN.search(self.text) or bool(words.CLOSING.match(self.text))
        )

    @property
    def alternative(self) -> bool:
        """Whether it goes on with the choice of the clause before it."""
        return bool(words.OTHERWISE.match(self.text.lstrip(" \"'*_")))


def is_decision_label(text: str) -> bool:
    """Say whether a label, a key or a tag announces the answer."""
    return not is_remark_label(text) and _holds_any(text, words.DECISION)


def is_remark_label(text: str) -> bool:
    """Say whether a label, a key or a tag announces something that is not the answer."""
    return _holds_any(text, words.REMARK)


def _holds_any(text: str, known: frozenset[str]) -> bool:
    return any(
        word in known
        or (not word.isascii() and any(part in word for part in known if _is_han(part)))
        for word in words.words_of(text)
    )


def _is_han(text: str) -> bool:
    return text >= "\u2e80"


def clauses_of(text: str) -> list[Clause]:
    """Take a folded and marked text apart. What is under a label says so."""
    found: list[Clause] = []
    labels = 0
    for phrase, meaning in words.PHRASES:
        text = phrase.sub(meaning, text)
    text = _ARROW.sub(":", text)
    for line in text.splitlines():
        label, remark, depth = 0, False, 0
        for sentence, boundary in _pairs(_BOUNDARY.split(line)):
            here: list[Clause] = []
            for part, separator in _parts(sentence):
                named = _MARK.search(part)
                if separator in (":", "=") and not named:
                    remark = is_remark_label(part)
                    labels += 1
                    label = labels if is_decision_label(part) else 0
                    continue
                asks = "?" in boundary
                here.append(Clause(part, _chosen(part), label, remark, depth > 0, asks))
                if separator in (":", "=") and named:
                    here[-1] = _under_its_value(here[-1], sentence)
            if found and here and here[0].alternative:
                here.insert(0, found.pop())  # "... Or technical?"
            found += _joined(here, is_plan=bool(words.PLAN.search(sentence)))
            if boundary in ("(", ")"):
                depth = max(0, depth + (1 if boundary == "(" else -1))
            else:
                label = 0
    return found


def _pairs(pieces: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield from zip(pieces[::2], [*pieces[1::2], ""], strict=True)


def _parts(sentence: str) -> Iterator[tuple[str, str]]:
    """Split at commas, dashes and labels, and before conjunctions; give each with what follows it."""
    for part, separator in _pairs(_PART.split(sentence)):
        starts = [match.start() for match in words.CONJUNCTION.finditer(part)]
        edges = [0, *(start for start in starts if part[:start].strip()), len(part)]
        for start, end in pairwise(edges):
            yield part[start:end], separator if end == len(part) else ""


def _chosen(text: str) -> frozenset[str]:
    """Return the marks in a clause that are not denied."""
    text = words.NO_DENIAL.sub(" ", text)
    marks = list(_MARK.finditer(text))
    if not marks:
        return frozenset()
    denials = [match.start() for match in words.DENIAL.finditer(text)]
    first_denial = denials[0] if denials else len(text)
    chosen = set()
    for mark in marks:
        if first_denial < mark.start() or words.DENIAL_AFTER.match(text, mark.end()):
            continue
        if mark is marks[-1] and words.COMPLETED.search(text, mark.end()):
            continue
        chosen.add(mark.group())
    return frozenset(chosen)


def _under_its_value(clause: Clause, sentence: str) -> Clause:
    """Deny ``finish`` in ``finish: false``."""
    value = sentence.partition(clause.text)[2].lstrip(" :=")
    if words.FALSY.fullmatch(value.partition(",")[0]):
        return attrs.evolve(clause, chosen=frozenset())
    return clause


def _joined(clauses: list[Clause], *, is_plan: bool) -> list[Clause]:
    """Join the clauses of a sentence that make one choice together: lists, alternatives, plans."""
    joined: list[Clause] = []
    for clause in clauses:
        before = joined[-1] if joined else None
        if before is None or before.label != clause.label or before.remark != clause.remark:
            joined.append(clause)
        elif (
            clause.bare
            and _denies_many(before)
            and not words.CONJUNCTION.match(clause.text.lstrip())
        ):
            before.text += f", {clause.text}"
        elif is_plan or clause.alternative or (clause.bare and before.bare):
            before.text += f", {clause.text}"
            before.chosen = (
                _chosen(before.text) if clause.alternative else before.chosen | clause.chosen
            )
        else:
            joined.append(clause)
    return joined


def _denies_many(clause: Clause) -> bool:
    return bool(clause.denied and not clause.chosen and words.DENIAL_OF_MANY.search(clause.text))
