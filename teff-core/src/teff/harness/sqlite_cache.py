"""`SQLiteReplyCache`: answers kept in a file."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from teff.errors import ConfigError

__all__ = ["SQLiteReplyCache"]

#: To look for the oldest takes a while where there are many.
_KEPT_BETWEEN_CLEARINGS = 100


class SQLiteReplyCache:
    """Keeps answers in a file, which several processes may share. Answers stand in it as they are.

    Args:
        path: the file; it is made when it is first needed, readable by its owner alone.
        max_entries: about how many are kept; the oldest go first.
        max_age: seconds after which an answer no longer counts; None keeps it.

    Raises:
        ConfigError: (of `get` and `put`) the file cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_entries: int = 100_000,
        max_age: float | None = None,
    ) -> None:
        self.path = Path(path)
        self._max_entries = max_entries
        self._max_age = max_age
        self._lock = threading.Lock()
        self._kept = 0

    async def get(self, key: str) -> Mapping[str, Any] | None:
        """Return what was kept under ``key``, or None."""
        return await asyncio.to_thread(self._get, key)

    async def put(self, key: str, reply: Mapping[str, Any]) -> None:
        """Keep ``reply``."""
        await asyncio.to_thread(self._put, key, json.dumps(reply))

    def _get(self, key: str) -> Mapping[str, Any] | None:
        oldest = 0.0 if self._max_age is None else time.time() - self._max_age
        found = self._run("SELECT reply FROM replies WHERE key = ? AND kept >= ?", key, oldest)
        return _as_object(found[0][0]) if found else None

    def _put(self, key: str, reply: str) -> None:
        self._run("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", key, reply, time.time())
        self._kept += 1
        if self._kept % _KEPT_BETWEEN_CLEARINGS == 0:
            self._run(
                "DELETE FROM replies WHERE key IN "
                "(SELECT key FROM replies ORDER BY kept DESC LIMIT -1 OFFSET ?)",
                self._max_entries,
            )

    def _run(self, statement: str, *values: object) -> list[Any]:
        with self._lock:
            try:
                with closing(self._open()) as database, database:
                    return database.execute(statement, values).fetchall()
            except (sqlite3.Error, OSError) as error:
                raise ConfigError(
                    f"cache: {str(self.path)!r} cannot be used: {error}.",
                    hint="Name a file that is no other database, in a folder that can be written.",
                    path="cache",
                ) from error

    def _open(self) -> sqlite3.Connection:
        if not self.path.exists():
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        database = sqlite3.connect(self.path, timeout=30.0)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS replies "
                "(key TEXT PRIMARY KEY, reply TEXT NOT NULL, kept REAL NOT NULL) WITHOUT ROWID"
            )
            database.execute("CREATE INDEX IF NOT EXISTS replies_kept ON replies (kept)")
        except sqlite3.Error:
            database.close()
            raise
        return database


def _as_object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None  # damaged: asked again, and kept anew
    return value if isinstance(value, dict) else None
