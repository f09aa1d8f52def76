"""How many levels of delegation there may still be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["one_level_down", "remaining_depth"]

_DEPTH: ContextVar[int | None] = ContextVar("teff_delegation_depth", default=None)


def remaining_depth(depth: int) -> int:
    """Return how many levels there may be here: of ``depth``, and of what is around."""
    around = _DEPTH.get()
    return depth if around is None else min(depth, around)


@contextmanager
def one_level_down(depth: int) -> Iterator[None]:
    """Leave one level fewer than ``depth`` to what runs within."""
    token = _DEPTH.set(depth - 1)
    try:
        yield
    finally:
        _DEPTH.reset(token)
