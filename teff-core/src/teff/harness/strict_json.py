"""What both readers of replies, `json_reply` and `decode`, take as a plain JSON value."""

from __future__ import annotations

import json
import math
from typing import Final

from teff.messages import is_nested_deeper

__all__ = ["LONGEST_NUMBER", "STRICT_JSON", "is_nested_deeper"]

#: So many characters of a number are read. Python itself refuses about as many, in words for
#: programmers.
LONGEST_NUMBER: Final = 4_000


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON value")


def _finite_number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too great a number")
    return number


def _whole_number(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"{text[:40]}… is too long a number")
    return int(text)


#: Takes line breaks within texts; refuses NaN, Infinity, and numbers beyond the range of a float,
#: with a ``ValueError`` that names them.
STRICT_JSON: Final = json.JSONDecoder(
    strict=False,
    parse_constant=_refuse_constant,
    parse_float=_finite_number,
    parse_int=_whole_number,
)
