"""What conditions allow together: is there a state in which these hold, and those do not?

The conditions are not executed on states that somebody has: for each key a few values stand for all
that its tests can tell apart (the values that they name, what lies between them, nothing, the empty
values, words that say no, …), and the combinations are searched. What a function or ``contains``
says counts as free, so an answer of "no such state" is a proof, and a state that is found may be
one that never occurs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from teff.conditions import (
    And,
    Compare,
    Condition,
    Contains,
    In,
    Key,
    Not,
    Or,
    Truthy,
    compile_condition,
)
from teff.paths import MISSING, parse_path

__all__ = ["Formula", "Possibilities", "TooManyCombinations"]

#: A condition, or a function of the state, or None: always.
Formula: TypeAlias = Condition | Callable[..., Any] | None
_Leaf: TypeAlias = Truthy | Compare | In | Contains | Callable[..., Any]
#: For each variable what its tests say; None where that is not chosen yet.
_Said: TypeAlias = list[tuple[bool, ...] | None]
_Ask: TypeAlias = Callable[[_Said], bool | None]

#: How many combinations are looked at.
_MOST_COMBINATIONS = 20_000
#: How many questions are asked of the values of one key.
_MOST_QUESTIONS = 1_000_000
#: The words by which a lone key says no.
_NEGATIVE = ("no", "false", "n", "off", "none", "null")


class TooManyCombinations(Exception):
    """It takes too long to find out."""


@attrs.frozen
class _Variable:
    """Something the tests look at.

    Attributes:
        name: for people; "" for what is free and has no name.
        tests: the leaves of the conditions that look at it.
        kinds: what each of the tests says, for each kind of value, with the kind in words.
    """

    name: str
    tests: tuple[_Leaf, ...]
    kinds: tuple[tuple[tuple[bool, ...], str], ...]


class Possibilities:
    """The states that some conditions can tell apart.

    Args:
        formulas: all conditions that will be asked about.
        closed: the only values of some keys.

    Raises:
        TooManyCombinations: a key is compared with too many values.

    >>> from teff.conditions import parse
    >>> one, other, rest = parse("kind=a"), parse("kind=b"), parse("kind!=a,b")
    >>> states = Possibilities([one, other, rest])
    >>> states.find(fails=[one, other]), states.find(fails=[one, other, rest])
    ({'kind': 'is missing'}, None)
    """

    def __init__(
        self,
        formulas: Iterable[Formula],
        closed: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        formulas = list(formulas)
        self._variables = _variables(formulas, closed or {})
        places = {
            test: (number, place)
            for number, variable in enumerate(self._variables)
            for place, test in enumerate(variable.tests)
        }
        self._asked = {formula: _ask(formula, places) for formula in formulas}
        self._looks_at = {
            formula: {places[leaf][0] for leaf in _leaves(formula)} for formula in formulas
        }

    def find(
        self, *, holds: Iterable[Formula] = (), fails: Iterable[Formula] = ()
    ) -> dict[str, str] | None:
        """Return a state in which all of ``holds`` are true and all of ``fails`` false.

        Returns:
            What it holds, in words, by key; keys that do not matter are left out. None where there
            is no such state.

        Raises:
            TooManyCombinations: it takes too long to find out.
        """
        wanted = [(formula, True) for formula in holds] + [(formula, False) for formula in fails]
        numbers = sorted({number for formula, _ in wanted for number in self._looks_at[formula]})
        asked = [(self._asked[formula], value) for formula, value in wanted]
        return _Search(asked, self._variables, numbers).choose(0, {})


class _Search:
    """Chooses the kind of one variable after the other, until the conditions are decided."""

    def __init__(
        self,
        asked: Sequence[tuple[_Ask, bool]],
        variables: Sequence[_Variable],
        numbers: Sequence[int],
    ) -> None:
        self._asked = asked
        self._variables = variables
        self._numbers = numbers
        self._said: _Said = [None] * len(variables)
        self._left = _MOST_COMBINATIONS

    def choose(self, depth: int, chosen: dict[str, str]) -> dict[str, str] | None:
        """Return the first state that fits what is chosen, or None."""
        self._left -= 1
        if self._left < 0:
            raise TooManyCombinations
        undecided = False
        for ask, wanted in self._asked:
            value = ask(self._said)
            if value is None:
                undecided = True
            elif value is not wanted:
                return None
        if not undecided:
            return chosen
        number = self._numbers[depth]
        variable = self._variables[number]
        for says, words in variable.kinds:
            self._said[number] = says
            named = {**chosen, variable.name: words} if variable.name else chosen
            found = self.choose(depth + 1, named)
            if found is not None:
                return found
        self._said[number] = None
        return None


def _ask(formula: Formula, places: Mapping[_Leaf, tuple[int, int]]) -> _Ask:
    """Return a function that says what a formula is, as far as its variables are known."""
    match formula:
        case None:
            return lambda said: True
        case Not(operand):
            ask = _ask(operand, places)
            return lambda said: None if (value := ask(said)) is None else not value
        case And(operands) | Or(operands):
            return _all_or_any([_ask(operand, places) for operand in operands], formula)
    number, place = places[formula]
    return lambda said: None if (says := said[number]) is None else says[place]


def _all_or_any(asks: Sequence[_Ask], formula: And | Or) -> _Ask:
    decisive = isinstance(formula, Or)

    def ask(said: _Said) -> bool | None:
        result: bool | None = not decisive
        for each in asks:
            value = each(said)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return ask


def _leaves(formula: Formula) -> Iterator[_Leaf]:
    match formula:
        case None:
            return
        case Not(operand):
            yield from _leaves(operand)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _leaves(operand)
        case _:
            yield formula


def _variables(
    formulas: Iterable[Formula], closed: Mapping[str, Collection[str]]
) -> list[_Variable]:
    """Sort the leaves of formulas by what they look at."""
    by_key: dict[tuple[bool, str], list[Truthy | Compare | In]] = {}
    free: list[_Variable] = []
    leaves = itertools.chain.from_iterable(map(_leaves, formulas))
    for leaf in dict.fromkeys(leaves):
        if _is_free(leaf):
            free.append(_Variable("", (leaf,), (((True,), ""), ((False,), ""))))
        elif isinstance(leaf, Truthy | Compare | In):
            by_key.setdefault(_place(leaf.key), []).append(leaf)
    keyed = [
        _Variable(key, tuple(tests), _kinds(tests, None if is_path else closed.get(key)))
        for (is_path, key), tests in by_key.items()
    ]
    return [*keyed, *free]


def _is_free(leaf: _Leaf) -> bool:
    """Say whether nothing is assumed of a test: functions, ``contains``, the order of exact text."""
    if isinstance(leaf, Compare) and leaf.operator in (">", ">=", "<", "<="):
        return leaf.values[0].quoted and _number(leaf.values[0].text) is None
    return not isinstance(leaf, Truthy | Compare | In)


def _place(key: Key) -> tuple[bool, str]:
    """Return whether a key is a path of several parts, and its text."""
    return (not key.quoted and len(parse_path(key.text)) > 1, key.text)


def _kinds(
    tests: Sequence[Truthy | Compare | In], closed: Collection[str] | None
) -> tuple[tuple[tuple[bool, ...], str], ...]:
    """Return what the tests say of every kind of value that they tell apart."""
    name = "key"
    asked = [compile_condition(attrs.evolve(test, key=Key(name, quoted=True))) for test in tests]
    kinds: dict[tuple[bool, ...], str] = {}
    samples = dict.fromkeys(_samples(tests) if closed is None else closed)
    if len(samples) * len(tests) > _MOST_QUESTIONS:
        raise TooManyCombinations
    for value in samples:
        state = {} if value is MISSING else {name: value}
        kinds.setdefault(tuple(test(state) for test in asked), _in_words(value))
    return tuple(kinds.items())


class _Thing:
    """A value that is neither text nor a number, is compared by its text, and looks like no number."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def _samples(tests: Iterable[Truthy | Compare | In]) -> Iterator[object]:
    """Give values of which every other one is like one, as far as the tests can tell."""
    named = [value.text for test in tests if not isinstance(test, Truthy) for value in test.values]
    texts = list(dict.fromkeys(text for text in named if text))
    yield MISSING
    yield from ("something else", None, "", (), True, False, 1, 0)
    yield from texts
    numbers = sorted({number for text in texts if (number := _number(text)) is not None})
    yield from ((0,), " ", "\0", "\U0010ffff", math.nan, math.inf, -math.inf)
    for text in (*texts, *_NEGATIVE):
        for variant in (text, text.casefold(), text.upper(), text.swapcase()):
            yield from (variant, f"{variant}.", f"{variant}\0", f"{variant.strip()}\0")
            if _number(variant) is None:
                yield from (_Thing(variant), _Thing(f"{variant}."))
    yield _Thing("")
    yield _Thing("something else")
    yield from _around(numbers)


