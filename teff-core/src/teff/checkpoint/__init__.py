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
    from teff.checkpoint.encoding import Encoder
    from teff.checkpoint.file import FileCheckpointer
    from teff.checkpoint.registered import register_type, types_of_schema
    from teff.checkpoint.sqlite import SQLiteCheckpointer

__all__ = [
    "Checkpointer",
    "Durability",
    "Encoder",
    "FileCheckpointer",
    "Lease",
    "MemoryCheckpointer",
    "Record",
    "RecordKind",
    "RunState",
    "RunStore",
    "RunSummary",
    "SQLiteCheckpointer",
    "StoredRecord",
    "register_type",
    "types_of_schema",
]

#: Modules that are loaded when one of their names is first asked for.
_HOMES: dict[str, tuple[str, ...]] = {
    "teff.checkpoint.encoding": ("Encoder",),
    "teff.checkpoint.file": ("FileCheckpointer",),
    "teff.checkpoint.registered": ("register_type", "types_of_schema"),
    "teff.checkpoint.sqlite": ("SQLiteCheckpointer",),
}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, globals(), _HOMES)
