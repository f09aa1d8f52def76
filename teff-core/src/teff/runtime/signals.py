"""How a run is left from the inside: signals, not errors.

They derive from ``BaseException``, so that no ``except Exception`` in a node, a tool or a retry can
take a pause or a limit for a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teff.errors import error_text
from teff.runtime.limits import LimitName

if TYPE_CHECKING:
    from teff.runtime.budget import Budget

__all__ = ["AbortSignal", "LimitSignal", "PauseSignal", "Signal"]


class Signal(BaseException):
    """The root of what leaves a run without being an error."""


class PauseSignal(Signal):
    """The run waits for a person; the open questions are in ``Run.questions``."""


class AbortSignal(Signal):
    """A hook of the caller raised ``error``; no node can take it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error_text(error))
        self.error = error


class LimitSignal(Signal):
    """A bound was reached; ``reason`` names it, ``budget`` the part of the run it is of, if any."""

    def __init__(self, reason: LimitName, budget: Budget | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.budget = budget
