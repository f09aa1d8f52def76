"""What a store of memories must do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import attrs

from teff.errors import ConfigError

__all__ = ["MemoryItem", "MemoryStore", "Namespace", "check_namespace"]

#: Whose memories: parts from the outside in, such as ``("users", "ada")``.
Namespace: TypeAlias = Sequence[str]


@attrs.frozen(kw_only=True)
class MemoryItem:
    """One memory.

    Attributes:
        namespace: whose it is.
        key: its name within the namespace.
        value: a JSON-like dict; what is searched and shown is its ``text``.
        score: how well it fits a search, higher is better; 0.0 outside of one.
    """

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any]
    score: float = 0.0

    @property
    def text(self) -> str:
        """The text that is searched and shown."""
        return str(self.value.get("text", ""))


@runtime_checkable
class MemoryStore(Protocol):
    """A store of memories. What lies in one namespace is never found from another.

    Every method refuses a namespace without parts, or with an empty part, with `ConfigError`: a
    missing owner must not mean everybody's memories.
    """

    async def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        ttl: float | None = None,
    ) -> None:
        """Keep ``value`` under ``key``, in place of what was there; for ``ttl`` seconds, or for good."""
        ...

    async def get(self, namespace: Namespace, key: str) -> MemoryItem | None:
        """Return the memory under ``key``, or None."""
        ...

    async def delete(self, namespace: Namespace, key: str) -> None:
        """Forget the memory under ``key``; nothing happens where there is none."""
        ...

    async def search(
        self, namespace: Namespace, query: str, *, k: int = 10
    ) -> Sequence[MemoryItem]:
        """Return at most ``k`` memories that fit ``query``, the best first."""
        ...

    async def list(self, namespace: Namespace) -> Sequence[MemoryItem]:
        """Return every memory of the namespace, the oldest first."""
        ...

    async def cleanup(self, *, max_age: float | None = None) -> int:
        """Forget what has expired, and what is older than ``max_age`` seconds; return how many."""
        ...


def check_namespace(namespace: Namespace) -> tuple[str, ...]:
    """Return a namespace as a tuple.

    Raises:
        ConfigError: it is text, has no parts, or a part is empty or no text.
    """
    if isinstance(namespace, str) or not namespace:
        raise ConfigError(
            f"a namespace is a list of texts such as ('users', 'ada'), not {namespace!r}.",
            path="namespace",
        )
    for part in namespace:
        if not str(part or "").strip():
            raise ConfigError(
                f"a part of the namespace {tuple(namespace)!r} is empty: nobody's memories are "
                "meant then, and not everybody's.",
                path="namespace",
            )
    return tuple(namespace)
