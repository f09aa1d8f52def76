"""What an answer is to look like, from a type or a map of fields, as a JSON Schema and a reader."""

from __future__ import annotations

import dataclasses
import enum
import json
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import attrs

from teff.errors import ConfigError, suggest
from teff.schema.annotations import plain_type
from teff.schema.from_types import json_schema_from_type
from teff.schema.problems import Misfit, Problem

__all__ = ["Shape", "shape_of"]


@attrs.frozen
class Shape:
    """The JSON Schema of a type, and how a value that fits it is read.

    Attributes:
        schema: the schema, for a model and for validation.
        read: takes a value that fits the schema and returns it as plain JSON, with the defaults of
            the type filled in; raises `Misfit` where the type itself (a validator of attrs, a
            constraint of msgspec) refuses it.
    """

    schema: dict[str, Any]
    read: Callable[[Any], Any]


def shape_of(output_type: Any) -> Shape:
    """Return the shape of a type or of a map of fields.

    A type is a TypedDict, a dataclass, an attrs class, a ``msgspec.Struct``, an Enum, a Literal, or
    any type that `json_schema_from_type` takes.

    A map of fields leads from names to types, to their names (``string``, ``integer``, ``number``,
    ``boolean``, ``list``, ``object``; ``list[string]``), to a list of one of these, or to a map of
    fields again. Every field is required. A field may be called ``type``: a mapping is read as a
    JSON Schema only where it is one that cannot be meant as fields, as with ``properties``,
    ``$schema``, ``enum``, or a ``description`` beside the ``type``; within a map, ``{"type":
    "string"}`` alone is a schema too.

    >>> shape_of({"name": "string", "tags": ["string"]}).schema["properties"]["tags"]
    {'type': 'array', 'items': {'type': 'string'}}
    >>> @dataclasses.dataclass
    ... class City:
    ...     name: str
    ...     country: str = "LV"
    >>> shape_of(City).read({"name": "Riga"})
    {'name': 'Riga', 'country': 'LV'}

    Raises:
        ConfigError: it is none of these; the message names the field.
    """
    shape = _shape(output_type, "", top=True)
    return attrs.evolve(shape, schema=_rooted(shape.schema))


def _rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """Put a definition that the whole schema refers to in its place: servers want to see a type."""
    reference = schema.get("$ref", "")
    definitions = schema.get("$defs", {})
    name = reference.removeprefix("#/$defs/")
    if set(schema) != {"$ref", "$defs"} or name not in definitions:
        return schema
    root = definitions[name]
    if len(definitions) == 1 and reference not in json.dumps(root):
        return dict(root)
    return {**root, "$defs": definitions}


def _shape(given: Any, place: str, *, top: bool = False) -> Shape:
    if isinstance(given, Mapping):
        if _is_schema(given, top=top):
            return Shape(dict(given), _unchanged)
        return _fields_shape(given, place)
    if isinstance(given, str):
        return _named_shape(given, place)
    if isinstance(given, Sequence):
        if len(given) != 1:
            raise ConfigError(
                f"{_at(place)} is a list of {len(given)}; a list has the one type of its items, "
                "as in [string].",
                path=place,
            )
        return _list_shape(_shape(given[0], f"{place}[]"))
    if _needs_msgspec(given):
        return _msgspec_shape(given)
    try:
        return Shape(json_schema_from_type(given), lambda value: _read(value, given))
    except ConfigError as error:
        where = f"{_at(place)}: " if place else ""
        raise ConfigError(f"{where}{error.message}", path=place, hint=error.hint) from error


def _fields_shape(fields: Mapping[Any, Any], place: str) -> Shape:
    if not fields:
        raise ConfigError(f"{_at(place)} has no fields.", path=place)
    shapes: dict[str, Shape] = {}
    for name, given in fields.items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{_at(place)} has a field {name!r}; names are text.", path=place)
        shapes[name] = _shape(given, f"{place}.{name}" if place else name)

    def read(value: Mapping[str, Any]) -> dict[str, Any]:
        return _each((name, value[name], shape) for name, shape in shapes.items())

    parts, definitions = _hoisted(shapes)
    schema = {
        "type": "object",
        "properties": parts,
        "required": list(shapes),
        "additionalProperties": False,
    }
    return Shape({**schema, **definitions}, read)


def _list_shape(item: Shape) -> Shape:
    def read(value: Sequence[Any]) -> list[Any]:
        return list(_each((number, part, item) for number, part in enumerate(value)).values())

    parts, definitions = _hoisted({"items": item})
    items = parts if item.schema else {}
    return Shape({"type": "array", **items, **definitions}, read)


