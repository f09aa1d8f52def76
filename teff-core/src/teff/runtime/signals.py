"""How a run is left from the inside: signals, not errors.

They derive from ``BaseException``, so that no ``except Exception`` in a node, a tool or a retry can
take a pause or a limit for a failure.
"""

from __future__ import annotations

from teff.runtime.limits import LimitName

__all__ = ["AbortSignal", "LimitSignal", "PauseSignal", "Signal"]


class Signal(BaseException):
    """The root of what leaves a run without being an error."""


class PauseSignal(Signal):
    """The run waits for a person; the open questions are in ``Run.questions``."""


class AbortSignal(Signal):
    """A hook of the caller raised ``error``; no node can take it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class LimitSignal(Signal):
    """A bound was reached; ``reason`` names it."""

    def __init__(self, reason: LimitName) -> None:
        super().__init__(reason)
        self.reason = reason
