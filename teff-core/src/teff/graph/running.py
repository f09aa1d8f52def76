"""From ``Graph.run`` to its `RunResult`: opening a run, driving it, and saying how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from teff.errors import GraphInterrupt, LimitReached, RunFinished
from teff.graph.hooks import hook_listener
from teff.graph.loop import run_frame
from teff.graph.options import RunOptions, check_options, model_defaults, tool_pool
from teff.plugins import load_hooks
from teff.runtime import (
    ExecContext,
    Frame,
    Journal,
    Limits,
    LimitSignal,
    PauseSignal,
    Run,
    RunResult,
    Status,
    match_answers,
    new_run_id,
    open_journal,
    tell_all,
)
from teff.runtime.journal import require_input
from teff.state import compile_reducers, freeze, thaw

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["run_graph", "run_nested"]

#: Reasons of a supervisor that ran into a bound: the run did not finish its work.
_BOUNDS = frozenset({"max_rounds", "no_progress", "max_delegations"})


@attrs.frozen(kw_only=True)
class _Outcome:
    status: Status
    stop_reason: str
    error: BaseException | None = None


async def run_graph(
    graph: Graph, state: Mapping[str, Any] | None, options: RunOptions
) -> RunResult:
    """Run ``graph``; see `Graph.run`."""
    check_options(options)
    journal = await _open(graph, options)
    status: Status | Literal["running"] = "running"
    try:
        if journal is not None:
            recorded = await _begin(journal, state, options)
            if recorded is not None:
                status = recorded.status
                return recorded
        run = _make_run(graph, options, journal)
        graph.check_run(run, model_defaults(graph, options))
        if journal is not None and not journal.signature:
            await journal.record_start(state or {}, graph.plan.signature)
        start = journal.input if journal is not None else state or {}
        frame = Frame(
            run,
            "",
            start,
            entry=graph.plan.entry,
            reducers=compile_reducers({**graph.reducers, **options.get("reducers", {})}),
            defaults=model_defaults(graph, options),
        )
        await run.tell("run_start", {"run_id": run.id, "resumed": bool(run.steps)})
        outcome = await _drive(graph, frame)
        status = outcome.status
        return await _finish(frame, outcome, options)
    except GraphInterrupt:
        status = "paused"
        raise
    finally:
        if journal is not None:
            await asyncio.shield(journal.close(status))


async def _open(graph: Graph, options: RunOptions) -> Journal | None:
    checkpointer = options.get("checkpointer")
    if checkpointer is None:
        return None
    return await open_journal(
        checkpointer,
        options["checkpoint_id"],
        owner=options.get("owner", "default"),
        signature=graph.plan.signature,
    )


async def _begin(
    journal: Journal, state: Mapping[str, Any] | None, options: RunOptions
) -> RunResult | None:
    """Bring the journal and the call together; return the recorded result of a finished run."""
    run_id = options["checkpoint_id"]
    resuming = "resume" in options
    if not journal.signature:
        if resuming:
            require_input(journal, run_id)
        return None
    if state and freeze(dict(state)) != journal.input:
        ended = journal.end is not None and journal.end["final"]
        raise RunFinished(
            f"run {run_id!r} {'has ended' if ended else 'is under way'} with another input: "
            "go on without a state, or start a run with a new id",
            run_id=run_id,
        )
    if journal.end is not None and journal.end["final"]:
        if resuming:
            raise RunFinished(
                f"run {run_id!r} has ended; there is nothing to resume", run_id=run_id
            )
        return _recorded_result(journal, run_id)
    if resuming:
        await journal.record_answers(match_answers(options["resume"], journal.questions))
    elif journal.questions:
        raise _interrupt(journal.questions, run_id, None)
    return None


def _recorded_result(journal: Journal, run_id: str) -> RunResult:
    assert journal.end is not None  # noqa: S101  # the caller looked
    run = Run(run_id=run_id, journal=journal)
    return RunResult(
        thaw(dict(journal.end["state"])),
        run_id=run_id,
        status=journal.end["status"],
        stop_reason=journal.end["stop_reason"],
        usage=run.usage,
        steps=run.steps,
        duration_ms=journal.totals["elapsed"] * 1000.0,
        durable=True,
    )


def _make_run(graph: Graph, options: RunOptions, journal: Journal | None) -> Run:
    run_id = options.get("checkpoint_id") or new_run_id()
    hooks = load_hooks()
    listeners = [
        listener
        for listener in (
            options.get("tracer"),
            options.get("emit"),
            hook_listener(hooks, run_id, graph.name) if hooks is not None else None,
        )
        if listener is not None
    ]
    run = Run(
        run_id=run_id,
        owner=options.get("owner", "default"),
        checkpoint_id=options.get("checkpoint_id"),
        limits=options.get("limits") or graph.limits,
        tools=tool_pool(options.get("tools", ())),
        emit=tell_all(listeners),
        hooks=hooks,
        journal=journal,
        node_timeout=options.get("node_timeout"),
    )
    most = options.get("max_iterations")
    if most is not None:
        run.max_steps = min(run.max_steps, run.steps + (Limits(max_steps=most).max_steps or 0))
    return run


async def _drive(graph: Graph, frame: Frame) -> _Outcome:
    run = frame.run
    limit = run.limits.deadline
    remaining = None if limit is None else max(0.0, limit - run.elapsed)
    deadline = asyncio.timeout(remaining)
    try:
        async with deadline:
            reason = await run_frame(graph.plan, frame)
    except PauseSignal:
        return _Outcome(status="paused", stop_reason="interrupt")
    except LimitSignal as signal:
        return await _stopped(run, signal.reason)
    except asyncio.CancelledError as error:
        return _Outcome(status="cancelled", stop_reason="cancelled", error=error)
    except Exception as error:
        if isinstance(error, TimeoutError) and deadline.expired():
            return await _stopped(run, "deadline")
        return _Outcome(status="failed", stop_reason="error", error=error)
    stopped = reason in _BOUNDS or reason == "command_stop"
    return _Outcome(status="stopped" if stopped else "finished", stop_reason=reason)


async def _stopped(run: Run, reason: str) -> _Outcome:
    await run.tell("limit", {"reason": reason})
    return _Outcome(status="stopped", stop_reason=reason)


async def _finish(frame: Frame, outcome: _Outcome, options: RunOptions) -> RunResult:
    """Record and tell how the run ended; return its result, or raise what its caller must see."""
    run, journal = frame.run, frame.run.journal
    result = RunResult(
        thaw(frame.state),
        run_id=run.id,
        status=outcome.status,
        stop_reason=outcome.stop_reason,
        usage=run.usage,
        steps=run.steps,
        duration_ms=run.elapsed * 1000.0,
        durable=journal is not None and options["checkpointer"].durability != "exit",
        error=outcome.error,
    )
    if journal is not None:
        if outcome.status == "paused":
            await journal.record_pause(list(run.questions.values()))
        else:
            final = frame.position is None
            ended = {"status": outcome.status, "stop_reason": outcome.stop_reason, "final": final}
            await journal.record_end({**ended, "state": frame.state} if final else ended)
    await run.tell("run_end", _end_data(result))
    if outcome.status == "paused":
        raise _interrupt(list(run.questions.values()), options.get("checkpoint_id"), result)
    if outcome.error is not None:
        raise outcome.error
    is_limit = outcome.status == "stopped" and outcome.stop_reason in Limits.names()
    if is_limit and options.get("on_limit") == "raise":
        raise LimitReached(outcome.stop_reason, result=result)
    return result


def _end_data(result: RunResult) -> dict[str, Any]:
    data: dict[str, Any] = {
        "status": result.status,
        "stop_reason": result.stop_reason,
        "usage": result.usage,
        "steps": result.steps,
        "duration_ms": result.duration_ms,
        "state": dict(result),
    }
    if result.error is not None:
        data["error"] = str(result.error)
    return data


def _interrupt(
    questions: Sequence[Any], checkpoint_id: str | None, result: RunResult | None
) -> GraphInterrupt:
    first = questions[0]
    return GraphInterrupt(
        first.key,
        first.prompt,
        first.node_id,
        checkpoint_id,
        interrupts=questions,
        result=result,
    )


async def run_nested(
    graph: Graph,
    ctx: ExecContext,
    state: Mapping[str, Any],
    *,
    keep: Callable[[Frame], Mapping[str, Any]],
) -> Frame:
    """Run ``graph`` inside the step that ``ctx`` belongs to; return its frame at the end.

    Limits, events, answers and the journal are those of the run. When a limit ends the run, what
    ``keep`` makes of the frame so far goes into the state around it.
    """
    frame = Frame(
        ctx.run,
        ctx.path,
        state,
        entry=graph.plan.entry,
        reducers={**ctx.frame.reducers, **compile_reducers(graph.reducers)},
        defaults=ctx.frame.defaults.filled_from(graph.defaults),
    )
    try:
        ended = await run_frame(graph.plan, frame)
    except PauseSignal:
        ctx.paused = True
        raise
    except (LimitSignal, asyncio.CancelledError):
        ctx.keep(keep(frame))
        raise
    if ended not in ("end", "no_edge_matched", "command_stop"):
        ctx.set_stop_reason(ended)
    return frame
