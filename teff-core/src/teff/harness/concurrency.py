"""How many calls of one provider run at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakKeyDictionary

from teff.errors import ConfigError

__all__ = ["check_limit", "provider_concurrency", "set_provider_concurrency", "slot"]

_limits: dict[str, int] = {}

#: Semaphores belong to the event loop in which they are waited for.
_slots: WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[tuple[Hashable, int], asyncio.Semaphore]
] = WeakKeyDictionary()


def set_provider_concurrency(provider: str, limit: int | None) -> None:
    """Bound the calls of a provider that run at once, in this process and each event loop of it.

    Args:
        provider: its name in workflows.
        limit: at least 1; None takes the bound away. Calls that are running go on.

    Raises:
        ConfigError: ``limit`` is no such number.

    >>> set_provider_concurrency("ollama", 2)
    >>> provider_concurrency("ollama")
    2
    >>> set_provider_concurrency("ollama", None)
    """
    if limit is None:
        _limits.pop(provider, None)
        return
    check_limit(limit, f"provider {provider!r}: the number of calls at once")
    _limits[provider] = limit


def check_limit(limit: object, what: str, *, path: str = "") -> None:
    """Raise `ConfigError` where ``limit`` is no number of calls, but for None, which is no limit.

    A limit of 0 would let every call wait for ever.
    """
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigError(
            f"{what} is a whole number of at least 1, or None, not {limit!r}.", path=path
        )


def provider_concurrency(provider: str) -> int | None:
    """Return how many calls of a provider may run at once; None where it is not bounded."""
    return _limits.get(provider)


@asynccontextmanager
async def slot(*bounds: tuple[Hashable, int | None]) -> AsyncIterator[None]:
    """Wait until a call may be made; inside the ``async with`` it counts.

    Args:
        *bounds: who shares a bound, and how many of them run at once; None is no bound. All are
            kept to.
    """
    async with AsyncExitStack() as held:
        # Narrow bounds first, so that nobody waits in a narrow one and holds a wide one meanwhile.
        for bound, who in sorted(
            ((bound, who) for who, bound in bounds if bound is not None), key=lambda it: it[0]
        ):
            await held.enter_async_context(_semaphore(who, bound))
        yield


def _semaphore(who: Hashable, bound: int) -> asyncio.Semaphore:
    of_the_loop = _slots.setdefault(asyncio.get_running_loop(), {})
    return of_the_loop.setdefault((who, bound), asyncio.Semaphore(bound))
