"""`time_limit`: a bound in seconds for what a node does, told from other ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["time_limit"]


@asynccontextmanager
async def time_limit(seconds: float | None, message: str) -> AsyncIterator[None]:
    """Cancel what is inside after ``seconds``, and raise ``TimeoutError(message)``.

    A cancellation from outside and a ``TimeoutError`` of what is inside pass as they are.

    Args:
        seconds: None for no bound.
        message: names the node and the bound.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if limit.expired() and not error.args:
            raise TimeoutError(message) from None
        raise
