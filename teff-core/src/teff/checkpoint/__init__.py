"""Stores of runs: the protocol, and what Teff brings."""

from typing import TYPE_CHECKING

from teff.checkpoint.memory import MemoryCheckpointer
from teff.checkpoint.protocol import (
    Checkpointer,
    Durability,
    Lease,
    Record,
    RecordKind,
    RunState,
    RunStore,
    RunSummary,
    StoredRecord,
)
from teff.lazy import lazy_names

if TYPE_CHECKING:
    pass

__all__ = [
    "Checkpointer",
    "Durability",
    "Lease",
    "MemoryCheckpointer",
    "Record",
    "RecordKind",
    "RunState",
    "RunStore",
    "RunSummary",
    "StoredRecord",
]

#: Modules that are loaded when one of their names is first asked for.
_HOMES: dict[str, tuple[str, ...]] = {}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, globals(), _HOMES)
