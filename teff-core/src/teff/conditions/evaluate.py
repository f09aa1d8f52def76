"""Asking a condition of a state: the tree becomes closures once, and they are called each step."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from teff.conditions.parse import parse
from teff.conditions.tree import And, Compare, Condition, Contains, In, Key, Not, Or, Truthy, Value
from teff.errors import ConfigError
from teff.paths import MISSING, compile_path, root_key
from teff.state.filled import is_filled

__all__ = ["Predicate", "compile_condition", "evaluate", "keys_of"]

Predicate: TypeAlias = Callable[[Mapping[str, object]], bool]
_Test: TypeAlias = Callable[[object], bool]
_Number: TypeAlias = int | float | Decimal

_CONTAINERS = (list, dict, tuple, set, frozenset, Mapping)
#: Text that says no, where a lone key asks.
_NEGATIVE = frozenset({"false", "no", "n", "off", "none", "null"})
#: What may trail an answer without changing it; some languages put a space before it.
_TRAILING = ".,!?;: \t\r\n\u00a0\u202f"
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def compile_condition(
    condition: str | Condition | Callable[[Mapping[str, object]], object],
) -> Predicate:
    """Return a function that asks the condition of a state, and never raises by itself.

    A callable is taken as it is; whatever it returns counts by ``bool()``.

    >>> is_billing = compile_condition("route=billing")
    >>> is_billing({"route": "Billing."})
    True

    Raises:
        ConfigError: the text is no condition (see ``parse``), or the callable is a coroutine
            function, whose result would always count as true.
    """
    if isinstance(condition, str):
        return _compiled(condition)
    if isinstance(condition, Condition):
        return _compile(condition)
    if not callable(condition):
        raise ConfigError(
            f"a condition is text or a function of the state, not {type(condition).__name__}: "
            f"{condition!r}"
        )
    if inspect.iscoroutinefunction(condition):
        raise ConfigError(
            f"the condition {getattr(condition, '__name__', condition)!r} is a coroutine function; "
            "a condition is asked without waiting: compute it in a node, or use a plain function"
        )
    ask = condition
    return lambda state: bool(ask(state))


def evaluate(
    condition: str | Condition | Callable[[Mapping[str, object]], object],
    state: Mapping[str, object],
) -> bool:
    """Ask a condition of a state, once.

    >>> evaluate("tags contains urgent or score >= 0.8", {"score": "0.9"})
    True

    Raises:
        ConfigError: as ``compile_condition``.
    """
    return compile_condition(condition)(state)


def keys_of(
    condition: str | Condition | Callable[[Mapping[str, object]], object],
) -> frozenset[str]:
    """Return the keys of the state that a condition reads; of a path, the key it starts from.

    What a callable reads cannot be known: it gives the empty set.

    >>> sorted(keys_of("verdict.ok and not 'final answer'="))
    ['final answer', 'verdict']

    Raises:
        ConfigError: the text is no condition.
    """
    if isinstance(condition, str):
        condition = parse(condition)
    match condition:
        case And(operands) | Or(operands):
            return frozenset[str]().union(*map(keys_of, operands))
        case Not(operand):
            return keys_of(operand)
        case Truthy(key) | Compare(key) | In(key) | Contains(key):
            return frozenset({key.text if key.quoted else root_key(key.text)})
    return frozenset()


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Predicate:
    return _compile(parse(text))


def _compile(condition: Condition) -> Predicate:
    match condition:
        case And(operands):
            return _all(tuple(map(_compile, operands)))
        case Or(operands):
            return _any(tuple(map(_compile, operands)))
        case Not(operand):
            return _opposite(_compile(operand))
        case Truthy(key):
            return _of_key(key, _is_affirmed)
        case Compare(key, "=", values) | In(key, values):
            return _of_key(key, _equals(values))
        case Compare(key, "!=", values):
            return _not_of_key(key, _equals(values))
        case Compare(key, order, values):
            return _of_key(key, _ordered(_ORDERS[order], values[0]))
        case Contains(key, values):
            return _of_key(key, _contains(values))


def _all(operands: tuple[Predicate, ...]) -> Predicate:
    def ask(state: Mapping[str, object]) -> bool:
        for operand in operands:  # noqa: SIM110 - a generator would double the cost of a step
            if not operand(state):
                return False
        return True

    return ask


def _any(operands: tuple[Predicate, ...]) -> Predicate:
    def ask(state: Mapping[str, object]) -> bool:
        for operand in operands:  # noqa: SIM110 - a generator would double the cost of a step
            if operand(state):
                return True
        return False

    return ask


def _opposite(operand: Predicate) -> Predicate:
    return lambda state: not operand(state)


def _of_key(key: Key, test: _Test) -> Predicate:
    """Apply a test to what a key holds, ``MISSING`` included."""
    read = _reader(key)
    return lambda state: test(read(state))


def _not_of_key(key: Key, test: _Test) -> Predicate:
    read = _reader(key)
    return lambda state: not test(read(state))


def _reader(key: Key) -> Callable[[Mapping[str, object]], object]:
    if not key.quoted:
        return compile_path(key.text)
    name = key.text
    return lambda state: state.get(name, MISSING)


def _is_affirmed(found: object) -> bool:
    if isinstance(found, str):
        return found != "" and _normalised(found) not in _NEGATIVE
    if isinstance(found, bool):
        return found
    return found is not MISSING and is_filled(found)


def _equals(values: tuple[Value, ...]) -> _Test:
    """Return the test of ``=``: what is found equals one of the values."""
    empty = Value("") in values
    exact = frozenset(value.text for value in values if value.quoted)
    words = frozenset(
        _normalised(value.text) for value in values if not value.quoted and value.text
    )
    numbers = frozenset(_numbers_in(words))
    quoted_numbers = frozenset(_numbers_in(exact))

    def test(found: object) -> bool:
        if isinstance(found, str):
            if found in exact:
                return True
            text = _normalised(found)
            if text in words:
                return True
            if numbers and _number_in(text) in numbers:
                return True
            return empty and not found
        if found is MISSING:
            return empty
        if found is None:
            return empty or "null" in words
        if isinstance(found, bool):
            word = "true" if found else "false"
            return word in words or word in exact
        if isinstance(found, (int, float, Decimal)):
            number = _finite(found)
            # Equal as a number first: the text of a huge integer cannot be had.
            return number in numbers or (number in quoted_numbers and str(found) in exact)
        if isinstance(found, _CONTAINERS):
            return empty and not found
        text = str(found)
        return text in exact or _normalised(text) in words

    return test


def _ordered(order: Callable[[Any, Any], bool], value: Value) -> _Test:
    """Return the test of ``>`` and its kind: two numbers, or two texts that are none."""
    normalised = _normalised(value.text)
    limit = _number_in(normalised)
    if limit is not None:

        def test_number(found: object) -> bool:
            number: _Number | None = None
            if isinstance(found, str):
                number = _number_in(_normalised(found))
            elif isinstance(found, (int, float, Decimal)):
                number = _finite(found)
            return number is not None and order(number, limit)

        return test_number

    def test_text(found: object) -> bool:
        if found is None or found is MISSING:
            return False
        if isinstance(found, (int, float, Decimal, *_CONTAINERS)):
            return False
        text = found if isinstance(found, str) else str(found)
        folded = _normalised(text)
        if not folded or _number_in(folded) is not None:
            return False
        return order(text, value.text) if value.quoted else order(folded, normalised)

    return test_text


def _contains(values: tuple[Value, ...]) -> _Test:
    """Return the test of ``contains``: part of a text, element of a list, key of a dict."""
    exact = tuple(value.text for value in values if value.quoted)
    folded = tuple(value.text.casefold() for value in values if not value.quoted)
    equals = _equals(values)

    def test(found: object) -> bool:
        if isinstance(found, str):
            if any(part in found for part in exact):
                return True
            text = found.casefold() if folded else ""
            return any(part in text for part in folded)
        if isinstance(found, _CONTAINERS):
            return any(equals(item) for item in found)
        return False

    return test


def _normalised(text: str) -> str:
    """Drop what does not matter between an answer and a bare value."""
    return text.strip().casefold().rstrip(_TRAILING)


def _number_in(text: str) -> int | float | None:
    """Return the number that a text looks like, or None."""
    if text[:1] not in "+-.0123456789" or not text:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _numbers_in(texts: frozenset[str]) -> list[int | float]:
    return [number for text in texts if (number := _number_in(text)) is not None]


def _finite(number: _Number) -> _Number | None:
    """Return the number, or None for one that is not comparable: NaN, and infinite decimals."""
    if isinstance(number, Decimal):
        return number if number.is_finite() else None
    # Only NaN differs from itself; math.isnan would overflow on a huge integer.
    return None if number != number else number
