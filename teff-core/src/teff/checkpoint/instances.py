"""Instances of classes with fields: how they are taken apart for a store, and put together again."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping
from typing import Any

import attrs

__all__ = ["Form", "form_of", "has_fields", "is_named_tuple", "is_storable_class"]

_ABSENT: Any = object()

#: What a class derived from one of these holds is not in its fields alone.
_VALUES = (dict, list, set, frozenset, str, bytes, bytearray, int, float, complex)


def is_named_tuple(kind: type) -> bool:
    """Say whether a class is a ``NamedTuple``."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_make")


def has_fields(kind: type) -> bool:
    """Say whether instances of a class are stored by their fields, which are all that they hold."""
    if issubclass(kind, tuple):
        return is_named_tuple(kind)
    return not issubclass(kind, _VALUES) and (
        attrs.has(kind) or dataclasses.is_dataclass(kind) or hasattr(kind, "__struct_fields__")
    )


def is_storable_class(kind: object) -> bool:
    """Say whether values of a class come back from a store once it has a name there."""
    return isinstance(kind, type) and (issubclass(kind, enum.Enum) or has_fields(kind))


@attrs.frozen
class Form:
    """The fields of a class, and how an instance is made of them.

    Attributes:
        parameters: by field, the parameter of the constructor that it is given to, or None.
        create: makes an instance from the arguments of the constructor.
        put: sets a field of an instance, frozen or not.
        is_frozen: whether lists and dicts in the fields are frozen with the state around them.
    """

    parameters: Mapping[str, str | None]
    create: Callable[..., Any]
    put: Callable[[Any, str, Any], None]
    is_frozen: bool = False

    def take_apart(self, instance: Any) -> dict[str, Any]:
        """Return the values of the fields; those that are not set are left out."""
        values = {name: getattr(instance, name, _ABSENT) for name in self.parameters}
        return {name: value for name, value in values.items() if value is not _ABSENT}

    def put_together(self, values: Mapping[str, Any]) -> Any:
        """Return an instance with these fields; the class says what the others are.

        Only the constructor runs. What it makes of its arguments, as a converter does once more, is
        replaced by what the field held.
        """
        arguments = {
            parameter: values[name]
            for name, parameter in self.parameters.items()
            if parameter is not None and name in values
        }
        instance = self.create(**arguments)
        for name, value in values.items():
            if getattr(instance, name, _ABSENT) is not value:
                self.put(instance, name, value)
        return instance


def form_of(kind: type) -> Form:
    """Return the form of a class that `has_fields`.

    What its constructor takes is stored, and of the other fields those that count when two
    instances are compared.
    """
    return _form_of(kind)


@functools.cache
def _form_of(kind: type) -> Form:
    if attrs.has(kind):
        return Form(
            {
                field.name: field.alias if field.init else None
                for field in attrs.fields(kind)
                if field.init or field.eq
            },
            kind,
            object.__setattr__,
        )
    if dataclasses.is_dataclass(kind):
        return Form(
            {
                field.name: field.name if field.init else None
                for field in dataclasses.fields(kind)
                if field.init or field.compare
            },
            kind,
            object.__setattr__,
        )
    if is_named_tuple(kind):
        names: Any = kind
        return Form(_same(names._fields), functools.partial(_named_tuple, kind), _refuse, True)
    from msgspec.structs import force_setattr  # it is there: its class was given

    structure: Any = kind
    return Form(_same(structure.__struct_fields__), kind, force_setattr)


def _same(names: tuple[str, ...]) -> dict[str, str | None]:
    return {name: name for name in names}


def _named_tuple(kind: Any, /, **values: Any) -> Any:
    """Make a named tuple without a ``__new__`` of its own, as freezing one does."""
    values = {**kind._field_defaults, **values}
    return kind._make(values[name] for name in kind._fields)


def _refuse(instance: Any, name: str, value: Any) -> None:
    raise AttributeError(f"the field {name!r} of {type(instance).__name__} gives something else")
