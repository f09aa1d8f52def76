"""How an update changes the state: reducers by key, operators by value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from teff.errors import ConfigError, StateError, suggest
from teff.state.frozen import FROZEN, SHARED, FrozenList, NestedTooDeeply, freeze
from teff.state.operators import DELETE, Append, Overwrite

__all__ = [
    "Reducer",
    "changed_keys",
    "compile_reducers",
    "effects_of",
    "freeze_update",
    "merge",
    "merge_into",
    "plain_update",
    "read_update",
    "rebound_keys",
]

#: A reducer by name, or a function ``(old, new) -> value`` that is called where the key is present.
Reducer = str | Callable[[Any, Any], Any]

_MISSING: Any = object()
_OPERATORS = frozenset({Append, Overwrite, type(DELETE)})
#: Types of what may hold a container that is frozen already; any other is frozen anew.
_PASSED_ON = FROZEN | {Overwrite}


def _append(key: str, old: object, new: object) -> object:
    items = new if isinstance(new, list | tuple) else [new]
    if old is _MISSING or old is None:
        return FrozenList(freeze(item) for item in items)
    if isinstance(old, list | tuple):
        return FrozenList((*old, *(freeze(item) for item in items)))
    raise StateError(
        f"cannot append to state key {key!r}: it holds {type(old).__name__}, not a list; "
        "start it as a list, or replace it with Overwrite(...)"
    )


def _keep(key: str, old: object, new: object) -> object:
    return freeze(new) if old is _MISSING else old


def _override(key: str, old: object, new: object) -> object:
    return freeze(new)


#: The reducers that have a name.
NAMED: Mapping[str, Callable[[str, object, object], object]] = {
    "append": _append,
    "keep": _keep,
    "override": _override,
}

#: Compiled reducers: ``(key, old or missing, new) -> value``; keys without one are overridden.
Reducers = Mapping[str, Callable[[str, Any, Any], Any]]


def compile_reducers(reducers: Mapping[str, Reducer] | None) -> Reducers:
    """Turn reducers by key into functions, once, before the first step.

    Raises:
        ConfigError: a name that is not ``append``, ``keep`` or ``override``.
    """
    compiled: dict[str, Callable[[str, Any, Any], Any]] = {}
    for key, reducer in (reducers or {}).items():
        if inspect.iscoroutinefunction(reducer):
            raise ConfigError(
                f"the reducer for state key {key!r} is an async function: make it a plain one.",
                path=key,
            )
        if callable(reducer):
            compiled[key] = _from_function(reducer)
        elif reducer not in NAMED:
            raise ConfigError(
                f"unknown reducer {reducer!r} for state key {key!r}.",
                path=key,
                hint=suggest(str(reducer), NAMED).strip(),
            )
        elif reducer != "override":
            compiled[key] = NAMED[reducer]
    return compiled


def _from_function(function: Callable[[Any, Any], Any]) -> Callable[[str, Any, Any], Any]:
    def reduce(key: str, old: Any, new: Any) -> Any:
        frozen = freeze(new)
        return frozen if old is _MISSING else freeze(function(old, frozen))

    return reduce


def merge_into(
    state: MutableMapping[str, Any], update: Mapping[str, Any], reducers: Reducers
) -> None:
    """Apply one update to ``state``, the engine's own dict: all of it, or nothing on an error.

    Values are frozen as they go in. An operator wins over the key's reducer.

    Raises:
        StateError: an append to what is no list, or a value that contains itself.
    """
    changes: dict[str, Any] = {}
    deleted: list[str] = []
    key = ""
    try:
        for key, value in update.items():
            kind = type(value)
            if kind in _OPERATORS:
                if value is DELETE:
                    deleted.append(key)
                elif kind is Append:
                    changes[key] = _append(key, state.get(key, _MISSING), value)
                else:
                    changes[key] = freeze(value.value)
            elif key in reducers:
                changes[key] = reducers[key](key, state.get(key, _MISSING), value)
            else:
                changes[key] = value if kind in SHARED else freeze(value)
    except NestedTooDeeply:
        raise StateError(
            f"the value for state key {key!r} contains itself or is nested too deeply: "
            "return plain data"
        ) from None
    for key, value in changes.items():
        # A container has its identity from its key, as `changed_keys` takes it: one that was passed
        # on from elsewhere, from another key or a child, is taken over as a copy of its own.
        if (
            type(update[key]) in _PASSED_ON
            and type(value) in FROZEN
            and value is not state.get(key)
        ):
            changes[key] = type(value)(value)
    state.update(changes)
    for name in deleted:
        state.pop(name, None)


def changed_keys(
    update: Mapping[str, Any], state: Mapping[str, Any], reducers: Reducers
) -> dict[str, Any]:
    """Return an update without what came back from ``state`` as it was.

    ``{**state, "n": 1}`` means ``{"n": 1}``: it adds nothing twice, and is recorded as no more. For a
    key with a reducer only lists, dicts and sets can be known to be the old ones: 1 is always 1.
    """
    return {
        key: value
        for key, value in update.items()
        if state.get(key, _MISSING) is not value or (key in reducers and type(value) not in FROZEN)
    }


def effects_of(
    update: Mapping[str, Any], state: Mapping[str, Any], reducers: Reducers
) -> dict[str, Any]:
    """Return what an update did, so that it can be done again without any reducer.

    Args:
        update: what was merged.
        state: the state after it was merged.
        reducers: those it was merged with.
    """
    effects: dict[str, Any] = {}
    for key, value in update.items():
        if type(value) in _OPERATORS or key not in reducers:
            effects[key] = value
        elif reducers[key] is _append:
            effects[key] = Append(value if isinstance(value, list | tuple) else [value])
        elif key in state:
            effects[key] = Overwrite(state[key])
    return effects


def freeze_update(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return an update whose values are frozen, operators kept as what they are."""
    return read_update(plain_update(update))


