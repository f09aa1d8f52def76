"""JSON Schema from annotated types, in the 2020-12 draft.

Source of the keywords: https://json-schema.org/draft/2020-12/json-schema-validation.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, Literal, Union

from teff.errors import ConfigError
from teff.schema.annotations import (
    MISSING,
    Field,
    class_fields,
    function_name,
    function_parameters,
    is_class_with_fields,
    plain_type,
)
from teff.schema.words import is_mapping_type, is_sequence_type, is_set_type

__all__ = ["json_schema_from_signature", "json_schema_from_type"]

_SCALARS: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    None: "null",
    type(None): "null",
}


def json_schema_from_type(type: Any) -> dict[str, Any]:
    """Return the JSON Schema of the values that a type takes.

    Text, numbers, truth values, None, ``Any``, Optional, Union, Literal, Enum (by value), lists,
    tuples, sets and mappings, and classes with fields: TypedDict, dataclass, attrs. A class that
    contains itself is referred to by ``$ref``. ``Annotated[type, "text"]`` gives a description.

    >>> json_schema_from_type(list[int])
    {'type': 'array', 'items': {'type': 'integer'}}

    Raises:
        ConfigError: a type that no JSON value can stand for; the message says where it is.
    """
    walk = _Walk()
    return walk.finish(walk.schema(type, ""))


def json_schema_from_signature(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the JSON Schema of a function's arguments, always an object.

    Parameters that start with ``__`` are hidden; one without an annotation is text; descriptions
    come from ``Annotated[type, "text"]`` or from a Google-style docstring.

    >>> def weather(city: str, days: int = 1) -> str: ...
    >>> json_schema_from_signature(weather)["required"]
    ['city']

    Raises:
        ConfigError: ``*args`` or ``**kwargs``, or a parameter of a type that JSON cannot carry.
    """
    walk = _Walk()
    place = f"{function_name(function)}()"
    return walk.finish(walk.fields_schema(function_parameters(function), place))


