"""Whether a value is of a type: type annotations compiled into checks that change nothing.

A value fits a type when it is one of its values, or is written as JSON writes one: a mapping for a
class with fields, a list for a tuple or a set, a text for a path, the value of an ``Enum``. Nothing
else is read into anything: ``"3"`` is no number, ``True`` no whole number, 1.0 no whole number; a
whole number is a number.
"""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, Union

from teff.errors import ConfigError, suggest
from teff.schema.annotations import Field, class_fields, is_class_with_fields, plain_type
from teff.schema.problems import Misfit, Problem
from teff.schema.words import describe_type, is_mapping_type, is_sequence_type, is_set_type

__all__ = ["Check", "compile_check", "sentences"]

#: Raises `Misfit` for a value that does not fit.
Check = Callable[[Any], None]


def compile_check(expected: Any) -> Check | None:
    """Return the check for values of a type, or None where every value fits.

    >>> check = compile_check(list[int])
    >>> check([1, 2])
    >>> check([1, "2"])
    Traceback (most recent call last):
    teff.schema.problems.Misfit: [1] must be a whole number, not text

    Raises:
        ConfigError: an annotation that no value can be compared with.
    """
    return _Compiler().compile(expected)


def sentences(name: str, value: object, check: Check | None) -> list[str]:
    """Return what is wrong with the value of a key, one sentence for each thing."""
    if check is None:
        return []
    try:
        check(value)
    except Misfit as misfit:
        texts = [f"{problem.path!r} {problem.text}{problem.hint}" for problem in misfit.under(name)]
        return [text if text.endswith((".", "?")) else f"{text}." for text in texts]
    except RecursionError:
        return [f"{name!r} contains itself or is nested too deeply."]
    return []


class _Compiler:
    """One walk over a type; it knows the classes that refer to themselves."""

    def __init__(self) -> None:
        self.known: dict[type, Check] = {}

    def compile(self, expected: Any) -> Check | None:
        expected, _ = plain_type(expected)
        origin, arguments = typing.get_origin(expected), typing.get_args(expected)
        if expected in (Any, object) or isinstance(expected, typing.TypeVar):
            return None
        if origin in (Union, types.UnionType):
            return self.union_of(expected, arguments)
        if origin is Literal:
            return _one_of(expected, arguments)
        if expected is tuple or origin is tuple:
            return self.tuple_of(expected, arguments)
        if is_sequence_type(expected):
            return self.items_of(expected, (list, tuple), arguments)
        if is_set_type(expected):
            return self.items_of(expected, (set, frozenset, list, tuple), arguments)
        if is_mapping_type(expected):
            return self.mapping_of(expected, arguments)
        if is_class_with_fields(origin or expected):
            return self.fields_of(origin or expected)
        return _plain(expected, origin or expected)

    def union_of(self, expected: Any, members: Sequence[Any]) -> Check | None:
        compiled = [self.compile(member) for member in members]
        checks = [fits for fits in compiled if fits is not None]
        if len(checks) < len(compiled):
            return None

        def check(value: Any) -> None:
            misfits: list[Misfit] = []
            for fits in checks:
                try:
                    fits(value)
                except Misfit as misfit:
                    misfits.append(misfit)
                else:
                    return
            # The member whose parts are wrong, and not the whole, is the one that was meant.
            inside = [misfit for misfit in misfits if all(p.path for p in misfit.problems)]
            raise inside[0] if len(inside) == 1 else Misfit.of(value, expected)

        return check

    def tuple_of(self, expected: Any, arguments: Sequence[Any]) -> Check | None:
        if not arguments or arguments[-1] is Ellipsis:
            return self.items_of(expected, (list, tuple), arguments[:1])
        checks = [self.compile(argument) for argument in arguments]

        def check(value: Any) -> None:
            if not isinstance(value, list | tuple):
                raise Misfit.of(value, expected)
            if len(value) != len(checks):
                text = f"must be {describe_type(expected)}, not of {len(value)}"
                raise Misfit([Problem(text=text)])
            _check_parts(zip(range(len(value)), value, checks, strict=True))

        return check

    def items_of(self, expected: Any, kinds: Any, arguments: Sequence[Any]) -> Check:
        fits = self.compile(arguments[0]) if arguments else None

        def check(value: Any) -> None:
            if not isinstance(value, kinds):
                raise Misfit.of(value, expected)
            if fits is not None:
                _check_parts((index, item, fits) for index, item in enumerate(value))

        return check

    def mapping_of(self, expected: Any, arguments: Sequence[Any]) -> Check:
        fits_key, fits = map(self.compile, arguments) if arguments else (None, None)

        def check(value: Any) -> None:
            if not isinstance(value, Mapping):
                raise Misfit.of(value, expected)
            if fits_key is not None:
                for key in value:
                    try:
                        fits_key(key)
                    except Misfit as misfit:
                        text = f"has a key that {misfit.problems[0].text}"
                        raise Misfit([Problem(text=text)]) from None
            if fits is not None:
                _check_parts((str(key), item, fits) for key, item in value.items())

        return check

    def fields_of(self, owner: type) -> Check:
        """Check an instance, or a mapping of the fields of an attrs class, dataclass or TypedDict."""
        if owner in self.known:
            return lambda value: self.known[owner](value)
        self.known[owner] = lambda value: None
        fields = {field.name: field for field in class_fields(owner)}
        checks = {name: self.compile(field.type) for name, field in fields.items()}
        kind = None if typing.is_typeddict(owner) else owner

        def check(value: Any) -> None:
            if kind is not None and isinstance(value, kind):
                return
            if not isinstance(value, Mapping):
                raise Misfit.of(value, owner)
            problems = _names_wrong(value, fields)
            known = ((name, item, checks[name]) for name, item in value.items() if name in checks)
            _check_parts(known, problems)

        self.known[owner] = check
        return check


