"""`RunTracer`: keeps the events of a run, and says what they come to."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

import attrs

from teff.runtime.events import StreamEvent
from teff.state import thaw

__all__ = ["ModelTotals", "RunSummary", "RunTracer", "TraceEvent", "TraceSpan"]

#: What a tracer keeps: the events of the run, as everybody else hears them.
TraceEvent = StreamEvent


@attrs.frozen(kw_only=True)
class TraceSpan:
    """One execution of a node.

    Attributes:
        node_id, node_type, path: which node, and where it ran; see `StreamEvent`.
        depth: 0 for a node of the graph, 1 for one that such a node ran, and so on.
        start_ms: when it began, in milliseconds after the run did.
        duration_ms: how long it took; None where it did not come to its end.
        status: ``ok``; ``error``; or ``open`` where it did not come to its end: the run paused,
            stopped or was cancelled in it, or is still there.
        error: what it failed with, or "".
    """

    node_id: str
    node_type: str
    path: str
    depth: int
    start_ms: float
    duration_ms: float | None = None
    status: str = "open"
    error: str = ""


@attrs.frozen(kw_only=True)
class ModelTotals:
    """What the calls of one model come to: how many, and their tokens and milliseconds."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tokens: int = 0
    duration_ms: float = 0.0


@attrs.frozen(kw_only=True)
class RunSummary:
    """What a run came to, nodes and model calls of sub-flows and containers included.

    Attributes:
        run_id: of the run.
        status, stop_reason: how it ended, see `RunResult`; ``running`` and "" while it goes on.
        total_ms: milliseconds of running.
        node_count: executions of nodes that came to an end, well or not.
        error_count: how many of them failed.
        llm_calls, tool_calls: how many were answered.
        prompt_tokens, completion_tokens, tokens: of all model calls.
        cost_usd: by the prices that the run knows; 0.0 where it knows none.
        nodes: by node id, how often it was executed.
        models: by ``provider/model``, what its calls come to.
        error: what the run failed with, or "".
    """

    run_id: str = ""
    status: str = "running"
    stop_reason: str = ""
    total_ms: float = 0.0
    node_count: int = 0
    error_count: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    nodes: Mapping[str, int] = attrs.field(factory=dict)
    models: Mapping[str, ModelTotals] = attrs.field(factory=dict)
    error: str = ""


class RunTracer:
    """Give it to a run as ``tracer=``, and ask it afterwards.

    It holds one run at a time: the beginning of another run forgets what was there, while the same
    run that goes on after a pause or a crash is added to. Tokens of streamed answers are not kept.

    Attributes:
        events: what happened, in its order.

    >>> import asyncio
    >>> from teff.graph import Graph
    >>> from teff.node import make_function_node
    >>> tracer = RunTracer()
    >>> graph = Graph({"greet": make_function_node(lambda ctx, s: {"text": "hi"})}, [], "greet")
    >>> _ = asyncio.run(graph.run(tracer=tracer))
    >>> [event.type for event in tracer.events]
    ['run_start', 'node_start', 'node_end', 'edge', 'run_end']
    >>> tracer.summary().status, tracer.summary().node_count
    ('finished', 1)
    """

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self._run_id = ""

    def __call__(self, event: StreamEvent) -> None:
        """Hear one event."""
        if event.type == "token":
            return
        if event.type == "run_start" and event.data["run_id"] != self._run_id:
            self.events = []
            self._run_id = event.data["run_id"]
        self.events.append(event)

    def timeline(self) -> list[TraceSpan]:
        """Return the executions of nodes in the order in which they began."""
        spans: dict[str, TraceSpan] = {}
        began = self.events[0].time if self.events else 0.0
        for event in self.events:
            if event.type == "node_start":
                # A step that paused begins again at the same path: the last time counts.
                spans.pop(event.path, None)
                spans[event.path] = TraceSpan(
                    node_id=event.node_id,
                    node_type=event.node_type,
                    path=event.path,
                    depth=_depth(event.path, spans),
                    start_ms=(event.time - began) * 1000.0,
                )
            elif event.type in ("node_end", "node_error") and event.path in spans:
                spans[event.path] = attrs.evolve(
                    spans[event.path],
                    duration_ms=event.data["duration_ms"],
                    status="ok" if event.type == "node_end" else "error",
                    error=event.data.get("error", ""),
                )
        return list(spans.values())

    def summary(self) -> RunSummary:
        """Return what the events so far come to."""
        ended = [event for event in self.events if event.type in ("node_end", "node_error")]
        # What came from a cache was counted when it was asked.
        answered = [
            event for event in self.events if event.type == "llm" and not event.data.get("cached")
        ]
        nodes: dict[str, int] = {}
        for event in ended:
            nodes[event.node_id] = nodes.get(event.node_id, 0) + 1
        models = _by_model(event.data for event in answered)
        last = self.events[-1] if self.events else None
        end = last.data if last is not None and last.type == "run_end" else {}
        elapsed = (last.time - self.events[0].time) * 1000.0 if last is not None else 0.0
        return RunSummary(
            run_id=self._run_id,
            status=end.get("status", "running"),
            stop_reason=end.get("stop_reason", ""),
            total_ms=end.get("duration_ms", elapsed),
            node_count=len(ended),
            error_count=sum(event.type == "node_error" for event in ended),
            llm_calls=len(answered),
            tool_calls=sum(event.type == "tool_result" for event in self.events),
            prompt_tokens=sum(model.prompt_tokens for model in models.values()),
            completion_tokens=sum(model.completion_tokens for model in models.values()),
            tokens=sum(model.tokens for model in models.values()),
            cost_usd=end["usage"].cost if end else 0.0,
            nodes=nodes,
            models=models,
            error=end.get("error", ""),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the summary and the events as plain data."""
        events = [{**event._asdict(), "data": _plain(event.data)} for event in self.events]
        return {"summary": attrs.asdict(self.summary()), "events": events}


def _depth(path: str, spans: Container[str]) -> int:
    """Return how many of the nodes that have begun are around ``path``."""
    parts = path.split("/")
    return sum("/".join(parts[:length]) in spans for length in range(1, len(parts)))


def _by_model(calls: Iterable[Mapping[str, Any]]) -> dict[str, ModelTotals]:
    models: dict[str, ModelTotals] = {}
    for call in calls:
        name = f"{call['provider']}/{call['model']}"
        before = models.get(name, ModelTotals())
        models[name] = ModelTotals(
            calls=before.calls + 1,
            prompt_tokens=before.prompt_tokens + (call["prompt_tokens"] or 0),
            completion_tokens=before.completion_tokens + (call["completion_tokens"] or 0),
            tokens=before.tokens + call["total_tokens"],
            duration_ms=before.duration_ms + call["duration_ms"],
        )
    return models


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value.to_json() if hasattr(value, "to_json") else thaw(value)
        for key, value in data.items()
    }
