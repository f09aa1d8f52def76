"""Reading the options of a step: names and types are those of the class or function that takes them."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, Union

from teff.errors import ConfigError, TeffError
from teff.plugins import catalogue
from teff.schema.annotations import class_fields, is_class_with_fields, plain_type
from teff.schema.problems import Misfit
from teff.schema.structure import structure
from teff.schema.words import is_mapping_type, is_sequence_type, is_set_type
from teff.workflow.part import Part
from teff.workflow.yaml import Written

__all__ = ["Fields", "as_written", "fields_of", "plugin_class", "read_options"]

#: Types of options by name.
Fields = Mapping[str, Any]

#: Where one of these is possible, a number is meant as a number.
_NUMBERS = (int, float, Any, object)


def plugin_class(group: str, name: str) -> Any:
    """Return the class behind a name of the catalogue, to see the types of its options.

    It is ``Any`` where the name stands for no class, or for nothing, which is left to whoever makes
    the object to say.
    """
    try:
        found = catalogue().load(group, name)
    except TeffError:
        return Any
    return found if isinstance(found, type) else Any


def fields_of(*sources: type | Callable[..., Any], without: Collection[str] = ()) -> dict[str, Any]:
    """Return the options that classes declare as fields, and functions as named parameters."""
    fields: dict[str, Any] = {}
    for source in sources:
        if isinstance(source, type):
            fields |= {field.name: field.type for field in class_fields(source)}
        else:
            hints = typing.get_type_hints(source)
            fields |= {name: hint for name, hint in hints.items() if name != "return"}
    return {name: hint for name, hint in fields.items() if name not in without}


def read_options(part: Part, fields: Fields, *, what: str) -> dict[str, Any]:
    """Read a mapping of options.

    Args:
        part: the mapping; where nothing is written, there are no options.
        fields: what there may be.
        what: whose options these are, to begin a message with.

    Raises:
        ConfigError: an unknown option, a missing value, or one of a wrong type; with its place.
    """
    if part.written.is_missing:
        return {}
    part.check_keys(fields, what=what, kind="option")
    return {
        name: _read(option, fields[name], f"{what}: option {name!r}")
        for name, option in part.entries().items()
    }


def _read(part: Part, expected: Any, what: str) -> Any:
    try:
        return structure(as_written(part.written, expected), expected)
    except Misfit as misfit:
        problem = misfit.problems[0]
    inside = f": {problem.path!r}" if problem.path else ""
    text = f"{what}{inside} {problem.text}{problem.hint}"
    if not text.endswith((".", "?")):
        text += "."
    raise part.located(ConfigError(text, path=problem.path))


def as_written(written: Written, expected: Any) -> Any:
    """Return the value, with numbers as they are written wherever the type takes text only.

    So ``model: 1.10`` is the text ``1.10``, not 1.1.
    """
    members = _members(expected)
    if isinstance(written.value, list):
        kinds = [kind for kind in members if is_sequence_type(kind) or is_set_type(kind)]
        item = (*(typing.get_args(kinds[0]) if kinds else ()), Any)[0]
        return [as_written(element, item) for element in written.elements]
    if isinstance(written.value, dict):
        type_of = _types_inside(members)
        return {name: as_written(entry, type_of(name)) for name, entry in written.entries.items()}
    is_number = isinstance(written.value, int | float) and not isinstance(written.value, bool)
    is_text = any(kind is str for kind in members)
    if is_number and is_text and not any(kind in _NUMBERS for kind in members):
        return written.text
    return written.value


def _members(expected: Any) -> list[Any]:
    bare, _ = plain_type(expected)
    if typing.get_origin(bare) in (Union, types.UnionType):
        return [inner for member in typing.get_args(bare) for inner in _members(member)]
    return [bare]


def _types_inside(members: list[Any]) -> Callable[[str], Any]:
    """Return how the types of a mapping's values are found by their keys."""
    for kind in members:
        if is_class_with_fields(kind):
            fields = fields_of(kind)
            return lambda name: fields.get(name, Any)
        if is_mapping_type(kind):
            value_type = (*typing.get_args(kind), Any, Any)[1]
            return lambda name: value_type
    return lambda name: Any
