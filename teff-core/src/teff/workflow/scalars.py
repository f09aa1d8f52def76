"""What a plain scalar of YAML means: the core schema of YAML 1.2, and nothing beyond it.

Source: https://yaml.org/spec/1.2.2/#103-core-schema. Stricter in one way: a number is written as
JSON writes it, but for a sign, ``1.`` and ``.5``; what has a leading zero (``0123``) stays text.
"""

from __future__ import annotations

import math
import re

__all__ = ["resolve_plain"]

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUTH = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,4000})")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_DECIMAL = re.compile(
    r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII
)
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def resolve_plain(text: str) -> bool | int | float | str | None:
    """Return the value of a scalar that stands without quotes.

    >>> [resolve_plain(text) for text in ("true", "12", "1e3", "~")]
    [True, 12, 1000.0, None]
    >>> [resolve_plain(text) for text in ("yes", "NO", "0123", "10:30", "1_000", "2024-05-01")]
    ['yes', 'NO', '0123', '10:30', '1_000', '2024-05-01']

    Raises:
        ValueError: a number that is not finite, which the state cannot hold.
    """
    if text in _NULL:
        return None
    if text in _TRUTH:
        return _TRUTH[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return int(text, 0)
    if _DECIMAL.fullmatch(text):
        number = float(text)
        if math.isinf(number):
            raise ValueError(f"the number {text} is too large")
        return number
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a finite number")
    return text
