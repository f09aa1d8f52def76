"""Running what has a budget of its own: within its deadline, and no further than its bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from teff.runtime.signals import LimitSignal

if TYPE_CHECKING:
    from teff.runtime.budget import Budget

__all__ = ["within_deadline"]

_T = TypeVar("_T")


async def within_deadline(budget: Budget | None, work: Coroutine[Any, Any, _T]) -> _T:
    """Await ``work``, until the deadline of a budget where it has one.

    Raises:
        LimitSignal: the deadline has passed, and ``work`` was cancelled.
    """
    if budget is None or budget.remaining is None:
        return await work
    deadline = asyncio.timeout(budget.remaining)
    try:
        async with deadline:
            return await work
    except TimeoutError as error:
        if not deadline.expired() or error.args:
            raise
        raise LimitSignal("deadline", budget) from None