def _around(numbers: Sequence[int | float]) -> Iterator[object]:
    """Give numbers at, between, below and above those that are named, in every way to write them."""
    for number in numbers:
        yield from (number, str(number))
        if abs(number) < 2**53:
            yield from (int(number), float(number), str(float(number)))
    for low, high in itertools.pairwise(numbers):
        yield low + (high - low) // 2 if isinstance(high - low, int) else low + (high - low) / 2
        if abs(low) < 2**53:
            yield low + min(0.5, (high - low) / 2)
    if numbers:
        yield numbers[0] - max(1, abs(numbers[0]))
        yield numbers[-1] + max(1, abs(numbers[-1]))


def _number(text: str) -> int | float | None:
    """Return the number that a value of a condition looks like, or None."""
    text = text.strip().rstrip(".,!?;: ")
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        return number if math.isfinite(number) else None
    return None


def _in_words(value: object) -> str:
    if value is MISSING:
        return "is missing"
    if isinstance(value, str | _Thing):
        if value == "something else":
            return "is something else"
        text = str(value).strip("\0")
        return f"is {text!r}" if text else "is an empty text"
    if isinstance(value, bool) or value is None:
        return f"is {str(value).lower() if value is not None else 'null'}"
    return f"is {value}" if isinstance(value, int | float) else "is a list"
