"""Options of a node, a provider or a tool: a mapping read into the fields of an attrs class."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from teff.errors import ConfigError, suggest
from teff.schema.annotations import Field, class_fields
from teff.schema.problems import Misfit

__all__ = ["missing_fields", "structure_fields"]


def structure_fields(
    cls: type,
    options: Mapping[str, object],
    *,
    what: str,
    ignore: Collection[str] = (),
) -> dict[str, object]:
    """Check options against the fields of an attrs class, and read each into its field's type.

    The reading is strict: ``"no"`` is no truth value, 1.9 is no whole number, 3 is no text. Values
    that are instances already, such as nodes, providers and functions, pass through unchanged.

    >>> import attrs
    >>> @attrs.frozen
    ... class Limits:
    ...     max_steps: int = 0
    >>> structure_fields(Limits, {"max_steps": "3"}, what="the limits")
    {'max_steps': 3}

    Args:
        cls: an attrs class; its fields are named as its constructor names them.
        options: from option names to values. Not every field has to be there: see
            `missing_fields`.
        what: whose options these are, to begin a message with, as ``"step 'route' (supervisor)"``.
        ignore: names in ``options`` that are somebody else's; they are left out of the result.

    Returns:
        The keyword arguments for ``cls``: those of ``options``, in their order.

    Raises:
        ConfigError: an unknown option or a value of a wrong type; ``path`` is the option's name,
            dotted where the value is nested. The value itself is never shown.
    """
    fields = {field.name: field for field in class_fields(cls)}
    structured: dict[str, object] = {}
    for name, value in options.items():
        if name in ignore:
            continue
        if name not in fields:
            raise ConfigError(
                f"{what}: unknown option {name!r}.",
                path=str(name),
                hint=suggest(str(name), fields).strip(),
            )
        structured[name] = _structure_option(fields[name], value, what)
    return structured


def missing_fields(cls: type, given: Collection[str]) -> list[str]:
    """Return the names of the options without a default that are not among ``given``."""
    return [field.name for field in class_fields(cls) if field.required and field.name not in given]


def _structure_option(field: Field, value: object, what: str) -> object:
    from teff.schema.structure import structure

    try:
        return structure(value, field.type)
    except Misfit as misfit:
        problem = misfit.under(field.name)[0]
    except ConfigError as error:
        raise ConfigError(f"{what}: option {field.name!r}: {error}", path=field.name) from error
    if problem.kind == "unknown":
        message = f"{what}: unknown option {problem.path!r}."
        raise ConfigError(message, path=problem.path, hint=problem.hint.removeprefix(". "))
    raise ConfigError(
        f"{what}: option {problem.path!r} {problem.text}{problem.hint}", path=problem.path
    )
