"""Strict conversion of plain values to annotated types, with cattrs.

The defaults of cattrs call the type (``int(1.9)`` is 1, ``bool("no")`` is True, ``list("ab")`` is
two items); the hooks here take only what is meant, and every refusal says where and why.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, Union

from teff.errors import ConfigError, suggest
from teff.schema.annotations import Field, class_fields, is_class_with_fields, plain_type
from teff.schema.problems import Misfit, Problem
from teff.schema.words import (
    describe_type,
    is_mapping_type,
    is_sequence_type,
    is_set_type,
)

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["structure"]

_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def structure(value: object, expected: Any, *, from_model: bool = False) -> Any:
    """Return ``value`` as the type ``expected``.

    Text is text only; a whole number may be written as text; a number too; a truth value may be
    the text ``true`` or ``false``. Values that are instances of an ordinary class already, functions
    and what is annotated ``Any`` pass through as they are.

    Args:
        value: a plain value, as YAML or JSON give it, or an instance already.
        expected: a type annotation.
        from_model: also take the JSON text of an object or a list, and 3.0 for 3, as models
            write them.

    Raises:
        Misfit: the value does not fit.
        ConfigError: there is no way to read values into the type.
    """
    return _converter(from_model).structure(value, expected)


@functools.cache
def _converter(from_model: bool) -> Converter:
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    hooks = _Hooks(converter, from_model)
    # cattrs looks these classes up before anything else, by the order of inheritance: an Enum of
    # texts comes here as well.
    for scalar in (str, int, float, bool, bytes, Path):
        converter.register_structure_hook(scalar, hooks.read_scalar)
    converter.register_structure_hook_factory(lambda _: True, hooks.make)
    return converter


class _Hooks:
    """The hooks of one converter: each takes a value and a type, and raises `Misfit`."""

    def __init__(self, converter: Converter, from_model: bool) -> None:
        self.converter = converter
        self.from_model = from_model

    def make(self, expected: Any) -> Callable[[Any, Any], Any]:
        """Choose the hook for a type that is no scalar."""
        bare, _ = plain_type(expected)
        if bare is not expected:
            return lambda value, _: self.converter.structure(value, bare)
        origin = typing.get_origin(expected)
        if expected in (Any, object) or isinstance(expected, typing.TypeVar):
            return lambda value, _: value
        if expected in (None, type(None)):
            return self.read_nothing
        if origin in (Union, types.UnionType):
            return self.read_union
        if origin is Literal:
            return self.read_choice
        if expected is tuple or origin is tuple:
            return self.read_tuple
        if is_sequence_type(expected):
            return self.read_list
        if is_set_type(expected):
            return self.read_set
        if is_mapping_type(expected):
            return self.read_mapping
        if typing.is_typeddict(expected):
            return self.read_typed_dict
        if is_class_with_fields(origin or expected):
            return self.make_class_hook(expected)
        return self.read_scalar

    def read_scalar(self, value: Any, expected: Any) -> Any:
        """Read text, numbers, truth values, enumerations, paths, functions and instances."""
        if expected is str:
            return self.read_text(value)
        if expected is bool:
            return self.read_truth(value)
        if expected is int:
            return self.read_whole(value)
        if expected is float:
            return self.read_number(value)
        if isinstance(expected, type) and issubclass(expected, enum.Enum):
            return self.read_choice(value, expected)
        if isinstance(expected, type) and issubclass(expected, PurePath):
            return (
                expected(value) if isinstance(value, str) else self.read_instance(value, expected)
            )
        return self.read_instance(value, expected)

    def read_text(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        quotable = isinstance(value, bool | int | float)
        raise Misfit.of(value, str, hint="; put it in quotes" if quotable else "")

    def read_truth(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return bool(value == "true")
        raise Misfit.of(value, bool)

    def read_whole(self, value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            return int(value)
        if self.from_model and isinstance(value, float) and value.is_integer():
            return int(value)
        raise Misfit.of(value, int)

    def read_number(self, value: Any) -> float:
        readable = isinstance(value, str) and _NUMBER.fullmatch(value.strip())
        if readable or (isinstance(value, int | float) and not isinstance(value, bool)):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if math.isfinite(number):
                return number
            raise Misfit([Problem(text="must be a finite number")])
        raise Misfit.of(value, float)

    def read_nothing(self, value: Any, expected: Any) -> None:
        if value is not None:
            raise Misfit.of(value, None)

    def read_choice(self, value: Any, expected: Any) -> Any:
        """Find the member of a Literal or an Enum that is written as this value."""
        is_enum = isinstance(expected, type)
        if is_enum and isinstance(value, expected):
            return value
        members = list(expected) if is_enum else list(typing.get_args(expected))
        for member in members:
            written = member.value if isinstance(member, enum.Enum) else member
            if member is value or (type(written) is type(value) and written == value):
                return member
        texts = [
            text for text in (getattr(m, "value", m) for m in members) if isinstance(text, str)
        ]
        hint = suggest(value, texts) if isinstance(value, str) else ""
        text = f"must be {describe_type(expected)}"
        raise Misfit([Problem(text=text, hint=f".{hint}" if "mean" in hint else "")])

    def read_union(self, value: Any, expected: Any) -> Any:
        """Take the member that the value is already; else the first that can read it."""
        members = typing.get_args(expected)
        if value is None and type(None) in members:
            return None
        natural = [member for member in members if _is_naturally(value, member)]
        others = [member for member in members if member not in natural]
        misfits: list[Misfit] = []
        for member in (*natural, *others):
            try:
                return self.converter.structure(value, member)
            except Misfit as misfit:
                misfits.append(misfit)
        real = [member for member in members if member is not type(None)]
        if len(natural) == 1:  # only this one can have been meant
            raise misfits[0]
        if len(real) == 1:
            raise misfits[others.index(real[0])]
        raise Misfit.of(value, expected)

    def read_list(self, value: Any, expected: Any) -> list[Any]:
        items = self.items(value, expected)
        (item,) = typing.get_args(expected) or (Any,)
        return self.each(enumerate(items), lambda _: item)

    def read_set(self, value: Any, expected: Any) -> Any:
        items = value if isinstance(value, set | frozenset) else self.items(value, expected)
        (item,) = typing.get_args(expected) or (Any,)
        build = frozenset if (typing.get_origin(expected) or expected) is frozenset else set
        structured = self.each(enumerate(items), lambda _: item)
        try:
            return build(structured)
        except TypeError:
            raise Misfit.of(value, expected) from None

    def read_tuple(self, value: Any, expected: Any) -> Any:
        items = self.items(value, expected)
        types_of_items = typing.get_args(expected) or (Any, ...)
        if types_of_items[-1] is Ellipsis:
            return tuple(self.each(enumerate(items), lambda _: types_of_items[0]))
        if len(items) != len(types_of_items):
            raise Misfit([Problem(text=f"must be {describe_type(expected)}, not of {len(items)}")])
        return tuple(self.each(enumerate(items), lambda index: types_of_items[index]))

    def items(self, value: Any, expected: Any) -> Any:
        value = self.from_json(value, "[")
        if not isinstance(value, list | tuple):
            raise Misfit.of(value, expected)
        return value

    def each(self, items: Iterable[tuple[Any, Any]], item_type: Callable[[Any], Any]) -> list[Any]:
        """Read every item; say of all of them at once what is wrong."""
        structured: list[Any] = []
        problems: list[Problem] = []
        for step, item in items:
            try:
                structured.append(self.converter.structure(item, item_type(step)))
            except Misfit as misfit:
                problems += misfit.under(step)
        if problems:
            raise Misfit(problems)
        return structured

    def read_mapping(self, value: Any, expected: Any) -> dict[Any, Any]:
        value = self.from_json(value, "{")
        if not isinstance(value, Mapping):
            raise Misfit.of(value, expected)
        key_type, value_type = typing.get_args(expected) or (Any, Any)
        try:
            keys = [self.converter.structure(key, key_type) for key in value]
        except Misfit as misfit:
            raise Misfit([Problem(text=f"has a key that {misfit.problems[0].text}")]) from None
        pairs = ((str(key), item) for key, item in value.items())
        return dict(zip(keys, self.each(pairs, lambda _: value_type), strict=True))

    def make_class_hook(self, expected: Any) -> Callable[[Any, Any], Any]:
        """Let cattrs write the function that reads a mapping into an attrs class or a dataclass."""
        from cattrs.errors import ClassValidationError
        from cattrs.gen import make_dict_structure_fn

        owner = typing.get_origin(expected) or expected
        fields = {field.name: field for field in class_fields(owner)}
        try:
            read = make_dict_structure_fn(expected, self.converter, _cattrs_use_alias=True)
        except NameError as error:
            raise ConfigError(
                f"the annotations of {owner.__qualname__} name {error.name!r}, which its module "
                "does not define when it runs."
            ) from error

        def read_class(value: Any, _: Any) -> Any:
            if isinstance(value, owner):
                return value
            value = self.from_json(value, "{")
            if not isinstance(value, Mapping):
                raise Misfit.of(value, owner)
            try:
                return read(value, expected)
            except ClassValidationError as error:
                raise Misfit(_class_problems(error, fields)) from None

        return read_class

    def read_typed_dict(self, value: Any, expected: Any) -> dict[str, Any]:
        # cattrs overlooks NotRequired where annotations are text.
        fields = {field.name: field for field in class_fields(expected)}
        value = self.from_json(value, "{")
        if not isinstance(value, Mapping):
            raise Misfit.of(value, expected)
        problems = [_unknown(name, fields) for name in value if name not in fields]
        problems += [
            _missing(field)
            for field in fields.values()
            if field.required and field.name not in value
        ]
        known = [(name, item) for name, item in value.items() if name in fields]
        try:
            items = self.each(known, lambda name: fields[name].type)
        except Misfit as misfit:
            problems += misfit.problems
        if problems:
            raise Misfit(problems)
        return {name: item for (name, _), item in zip(known, items, strict=True)}

    def read_instance(self, value: Any, expected: Any) -> Any:
        """Let through what is an instance, a function or a class already."""
        origin = typing.get_origin(expected) or expected
        if origin in (Callable, collections.abc.Callable):
            fits = callable(value)
        elif origin is type:
            fits = isinstance(value, type)
        elif isinstance(origin, type):
            fits = _is_instance(value, origin)
        else:
            raise ConfigError(f"values cannot be read into the type {expected!r}")
        if not fits:
            raise Misfit.of(value, expected)
        return value

    def from_json(self, value: Any, bracket: str) -> Any:
        """Read the JSON text of an object or a list, where a model may have written one."""
        if self.from_model and isinstance(value, str) and value.lstrip().startswith(bracket):
            try:
                return json.loads(value)
            except (ValueError, RecursionError):
                return value
        return value


def _is_naturally(value: Any, member: Any) -> bool:
    """Say whether a value is written in the way of this member of a union, without conversion."""
    bare, _ = plain_type(member)
    origin = typing.get_origin(bare)
    if origin is Literal:
        return any(
            type(value) is type(choice) and value == choice for choice in typing.get_args(bare)
        )
    if bare in (str, int, float, bool):
        return type(value) is bare or (isinstance(value, bare) and not isinstance(value, bool))
    if bare is tuple or origin is tuple or is_sequence_type(bare):
        return isinstance(value, list | tuple)
    if is_mapping_type(bare) or typing.is_typeddict(bare):
        return isinstance(value, Mapping)
    if is_class_with_fields(bare):
        return isinstance(value, bare | Mapping)
    return isinstance(bare, type) and _is_instance(value, bare)


def _is_instance(value: Any, expected: type) -> bool:
    is_protocol = getattr(expected, "_is_protocol", False)
    if is_protocol and not getattr(expected, "_is_runtime_protocol", False):
        # It cannot be checked; but what YAML gives for a misspelt option is no such object.
        return not isinstance(value, str | int | float | list | Mapping | None)
    return isinstance(value, expected)


def _class_problems(error: Any, fields: Mapping[str, Field]) -> list[Problem]:
    """Turn what cattrs collected about one class into problems."""
    from cattrs.errors import ForbiddenExtraKeysError

    problems: list[Problem] = []
    noted, others = error.group_exceptions()
    for cause, note in noted:
        if isinstance(cause, Misfit):
            problems += cause.under(note.name)
        elif isinstance(cause, KeyError) and note.name in fields:
            problems.append(_missing(fields[note.name]))
        else:
            problems.append(Problem(path=note.name, text=f"is not valid: {cause}"))
    for cause in others:
        if isinstance(cause, ForbiddenExtraKeysError):
            problems += [_unknown(name, fields) for name in sorted(map(str, cause.extra_fields))]
        else:  # a validator or the class itself refused the values
            problems.append(Problem(text=f"is not valid: {cause}"))
    return problems


def _missing(field: Field) -> Problem:
    text = f"is missing; it must be {describe_type(field.type)}"
    return Problem(path=field.name, text=text, kind="missing")


def _unknown(name: object, fields: Iterable[str]) -> Problem:
    hint = suggest(str(name), fields)
    return Problem(
        path=str(name), text="is unknown", kind="unknown", hint=f".{hint}" if hint else ""
    )
