"""`Budget`: the bounds of a part of a run, and what the part has used."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from teff.messages import Usage
from teff.runtime.limits import LimitName, Limits
from teff.runtime.signals import LimitSignal

if TYPE_CHECKING:
    from teff.runtime.scope import Scope

__all__ = ["Budget"]


class Budget:
    """Counts what is done within a step that has limits of its own, parts nested in it included.

    Attributes:
        limits: how far the part may go.
        owner: the step that goes on when a bound is reached.
        outer: the budget around it, or None.
        usage, steps: what was used so far, before a resume too.
    """

    def __init__(self, limits: Limits, owner: Scope, before: Mapping[str, Any] | None) -> None:
        self.limits = limits
        self.owner = owner
        self.outer: Budget | None = owner.budget
        self.usage = Usage() if before is None else Usage.from_json(before["usage"])
        self.steps: int = 0 if before is None else before["steps"]
        self._elapsed_before: float = 0.0 if before is None else before["elapsed"]
        self._clock_start = time.monotonic()

    @property
    def remaining(self) -> float | None:
        """Seconds until its deadline, or None without one."""
        seconds = self.limits.deadline
        return None if seconds is None else max(0.0, seconds - self._elapsed)

    @property
    def _elapsed(self) -> float:
        return self._elapsed_before + time.monotonic() - self._clock_start

    def totals(self) -> dict[str, Any]:
        """Return the counters as they are recorded."""
        return {"usage": self.usage.to_json(), "steps": self.steps, "elapsed": self._elapsed}

    def and_around(self) -> Iterator[Budget]:
        """Give this budget and those around it."""
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget.outer

    def check(self, *names: LimitName) -> None:
        """Look whether something more may be done, here and around.

        Raises:
            LimitSignal: a bound of those names is reached; that of the widest part counts.
        """
        for budget in reversed(list(self.and_around())):
            for name in names:
                bound = getattr(budget.limits, name)
                if bound is not None and budget._used(name) >= bound:
                    raise LimitSignal(name, budget)

    def _used(self, name: LimitName) -> float:
        used = self.usage
        return {
            "max_steps": self.steps,
            "max_model_calls": used.model_calls,
            "max_tool_calls": used.tool_calls,
            "max_tokens": used.total_tokens,
            "max_cost": used.cost,
        }[name]
