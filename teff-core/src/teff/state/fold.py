"""Several updates as one: what branches, rounds and whole graphs come to, outside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any

from teff.state.operators import DELETE, Append, Overwrite
from teff.state.reducers import NAMED, Reducers, merge_into

__all__ = ["combined", "in_one", "not_replayable", "note_written"]

Update = Mapping[str, Any]


def combined(
    state: Mapping[str, Any], updates: Iterable[Update], reducers: Reducers
) -> dict[str, Any]:
    """Return one update that does to ``state`` what ``updates`` do one after another.

    Where that can be said without knowing ``state``, it is: additions stay additions, and values for
    a function are put together by the function, where that comes to the same. So containers may
    stand in each other.

    >>> updates = [{"log": Append(["a"]), "n": 1}, {"log": Append(["b"]), "n": 2}]
    >>> combined({"log": ["start"]}, updates, {})
    {'log': Append(['a', 'b']), 'n': 2}
    """
    written: dict[str, list[Any]] = {}
    for update in updates:
        note_written(written, update, reducers)
    return {key: in_one(key, values, state, reducers) for key, values in written.items()}


def note_written(
    written: MutableMapping[str, list[Any]], update: Update, reducers: Reducers
) -> None:
    """Note what an update writes under each key: what was written since the key was replaced last.

    Args:
        written: what was noted before; it is added to.
        update: what is written.
        reducers: compiled, by key.
    """
    for key, value in update.items():
        if key not in written or _replaces(key, value, reducers):
            written[key] = [value]
        else:
            written[key].append(value)


def _replaces(key: str, value: Any, reducers: Reducers) -> bool:
    """Say whether a value takes the place of what is there, whatever that is."""
    if type(value) is Append:
        return False
    if value is DELETE or type(value) is Overwrite:
        return True
    return reducers.get(key, NAMED["override"]) is NAMED["override"]


def in_one(key: str, values: Sequence[Any], state: Mapping[str, Any], reducers: Reducers) -> Any:
    """Return one value that does to a key what ``values`` do, as `note_written` noted them."""
    if len(values) == 1:
        return values[0]
    reducer = reducers.get(key)
    if _replaces(key, values[0], reducers):
        return Overwrite(_after({}, key, values, reducers))
    if reducer is NAMED["append"] or all(type(value) is Append for value in values):
        return Append(item for value in values for item in _items(value))
    is_plain = not any(type(value) is Append for value in values)
    if is_plain and reducer is NAMED["keep"]:
        return values[0]
    before = {key: state[key]} if key in state else {}
    after = _after(before, key, values, reducers)
    if is_plain:
        try:
            alone = _after({}, key, values, reducers)
            if _is_same(_after(before, key, [alone], reducers), after):
                return alone
        except Exception:
            return Overwrite(after)  # the function takes no update in the place of a value
    return Overwrite(after)


def not_replayable(update: Update, reducers: Reducers) -> dict[str, Any]:
    """Return what of an update goes through a reducer whose effect does not say what it was given."""
    return {
        key: value
        for key, value in update.items()
        if key in reducers
        and reducers[key] is not NAMED["append"]
        and not isinstance(value, Append | Overwrite)
        and value is not DELETE
    }


def _after(before: Update, key: str, values: Iterable[Any], reducers: Reducers) -> Any:
    own = dict(before)
    for value in values:
        merge_into(own, {key: value}, reducers)
    return own[key]


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other)
    return bool(one == other)
