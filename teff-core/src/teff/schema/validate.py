"""JSON values checked against a JSON Schema, completely, with the library ``jsonschema``."""

from __future__ import annotations

import functools
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from teff.errors import ConfigError

__all__ = ["SchemaValidator"]

#: How many problems are told at most, and how long each may be: a model reads them.
_MOST = 10
_LONGEST = 300


class SchemaValidator:
    """Checks values against one JSON Schema.

    Without ``$schema`` it is read as draft 2020-12. ``format`` is checked where the library can do
    so by itself (``date``, ``email``, ``ipv4``, ``uuid`` and others). A truth value is no number.
    A ``$ref`` must lead to a place within the schema, and not in a circle: nothing is fetched.
    Nothing is converted: of a number that came as a text is said that it is none.

    The time grows with the value, but for what the schema itself makes slow: a ``pattern`` that
    backtracks holds up the program.

    >>> check = SchemaValidator({"type": "object", "properties": {"age": {"type": "integer"}}})
    >>> check.problems({"age": "7"})
    ["age: '7' is not of type 'integer'"]
    >>> check.problems({"age": 7})
    []

    Args:
        schema: the schema; it is copied.
        what: whose it is, to begin a message with.

    Raises:
        ConfigError: it is no JSON Schema, or a reference leads nowhere or in a circle.
    """

    def __init__(self, schema: Mapping[str, Any], *, what: str = "the schema") -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry

        self.schema = _plain_copy(schema, what)
        dialect = self.schema.get("$schema", "")
        if not isinstance(dialect, str):
            raise ConfigError(f"{what} is no JSON Schema: $schema is a text, not {dialect!r}.")
        library = validator_for(self.schema, default=Draft202012Validator)
        try:
            library.check_schema(self.schema)
        except SchemaError as error:
            where = _place(error.absolute_path)
            raise ConfigError(
                f"{what} is no JSON Schema: {f'{where}: ' if where else ''}"
                f"{_shortened(error.message)}."
            ) from None
        except RecursionError:
            raise ConfigError(f"{what} is nested too deeply.") from None
        _check_references(self.schema, what)
        self._library = _linear(library)(
            self.schema, registry=Registry(), format_checker=library.FORMAT_CHECKER
        )
        try:
            self._library.is_valid(None)
        except RecursionError:
            raise ConfigError(f"{what}: its references lead in a circle.") from None

    def problems(self, value: Any) -> list[str]:
        """Return what is wrong with a value of plain dicts and lists, one text each; at most ten."""
        found: list[str] = []
        try:
            for error in self._library.iter_errors(value):
                found.append(_told(error))
                if len(found) == _MOST:
                    break
        except RecursionError:
            found.append("it is nested too deeply")
        return list(dict.fromkeys(found))


def _plain_copy(schema: Mapping[str, Any], what: str) -> dict[str, Any]:
    try:
        copied = json.loads(json.dumps(schema, default=_as_plain, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is no JSON Schema: {error}.") from None
    if not isinstance(copied, dict):
        raise ConfigError(f"{what} is no JSON Schema: it must be a mapping.")
    return copied


def _as_plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it holds a value of the type {type(value).__name__}, which is not JSON")


def _check_references(schema: dict[str, Any], what: str) -> None:
    """Follow every reference, also into places where no schemas are looked for by themselves."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with

    dialect = specification_with(str(schema.get("$schema", "")), default=DRAFT202012)
    root = dialect.create_resource(schema)
    base = root.id() or ""
    waiting = [(Registry().with_resource(base, root).resolver(base), root)]
    leads: dict[int, int | None] = {}
    while waiting:
        resolver, resource = waiting.pop()
        contents = resource.contents
        if not isinstance(contents, Mapping) or id(contents) in leads:
            continue
        leads[id(contents)] = None
        for keyword in ("$dynamicRef", "$ref"):
            reference = contents.get(keyword)
            if not isinstance(reference, str):
                continue
            try:
                found = resolver.lookup(reference)
            except Unresolvable:
                raise ConfigError(
                    f"{what}: its reference {reference!r} leads to nothing within it."
                ) from None
            leads[id(contents)] = id(found.contents)
            waiting.append((found.resolver, dialect.create_resource(found.contents)))
        waiting += [(resolver.in_subresource(below), below) for below in resource.subresources()]
    if any(_is_circle(leads, start) for start in leads):
        raise ConfigError(f"{what}: its references lead in a circle.")


def _is_circle(leads: Mapping[int, int | None], start: int) -> bool:
    seen, place = set[int](), leads.get(start)
    while place is not None and place not in seen:
        seen.add(place)
        place = leads.get(place)
    return place is not None


@functools.cache
def _linear(library: Any) -> Any:
    """Return a class of the library whose time grows with the value, and not with its square."""
    from jsonschema.validators import extend

    keywords = {"uniqueItems": _unique_items, "multipleOf": _multiple_of}
    return extend(library, keywords)  # type: ignore[no-untyped-call]  # it has no types


def _multiple_of(_: Any, divisor: float, value: object, __: object) -> Iterator[Any]:
    """Check ``multipleOf`` as it is written: 19.99 is a multiple of 0.01, though not in binary."""
    from jsonschema import ValidationError

    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if (Fraction(str(value)) / Fraction(str(divisor))).denominator != 1:
        yield ValidationError(f"{value!r} is not a multiple of {divisor!r}")


def _unique_items(_: Any, wanted: object, value: object, __: object) -> Iterator[Any]:
    """Check ``uniqueItems`` in one walk; the library compares each item with each."""
    from jsonschema import ValidationError

    if wanted and isinstance(value, list) and len(set(map(_fingerprint, value))) < len(value):
        yield ValidationError(f"{value!r} has non-unique elements")


def _fingerprint(value: object) -> Hashable:
    """Return what two JSON values share only where they are equal; 1 is 1.0, and not true."""
    if isinstance(value, dict):
        return "object", frozenset((name, _fingerprint(item)) for name, item in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_fingerprint, value))
    return ("truth", value) if isinstance(value, bool) else ("value", value)


def _told(error: Any) -> str:
    from jsonschema.exceptions import best_match

    # Of a value that fits no branch of an anyOf, the branch that it misses least is told.
    nearest = best_match([error]) or error
    where = _place(nearest.absolute_path)
    return f"{where}: {_shortened(nearest.message)}" if where else _shortened(nearest.message)


def _place(path: Iterable[str | int]) -> str:
    place = ""
    for step in path:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else step
    return place


def _shortened(text: str) -> str:
    # The end of a message says what is expected, and its start shows the value.
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} … {text[-half:]}"
