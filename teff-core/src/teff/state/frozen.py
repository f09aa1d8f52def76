"""Lists, dicts and sets that nobody can change in place.

The engine freezes what a node returns, once, when it is merged. From then on the value is shared by
every later step, branch and journal record without a copy, and what it costs does not grow with the
state. A frozen list is a ``list``, a frozen dict is a ``dict``: code that reads, compares or writes
them as JSON sees no difference. Code that changes them gets a ``TypeError`` that says what to do
instead; ``+=``, ``|=`` and copies give ordinary values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

from teff.errors import StateError

__all__ = ["FROZEN", "FrozenDict", "FrozenList", "FrozenSet", "NestedTooDeeply", "freeze", "thaw"]

_T = TypeVar("_T")


def _refuse(kind: str, advice: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError(
            f"a {kind} of the state cannot be changed in place: return an update instead, "
            f"for example {advice}"
        )

    return refuse


class FrozenList(list[Any]):
    """A list of the state. Slices, copies and ``+=`` give ordinary lists.

    >>> items = freeze([1, 2])
    >>> items += [3]
    >>> type(items), items
    (<class 'list'>, [1, 2, 3])
    """

    __slots__ = ()

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse(
        "list", 'return {"key": [*state["key"], item]} or {"key": Append([item])}'
    )
    __setitem__ = __delitem__ = append

    def __iadd__(self, other: Any) -> list[Any]:  # type: ignore[override,misc]  # a plain list, on purpose
        return [*self, *other]

    def __imul__(self, count: int) -> list[Any]:  # type: ignore[override,misc]  # a plain list, on purpose
        return list(self) * count

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(item, memo) for item in self]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(self),)


class FrozenDict(dict[Any, Any]):
    """A dict of the state. Copies and ``|`` give ordinary dicts."""

    __slots__ = ()

    pop = popitem = clear = update = setdefault = _refuse(
        "dict", 'return {"key": {**state["key"], "name": value}}'
    )
    __setitem__ = __delitem__ = pop

    def __ior__(self, other: Any) -> dict[Any, Any]:  # type: ignore[override,misc]  # a plain dict, on purpose
        return {**self, **dict(other)}

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[Any, Any]:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)


class FrozenSet(set[Any]):
    """A set of the state. Copies and in-place operators give ordinary sets."""

    __slots__ = ()

    add = discard = remove = pop = clear = update = _refuse(
        "set", 'return {"key": state["key"] | {item}}'
    )
    difference_update = intersection_update = symmetric_difference_update = add

    def __ior__(self, other: set[Any]) -> set[Any]:  # type: ignore[override,misc]  # a plain set, on purpose
        return set(self) | other

    def __iand__(self, other: set[Any]) -> set[Any]:  # type: ignore[override,misc]  # a plain set, on purpose
        return set(self) & other

    def __isub__(self, other: set[Any]) -> set[Any]:  # type: ignore[override,misc]  # a plain set, on purpose
        return set(self) - other

    def __ixor__(self, other: set[Any]) -> set[Any]:  # type: ignore[override,misc]  # a plain set, on purpose
        return set(self) ^ other

    def __repr__(self) -> str:
        return repr(set(self))

    def copy(self) -> set[Any]:
        """Return an ordinary set with the same members."""
        return set(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> set[Any]:
        return {copy.deepcopy(item, memo) for item in self}

    def __reduce_ex__(self, protocol: Any) -> Any:
        return set, (set(self),)


#: The frozen containers.
FROZEN: frozenset[type] = frozenset({FrozenList, FrozenDict, FrozenSet})

#: Types whose values are shared as they are: atoms, and what is frozen already.
SHARED: frozenset[type] = FROZEN | {str, int, float, bool, type(None), bytes, frozenset}


class NestedTooDeeply(StateError):
    """A value contains itself, or is nested some hundreds of levels deep."""


def freeze(value: _T) -> _T:
    """Return ``value`` with every list, dict and set in it frozen, tuples kept as tuples.

    What is frozen already is returned as it is, so freezing an update costs what is new in it.
    Other objects are returned as they are.

    Raises:
        NestedTooDeeply: (a StateError) a value contains itself, or is nested some hundreds of
            levels deep.
    """
    if type(value) in SHARED:
        return value
    try:
        return cast("_T", _freeze(value))
    except RecursionError:
        raise NestedTooDeeply(
            "a value of the state contains itself or is nested too deeply: return plain data"
        ) from None


def _freeze(value: Any) -> Any:
    kind = type(value)
    if kind in SHARED:
        return value
    if isinstance(value, dict):
        return FrozenDict({key: _freeze(item) for key, item in value.items()})
    if isinstance(value, list):
        return FrozenList([_freeze(item) for item in value])
    if isinstance(value, tuple):
        items = [_freeze(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    if isinstance(value, set):
        return FrozenSet(value)
    return value


def thaw(value: _T) -> _T:
    """Return ``value`` with every frozen list, dict and set in it replaced by an ordinary one.

    A value that has grown too deep for that, over many steps, is returned as it is.
    """
    try:
        return cast("_T", _thaw(value))
    except RecursionError:
        return value


def _thaw(value: Any) -> Any:
    kind = type(value)
    if kind is FrozenList or kind is list:
        return [_thaw(item) for item in value]
    if kind is FrozenDict or kind is dict:
        return {key: _thaw(item) for key, item in value.items()}
    if kind is FrozenSet:
        return set(value)
    if isinstance(value, tuple):
        items = [_thaw(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    return value
