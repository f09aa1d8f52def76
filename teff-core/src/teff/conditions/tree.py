"""What a condition is once it is parsed: a tree of frozen values that prints as a condition.

``str()`` of a tree that ``parse`` made is a condition that parses to the same tree.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

__all__ = [
    "And",
    "Compare",
    "Condition",
    "Contains",
    "In",
    "Key",
    "Not",
    "Operator",
    "Or",
    "Truthy",
    "Value",
    "quote",
]

Operator: TypeAlias = Literal["=", "!=", ">", ">=", "<", "<="]


def quote(text: str) -> str:
    """Return ``text`` as the condition language writes it literally.

    For conditions that are put together by code: ``f"{quote(key)}={quote(name)}"``.

    >>> print(quote("read and write"), quote("it's"))
    'read and write' "it's"
    """
    single = "'" + text.replace("'", "''") + "'"
    # Between double quotes a backslash at the end would swallow the closing one.
    double = single if text.endswith("\\") else '"' + text.replace('"', '\\"') + '"'
    return double if len(double) < len(single) else single


@frozen
class Key:
    """What a test looks at: a path into the state, or, quoted, one key taken literally."""

    text: str
    quoted: bool = False

    def __str__(self) -> str:
        return quote(self.text) if self.quoted else self.text


@frozen
class Value:
    """What a test compares with. Bare text that is empty stands for "not filled"."""

    text: str
    quoted: bool = False

    def __str__(self) -> str:
        return quote(self.text) if self.quoted else self.text


@frozen
class Truthy:
    """``key``: filled, and neither False nor a word like "false" or "no"."""

    key: Key

    def __str__(self) -> str:
        return str(self.key)


@frozen
class Compare:
    """``key=a,b``: one of the values for ``=``, none for ``!=``; an order has exactly one."""

    key: Key
    operator: Operator
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.key}{self.operator}{','.join(map(str, self.values))}"


@frozen
class In:
    """``key in (a, b)``: equal to one of the values."""

    key: Key
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.key} in ({', '.join(map(str, self.values))})"


@frozen
class Contains:
    """``key contains a, b``: a text, list or dict that holds one of the values."""

    key: Key
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.key} contains {', '.join(map(str, self.values))}"


@frozen
class Not:
    """``not condition``."""

    operand: Condition

    def __str__(self) -> str:
        return f"not {_grouped(self.operand, And, Or)}"


@frozen
class And:
    """``condition and condition …``: two or more, asked from the left until one is false."""

    operands: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(_grouped(operand, And, Or) for operand in self.operands)


@frozen
class Or:
    """``condition or condition …``: two or more, asked from the left until one is true."""

    operands: tuple[Condition, ...]

    def __str__(self) -> str:
        return " or ".join(_grouped(operand, Or) for operand in self.operands)


Condition: TypeAlias = Truthy | Compare | In | Contains | Not | And | Or


def _grouped(condition: Condition, *weaker: type) -> str:
    """Print a condition, in parentheses where it would otherwise come apart."""
    return f"({condition})" if isinstance(condition, weaker) else str(condition)