def _check_parts(parts: Any, problems: Sequence[Problem] = ()) -> None:
    """Check parts of a value, each ``(step, part, check)``; say of all of them what is wrong."""
    found = list(problems)
    for step, part, fits in parts:
        if fits is not None:
            try:
                fits(part)
            except Misfit as misfit:
                found += misfit.under(step)
    if found:
        raise Misfit(found)


def _names_wrong(value: Mapping[Any, Any], fields: Mapping[str, Field]) -> list[Problem]:
    unknown = [
        Problem(
            path=str(name),
            text="is unknown",
            kind="unknown",
            hint=f".{hint}" if (hint := suggest(str(name), fields)) else "",
        )
        for name in value
        if name not in fields
    ]
    return unknown + [
        Problem(
            path=name, text=f"is missing; it must be {describe_type(field.type)}", kind="missing"
        )
        for name, field in fields.items()
        if field.required and name not in value
    ]


def _one_of(expected: Any, members: Sequence[Any]) -> Check:
    """Check for the members of a Literal or an Enum, or for what they are written as."""
    written = [member.value if isinstance(member, enum.Enum) else member for member in members]

    def check(value: Any) -> None:
        if not any(
            member is value or (type(plain) is type(value) and plain == value)
            for member, plain in zip(members, written, strict=True)
        ):
            texts = [text for text in written if isinstance(text, str)]
            hint = suggest(value, texts) if isinstance(value, str) else ""
            hint = f".{hint}" if "mean" in hint else ""
            raise Misfit([Problem(text=f"must be {describe_type(expected)}", hint=hint)])

    return check


def _plain(expected: Any, kind: Any) -> Check | None:
    """Check for a class without parts: text, numbers, truth values, functions, instances."""
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _one_of(expected, list(kind))
    if expected in (int, float):
        numbers = int if expected is int else (int, float)
        return _instance_check(expected, numbers, but=bool)
    if expected in (None, type(None)):
        return _instance_check(None, type(None))
    if kind in (Callable, collections.abc.Callable):
        kind = collections.abc.Callable
    if not isinstance(kind, type):
        raise ConfigError(f"values cannot be compared with the type {expected!r}.")
    if issubclass(kind, PurePath):
        return _instance_check(expected, (kind, str))
    is_protocol = getattr(kind, "_is_protocol", False)
    if is_protocol and not getattr(kind, "_is_runtime_protocol", False):
        return None  # Python cannot tell
    return _instance_check(expected, kind)


def _instance_check(expected: Any, kinds: Any, *, but: Any = ()) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, kinds) or isinstance(value, but):
            raise Misfit.of(value, expected)

    return check
