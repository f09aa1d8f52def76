"""A model's arguments, read strictly by the types of the function that takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from teff.errors import ToolError, suggest
from teff.schema.annotations import Field, function_parameters, plain_type
from teff.schema.problems import Misfit
from teff.schema.words import describe_type

__all__ = ["structure_arguments"]


def structure_arguments(
    parameters: Callable[..., Any] | Mapping[str, Any] | Iterable[Field],
    arguments: Mapping[str, Any],
    *,
    tool: str = "",
) -> dict[str, Any]:
    """Check a model's arguments and read each into the type of its parameter.

    Whole numbers written as text, 3.0 for 3, and the JSON text of an object or a list are taken,
    for models write them; ``"1.9"`` is no whole number and ``"no"`` no truth value.

    >>> structure_arguments({"city": str, "days": int}, {"city": "Riga", "days": "2"})
    {'city': 'Riga', 'days': 2}

    Args:
        parameters: the function, or its types by name (each is required), or its fields.
        arguments: what the model sent; it is not changed.
        tool: the tool's name, for the error.

    Returns:
        The keyword arguments that were sent; defaults are left to the function.

    Raises:
        ToolError: something is unknown, missing or of a wrong type. The message is for the model:
            one sentence for each thing that is wrong, each saying what is expected.
    """
    from teff.schema.structure import structure

    fields = {field.name: field for field in _fields(parameters)}
    structured: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in arguments.items():
        if name not in fields:
            problems.append(_unknown(name, fields))
            continue
        try:
            structured[name] = structure(value, fields[name].type, from_model=True)
        except Misfit as misfit:
            problems += [
                f"{problem.path!r} {problem.text}{problem.hint}" for problem in misfit.under(name)
            ]
    problems += [
        f"{field.name!r} is missing; it must be {describe_type(field.type)}"
        for field in fields.values()
        if field.required and field.name not in arguments
    ]
    if problems:
        raise ToolError(" ".join(_sentence(problem) for problem in problems), tool=tool)
    return structured


def _unknown(name: str, fields: Mapping[str, Field]) -> str:
    known = suggest(str(name), fields) if fields else " There are no parameters."
    return f"{name!r} is no parameter.{known}"


def _sentence(problem: str) -> str:
    return problem if problem.endswith((".", "?", "!")) else f"{problem}."


def _fields(
    parameters: Callable[..., Any] | Mapping[str, Any] | Iterable[Field],
) -> Iterable[Field]:
    if isinstance(parameters, Mapping):
        return [
            Field(name=name, type=plain_type(annotation)[0], required=True)
            for name, annotation in parameters.items()
        ]
    if callable(parameters):
        return function_parameters(parameters)
    return parameters
