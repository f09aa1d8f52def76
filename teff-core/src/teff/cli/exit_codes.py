"""How a command ends, for shells and programs."""

from __future__ import annotations

from typing import Final

__all__ = ["FAILED", "FINISHED", "INTERRUPTED", "PAUSED", "STOPPED", "WRONG_USE"]

FINISHED: Final = 0
FAILED: Final = 1
WRONG_USE: Final = 2
PAUSED: Final = 3
STOPPED: Final = 4
INTERRUPTED: Final = 130
