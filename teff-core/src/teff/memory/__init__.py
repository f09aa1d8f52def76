"""Memory: texts that outlive a run, kept apart by namespace."""

from teff.memory.context import MemoryConfig, memory_text
from teff.memory.in_memory import InMemoryStore
from teff.memory.protocol import MemoryItem, MemoryStore, Namespace

__all__ = [
    "InMemoryStore",
    "MemoryConfig",
    "MemoryItem",
    "MemoryStore",
    "Namespace",
    "memory_text",
]
