"""A cache of whole answers: the same question to the same model of the same server is asked once."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable
from weakref import WeakKeyDictionary

import attrs

from teff.errors import ConfigError
from teff.harness.journaled import request_as_json
from teff.provider import ChatRequest, Provider

__all__ = [
    "CacheFinder",
    "CacheOption",
    "MemoryReplyCache",
    "ReplyCache",
    "cache_key",
    "cache_of",
]


@runtime_checkable
class ReplyCache(Protocol):
    """Keeps answers by key. Both methods may be called from several tasks and threads at once."""

    async def get(self, key: str) -> Mapping[str, Any] | None:
        """Return what was kept under ``key``, or None."""
        ...

    async def put(self, key: str, reply: Mapping[str, Any]) -> None:
        """Keep ``reply``, a JSON-like mapping, in place of what was there."""
        ...


#: True keeps answers for as long as their provider is there, a text is the path of a file, None and
#: False are no cache.
CacheOption: TypeAlias = bool | str | ReplyCache | None


class MemoryReplyCache:
    """Keeps answers in this process; the one that was not used for longest goes first.

    Several event loops, each in a thread of its own, may share one.

    Args:
        max_entries: how many are kept.
    """

    def __init__(self, max_entries: int = 1_000) -> None:
        self._max_entries = max_entries
        self._replies: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    async def get(self, key: str) -> Mapping[str, Any] | None:
        """Return what was kept under ``key``, or None; a copy of its own each time."""
        with self._lock:
            kept = self._replies.get(key)
            if kept is None:
                return None
            self._replies.move_to_end(key)
        reply: dict[str, Any] = json.loads(kept)
        return reply

    async def put(self, key: str, reply: Mapping[str, Any]) -> None:
        """Keep ``reply``."""
        written = json.dumps(reply)
        with self._lock:
            self._replies[key] = written
            self._replies.move_to_end(key)
            while len(self._replies) > self._max_entries:
                self._replies.popitem(last=False)


#: Finds the cache for the calls of a provider.
CacheFinder: TypeAlias = Callable[[Provider], ReplyCache]

#: With the provider its answers go.
_of_providers: WeakKeyDictionary[Provider, MemoryReplyCache] = WeakKeyDictionary()
_by_path: dict[Path, ReplyCache] = {}

#: Words that YAML takes for text, and their writer for true or false.
_NO_PATHS = frozenset({"true", "false", "yes", "no", "on", "off"})


def cache_of(option: CacheOption) -> CacheFinder | None:
    """Return what finds the cache that the option ``cache`` of a node means; None is no cache.

    Raises:
        ConfigError: it means none, or a file in a folder that is not there.
    """
    if option is None or option is False:
        return None
    if option is True:
        return _of_provider
    if isinstance(option, str) and not _is_no_path(option):
        cache = _of_path(Path(option).expanduser().resolve())
        return lambda provider: cache
    if isinstance(option, ReplyCache):
        return lambda provider: option
    raise ConfigError(
        f"cache: {option!r} is neither true, nor the path of a file, nor a cache.", path="cache"
    )


def _is_no_path(text: str) -> bool:
    return not text.strip() or text.isdigit() or text.lower() in _NO_PATHS


def _of_provider(provider: Provider) -> ReplyCache:
    return _of_providers.setdefault(provider, MemoryReplyCache())


def _of_path(path: Path) -> ReplyCache:
    if not path.parent.is_dir():
        raise ConfigError(
            f"cache: there is no folder {str(path.parent)!r} to keep {path.name!r} in.",
            path="cache",
        )
    from teff.harness.sqlite_cache import SQLiteReplyCache  # sqlite3 is loaded where it is used

    return _by_path.setdefault(path, SQLiteReplyCache(path))


def cache_key(provider: Provider, request: ChatRequest) -> str:
    """Return the key of a request: of who is asked, where, which model, and the whole of it.

    Every option of the provider counts, headers too, for any may change the answer; of a class that
    is no attrs class, its attributes that are texts, numbers and truth values. Keys are digests, and
    the functions that fetch API keys are left out, so no secret can be read off one. Who may not see
    each other's answers must not share a cache.
    """
    kind = type(provider)
    asked: dict[str, Any] = {
        "type": f"{kind.__module__}.{kind.__qualname__}",
        "name": provider.name,
    }
    if attrs.has(kind):
        fields = [field.name for field in attrs.fields(kind) if field.init]
        values = {name: getattr(provider, name) for name in fields if hasattr(provider, name)}
        asked |= {name: repr(None if callable(it) else it) for name, it in values.items()}
    else:
        plain = (str, int, float, bool)
        own = getattr(provider, "__dict__", {})
        asked |= {name: repr(it) for name, it in own.items() if isinstance(it, plain)}
    written = json.dumps(asked, sort_keys=True) + request_as_json(request)
    return hashlib.sha256(written.encode(errors="backslashreplace")).hexdigest()