def _hoisted(shapes: Mapping[str, Shape]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schemas without their definitions, and these: references lead to the whole."""
    definitions: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    for place, shape in shapes.items():
        parts[place] = {key: part for key, part in shape.schema.items() if key != "$defs"}
        for name, definition in (shape.schema.get("$defs") or {}).items():
            if definitions.setdefault(name, definition) != definition:
                raise ConfigError(
                    f"{_at(place)} has another type of the name {name!r} than a field before it; "
                    "give them names of their own.",
                    path=place,
                )
    return parts, {"$defs": definitions} if definitions else {}


def _each(parts: typing.Iterable[tuple[Any, Any, Shape]]) -> dict[Any, Any]:
    read: dict[Any, Any] = {}
    problems: list[Problem] = []
    for step, value, shape in parts:
        try:
            read[step] = shape.read(value)
        except Misfit as misfit:
            problems += misfit.under(step)
    if problems:
        raise Misfit(problems)
    return read


_WORDS = {
    "string": "string",
    "str": "string",
    "text": "string",
    "integer": "integer",
    "int": "integer",
    "number": "number",
    "float": "number",
    "boolean": "boolean",
    "bool": "boolean",
    "list": "array",
    "array": "array",
    "object": "object",
    "dict": "object",
    "map": "object",
}
_LIST_OF = re.compile(r"(?:list|array)\[(.+)\]")


def _named_shape(word: str, place: str) -> Shape:
    name = word.strip().lower()
    if listed := _LIST_OF.fullmatch(name):
        return _list_shape(_named_shape(listed[1], place))
    if name == "any":
        return Shape({}, _unchanged)
    if name not in _WORDS:
        raise ConfigError(
            f"{_at(place)} has the type {word!r}, which is unknown.",
            path=place,
            hint=suggest(name, _WORDS).strip()
            or "Known: string, integer, number, boolean, list, object, any.",
        )
    kind = _WORDS[name]
    return Shape({"type": kind}, _whole if kind == "integer" else _unchanged)


def _unchanged(value: Any) -> Any:
    return value


def _whole(value: Any) -> int:
    return int(value)  # 3.0 is a whole number in a JSON Schema


def _at(place: str) -> str:
    return f"the field {place!r}" if place else "the map of fields"


#: What only a schema has, with the type that it has there.
_TELLING = {
    "$schema": str,
    "$ref": str,
    "$defs": Mapping,
    "properties": Mapping,
    "items": Mapping,
    "enum": list,
    "anyOf": list,
    "oneOf": list,
    "allOf": list,
}
_KINDS = {"string", "integer", "number", "boolean", "array", "object", "null"}
_KEYWORDS = {
    *_TELLING,
    *("type", "title", "description", "default", "examples", "format", "const", "pattern"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "prefixItems"),
    *("required", "additionalProperties", "minProperties", "maxProperties", "propertyNames"),
}


def _is_schema(given: Mapping[Any, Any], *, top: bool) -> bool:
    """Say whether a mapping is a JSON Schema and cannot be meant as a map of fields."""
    if not all(name in _KEYWORDS for name in given):
        return False
    kind = given.get("type")
    if "type" in given and not (kind in _KINDS if isinstance(kind, str) else _is_list(kind)):
        return False
    if any(isinstance(given.get(name), form) for name, form in _TELLING.items()):
        # Of a map with a field `items` or `properties` that has fields itself, nothing else is a
        # keyword; of a schema, the type is.
        return kind in ("object", "array") or not {"properties", "items"} >= set(given)
    if len(given) == 1 and not top:
        return "type" in given
    return "type" in given and not all(_is_type(value) for value in given.values())


def _is_list(kind: object) -> bool:
    return isinstance(kind, list) and len(kind) > 1 and all(name in _KINDS for name in kind)


def _is_type(value: object) -> bool:
    if isinstance(value, str):
        name = value.strip().lower()
        return name in _WORDS or name == "any" or _LIST_OF.fullmatch(name) is not None
    if isinstance(value, list):
        return len(value) == 1
    return isinstance(value, Mapping | type) or typing.get_origin(value) is not None


def _read(value: Any, expected: Any) -> Any:
    from teff.schema.structure import structure

    return _plain(structure(value, expected, from_model=True))


def _plain(value: Any) -> Any:
    """Return a value of a structured type as JSON, under the names that its schema has."""
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, Mapping):
        return {_key(name): _plain(item) for name, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=lambda item: json.dumps(item))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    if attrs.has(type(value)):
        fields = [field for field in attrs.fields(type(value)) if field.init]
        return {field.alias or field.name: _plain(getattr(value, field.name)) for field in fields}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.init
        }
    return value


def _key(name: Any) -> str:
    return str(name.value if isinstance(name, enum.Enum) else name)


def _needs_msgspec(annotation: Any) -> bool:
    bare, _ = plain_type(annotation)
    if isinstance(bare, type) and hasattr(bare, "__struct_fields__"):
        return True
    return any(_needs_msgspec(part) for part in typing.get_args(bare))


def _msgspec_shape(output_type: Any) -> Shape:
    import msgspec  # it is there: its class was given

    try:
        schema = msgspec.json.schema(output_type)
    except (TypeError, NameError) as error:
        raise ConfigError(f"msgspec has no JSON Schema of {output_type!r}: {error}.") from error

    def read(value: Any) -> Any:
        try:
            return msgspec.to_builtins(msgspec.convert(value, output_type))
        except msgspec.ValidationError as error:
            raise Misfit([Problem(text=f"is not valid: {error}")]) from None

    return Shape(schema, read)
