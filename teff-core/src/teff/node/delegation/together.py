"""Several things at once, of which any may pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from teff.errors import GraphInterrupt
from teff.runtime import Signal

__all__ = ["together"]


async def together(work: Sequence[Awaitable[Any]]) -> list[Any]:
    """Await everything to its end, so that what is finished need not be done again.

    Raises:
        BaseException: one of the failures; a pause or a limit says more than an error beside it.
    """
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        raise min(failures, key=lambda failure: not isinstance(failure, Signal | GraphInterrupt))
    return outcomes
