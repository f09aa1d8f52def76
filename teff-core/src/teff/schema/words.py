"""Types and values in plain words, for the messages that people and models read."""

from __future__ import annotations

import collections.abc
import enum
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Literal, Union

from teff.schema.annotations import class_fields, is_class_with_fields, plain_type

__all__ = ["describe_type", "describe_value", "is_mapping_type", "is_sequence_type", "is_set_type"]

_SEQUENCES = (
    list,
    collections.abc.Sequence,
    collections.abc.MutableSequence,
    collections.abc.Collection,
    collections.abc.Iterable,
)
_SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)

_ONE: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "nothing",
    None: "nothing",
    Any: "anything",
    object: "anything",
}
_MANY: dict[Any, str] = {
    str: "texts",
    int: "whole numbers",
    float: "numbers",
    bool: "true or false values",
}


def is_sequence_type(annotation: Any) -> bool:
    """Say whether the type is that of a list (not of text, a tuple or a set)."""
    return annotation in _SEQUENCES or typing.get_origin(annotation) in _SEQUENCES


def is_set_type(annotation: Any) -> bool:
    """Say whether the type is that of a set."""
    return annotation in _SETS or typing.get_origin(annotation) in _SETS


def is_mapping_type(annotation: Any) -> bool:
    """Say whether the type is that of a mapping without declared fields."""
    return annotation in _MAPPINGS or typing.get_origin(annotation) in _MAPPINGS


def describe_type(annotation: Any) -> str:
    """Say in plain words what a value of this type is.

    >>> describe_type(list[str] | None)
    'a list of texts or nothing'
    """
    annotation, _ = plain_type(annotation)
    try:
        if annotation in _ONE:
            return _ONE[annotation]
    except TypeError:  # not hashable, so none of those
        return "anything"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Union or origin is types.UnionType:
        return " or ".join(dict.fromkeys(describe_type(argument) for argument in arguments))
    if origin is Literal:
        return _one_of(arguments)
    if annotation is tuple or origin is tuple:
        return _describe_tuple(arguments)
    if is_sequence_type(annotation):
        return _describe_many("a list", arguments)
    if is_set_type(annotation):
        return _describe_many("a list without repetitions", arguments)
    if is_mapping_type(annotation):
        return _describe_many("a mapping", arguments[1:])
    if annotation is Callable or origin is collections.abc.Callable:
        return "a function"
    return _describe_class(annotation)


def _describe_class(annotation: Any) -> str:
    if not isinstance(annotation, type):
        return "anything" if isinstance(annotation, typing.TypeVar) else str(annotation)
    if issubclass(annotation, enum.Enum):
        return _one_of(tuple(member.value for member in annotation))
    if issubclass(annotation, PurePath):
        return "a path"
    if is_class_with_fields(annotation):
        names = ", ".join(field.name for field in class_fields(annotation))
        return f"a mapping with {names}" if names else "an empty mapping"
    return _with_article(annotation.__name__)


def _one_of(values: tuple[Any, ...]) -> str:
    shown = ", ".join(
        repr(value.value if isinstance(value, enum.Enum) else value) for value in values
    )
    return f"one of {shown}" if len(values) > 1 else shown


def _describe_many(collection: str, arguments: tuple[Any, ...]) -> str:
    if not arguments:
        return collection
    item, _ = plain_type(arguments[0])
    if item is Any or item is object:
        return collection
    many = _MANY.get(item) if isinstance(item, type) else None
    return f"{collection} of {many or f'values that are each {describe_type(item)}'}"


def _describe_tuple(arguments: tuple[Any, ...]) -> str:
    if not arguments:
        return "a list"
    if arguments[-1] is Ellipsis:
        return _describe_many("a list", arguments)
    return f"a list of {len(arguments)} ({', '.join(map(describe_type, arguments))})"


def describe_value(value: object) -> str:
    """Say in plain words what kind of value this is, never which one: it may be a secret.

    >>> describe_value("3"), describe_value(True)
    ('text', 'a true or false value')
    """
    if isinstance(value, bool):
        return "a true or false value"
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (type(None), "nothing"),
        (str, "text"),
        (int, "a whole number"),
        (float, "a number with a decimal point"),
        ((list, tuple), "a list"),
        (Mapping, "a mapping"),
    )
    for kind, words in kinds:
        if isinstance(value, kind):
            return words
    if inspect.isroutine(value):
        return "a function"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return _with_article(type(value).__name__)


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"
