"""What happened in a stored run, read from its records without the graph that made it.

Values are as they are stored, plain JSON: without the graph nobody knows the types of its state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from teff.checkpoint import StoredRecord
from teff.runtime.place import path_segment

__all__ = ["RunHistory", "StoredStep", "read_history"]


@attrs.define(kw_only=True)
class StoredStep:
    """One finished step.

    Attributes:
        node, path: the node, and where it ran: ``plan/3`` is its third visit.
        record: the number of its record.
        started, seconds: when it began, in seconds since the epoch, and how long it took.
        wrote: what it wrote, by key, as it is stored; None for a key that it deleted.
        next: the node that follows, or None at the end.
        model_calls: how many were made since the step before it; 0 for a step inside of another.
        steps: those of the graphs that ran inside of it.
    """

    node: str
    path: str
    record: int
    started: float
    seconds: float
    wrote: Mapping[str, Any]
    next: str | None
    model_calls: int = 0
    steps: list[StoredStep] = attrs.field(factory=list)


@attrs.define(kw_only=True)
class RunHistory:
    """A stored run.

    Attributes:
        about: what was to be remembered of its start, see ``RunOptions.about``.
        input: the state that it began with, as it is stored.
        steps: those of its graph, in order.
        unfinished: steps inside of one that is not finished.
        questions: what is asked and not answered, as it is stored.
        end: ``status``, ``stop_reason``, ``final`` and, where that is true, ``state``; None while
            it can go on and was not stopped.
        usage: what it used so far.
        first_record: the number of the record of its start, or 0 where there is none.
    """

    about: Mapping[str, Any] = attrs.field(factory=dict)
    input: Mapping[str, Any] = attrs.field(factory=dict)
    steps: list[StoredStep] = attrs.field(factory=list)
    unfinished: list[StoredStep] = attrs.field(factory=list)
    questions: list[Mapping[str, Any]] = attrs.field(factory=list)
    end: Mapping[str, Any] | None = None
    usage: Mapping[str, Any] = attrs.field(factory=dict)
    first_record: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be done."""
        return self.end is not None and bool(self.end["final"])

    def record_after(self, step: int) -> int | None:
        """Return the number of the last record of the state after a step of the graph.

        ``0`` is the state that it began with. None where there is no such step.
        """
        if step == 0:
            return self.first_record or None
        return self.steps[step - 1].record if 0 < step <= len(self.steps) else None


def read_history(records: Sequence[StoredRecord]) -> RunHistory:
    """Read all records of a run, in their order."""
    history = RunHistory()
    inside: list[StoredStep] = []
    visits: dict[tuple[str, str], int] = {}
    calls = 0
    for stored in records:
        record, data = stored.record, stored.record.data
        history.usage = data.get("totals", {}).get("usage", history.usage)
        history.end = data if record.kind == "end" else None
        if record.kind == "start":
            history.first_record = stored.number
            history.input, history.about = data["state"], data.get("about", {})
        elif record.kind == "pause":
            history.questions = list(data["questions"])
        elif record.kind == "answer":
            history.questions = [asked for asked in history.questions if asked["id"] != record.path]
        elif record.kind == "step":
            place = (record.path, data["node"])
            visits[place] = visits.get(place, 0) + 1
            step = _step(stored, visits[place])
            if record.path:
                inside.append(step)
                continue
            step.model_calls = _model_calls(data) - calls
            calls = _model_calls(data)
            step.steps, inside = _within(step, inside), []
            history.steps.append(step)
            history.questions = []  # whatever was asked within it, it has gone on without an answer
    history.unfinished = _nested(inside)
    return history


def _step(stored: StoredRecord, visit: int) -> StoredStep:
    data, frame = stored.record.data, stored.record.path
    begun, ended = data["times"]
    effects = data["effects"]
    deleted = [key for key, operator in effects["operators"].items() if operator == "delete"]
    return StoredStep(
        node=data["node"],
        path=f"{frame}/" * bool(frame) + f"{path_segment(data['node'])}/{visit}",
        record=stored.number,
        started=begun,
        seconds=max(0.0, ended - begun),
        wrote={**_plain_keys(effects["values"]), **dict.fromkeys(deleted)},
        next=data["next"],
    )


def _plain_keys(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return values by key; an update with keys that are not text is stored as pairs."""
    pairs = values.get("!dict") if len(values) == 1 else None
    return values if pairs is None else {str(key): value for key, value in pairs}


def _model_calls(data: Mapping[str, Any]) -> int:
    return int(data.get("totals", {}).get("usage", {}).get("model_calls", 0))


def _within(step: StoredStep, inside: Sequence[StoredStep]) -> list[StoredStep]:
    """Return the steps inside of ``step``, those deeper inside below those that they belong to."""
    return _nested([part for part in inside if part.path.startswith(f"{step.path}/")])


def _nested(inside: Sequence[StoredStep]) -> list[StoredStep]:
    """Put steps, which come after those inside of them, into the innermost step around them."""
    outermost: list[StoredStep] = []
    for step in inside:
        below = f"{step.path}/"
        step.steps = [part for part in outermost if part.path.startswith(below)]
        outermost = [part for part in outermost if not part.path.startswith(below)] + [step]
    return outermost
