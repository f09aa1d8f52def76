"""From ``Graph.run`` to its `RunResult`: opening a run, and driving it to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from teff.checkpoint import RunState
from teff.errors import (
    CheckpointError,
    ConfigError,
    RunFinished,
)
from teff.graph.ending import (
    Outcome,
    close_run,
    end_data,
    interrupt,
    result_of,
    returned,
    stored_outcome,
)
from teff.graph.hooks import hook_listener
from teff.graph.loop import run_frame
from teff.graph.options import RunOptions, check_options, model_defaults, tool_pool
from teff.plugins import load_hooks
from teff.provider import ProviderRegistry
from teff.runtime import (
    AbortSignal,
    ExecContext,
    Frame,
    Journal,
    Limits,
    LimitSignal,
    NodeHooks,
    PauseSignal,
    Run,
    RunResult,
    new_run_id,
    open_journal,
    read_prices,
    tell_all,
    uninterrupted,
)
from teff.runtime.bounded import within_deadline
from teff.state import Reducer, compile_reducers, freeze

if TYPE_CHECKING:
    from teff.graph.graph import Graph
    from teff.state import StateCheck

__all__ = ["run_graph", "run_nested"]

#: Reasons of a supervisor that ran into a bound: the run did not finish its work.
_BOUNDS = frozenset({"max_rounds", "no_progress", "max_delegations"})


async def run_graph(
    graph: Graph,
    state: Mapping[str, Any] | None,
    options: RunOptions,
    *,
    is_turn: bool = False,
) -> RunResult:
    """Run ``graph``; see `Graph.run`. A turn of a chat is over, too, where a limit ended it."""
    check_options(options)
    if state is not None and not isinstance(state, Mapping):
        raise ConfigError(f"the state must be a dict, not {type(state).__name__}.")
    reducers = compile_reducers(
        {**graph.reducers, **_brought(state), **(options.get("reducers") or {})}
    )
    check = graph.state_check(reducers)
    given = options.get("providers")
    providers = None if given is None else ProviderRegistry.of(given)
    journal = await _open(graph, options)
    # A run that is refused before it has begun leaves nothing to go on with.
    left: RunState = journal.state if journal is not None and journal.signature else "failed"
    try:
        run = _make_run(graph, options, journal)
        if journal is not None:
            state = _filled_as_before(graph, journal, state)
            ended = _already_ended(journal, run, state, options)
            if ended is not None:
                await run.tell("run_end", end_data(ended, ended))
                if ended.status == "paused":
                    raise interrupt(journal.questions, options["checkpoint_id"], ended)
                return ended
        defaults = model_defaults(graph, options, providers=providers)
        graph.check_run(run, defaults)
        if journal is None or not journal.signature:
            state = _begin_with(graph, check, state)
        answered = await _record_beginning(graph, journal, run, state, options)
        start = journal.input if journal is not None else state or {}
        frame = Frame(
            run,
            "",
            start,
            entry=graph.plan.entry,
            reducers=reducers,
            check=check,
            defaults=defaults,
        )
        left = "running"
        outcome = await _drive(graph, frame, answered)
        closing = close_run(frame, outcome, options, is_turn=is_turn)
        # Where nobody listens and nothing is stored, it does not wait, so nothing can interrupt it.
        waits = journal is not None or run.emit is not None
        result = await (uninterrupted(closing) if waits else closing)
        left = result.status
        return returned(run, result, options)
    finally:
        if journal is not None:
            await uninterrupted(journal.close(left))
        if providers is not None and providers is not given:
            await uninterrupted(providers.aclose())  # made from a mapping for this run alone


def _begin_with(
    graph: Graph, check: StateCheck | None, state: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the input of a new run with the defaults of the schema.

    Raises:
        ConfigError: it does not fit the schema.
    """
    if graph.schema is not None:
        state = graph.schema.filled(state or {})
    if check is not None:
        check.check_input(state or {})
    return state


