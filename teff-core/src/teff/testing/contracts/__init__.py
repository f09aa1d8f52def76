"""Conformance suites: what every implementation of a protocol of Teff must do, as tests to inherit.

Needs ``pytest``; the checks against a model need ``hypothesis`` too, and are skipped without it.
"""

from __future__ import annotations

from teff.testing.contracts.capabilities import Capability, capabilities
from teff.testing.contracts.checkpointer import CheckpointerContract

__all__ = ["Capability", "CheckpointerContract", "capabilities"]