class _Walk:
    """One walk over a type; it collects the classes that refer to themselves."""

    def __init__(self) -> None:
        self.open: list[type] = []
        self.recursive: dict[type, dict[str, Any]] = {}

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Add the definitions that the schema refers to."""
        if self.recursive:
            definitions = {owner.__name__: found for owner, found in self.recursive.items()}
            return {**schema, "$defs": definitions}
        return schema

    def schema(self, annotation: Any, place: str) -> dict[str, Any]:
        bare, description = plain_type(annotation)
        schema = self.bare_schema(bare, place)
        return {**schema, "description": description} if description else schema

    def bare_schema(self, expected: Any, place: str) -> dict[str, Any]:
        origin, arguments = typing.get_origin(expected), typing.get_args(expected)
        if isinstance(expected, Hashable) and expected in _SCALARS:
            return {"type": _SCALARS[expected]}
        if expected is Any or expected is object:
            return {}
        if origin in (Union, types.UnionType):
            return self.union_schema(arguments, place)
        if origin is Literal:
            return _enumeration(arguments, place)
        if expected is tuple or origin is tuple:
            return self.tuple_schema(arguments, place)
        if is_sequence_type(expected):
            return {"type": "array", **self.items_schema(arguments, place)}
        if is_set_type(expected):
            return {"type": "array", **self.items_schema(arguments, place), "uniqueItems": True}
        if is_mapping_type(expected):
            return self.mapping_schema(arguments, place)
        if isinstance(expected, type) and issubclass(expected, enum.Enum):
            return _enumeration(tuple(expected), place)
        if isinstance(expected, type) and issubclass(expected, PurePath):
            return {"type": "string"}
        if is_class_with_fields(expected):
            return self.class_schema(expected)
        raise ConfigError(
            f"{place or 'the type'} has the type {_name_of(expected)}, which JSON cannot carry.",
            path=place,
            hint="Use text, numbers, true/false, lists, mappings, Literal, Enum, TypedDict, "
            "dataclass or attrs.",
        )

    def union_schema(self, members: Iterable[Any], place: str) -> dict[str, Any]:
        schemas = [self.schema(member, place) for member in members]
        return {"anyOf": [schema for n, schema in enumerate(schemas) if schema not in schemas[:n]]}

    def items_schema(self, arguments: tuple[Any, ...], place: str) -> dict[str, Any]:
        item = self.schema(arguments[0], f"an item of {place}") if arguments else {}
        return {"items": item} if item else {}

    def tuple_schema(self, arguments: tuple[Any, ...], place: str) -> dict[str, Any]:
        if not arguments or arguments[-1] is Ellipsis:
            return {"type": "array", **self.items_schema(arguments, place)}
        items = [self.schema(argument, f"an item of {place}") for argument in arguments]
        size = len(items)
        return {"type": "array", "prefixItems": items, "minItems": size, "maxItems": size}

    def mapping_schema(self, arguments: tuple[Any, ...], place: str) -> dict[str, Any]:
        if not arguments:
            return {"type": "object"}
        key, _ = plain_type(arguments[0])
        literal = typing.get_origin(key) is Literal
        if not literal and key not in (str, int, Any):
            raise ConfigError(
                f"{place or 'the type'} is a mapping with keys of the type {_name_of(key)}; "
                "in JSON keys are text.",
                path=place,
                hint="Use `dict[str, ...]`.",
            )
        value = self.schema(arguments[1], f"a value of {place}")
        schema: dict[str, Any] = {"type": "object"}
        if literal:
            schema["propertyNames"] = _enumeration(typing.get_args(key), place)
        return {**schema, "additionalProperties": value} if value else schema

    def class_schema(self, owner: type) -> dict[str, Any]:
        reference = {"$ref": f"#/$defs/{owner.__name__}"}
        if owner in self.open or owner in self.recursive:
            self.recursive.setdefault(owner, {})
            return reference
        self.open.append(owner)
        schema = self.fields_schema(class_fields(owner), owner.__name__)
        self.open.pop()
        if owner in self.recursive:
            self.recursive[owner] = schema
            return reference
        return schema

    def fields_schema(self, fields: Iterable[Field], place: str) -> dict[str, Any]:
        fields = tuple(fields)
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {field.name: self.field_schema(field, place) for field in fields},
        }
        required = [field.name for field in fields if field.required]
        if required:
            schema["required"] = required
        return {**schema, "additionalProperties": False}

    def field_schema(self, field: Field, place: str) -> dict[str, Any]:
        schema = dict(self.schema(field.type, f"{field.name!r} of {place}"))
        if field.description:
            schema["description"] = field.description
        default = _plain_default(field.default)
        if default is not None:
            schema["default"] = default
        return schema


def _enumeration(members: Iterable[Any], place: str) -> dict[str, Any]:
    values = [member.value if isinstance(member, enum.Enum) else member for member in members]
    kinds = {type(value) for value in values}
    if not kinds <= set(_SCALARS):
        raise ConfigError(
            f"{place or 'the type'} is one of {values!r}, and JSON cannot carry them all.",
            path=place,
            hint="Use text or numbers as values.",
        )
    common = {"type": _SCALARS[kinds.pop()]} if len(kinds) == 1 else {}
    return {**common, "enum": values}


def _plain_default(default: Any) -> Any:
    """Return a default as JSON, or None where there is none that JSON can carry."""
    if isinstance(default, enum.Enum):
        default = default.value
    if default is MISSING or default is None:
        return None
    if isinstance(default, str | int | float):
        return default
    if isinstance(default, list | tuple | set | frozenset):
        items = [_plain_default(item) for item in default]
        return None if None in items else items
    if isinstance(default, Mapping):
        pairs = {str(key): _plain_default(item) for key, item in default.items()}
        return None if None in pairs.values() else pairs
    return None


def _name_of(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
