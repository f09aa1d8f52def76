"""Values, as conditions that are put together by code write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from teff.conditions.tree import quote
from teff.errors import ConfigError

__all__ = ["literal"]

_WORD = re.compile(r"[^\W\d][\w-]*")
_RESERVED = frozenset({"and", "or", "not", "in", "contains", "true", "false", "null", "none"})


def literal(value: Any, *, exact: bool = False) -> str:
    """Return a value as it stands behind ``=`` or ``!=``.

    A plain word is compared as models and people write it, without regard to case and closing
    punctuation; any other text, and a word where ``exact`` is asked for, is compared as it stands.
    "" means *not filled*, and a list any of its values.

    >>> [literal(value) for value in ("billing", "a, b", 3, True, None, "", ["yes", 1])]
    ['billing', "'a, b'", '3', 'true', 'null', '', 'yes,1']

    Raises:
        ConfigError: nothing can be compared with a value of this type.
    """
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        is_word = _WORD.fullmatch(value) and value.casefold() not in _RESERVED
        return value if not value or (is_word and not exact) else quote(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return ",".join(literal(one, exact=exact) for one in value)
    raise ConfigError(
        f"nothing can be compared with a {type(value).__name__}; use text, a number, true, false "
        "or a list of those."
    )
