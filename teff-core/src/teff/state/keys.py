"""`StateKey`: what a schema says of one key, and where it is read from."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NotRequired, Required, Union

import attrs

from teff.errors import ConfigError, suggest
from teff.schema.annotations import MISSING
from teff.state.fits import compile_check, sentences
from teff.state.reducers import NAMED, Reducer

__all__ = ["KEY_OPTIONS", "TYPES", "StateKey", "read_keys"]

#: The names of types in a mapping, as workflow files write them.
TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("text", "string", "str"), str),
    **dict.fromkeys(("integer", "int"), int),
    **dict.fromkeys(("number", "float"), float),
    **dict.fromkeys(("boolean", "bool"), bool),
    **dict.fromkeys(("list", "array"), list),
    **dict.fromkeys(("object", "dict", "map"), dict),
    "null": type(None),
    "any": Any,
}

_NAMES = (
    "Types: text, integer, number, boolean, list, object, any. Reducers: append, keep, override."
)
#: What a mapping may say of a key.
KEY_OPTIONS = ("type", "items", "enum", "reducer", "default", "required", "description")


@attrs.frozen(kw_only=True)
class StateKey:
    """What a schema says of one key.

    Attributes:
        type: the type of its values; ``Any`` takes every value.
        reducer: a name or a function, or None.
        default: what it starts with where the input leaves it out, or `MISSING`.
        factory: makes the default anew for each run, or None.
        required: whether the input of a run must bring it.
        description: for people, or "".
    """

    type: Any = Any
    reducer: Reducer | None = None
    default: Any = MISSING
    factory: Callable[[], Any] | None = None
    required: bool = False
    description: str = ""

    @property
    def has_default(self) -> bool:
        """Whether the key is filled in where the input leaves it out."""
        return self.factory is not None or self.default is not MISSING

    def make_default(self) -> Any:
        """Return what the key starts with, which nobody else holds."""
        return copy.deepcopy(self.default) if self.factory is None else self.factory()


def read_keys(source: Any) -> dict[str, StateKey]:
    """Read the keys of a class or a mapping; see `StateSchema.of`.

    Raises:
        ConfigError: an annotation that cannot be resolved, or an unknown type or option.
    """
    if isinstance(source, Mapping):
        for name in source:
            if not (name and isinstance(name, str)):
                raise ConfigError(f"a key of the state is text, not {name!r}.", path=str(name))
        return {name: _from_entry(name, entry) for name, entry in source.items()}
    if not isinstance(source, type):
        raise ConfigError(
            f"a state schema is a TypedDict, an attrs class, a dataclass or a dict, not "
            f"{type(source).__name__}."
        )
    try:
        hints = typing.get_type_hints(source, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise ConfigError(
            f"the state schema {source.__name__!r} has an annotation that cannot be resolved: "
            f"{error}."
        ) from error
    defaults = _defaults_of(source)
    return {
        name: _from_hint(name, hint, **defaults.get(name, {}))
        for name, hint in hints.items()
        if hint is not ClassVar and typing.get_origin(hint) is not ClassVar
    }


def _from_hint(name: str, hint: Any, **known: Any) -> StateKey:
    """Read an annotation: its type, whether it is required, and what stands beside it."""
    reducer: Reducer | None = None
    texts: list[str] = []
    while True:
        origin = typing.get_origin(hint)
        if origin in (Required, NotRequired):
            known.setdefault("required", origin is Required)
            (hint,) = typing.get_args(hint)
        elif origin is Annotated:
            for extra in hint.__metadata__:
                if callable(extra) or (isinstance(extra, str) and _names_reducer(extra, name)):
                    reducer = extra
                elif isinstance(extra, str):
                    texts.append(extra)
            hint = hint.__origin__
        else:
            return StateKey(type=hint, reducer=reducer, description=" ".join(texts), **known)


def _names_reducer(text: str, key: str) -> bool:
    """Say whether a text beside a type is a reducer's name; other texts describe the key."""
    if text not in NAMED and difflib.get_close_matches(text, NAMED, cutoff=0.8):
        raise ConfigError(
            f"unknown reducer {text!r} for state key {key!r}.",
            path=key,
            hint=suggest(text, NAMED).strip(),
        )
    return text in NAMED


