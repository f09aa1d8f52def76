"""Bounds of a run and everything nested in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import attrs

from teff.errors import ConfigError, suggest

__all__ = ["LimitName", "Limits"]

LimitName = Literal[
    "max_steps", "max_model_calls", "max_tool_calls", "max_tokens", "max_cost", "deadline"
]


def _bound(*, whole: bool, zero: bool = False) -> Any:
    def check(instance: object, attribute: Any, value: Any) -> None:
        if value is None:
            return
        kinds: tuple[type, ...] = (int,) if whole else (int, float)
        lowest = "0 or more" if zero else "more than 0"
        fits = isinstance(value, kinds) and not isinstance(value, bool)
        if not fits or value != value or value < 0 or (value == 0 and not zero):
            kind = "a whole number" if whole else "a number"
            raise ConfigError(
                f"limit {attribute.name} must be {kind}, {lowest}, or None for no limit; "
                f"not {value!r}.",
                path=attribute.name,
            )

    return attrs.field(default=None, validator=check)


@attrs.frozen(kw_only=True)
class Limits:
    """How far a run may go. None is no limit.

    Counted over the run and everything nested in it, before the work is done, and kept over a
    resume. A bound that is reached ends the run with ``status="stopped"`` and the state so far.

    Attributes:
        max_steps: executions of nodes, those of sub-flows included.
        max_model_calls: requests to a provider, retried ones included.
        max_tool_calls: calls of tools; 0 forbids them.
        max_tokens: tokens of prompts and answers, as the servers count them; the call that crosses
            the bound is the last one.
        max_cost: by the price table, in its currency.
        deadline: seconds of running; time spent paused does not count.

    Raises:
        ConfigError: a bound that is negative, no number, or 0 where 0 would allow nothing.

    >>> Limits(max_steps=100, deadline=60.0).max_steps
    100
    """

    max_steps: int | None = _bound(whole=True)
    max_model_calls: int | None = _bound(whole=True)
    max_tool_calls: int | None = _bound(whole=True, zero=True)
    max_tokens: int | None = _bound(whole=True)
    max_cost: float | None = _bound(whole=False)
    deadline: float | None = _bound(whole=False)

    @classmethod
    def of(cls, given: object) -> Self:
        """Return limits as they are, or make them from a mapping of bounds by name.

        Raises:
            ConfigError: it is neither, or a bound is unknown or makes no sense.
        """
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"limits must be a Limits(...) or a dict of bounds, not {type(given).__name__}.",
                path="limits",
            )
        for name in given:
            if name not in cls.names():
                raise ConfigError(
                    f"there is no limit {name!r}.",
                    path=f"limits.{name}",
                    hint=suggest(str(name), cls.names()).strip(),
                )
        return cls(**given)

    def to_config(self) -> dict[str, Any]:
        """Return the bounds there are, by name."""
        return {name: bound for name, bound in attrs.asdict(self).items() if bound is not None}

    @classmethod
    def names(cls) -> frozenset[str]:
        """Return the names of all bounds."""
        return frozenset(field.name for field in attrs.fields(cls))
