"""Memories in this process, found by the words that they share with a query."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from teff.memory.protocol import MemoryItem, Namespace, check_namespace

__all__ = ["InMemoryStore"]


@attrs.frozen(kw_only=True)
class _Kept:
    item: MemoryItem
    words: frozenset[str]
    since: float
    until: float


class InMemoryStore:
    """Keeps memories for as long as this object lives; the store ``in_memory``.

    >>> import asyncio
    >>> async def remember():
    ...     store = InMemoryStore()
    ...     await store.put(("users", "ada"), "tea", {"text": "Ada likes green tea."})
    ...     await store.put(("users", "bob"), "tea", {"text": "Bob hates tea."})
    ...     return await store.search(("users", "ada"), "What tea does she drink?")
    >>> [item.text for item in asyncio.run(remember())]
    ['Ada likes green tea.']
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], dict[str, _Kept]] = {}

    async def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        ttl: float | None = None,
    ) -> None:
        """Keep ``value`` under ``key``; see `MemoryStore.put`."""
        name, now = check_namespace(namespace), time.monotonic()
        item = MemoryItem(namespace=name, key=key, value=dict(value))
        until = math.inf if ttl is None else now + ttl
        kept = self._kept.setdefault(name, {})
        kept.pop(key, None)
        kept[key] = _Kept(item=item, words=_words(item.text), since=now, until=until)

    async def get(self, namespace: Namespace, key: str) -> MemoryItem | None:
        """Return the memory under ``key``, or None."""
        return next((kept.item for kept in self._living(namespace) if kept.item.key == key), None)

    async def delete(self, namespace: Namespace, key: str) -> None:
        """Forget the memory under ``key``."""
        self._kept.get(check_namespace(namespace), {}).pop(key, None)

    async def search(
        self, namespace: Namespace, query: str, *, k: int = 10
    ) -> Sequence[MemoryItem]:
        """Return at most ``k`` memories that share words with ``query``; rare words count more."""
        living, asked = self._living(namespace), _words(query)
        seen = Counter(word for kept in living for word in kept.words)
        weights = {word: math.log(1 + len(living) / seen[word]) for word in asked if word in seen}
        found = [
            attrs.evolve(kept.item, score=sum(weights[word] for word in shared))
            for kept in living
            if (shared := kept.words & weights.keys())
        ]
        return sorted(found, key=lambda item: -item.score)[:k]

    async def list(self, namespace: Namespace) -> Sequence[MemoryItem]:
        """Return every memory of the namespace, the oldest first."""
        return [kept.item for kept in self._living(namespace)]

    async def cleanup(self, *, max_age: float | None = None) -> int:
        """Forget what has expired or is too old; return how many."""
        now, forgotten = time.monotonic(), 0
        for kept in self._kept.values():
            for key, one in tuple(kept.items()):
                if one.until <= now or (max_age is not None and one.since <= now - max_age):
                    del kept[key]
                    forgotten += 1
        return forgotten

    def _living(self, namespace: Namespace) -> Sequence[_Kept]:
        now = time.monotonic()
        kept = self._kept.get(check_namespace(namespace), {})
        return [one for one in kept.values() if one.until > now]


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))
