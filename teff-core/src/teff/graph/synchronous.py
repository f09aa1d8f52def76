"""Waiting for a coroutine in a program without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from teff.errors import WorkflowError

__all__ = ["wait_for"]

_T = TypeVar("_T")


def wait_for(work: Callable[[], Coroutine[Any, Any, _T]], *, name: str, instead: str) -> _T:
    """Run ``work`` in an event loop of its own, and return what it returns.

    Args:
        work: makes the coroutine.
        name: the caller, for the error.
        instead: what to write where a loop runs already.

    Raises:
        WorkflowError: an event loop is running in this thread; nothing was begun.
        BaseException: what ``work`` raises.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    raise WorkflowError(
        f"{name} cannot wait where an event loop is running: write `{instead}` there"
    )
