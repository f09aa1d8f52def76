"""Running a blocking function beside the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["run_in_thread"]


async def run_in_thread(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Run a function in a thread of its own, and return or raise what it does.

    Context variables are those of the caller. A thread cannot be stopped: where the caller is
    cancelled the function goes on, its result is dropped, and the end of the program does not wait
    for it. That is the reason why this is not ``asyncio.to_thread``, whose threads are waited for:
    Ctrl-C would hang as long as the slowest tool.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function, **arguments)
        except StopIteration as stop:  # a future cannot carry it
            error = RuntimeError(f"the function raised StopIteration({stop.value!r})")
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(_settle, outcome, result, error)
        except RuntimeError:
            if not loop.is_closed():  # nobody waits any more
                raise

    threading.Thread(target=work, name="teff-worker", daemon=True).start()
    return await outcome


def _settle(outcome: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if outcome.done():
        return
    if error is None:
        outcome.set_result(result)
    else:
        outcome.set_exception(error)
