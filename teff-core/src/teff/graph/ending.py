"""How a run ended: what is recorded of it, told, and returned or raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from teff.errors import GraphInterrupt, LimitReached, error_text
from teff.graph.options import RunOptions
from teff.runtime import Frame, Limits, Run, RunResult, Status
from teff.state import freeze, thaw

__all__ = [
    "Outcome",
    "close_run",
    "end_data",
    "interrupt",
    "result_of",
    "returned",
    "stored_outcome",
]


@attrs.frozen(kw_only=True)
class Outcome:
    """How the loop was left.

    Attributes:
        status, stop_reason: as in `RunResult`.
        error: what the run failed with, or None.
        limit: the bound that ended it, or None.
    """

    status: Status
    stop_reason: str
    error: BaseException | None = None
    limit: str | None = None


async def close_run(
    frame: Frame, outcome: Outcome, options: RunOptions, *, is_turn: bool
) -> RunResult:
    """Record and tell how the run ended; what it failed with wins over what fails here."""
    run = frame.run
    result = result_of(run, frame.state, outcome, options)
    try:
        await _record(frame, outcome, is_turn=is_turn)
    except Exception as error:
        _add_note(outcome, "the end of the run could not be recorded", error)
    if outcome.limit is not None:
        await run.tell("limit", {"reason": outcome.limit})
    try:
        await run.tell("run_end", end_data(result, frame.state))
    except Exception as error:
        _add_note(outcome, "a listener raised", error)
    finally:
        run.closed = True
    return result


async def _record(frame: Frame, outcome: Outcome, *, is_turn: bool) -> None:
    journal = frame.run.journal
    if journal is None:
        return
    if outcome.status == "paused":
        await journal.record_pause(list(frame.run.questions.values()))
        return
    over = is_turn or frame.position is None
    final = over and outcome.status in ("finished", "stopped")
    ended = {"status": outcome.status, "stop_reason": outcome.stop_reason, "final": final}
    await journal.record_end({**ended, "state": frame.state} if final else ended)


def _add_note(outcome: Outcome, what: str, error: Exception) -> None:
    """Say at what the run failed with what else has failed; where it did not fail, raise that."""
    if outcome.error is None:
        raise error
    outcome.error.add_note(f"then {what}: {type(error).__name__}: {error_text(error)}")


def result_of(
    run: Run, state: Mapping[str, Any], outcome: Outcome, options: RunOptions
) -> RunResult:
    """Return the result of a run with this state."""
    store = options.get("checkpointer")
    return RunResult(
        {key: thaw(value) for key, value in state.items()},
        run_id=run.id,
        status=outcome.status,
        stop_reason=outcome.stop_reason,
        usage=run.usage,
        steps=run.steps,
        duration_ms=run.elapsed * 1000.0,
        durable=store is not None and store.durability != "exit",
        error=outcome.error,
    )


def returned(run: Run, result: RunResult, options: RunOptions) -> RunResult:
    """Return the result, or raise what the caller of the run must see."""
    if result.status == "paused":
        raise interrupt(list(run.questions.values()), options.get("checkpoint_id"), result)
    if result.error is not None:
        raise result.error
    if result.stop_reason in Limits.names() and options.get("on_limit") == "raise":
        raise LimitReached(result.stop_reason, result=result)
    return result


def end_data(result: RunResult, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of the event ``run_end``."""
    data: dict[str, Any] = {
        "status": result.status,
        "stop_reason": result.stop_reason,
        "usage": result.usage,
        "steps": result.steps,
        "duration_ms": result.duration_ms,
        "state": freeze(dict(state)),
    }
    if result.error is not None:
        data["error"] = error_text(result.error)
    return data


def interrupt(
    questions: Sequence[Any], checkpoint_id: str | None, result: RunResult | None
) -> GraphInterrupt:
    """Return what the caller of a paused run sees: all open questions, the first one in front."""
    first = questions[0]
    return GraphInterrupt(
        first.key,
        first.prompt,
        first.node_id,
        checkpoint_id,
        interrupts=questions,
        result=result,
    )


def stored_outcome(end: Mapping[str, Any]) -> Outcome:
    """Return how a stored run ended, from its last record."""
    return Outcome(status=end["status"], stop_reason=end["stop_reason"])