def _filled_as_before(
    graph: Graph, journal: Journal, state: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return an input that is given again, with the defaults that the stored run began with."""
    if not state or not journal.signature or graph.schema is None:
        return state
    filled = {
        name: journal.input[name]
        for name, key in graph.schema.keys.items()
        if key.has_default and name in journal.input
    }
    return {**filled, **state}


def _brought(state: Mapping[str, Any] | None) -> Mapping[str, Reducer]:
    """Return the reducers that a `State` brings."""
    if state is None or type(state) is dict:
        return {}
    from teff.state import State  # most states are plain dicts

    return state.reducers if isinstance(state, State) else {}


async def _open(graph: Graph, options: RunOptions) -> Journal | None:
    checkpointer = options.get("checkpointer")
    if checkpointer is None:
        return None
    return await open_journal(
        checkpointer,
        options["checkpoint_id"],
        owner=options.get("owner", "default"),
        signature=graph.plan.signature,
        types=graph.stored_types,
    )


def _already_ended(
    journal: Journal, run: Run, state: Mapping[str, Any] | None, options: RunOptions
) -> RunResult | None:
    """Return the result of a stored run that ended, or that waits for an answer; else None.

    Raises:
        RunFinished: it is asked to go on with something that does not belong to it.
        CheckpointError: there are answers, but no run.
    """
    resuming = "resume" in options
    if not journal.signature:
        if resuming:
            raise CheckpointError(
                f"there is no run {run.id!r} to resume: start it first, without resume=",
                run_id=run.id,
            )
        return None
    ended = journal.end is not None and bool(journal.end["final"])
    if state and freeze(dict(state)) != journal.input:
        raise RunFinished(
            f"run {run.id!r} {'has ended' if ended else 'is under way'} with another input: "
            "go on without a state, or start a run with a new id",
            run_id=run.id,
        )
    if ended and resuming:
        raise RunFinished(f"run {run.id!r} has ended; there is nothing to resume", run_id=run.id)
    if ended and journal.end is not None:
        return result_of(run, journal.end["state"], stored_outcome(journal.end), options)
    if journal.questions and not resuming and not journal.has_news:
        paused = Outcome(status="paused", stop_reason="interrupt")
        return result_of(run, Frame(run, "", journal.input, entry="").state, paused, options)
    return None


async def _record_beginning(
    graph: Graph,
    journal: Journal | None,
    run: Run,
    state: Mapping[str, Any] | None,
    options: RunOptions,
) -> list[str]:
    """Record the input of a new run, or the answers to one that goes on; return the keys answered."""
    if journal is None:
        return []
    if not journal.signature:
        await journal.record_start(
            state or {},
            signature=graph.plan.signature,
            limits=attrs.asdict(run.limits),
            about=options.get("about"),
        )
    if "resume" not in options:
        return []
    questions = {question.id: question.key for question in journal.questions}
    answers = journal.new_answers(options["resume"])
    if answers:
        await journal.record_answers(answers)
    return [questions[answered] for answered in answers]


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
        graph=graph.name,
        providers=graph.undeclared_providers,
        owner=options.get("owner", "default"),
        checkpoint_id=options.get("checkpoint_id"),
        limits=_limits(graph, options, journal),
        tools=tool_pool(options.get("tools", ())),
        emit=tell_all(listeners),
        hooks=hooks,
        journal=journal,
        node_timeout=options.get("node_timeout"),
        node_hooks=NodeHooks.of(options.get("hooks")),
        on_llm_payload=options.get("on_llm_payload"),
        prices={**graph.prices, **read_prices(options.get("prices") or {})},
    )
    most = options.get("max_iterations")
    if most is not None:
        if type(most) is not int or most < 1:
            raise ConfigError(f"max_iterations must be a whole number above 0, not {most!r}.")
        run.max_steps = min(run.max_steps, run.steps + most)
    return run


def _limits(graph: Graph, options: RunOptions, journal: Journal | None) -> Limits | None:
    """Return the bounds of this call, else those that the run was started with, or the graph's."""
    if (given := options.get("limits")) is not None:
        return given
    if journal is not None and journal.signature:
        return Limits(**journal.limits)
    return graph.limits


async def _drive(graph: Graph, frame: Frame, answered: Sequence[str]) -> Outcome:
    run = frame.run
    limit = run.limits.deadline
    remaining = None if limit is None else max(0.0, limit - run.elapsed)
    deadline = asyncio.timeout(remaining)
    try:
        async with deadline:
            await run.tell("run_start", {"run_id": run.id, "resumed": bool(frame.visits)})
            if answered:
                await run.tell("interrupt_resume", {"keys": list(answered)})
            reason = await run_frame(graph.plan, frame)
    except PauseSignal:
        return Outcome(status="paused", stop_reason="interrupt")
    except AbortSignal as signal:
        return Outcome(status="failed", stop_reason="error", error=signal.error)
    except LimitSignal as signal:
        return Outcome(status="stopped", stop_reason=signal.reason, limit=signal.reason)
    except asyncio.CancelledError as error:
        return Outcome(status="cancelled", stop_reason="cancelled", error=error)
    except BaseException as error:
        if isinstance(error, TimeoutError) and deadline.expired():
            return Outcome(status="stopped", stop_reason="deadline", limit="deadline")
        return Outcome(status="failed", stop_reason="error", error=error)
    stopped = reason in _BOUNDS or reason == "command_stop"
    return Outcome(status="stopped" if stopped else "finished", stop_reason=reason)


async def run_nested(
    graph: Graph,
    ctx: ExecContext,
    state: Mapping[str, Any],
    *,
    keep: Callable[[Frame], Mapping[str, Any]],
    max_steps: int | None = None,
    limits: Limits | None = None,
) -> Frame:
    """Run ``graph`` inside the step that ``ctx`` belongs to; return its frame at the end.

    It may execute at most ``max_steps`` nodes of its own; more is a failure of the step.

    Limits, events, answers and the journal are those of the run. When a limit ends the run, what
    ``keep`` makes of the frame so far goes into the state around it. A limit of ``limits``, which
    count what is used inside, ends this graph alone, with what it has so far.
    """
    reducers = {**ctx.frame.reducers, **graph.compiled_reducers}
    check = graph.state_check(reducers)
    state = graph.nested_input(state)
    if check is not None:
        check.check_input(state, nested=True)
    frame = Frame(
        ctx.run,
        ctx.path,
        state,
        entry=graph.plan.entry,
        reducers=reducers,
        check=check,
        defaults=ctx.frame.defaults.filled_from(graph.defaults),
        around=ctx,
        max_steps=max_steps,
    )
    if limits is not None:
        frame.budget = ctx.run.open_budget(limits, ctx, ctx.path, is_visit=ctx.is_step)
    own = None if limits is None else frame.budget
    try:
        ended = await within_deadline(own, run_frame(graph.plan, frame))
    except (LimitSignal, asyncio.CancelledError) as leaving:
        if isinstance(leaving, LimitSignal):
            if own is not None and leaving.budget is own:
                await ctx.emit("limit", {"reason": leaving.reason, "scope": ctx.path})
                return frame
            ctx.mark_limited(leaving)
        ctx.keep(keep(frame))
        raise
    if ended not in ("end", "no_edge_matched", "command_stop"):
        ctx.set_stop_reason(ended)
    return frame
