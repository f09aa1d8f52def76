"""The JSON Schema of options as they are written in YAML, from the types that take them."""

from __future__ import annotations

import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Union

import attrs

from teff.errors import ConfigError
from teff.schema import json_schema_from_type
from teff.schema.annotations import MISSING, class_fields, is_class_with_fields, plain_type
from teff.schema.docstring import read_docstring
from teff.workflow.options import Fields

__all__ = ["options_schema", "type_schema"]

#: What counts as text: a number without quotes is the text as it is written.
_TEXT: Final = {"type": ["string", "number"]}

#: A reference to the environment may stand for anything.
_REFERENCE = r"\$\{"
_ALSO_TEXT: Mapping[str, str] = {
    "integer": rf"^[+-]?[0-9]+$|{_REFERENCE}",
    "number": rf"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|{_REFERENCE}",
    "boolean": rf"^(true|false)$|{_REFERENCE}",
}
_BOUNDS: Mapping[str, str] = {
    ">=": "minimum",
    ">": "exclusiveMinimum",
    "<=": "maximum",
    "<": "exclusiveMaximum",
}


def options_schema(fields: Fields, about: Iterable[Any], needed: Collection[str] = ()) -> Any:
    """Return the schema of a mapping of options.

    Args:
        fields: the options with their types.
        about: the classes and functions that take them, for descriptions, defaults and bounds.
        needed: the options that must be there.

    >>> options_schema({"limit": int}, ())["properties"]["limit"]["anyOf"][0]
    {'type': 'integer'}
    """
    known = _known(about)
    properties = {
        name: {**type_schema(hint), **known.get(name, {})} for name, hint in fields.items()
    }
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return {**schema, "required": sorted(needed)} if needed else schema


def type_schema(hint: Any) -> dict[str, Any]:
    """Return the schema of what may be written for a type; {} where anything may.

    >>> type_schema(str | None)
    {'anyOf': [{'type': ['string', 'number']}, {'type': 'null'}]}
    """
    members = [member for member in _members(hint) if not _is_for_python(member)]
    schemas: list[dict[str, Any]] = []
    for member in members:
        try:
            schema = _as_written(json_schema_from_type(member))
        except ConfigError:
            return {}
        if schema not in schemas:
            schemas.append(schema)
    if not schemas or {} in schemas:
        return {"not": {}} if not schemas else {}
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _members(hint: Any) -> list[Any]:
    bare, _ = plain_type(hint)
    if typing.get_origin(bare) in (Union, types.UnionType):
        return [inner for member in typing.get_args(bare) for inner in _members(member)]
    return [bare]


def _is_for_python(hint: Any) -> bool:
    """Say whether no YAML value can be of a type: a function, or an object of a class."""
    if hint is collections.abc.Callable or typing.get_origin(hint) is collections.abc.Callable:
        return True
    plain = (str, int, float, bool, list, tuple, dict, set, frozenset, object, type(None))
    is_class = isinstance(hint, type) and typing.get_origin(hint) is None
    if not is_class or hint in plain or hint is Any or is_class_with_fields(hint):
        return False
    return hint.__module__.startswith("teff.") and not issubclass(hint, (str, int))


def _as_written(schema: Any) -> Any:
    """Widen a schema by the other ways in which YAML may say the same."""
    if isinstance(schema, list):
        return [_as_written(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "enum" in schema or "const" in schema:
        return schema
    kind = str(schema.get("type"))
    if kind == "string":
        return {**schema, **_TEXT}
    if kind in _ALSO_TEXT:
        others = {name: value for name, value in schema.items() if name != "type"}
        text = {"type": "string", "pattern": _ALSO_TEXT[kind]}
        return {"anyOf": [{"type": kind}, text], **others}
    return {
        key: value if key in ("default", "description", "required") else _in_schema(key, value)
        for key, value in schema.items()
    }


def _in_schema(key: str, value: Any) -> Any:
    if key in ("properties", "$defs"):
        return {name: _as_written(inner) for name, inner in value.items()}
    return _as_written(value) if isinstance(value, (dict, list)) else value


def _known(about: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return what is known of options beside their types, by name; who stands first counts."""
    known: dict[str, dict[str, Any]] = {}
    for source in about:
        said = _said_by_class(source) if isinstance(source, type) else _descriptions(source)
        for name, what in said.items():
            known.setdefault(name, {}).update(
                {key: value for key, value in what.items() if key not in known.get(name, {})}
            )
    return known


def _said_by_class(cls: type) -> dict[str, dict[str, Any]]:
    said: dict[str, dict[str, Any]] = {}
    for base in reversed(cls.__mro__):
        if base.__doc__ and base.__module__.startswith("teff"):
            said |= _descriptions(base)
    if not is_class_with_fields(cls):
        return said
    validators = {field.alias: field.validator for field in attrs.fields(cls)}
    for field in class_fields(cls):
        what = said.setdefault(field.name, {})
        default = field.default
        if default is not MISSING and isinstance(default, (str, int, float)) and default != "":
            what["default"] = default
        what.update(_bounds(validators.get(field.name)))
    return said


def _descriptions(source: Any) -> dict[str, dict[str, Any]]:
    text = inspect.getdoc(source) or ""
    text = re.sub(r"^Attributes:$", "Args:", text, flags=re.MULTILINE)
    return {
        name: {"description": f"{said[:1].upper()}{said[1:].replace('``', '`')}"}
        for name, said in read_docstring(text).parameters.items()
        if said
    }


def _bounds(validator: Any) -> dict[str, Any]:
    """Return what the validators of attrs say of a number or the length of a text."""
    if validator is None:
        return {}
    inner = getattr(validator, "_validators", None) or [getattr(validator, "validator", None)]
    bounds: dict[str, Any] = {}
    for part in inner:
        if part is not None:
            bounds |= _bounds(part)
    operator = str(getattr(validator, "compare_op", ""))
    length = getattr(validator, "min_length", None)
    if operator in _BOUNDS and abs(validator.bound) != float("inf"):
        bounds[_BOUNDS[operator]] = validator.bound
    if length is not None:
        bounds["minLength"] = length
    return bounds
