"""Stores of runs: the protocol, and the store in memory."""

from teff.checkpoint.memory import MemoryCheckpointer
from teff.checkpoint.protocol import Checkpointer, Durability, Lease, Record, RecordKind, RunState

__all__ = [
    "Checkpointer",
    "Durability",
    "Lease",
    "MemoryCheckpointer",
    "Record",
    "RecordKind",
    "RunState",
]
