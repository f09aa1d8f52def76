"""What counts as a value: the one meaning of *filled* for conditions, guards and templates."""

from __future__ import annotations

__all__ = ["is_filled"]

_CONTAINERS = (str, list, dict, tuple, set, frozenset)


def is_filled(value: object) -> bool:
    """Return False for None, "" and an empty list, tuple, set or dict; True for all else.

    0 and False are values.

    >>> [is_filled(value) for value in (None, "", [], {}, 0, False, " ")]
    [False, False, False, False, True, True, True]
    """
    if value is None:
        return False
    return len(value) > 0 if isinstance(value, _CONTAINERS) else True