def _defaults_of(owner: Any) -> dict[str, dict[str, Any]]:
    """Return what the fields of a class say beside their types, as arguments of `StateKey`."""
    if typing.is_typeddict(owner):
        return {}
    if attrs.has(owner):
        return {field.name: _attrs_default(field) for field in attrs.fields(owner)}
    if dataclasses.is_dataclass(owner):
        return {
            field.name: _said(
                field.metadata,
                default=field.default,
                factory=None if field.default_factory is MISSING else field.default_factory,
            )
            for field in dataclasses.fields(owner)
        }
    values = {name: inspect.getattr_static(owner, name) for name in dir(owner)}
    return {
        name: {"default": value} for name, value in values.items() if not hasattr(value, "__get__")
    }


def _attrs_default(field: attrs.Attribute[Any]) -> dict[str, Any]:
    default: Any = field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class, whatever its stub says
        # A default that is made from the other fields has no fields here.
        return _said(field.metadata, factory=None if default.takes_self else default.factory)
    return _said(field.metadata, default=MISSING if default is attrs.NOTHING else default)


def _said(metadata: Mapping[Any, Any], **known: Any) -> dict[str, Any]:
    return {**known, "required": True} if metadata.get("required") is True else known


def _from_entry(name: str, entry: Any) -> StateKey:
    """Read one entry of a mapping."""
    if isinstance(entry, Mapping):
        return _from_options(name, entry)
    if isinstance(entry, str) and entry in NAMED:
        return StateKey(type=list if entry == "append" else Any, reducer=entry)
    if isinstance(entry, str | None):
        return StateKey(type=_type_of(name, entry))
    if callable(entry) and not _is_type(entry):
        return StateKey(reducer=entry)
    return _from_hint(name, entry)


def _is_type(entry: Any) -> bool:
    is_alias = typing.get_origin(entry) is not None or isinstance(entry, typing.NewType)
    return is_alias or isinstance(entry, type) or entry is Any


def _from_options(name: str, entry: Mapping[str, Any]) -> StateKey:
    for option in entry:
        if option not in KEY_OPTIONS:
            raise ConfigError(
                f"state key {name!r}: unknown option {option!r}.",
                path=name,
                hint=suggest(str(option), KEY_OPTIONS).strip(),
            )
    required = entry.get("required", False)
    if not isinstance(required, bool):
        raise ConfigError(f"state key {name!r}: required is true or false.", path=name)
    reducer = entry.get("reducer")
    expected = _type_of(name, entry.get("type"))
    if entry.get("type") is None and (reducer == "append" or "items" in entry):
        expected = list
    if "items" in entry:
        if expected is not list:
            raise ConfigError(f"state key {name!r}: items belong to the type list.", path=name)
        expected = list[_type_of(name, entry["items"])]  # type: ignore[misc]  # made as it runs
    if "enum" in entry:
        expected = _one_of(name, entry["enum"], expected)
    declared = _from_hint(name, expected)
    return attrs.evolve(
        declared,
        reducer=declared.reducer if reducer is None else reducer,
        default=entry.get("default", MISSING),
        required=required or declared.required,
        description=str(entry.get("description") or declared.description),
    )


def _type_of(name: str, entry: Any) -> Any:
    """Return the type that a name, a list of names, or a type stands for."""
    if entry is None:
        return Any
    if isinstance(entry, list | tuple) and entry:
        # YAML reads `null` as nothing, and among types it can only mean the type.
        members = (type(None) if it is None else _type_of(name, it) for it in entry)
        return Union[tuple(members)]  # noqa: UP007  # one `|` each
    if isinstance(entry, Mapping):
        return _from_options(name, entry).type
    if not isinstance(entry, str):
        return entry
    if entry not in TYPES:
        raise ConfigError(
            f"unknown type {entry!r} for state key {name!r}.",
            path=name,
            hint=suggest(entry, [*TYPES, *NAMED]).strip() or _NAMES,
        )
    return TYPES[entry]


def _one_of(name: str, values: Any, expected: Any) -> Any:
    """Return the type of the values in a list, each of which is of the type beside it."""
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"state key {name!r}: enum is a list of values.", path=name)
    check = compile_check(expected)
    for value in values:
        if wrong := sentences(name, value, check):
            raise ConfigError(f"a value in the enum of state key {wrong[0]}", path=name)
    return Literal[tuple(values)]
