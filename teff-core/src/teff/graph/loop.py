"""The run loop: one active node at a time, from the entry until no edge leads on.

What is paid for each step is paid here, so this is the one place where speed decides the style:
names are local, and events and records are made only for someone who wants them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from teff.errors import GraphInterrupt, NodeError, WorkflowError, suggest
from teff.graph.plan import Plan, Step
from teff.plugins import NodeInfo, RunInfo
from teff.runtime import (
    Command,
    Frame,
    LimitSignal,
    PauseSignal,
    Question,
    StepContext,
    read_result,
)
from teff.runtime.events import NOTHING, new_event
from teff.state import merge_into

__all__ = ["run_frame"]

#: Seconds of running after which other tasks of the event loop get their turn.
_SLICE = 0.004

#: What the notes begin with that say where an error was raised.
_NOTE = "in node"


async def run_frame(plan: Plan, frame: Frame) -> str:  # noqa: C901  # one loop, without calls that each step would pay for
    """Run a frame from its position to its end; return why it ended.

    Raises:
        PauseSignal: a question is open. The frame can be made again from its journal.
        LimitSignal: a bound was reached; ``frame.state`` is the state so far.
        Exception: what a node without an error edge raised, with a note that names the node.
    """
    run, state, visits, reducers = frame.run, frame.state, frame.visits, frame.reducers
    emit, journal, timeout, max_steps = run.emit, run.journal, run.node_timeout, run.max_steps
    clock, wall_clock, prefix = time.monotonic, time.time, frame.prefix
    started, path = 0.0, ""
    step = None if frame.position is None else plan.steps[frame.position]
    slice_end = clock() + _SLICE
    while step is not None:
        if run.steps >= max_steps:
            raise LimitSignal("max_steps")
        run.steps += 1
        visits[step.id] = visit = visits.get(step.id, 0) + 1
        view = state.copy()
        ctx = StepContext(run, frame, step, visit, view)
        if emit is not None:
            started = wall_clock()
            ctx._path = path = f"{prefix}{step.segment}/{visit}"
            waiting = emit(new_event(("node_start", step.id, step.type, path, NOTHING, started)))
            if waiting is not None:
                await waiting
        elif journal is not None:
            started = wall_clock()
        goto: Any = None
        try:
            if timeout is None:
                result = await step.execute(ctx, view)
            else:
                async with asyncio.timeout(timeout):
                    result = await step.execute(ctx, view)
            if ctx.paused:
                raise PauseSignal
            updates: Mapping[str, Any]
            if type(result) is dict and result is not view:
                updates = result
            else:
                updates, goto = read_result(result, ctx, state, reducers)
            if updates:
                merge_into(state, updates, reducers)
        except Exception as error:
            updates, goto = await _recover(step, ctx, error, started)
            merge_into(state, updates, reducers)
        except (LimitSignal, asyncio.CancelledError):
            if ctx.partial:
                merge_into(state, ctx.partial, reducers)
            raise
        if ctx.stop_reason is not None:
            frame.reason = ctx.stop_reason or None

        following, label = step.next, None
        if goto is not None:
            following = _follow_command(plan, step, frame, goto)
        elif following is None:
            for test, target, text in step.edges:
                if test(state):
                    following, label = target, text
                    break
            else:
                frame.reason = frame.reason or ("no_edge_matched" if step.edges else "end")
        frame.position = following.id if following is not None else None

        if journal is not None:
            await _record(frame, step, ctx, updates, started)
        if emit is not None:
            ended = wall_clock()
            data = {"duration_ms": (ended - started) * 1000.0, "keys": tuple(updates)}
            waiting = emit(new_event(("node_end", step.id, step.type, path, data, ended)))
            if waiting is not None:
                await waiting
            data = {"target": frame.position, "condition": label}
            waiting = emit(new_event(("edge", step.id, step.type, path, data, ended)))
            if waiting is not None:
                await waiting
        step = following
        if clock() >= slice_end:
            await asyncio.sleep(0)
            slice_end = clock() + _SLICE
    return frame.reason or "end"


async def _record(
    frame: Frame, step: Step, ctx: StepContext, updates: Mapping[str, Any], started: float
) -> None:
    """Write a finished step into the journal: its updates and where it went next, in one record."""
    journal = frame.run.journal
    assert journal is not None  # noqa: S101  # the caller looked
    await journal.record_step(
        frame.path,
        node=step.id,
        updates=updates,
        next=frame.position,
        reason=frame.reason,
        times=(started, time.time()),
    )
    await ctx.emit("checkpoint", {"path": ctx.path, "kind": "step"})


async def _recover(
    step: Step, ctx: StepContext, error: Exception, started: float
) -> tuple[Mapping[str, Any], Any]:
    """Return the updates and the target that follow a failure; raise where nothing catches it."""
    if ctx.paused:
        raise PauseSignal from error
    if isinstance(error, GraphInterrupt):
        return await _answered(ctx, error), None
    await ctx.emit(
        "node_error",
        {
            "error": str(error),
            "type": type(error).__name__,
            "duration_ms": (time.time() - started) * 1000.0 if started else 0.0,
            "caught": step.on_error is not None,
        },
    )
    hooks = ctx.run.hooks
    if hooks is not None and hooks.listens("teff_error") and not _was_told(error):
        node = NodeInfo(id=step.id, type=step.type, path=ctx.path)
        hooks.tell("teff_error", run=RunInfo(run_id=ctx.run_id), node=node, error=error)
    if step.on_error is None:
        error.add_note(f"{_NOTE} {step.id!r} ({step.type}) at {ctx.path}")
        raise error
    described = NodeError.from_exception(error, node=step.id, path=ctx.path)
    return {"error": described.to_state()}, step.on_error.id


def _was_told(error: Exception) -> bool:
    """Return whether a frame further in has told of the error already."""
    return any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ()))


async def _answered(ctx: StepContext, asked: GraphInterrupt) -> Mapping[str, Any]:
    """Treat a node that raised `GraphInterrupt` as one that asks and stores the answer."""
    question = Question(
        id=f"{ctx.path}:{asked.key}",
        key=asked.key,
        prompt=asked.prompt,
        path=ctx.path,
        node_id=ctx.node_id,
    )
    return {asked.key: await ctx.ask(question)}


def _follow_command(plan: Plan, step: Step, frame: Frame, goto: Any) -> Step | None:
    if goto is Command.STOP:
        frame.reason = "command_stop"
        return None
    target = plan.steps.get(goto)
    if target is None:
        raise WorkflowError(
            f"node {step.id!r} wants to go to {goto!r}, which is no node of the graph."
            f"{suggest(str(goto), plan.steps)}"
        )
    return target
