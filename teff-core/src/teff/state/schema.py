"""`StateSchema`: the keys that a state may have, with their types, reducers and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import attrs

from teff.errors import ConfigError, suggest
from teff.schema.annotations import MISSING
from teff.schema.words import describe_type
from teff.state.fits import Check, compile_check, sentences
from teff.state.keys import StateKey, read_keys
from teff.state.reducers import Reducer, compile_reducers

__all__ = ["ENGINE_KEYS", "StateSchema", "reducers_from_schema"]

#: What the engine writes by itself, declared or not: a turn of a chat its message and the
#: conversation, an error edge the error.
ENGINE_KEYS = frozenset({"error", "input", "messages"})


@attrs.frozen
class StateSchema:
    """The keys of a state. Made by `of`; it does not change.

    Attributes:
        keys: by name.
    """

    keys: Mapping[str, StateKey]
    #: The checks of the types, by key; None where every value fits.
    checks: Mapping[str, Check | None] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        compile_reducers(self.reducers)
        checks = {name: _checked(name, key) for name, key in self.keys.items()}
        object.__setattr__(self, "checks", checks)

    @classmethod
    def of(cls, source: object) -> Self:
        """Read a schema from a TypedDict, an attrs class, a dataclass, or a mapping.

        Of a class, each annotated attribute is a key; its reducer stands beside the type
        (``Annotated[list[str], "append"]``), and a value or a factory is the default. Nodes write
        most keys, so a key without a default is not asked for in the input: ``Required[...]`` in a
        TypedDict, or ``metadata={"required": True}`` of a field, says that it is.

        Of a mapping, each entry is a type (``list[str]``), the name of one (``text``, ``integer``,
        ``number``, ``boolean``, ``list``, ``object``, ``any``, and their usual other names), a
        reducer (``append`` means a list) or its name, or a mapping of ``type``, ``items``, ``enum``,
        ``reducer``, ``default``, ``required`` and ``description``.

        >>> schema = StateSchema.of({"question": {"type": "text", "required": True}, "log": "append"})
        >>> schema.reducers, schema.problems({"log": "x"})
        ({'log': 'append'}, ["'question' is missing; it must be text.", "'log' must be a list, not text."])

        Raises:
            ConfigError: an unknown type, reducer or option, a default that does not fit, or an
                annotation that cannot be resolved; ``path`` is the key.
        """
        return source if isinstance(source, cls) else cls(read_keys(source))

    @property
    def reducers(self) -> dict[str, Reducer]:
        """The reducers by key, without the keys that have none."""
        return {name: key.reducer for name, key in self.keys.items() if key.reducer is not None}

    def filled(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a state with the defaults of the keys that it leaves out."""
        missing = {
            name: key.make_default()
            for name, key in self.keys.items()
            if key.has_default and name not in state
        }
        return {**state, **missing}

    def present(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a state without the keys whose value is None where their type does not take it."""
        return {
            name: value
            for name, value in state.items()
            if value is not None or not sentences(name, None, self.checks.get(name))
        }

    def problems(
        self, state: Mapping[str, Any], *, is_own: Callable[[str], bool] | None = None
    ) -> list[str]:
        """Return what is wrong with a whole state, one sentence for each thing.

        Args:
            state: is not changed; defaults are not filled in.
            is_own: says which keys are allowed though undeclared, beside `ENGINE_KEYS` and those
                that begin with ``_``.
        """
        found = [
            f"{name!r} is missing; it must be {describe_type(key.type)}."
            for name, key in self.keys.items()
            if key.required and name not in state
        ]
        for name, value in state.items():
            if name in self.checks:
                found += sentences(name, value, self.checks[name])
            elif not self.allows(name, is_own):
                found.append(self.undeclared(name))
        return found

    def allows(self, name: object, is_own: Callable[[str], bool] | None = None) -> bool:
        """Say whether a key may be there undeclared: the engine's keys are nobody's to declare."""
        text = str(name)
        if text.startswith("_") or text in ENGINE_KEYS:
            return True
        return is_own is not None and is_own(text)

    def undeclared(self, name: object) -> str:
        """Say in a sentence that the schema does not have a key."""
        return f"{name!r} is not declared in the state schema.{suggest(str(name), self.keys)}"


def reducers_from_schema(schema: object) -> dict[str, Reducer]:
    """Read the reducers that a state schema declares; see `StateSchema.of` for the schemas.

    Keys without a reducer are left out.

    Raises:
        ConfigError: an annotation that cannot be resolved, or a misspelt name.
    """
    if schema is None:
        return {}
    keys = schema.keys if isinstance(schema, StateSchema) else read_keys(schema)
    return {name: key.reducer for name, key in keys.items() if key.reducer is not None}


def _checked(name: str, key: StateKey) -> Check | None:
    """Return the check of a key; refuse a default or a reducer that its type does not take."""
    try:
        check = compile_check(key.type)
    except ConfigError as error:
        raise ConfigError(f"state key {name!r}: {error.message}", path=name) from error
    if key.default is not MISSING and (wrong := sentences(name, key.default, check)):
        raise ConfigError(f"the default of state key {wrong[0]}", path=name)
    if key.reducer == "append" and sentences(name, [], check):
        raise ConfigError(
            f"the reducer 'append' makes a list of state key {name!r}, which must be "
            f"{describe_type(key.type)}.",
            path=name,
        )
    return check
