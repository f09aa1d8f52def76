"""A schema as the plain data of a workflow file."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, Union

from teff.errors import ConfigError
from teff.schema.annotations import MISSING, plain_type
from teff.schema.words import describe_type
from teff.state.keys import StateKey
from teff.state.schema import StateSchema

__all__ = ["state_schema_to_mapping"]

_NAMES: dict[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "list",
    dict: "object",
    type(None): "null",
    Any: "any",
}


def state_schema_to_mapping(schema: object) -> dict[str, dict[str, Any]]:
    """Return a schema as a mapping that reads as the same schema, such as files hold.

    >>> state_schema_to_mapping({"log": list[str], "n": {"type": "int", "default": 0}})
    {'log': {'type': 'list', 'items': 'text'}, 'n': {'type': 'integer', 'default': 0}}

    Raises:
        ConfigError: the schema is wrong, or has a type, a factory or a reducer function that has no
            name; ``path`` is the key.
    """
    return {name: _entry(name, key) for name, key in StateSchema.of(schema).keys.items()}


def _entry(name: str, key: StateKey) -> dict[str, Any]:
    entry = _options_of(name, key.type)
    if key.reducer is not None:
        if not isinstance(key.reducer, str):
            raise _unwritable(name, "a function as its reducer")
        entry["reducer"] = key.reducer
    if key.factory in (list, dict):
        entry["default"] = key.factory()
    elif key.factory is not None:
        raise _unwritable(name, "a default that a function makes")
    elif key.default is not MISSING:
        entry["default"] = key.default
    if key.required:
        entry["required"] = True
    if key.description:
        entry["description"] = key.description
    return entry


def _options_of(name: str, expected: Any) -> dict[str, Any]:
    """Return the options that stand for a type."""
    expected, _ = plain_type(expected)
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"type": [_brief(name, member) for member in arguments]}
    if origin is list:
        return {"type": "list", "items": _brief(name, arguments[0])}
    try:
        return {"type": _NAMES[expected]}
    except (KeyError, TypeError):
        raise _unwritable(name, f"a type ({describe_type(expected)}) without a name") from None


def _brief(name: str, expected: Any) -> Any:
    options = _options_of(name, expected)
    return options["type"] if options.keys() == {"type"} else options


def _unwritable(name: str, what: str) -> ConfigError:
    return ConfigError(f"state key {name!r} has {what}, which a file cannot hold.", path=name)
