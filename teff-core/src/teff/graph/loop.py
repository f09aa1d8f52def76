"""The run loop: one active node at a time, from the entry until no edge leads on.

What is paid for each step is paid here, so this is the one place where speed decides the style:
names are local, and events and records are made only for someone who wants them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from teff.errors import GraphInterrupt, NodeError, StateError, WorkflowError, error_text, suggest
from teff.graph.edge import ERROR
from teff.graph.plan import Plan, Step
from teff.node.function import took_too_long
from teff.node.workers import SLICE
from teff.plugins.log import warn
from teff.runtime import (
    Command,
    Frame,
    LimitSignal,
    PauseSignal,
    StepContext,
    StreamEvent,
    as_failure,
    read_result,
    uninterrupted,
)
from teff.runtime.events import NOTHING, new_event
from teff.runtime.steps import tell_plugins
from teff.runtime.time_limit import time_limit
from teff.state import changed_keys, effects_of, merge_into, not_replayable, note_written

__all__ = ["run_frame"]


async def run_frame(plan: Plan, frame: Frame) -> str:  # noqa: C901  # one loop, without calls that each step would pay for
    """Run a frame from its position to its end; return why it ended.

    Raises:
        PauseSignal: a question is open. The frame can be made again from its journal.
        LimitSignal: a bound was reached; ``frame.state`` is the state so far.
        Exception: what a node without an error edge raised, with a note that names the node.
    """
    run, state, visits, reducers = frame.run, frame.state, frame.visits, frame.reducers
    emit, journal, timeout, hooks = run.emit, run.journal, run.node_timeout, run.node_hooks
    if hooks is not None and emit is None:
        emit = _unheard  # hooks are looked for only where events are made
    # A frame with a bound of its own looks at both bounds before each step.
    is_bounded = frame.max_steps is not None or frame.budget is not None
    max_steps = 0 if is_bounded else run.max_steps
    clock, wall_clock, prefix = time.monotonic, time.time, frame.prefix
    written = frame.written
    started, begun, path, deadline = 0.0, 0.0, "", run.deadline
    check = frame.check
    # Else a value that came back as it was is put where it was, and nobody can tell.
    tells_changes = bool(reducers or check) or journal is not None or emit is not None
    step = None if frame.position is None else plan.steps[frame.position]
    slice_end = clock() + SLICE
    while step is not None:
        if run.steps >= max_steps:
            _check_bounds(frame)
        run.steps += 1
        visits[step.id] = visit = visits.get(step.id, 0) + 1
        view = state.copy()
        ctx = StepContext(run, frame, step, visit, view)
        if emit is not None:
            started, begun = wall_clock(), clock()
            ctx._path = path = f"{prefix}{step.segment}/{visit}"
            waiting = emit(new_event(("node_start", step.id, step.type, path, NOTHING, started)))
            if waiting is not None:
                await waiting
            if hooks is not None:
                await hooks.started(ctx, step.node)
        elif journal is not None:
            started = wall_clock()
        updates: Mapping[str, Any] = NOTHING
        failed = False
        given: Mapping[str, Any]
        try:
            if timeout is None or step.is_composite:
                result = await step.execute(ctx, view)
            else:
                result = await _within(timeout, step, ctx, view)
            if run.interrupted and (pending := ctx.pending()) is not None:
                raise pending
            if type(result) is dict and result is not view:
                given, goto = result, None
            else:
                given, goto = read_result(result, ctx, state, reducers)
            if given:
                if tells_changes:
                    given = changed_keys(given, state, reducers)
                    if check is not None:
                        given = check.check_update(given, state, step.id)
                if journal is not None:
                    journal.check(given, step.id)
                merge_into(state, given, reducers)
                if written is not None:
                    note_written(written, given, reducers)
                updates = given
            if goto is not None:
                following, label = _follow_command(plan, step, ctx, goto), None
            elif step.next is not None:
                following, label = step.next, None
            else:
                following, label = _first_match(step, state)
        except BaseException as raised:
            recovered, caught_by = await _recover(step, ctx, raised, begun)
            merge_into(state, recovered, reducers)
            if written is not None:
                note_written(written, recovered, reducers)
            updates = {**updates, **recovered}
            failed = caught_by is not None
            following, label = (caught_by, ERROR) if failed else _first_match(step, state)

        reason = frame.reason if ctx.stop_reason is None else ctx.stop_reason or None
        if following is None and reason is None:
            reason = "no_edge_matched" if step.edges else "end"
        position = None if following is None else following.id
        if journal is not None:
            await _record(frame, step, ctx, updates, position, reason, started)
        frame.reason, frame.position = reason, position
        if emit is not None:
            ended = wall_clock()
            if not failed:
                data = {"duration_ms": (clock() - begun) * 1000.0, "keys": tuple(updates)}
                waiting = emit(new_event(("node_end", step.id, step.type, path, data, ended)))
                if waiting is not None:
                    await waiting
                if hooks is not None:
                    await hooks.ended(ctx, step.node, state, updates)
            data = {"target": position, "condition": label}
            waiting = emit(new_event(("edge", step.id, step.type, path, data, ended)))
            if waiting is not None:
                await waiting
        step = following
        now = clock()
        if now >= slice_end:
            if now >= deadline and step is not None:
                raise run.reached("deadline")
            await asyncio.sleep(0)
            slice_end = clock() + SLICE
    return frame.reason or "end"


def _check_bounds(frame: Frame) -> None:
    """Refuse a further step where the run, or the frame itself, may take none.

    Raises:
        LimitSignal: the run has reached its bound.
        WorkflowError: the frame has.
    """
    run, most = frame.run, frame.max_steps
    if run.steps >= run.max_steps:
        raise run.reached("max_steps")
    if most is not None and sum(frame.visits.values()) >= most:
        raise WorkflowError(
            f"the sub-flow took its {most} steps and is not at its end: raise max_iterations, or "
            "find out why it does not end"
        )
    if frame.budget is not None:
        frame.budget.check("max_steps")
        for part in frame.budget.and_around():
            part.steps += 1


def _unheard(event: StreamEvent) -> None:
    """Hear an event where only hooks are told of nodes."""


async def _within(seconds: float, step: Step, ctx: StepContext, view: dict[str, Any]) -> Any:
    """Execute a node, and fail where it takes longer."""
    async with time_limit(seconds, took_too_long(f"node {step.id!r}", step.node, seconds)):
        return await step.execute(ctx, view)


async def _record(
    frame: Frame,
    step: Step,
    ctx: StepContext,
    updates: Mapping[str, Any],
    position: str | None,
    reason: str | None,
    started: float,
) -> None:
    """Write a finished step into the journal: what it did and where it went, in one record."""
    journal = frame.run.journal
    assert journal is not None  # noqa: S101  # the caller looked
    record = journal.record_step(
        frame.path,
        node=step.id,
        effects=effects_of(updates, frame.state, frame.reducers),
        next=position,
        reason=reason,
        times=(started, time.time()),
        given=None if frame.written is None else not_replayable(updates, frame.reducers),
    )
    # A cancellation waits: the step is recorded as a whole, or was never begun.
    await uninterrupted(record)
    frame.run.forget_parts(ctx.path)
    if journal.wants_snapshot and not frame.path:
        snapshot = journal.record_snapshot(
            frame.state, visits=frame.visits, next=position, reason=reason
        )
        await uninterrupted(snapshot)
    await ctx.emit("checkpoint", {"path": ctx.path, "kind": "step"})


async def _recover(
    step: Step, ctx: StepContext, raised: BaseException, begun: float
) -> tuple[Mapping[str, Any], Step | None]:
    """Return the updates that follow a failure, and the step that takes it (None: the edges lead on).

    Raises:
        Signal: the run has paused or reached a limit.
        BaseException: nothing takes the failure, or the run was cancelled.
    """
    await ctx.settle(raised)
    try:
        if isinstance(raised, GraphInterrupt) and ctx.pending() is None:
            answered = {raised.key: await ctx.answer_to(raised)}
            return _checked(ctx, answered), None
        error = as_failure(ctx, raised)
    except StateError as refused:  # the answer does not fit the schema
        error = refused
    except PauseSignal:
        ctx.uncount_step()  # it will be executed again, and counted then
        raise
    except (LimitSignal, asyncio.CancelledError):
        if ctx.partial and _can_be_stored(ctx):
            merge_into(ctx.frame.state, ctx.partial, ctx.frame.reducers)
        raise
    await ctx.emit(
        "node_error",
        {
            "error": error_text(error),
            "type": type(error).__name__,
            "duration_ms": (time.monotonic() - begun) * 1000.0,
            "caught": step.on_error is not None,
        },
    )
    tell_plugins(ctx, error)
    if ctx.run.node_hooks is not None:
        await ctx.run.node_hooks.failed(ctx, step.node, ctx.frame.state, error)
    if step.on_error is None:
        error.add_note(f"in node {step.id!r} ({step.type}) at {ctx.path}")
        raise error
    # Whoever takes the failure goes on without what the step has asked.
    asked = ctx.run.questions
    ctx.run.questions = {
        name: question
        for name, question in asked.items()
        if not _is_beneath(question.path, ctx.path)
    }
    described = NodeError.from_exception(error, node=step.id, path=ctx.path)
    return {"error": described.to_state()}, step.on_error


def _can_be_stored(ctx: StepContext) -> bool:
    """Say whether what a step kept can be stored; if not, the bound that ended it counts without."""
    journal = ctx.run.journal
    if journal is None:
        return True
    try:
        journal.check(ctx.partial or {}, ctx.node_id)
    except StateError as error:
        warn(f"what {ctx.node_id!r} kept is dropped: {error}", node=ctx.node_id)
        return False
    return True


def _is_beneath(path: str, place: str) -> bool:
    return f"{path}/".startswith(f"{place}/")


def _checked(ctx: StepContext, answered: Mapping[str, Any]) -> Mapping[str, Any]:
    """Hold an answer that goes into the state against the schema of the state."""
    check = ctx.frame.check
    return answered if check is None else check.check_update(answered, ctx.frame.state, ctx.node_id)


def _first_match(step: Step, state: Mapping[str, Any]) -> tuple[Step | None, str | None]:
    """Return where the first matching edge leads, and its condition."""
    if step.next is not None:
        return step.next, None
    for test, target, label in step.edges:
        if test(state):
            return target, label
    return None, None


def _follow_command(plan: Plan, step: Step, ctx: StepContext, goto: Any) -> Step | None:
    if goto is Command.STOP:
        ctx.set_stop_reason("command_stop")
        return None
    target = plan.steps.get(goto) if isinstance(goto, str) else None
    if target is None:
        raise WorkflowError(
            f"node {step.id!r} wants to go to {goto!r}, which is no node of the graph."
            f"{suggest(str(goto), plan.steps)}"
        )
    return target