def plain_update(update: Mapping[str, Any]) -> dict[str, Any]:
    """Return an update as plain data, for the journal: its values, and which operator each had.

    >>> plain_update({"log": Append([1]), "old": DELETE, "n": 2})
    {'values': {'log': [1], 'old': None, 'n': 2}, 'operators': {'log': 'append', 'old': 'delete'}}
    """
    values: dict[str, Any] = {}
    operators: dict[str, str] = {}
    for key, value in update.items():
        if value is DELETE:
            values[key], operators[key] = None, "delete"
        elif type(value) is Overwrite:
            values[key], operators[key] = freeze(value.value), "overwrite"
        else:
            values[key] = freeze(value)
            if type(value) is Append:
                operators[key] = "append"
    return {"values": values, "operators": operators}


def read_update(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Read what `plain_update` gave."""
    update = dict(plain["values"])
    for key, operator in plain["operators"].items():
        if operator == "delete":
            update[key] = DELETE
        elif operator == "overwrite":
            update[key] = Overwrite(update[key])
        else:
            update[key] = Append(update[key])
    return update


def merge(
    state: Mapping[str, Any],
    update: Mapping[str, Any],
    reducers: Mapping[str, Reducer] | None = None,
) -> dict[str, Any]:
    """Return ``state`` with ``update`` applied; neither argument is changed.

    >>> merge({"log": ["a"], "n": 1}, {"log": "b", "n": 2}, {"log": "append"})
    {'log': ['a', 'b'], 'n': 2}
    """
    merged = {key: freeze(value) for key, value in state.items()}
    merge_into(merged, update, compile_reducers(reducers))
    return merged


def rebound_keys(
    view: Mapping[str, Any], state: Mapping[str, Any], reducers: Reducers
) -> dict[str, Any]:
    """Return the update that a node means which returns the dict it was given.

    The keys that it rebound are the update, the keys that it removed are deleted. A list that
    continues the old one stands for what was added to it, so that ``state["log"] += [x]`` adds one
    item with and without the reducer ``append``, and the update is no larger than what it adds.
    """
    update = {
        key: value for key, value in view.items() if key not in state or state[key] is not value
    }
    for key, new in update.items():
        old = state.get(key)
        if not isinstance(old, list) or not isinstance(new, list) or type(new) is Append:
            continue
        if new[: len(old)] == old:
            added = new[len(old) :]
            update[key] = added if key in reducers else Append(added)
    if len(view) < len(state) + sum(key not in state for key in update):
        update.update({key: DELETE for key in state if key not in view})
    return update
