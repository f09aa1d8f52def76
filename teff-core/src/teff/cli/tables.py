"""Rows of text in columns, and values and times in few words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from teff.cli.messages import harmless

__all__ = ["seconds_in_words", "shortened", "table", "time_in_words"]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines with columns of one width; what a terminal would act on is taken out."""
    rows = [[harmless(" ".join(cell.split("\n"))) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def time_in_words(seconds: float) -> str:
    """Return a time since the epoch as the clock on the wall shows it."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def seconds_in_words(seconds: float) -> str:
    """Return a duration.

    >>> seconds_in_words(0.0123), seconds_in_words(75.2)
    ('12 ms', '75.2 s')
    """
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def shortened(value: Any, length: int = 60) -> str:
    r"""Return a stored value in at most ``length`` characters.

    >>> shortened({"answer": [1, 2]}), shortened("a long\nstory", 8)
    ('{"answer": [1, 2]}', 'a long…')
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 1].rstrip()}…"
