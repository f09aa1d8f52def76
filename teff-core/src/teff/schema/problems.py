"""What is wrong with a value, and where in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import attrs

from teff.schema.words import describe_type, describe_value

__all__ = ["Misfit", "Problem"]


@attrs.frozen(kw_only=True)
class Problem:
    """One thing that is wrong with a value.

    Attributes:
        path: where, as ``limits.max_steps`` or ``roles[2]``; "" for the value itself.
        text: what is wrong, as the end of a sentence that begins with the place.
        kind: ``wrong``, ``unknown`` or ``missing``.
        hint: the way out, as the end of a sentence with its leading space, or "".
    """

    path: str = ""
    text: str
    kind: Literal["wrong", "unknown", "missing"] = "wrong"
    hint: str = ""


class Misfit(ValueError):
    """A value does not fit its type. ``problems`` says everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{problem.path} {problem.text}" for problem in self.problems))

    @classmethod
    def of(cls, value: object, expected: Any, *, hint: str = "") -> Misfit:
        """Say that ``value`` should have been of the type ``expected``."""
        text = f"must be {describe_type(expected)}, not {describe_value(value)}"
        return cls([Problem(text=text, hint=hint)])

    def under(self, step: str | int) -> tuple[Problem, ...]:
        """Return the problems as those of a part of a greater value."""
        return tuple(
            attrs.evolve(problem, path=_join(step, problem.path)) for problem in self.problems
        )


def _join(step: str | int, path: str) -> str:
    first = f"[{step}]" if isinstance(step, int) else step
    return f"{first}{'.' if path and not path.startswith('[') else ''}{path}"
