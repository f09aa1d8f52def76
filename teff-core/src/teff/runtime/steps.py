"""What running one node comes to, wherever it runs: in a graph, or as a call of another node."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from teff.errors import GraphInterrupt, StateError, WorkflowError, error_text
from teff.plugins import NodeInfo
from teff.runtime.command import Command
from teff.runtime.signals import AbortSignal, PauseSignal, Signal
from teff.state import Reducers, changed_keys, freeze_update, rebound_keys
from teff.state.frozen import FROZEN

if TYPE_CHECKING:
    from teff.runtime.context import ExecContext
    from teff.runtime.place import Executable

__all__ = ["as_failure", "read_result", "run_child", "tell_plugins", "uninterrupted"]

_T = TypeVar("_T")


def read_result(
    result: Any, ctx: ExecContext, state: Mapping[str, Any], reducers: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Any]:
    """Read what a node returned: its updates, and where it wants to go (None: along the edges).

    ``state`` is what the node's own dict was copied from.

    Raises:
        StateError: it returned something that is no update.
    """
    goto = None
    if isinstance(result, Command):
        result, goto = result.update, result.goto
    if result is ctx.state:
        return rebound_keys(ctx.state, state, reducers), goto
    if result is None:
        return {}, goto
    if isinstance(result, Mapping):
        return result, goto
    raise StateError(
        f"node {ctx.node_id!r} returned {type(result).__name__}; "
        "return a dict of updates, a Command, or None"
    )


def as_failure(ctx: ExecContext, raised: BaseException) -> Exception:
    """Return what a node failed with; raise what leaves the run instead.

    A pause or a limit counts also where the node has caught its signal, and where it comes in the
    group of a ``TaskGroup``. A cancellation that nobody asked for is a failure of the node.

    Raises:
        Signal: the run has paused or reached a limit.
        BaseException: a cancellation from outside, or the end of the process.
    """
    task = asyncio.current_task()
    if isinstance(raised, asyncio.CancelledError) and task is not None and task.cancelling():
        raise raised
    pending = ctx.pending()
    if isinstance(pending, Exception):
        return pending
    if isinstance(pending, AbortSignal):  # it wins over a pause beside it
        raise pending from None
    for signal in (raised, *_leaves(raised), pending):
        if isinstance(signal, Signal):
            raise signal from None
    if isinstance(raised, Exception):
        return raised
    if isinstance(raised, asyncio.CancelledError):
        failure = WorkflowError(
            f"node {ctx.node_id!r} raised CancelledError, though nobody cancelled the run"
        )
        failure.__cause__ = raised
        return failure
    raise raised


def tell_plugins(ctx: ExecContext, error: Exception) -> None:
    """Tell the hook ``teff_error`` of a failure, once: where it happened."""
    hooks = ctx.run.hooks
    if hooks is None or not hooks.listens("teff_error") or error is ctx.run.told_error:
        return
    ctx.run.told_error = error
    node = NodeInfo(id=ctx.node_id, type=ctx.node_type, path=ctx.path)
    hooks.tell("teff_error", run=ctx.run.info, node=node, error=error)


def _leaves(raised: BaseException) -> Iterator[BaseException]:
    """Give the exceptions in a group, pauses first: a paused run can go on, a stopped one may."""
    if isinstance(raised, BaseExceptionGroup):
        found = [leaf for inner in raised.exceptions for leaf in (inner, *_leaves(inner))]
        yield from sorted(found, key=lambda leaf: not isinstance(leaf, PauseSignal))


async def run_child(child: ExecContext, node: Executable) -> tuple[Mapping[str, Any], Any]:
    """Run a node that another one calls; return its updates, frozen, and where it wants to go."""
    given = dict(child.state)
    goto = None
    started = time.monotonic()
    await child.emit("node_start", {})
    hooks = child.run.node_hooks
    if hooks is not None:
        await hooks.started(child, node)
    try:
        result = await node.execute(child, child.state)
        if (pending := child.pending()) is not None:
            raise pending
        updates, goto = read_result(result, child, given, {})
        frozen = freeze_update(_changes(updates, given, child.frame.reducers))
    except GraphInterrupt as asked:
        frozen = {asked.key: await child.answer_to(asked)}
    except BaseException as raised:
        await child.settle(raised)
        error = as_failure(child, raised)
        tell_plugins(child, error)
        await child.emit(
            "node_error",
            {
                "error": error_text(error),
                "type": type(error).__name__,
                "duration_ms": (time.monotonic() - started) * 1000.0,
                "caught": False,
            },
        )
        if hooks is not None:
            await hooks.failed(child, node, given, error)
        raise error  # noqa: B904  # its cause is set where it is not `raised` itself
    await child.emit(
        "node_end",
        {"duration_ms": (time.monotonic() - started) * 1000.0, "keys": tuple(frozen)},
    )
    if hooks is not None:
        await hooks.ended_inside(child, node, given, frozen)
    return frozen, goto


def _changes(
    updates: Mapping[str, Any], given: Mapping[str, Any], reducers: Reducers
) -> Mapping[str, Any]:
    """Return updates without what came back as it was given, for that would undo what others did.

    Lists, dicts and sets are known again. Of other values only a node that returns the whole state
    means nothing by them: ``{"ok": False}`` says so, whatever was there.
    """
    if len(given) > 1 and given.keys() <= updates.keys():
        return changed_keys(updates, given, reducers)
    return {
        key: value
        for key, value in updates.items()
        if type(value) not in FROZEN or given.get(key) is not value
    }


async def uninterrupted(work: Coroutine[Any, Any, _T]) -> _T:
    """Await ``work`` to its end, also where this task is cancelled; the cancellation follows then."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except BaseException:
            break  # it is the task's own, and raised below
    if cancelled is not None and not task.cancelled():
        raise cancelled from task.exception()
    return task.result()
