"""Several things at once, of which any may pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from teff.errors import GraphInterrupt
from teff.runtime import Signal

__all__ = ["together"]


async def together(
    work: Sequence[Awaitable[Any]], *, finished: Callable[[Any], None] | None = None
) -> list[Any]:
    """Await everything to its end, so that what is finished need not be done again.

    Args:
        work: what runs at once.
        finished: called with each outcome in the order of ``work``, also where others have failed or
            all of it is cancelled.

    Raises:
        BaseException: one of the failures; a pause or a limit says more than an error beside it.
    """
    done: dict[int, Any] = {}

    async def watch(place: int, one: Awaitable[Any]) -> Any:
        done[place] = await one
        return done[place]

    try:
        watched = [watch(place, one) for place, one in enumerate(work)]
        outcomes = await asyncio.gather(*watched, return_exceptions=True)
    finally:
        if finished is not None:
            for place in sorted(done):
                finished(done[place])
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        raise min(failures, key=lambda failure: not isinstance(failure, Signal | GraphInterrupt))
    return outcomes
