"""What a tracer says of a run: nested nodes and their tokens are counted."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import teff
from teff.checkpoint import MemoryCheckpointer
from teff.errors import GraphInterrupt
from teff.flow import AgentRole, Flow, SubFlow
from teff.graph import Edge, Graph
from teff.messages import user
from teff.node import Interrupt, make_function_node
from teff.runtime import Limits, StreamEvent
from teff.testing import ScriptedProvider, call_tool
from teff.trace import RunSummary, RunTracer, TraceEvent


def clock() -> str:
    """Tell the time."""
    return "noon"


def run(graph: Graph, state: Any = None, **options: Any) -> Any:
    return asyncio.run(graph.run(state or {}, **options))


def team() -> Graph:
    script: list[Any] = ["billing", call_tool("clock"), "It is due at noon."]
    roles = {"billing": AgentRole("You do bills.", output_key="answer", use_tools="all")}
    return (
        Flow("desk", providers={"p": ScriptedProvider(script)}, default_provider="p")
        .team("Route.", roles=roles, model="m", done_keys=["answer"], id="lead")
        .compile()
    )


def fail(ctx: Any, state: dict[str, Any]) -> None:
    raise LookupError("no such order")


def test_a_summary_counts_the_calls_and_tokens_of_a_team() -> None:
    tracer = RunTracer()
    result = run(team(), {"messages": [user("when?")]}, tools=[clock], tracer=tracer)
    summary = tracer.summary()
    assert (summary.status, summary.stop_reason) == ("finished", "done_keys")
    assert summary.llm_calls == result.usage.model_calls == 3
    assert summary.tool_calls == result.usage.tool_calls == 1
    assert summary.tokens == result.usage.total_tokens
    assert summary.prompt_tokens == result.usage.prompt_tokens
    assert summary.completion_tokens == result.usage.completion_tokens
    assert sum(model.calls for model in summary.models.values()) == 3
    assert summary.node_count == result.steps == sum(summary.nodes.values())
    assert summary.nodes["lead"] == 2
    assert (summary.error_count, summary.error, summary.cost_usd) == (0, "", 0.0)
    assert summary.total_ms == result.duration_ms


def test_a_timeline_tells_what_ran_inside_what() -> None:
    inner = SubFlow(Graph({"deep": make_function_node(lambda ctx, state: {"n": 1})}, [], "deep"))
    graph = Graph({"flow": inner, "flow/2": inner}, [Edge("flow", "flow/2")], "flow")
    tracer = RunTracer()
    run(graph, tracer=tracer)
    spans = tracer.timeline()
    assert [(span.path, span.depth, span.status) for span in spans] == [
        ("flow/1", 0, "ok"),
        ("flow/1/deep/1", 1, "ok"),
        ("flow%2F2/1", 0, "ok"),
        ("flow%2F2/1/deep/1", 1, "ok"),
    ]
    assert spans[0].node_type == "subflow"
    assert all(span.duration_ms is not None and span.start_ms >= 0.0 for span in spans)


def test_a_failure_is_in_the_timeline_and_in_the_summary() -> None:
    graph = Graph({"a": make_function_node(fail)}, [], "a")
    tracer = RunTracer()
    with pytest.raises(LookupError):
        run(graph, tracer=tracer)
    (span,) = tracer.timeline()
    assert (span.status, span.error) == ("error", "no such order")
    summary = tracer.summary()
    assert (summary.status, summary.error, summary.error_count) == ("failed", "no such order", 1)


def test_a_failure_that_an_error_edge_took_does_not_fail_the_run() -> None:
    nodes = {"a": make_function_node(fail), "b": make_function_node(lambda ctx, state: {})}
    tracer = RunTracer()
    run(Graph(nodes, [Edge("a", "b", "__error__")], "a"), tracer=tracer)
    summary = tracer.summary()
    assert (summary.status, summary.error, summary.error_count) == ("finished", "", 1)
    assert summary.node_count == 2


def test_a_run_that_was_cancelled_has_its_end_in_the_trace() -> None:
    async def wait(ctx: Any, state: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    tracer = RunTracer()

    async def main() -> None:
        graph = Graph({"a": make_function_node(wait)}, [], "a")
        task = asyncio.create_task(graph.run({}, tracer=tracer))
        while len(tracer.events) < 2:
            await asyncio.sleep(0)
        assert tracer.summary().status == "running"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    assert tracer.events[-1].type == "run_end"
    assert tracer.summary().status == "cancelled"
    assert [span.status for span in tracer.timeline()] == ["open"]


def test_another_run_begins_a_new_trace() -> None:
    graph = Graph({"a": make_function_node(lambda ctx, state: {})}, [], "a")
    tracer = RunTracer()
    run(graph, tracer=tracer)
    first = tracer.events
    run(graph, tracer=tracer)
    assert len(tracer.events) == len(first) == 5
    assert tracer.events is not first


def test_a_run_that_goes_on_is_added_to_its_trace() -> None:
    graph = Graph({"ask": Interrupt(key="ok")}, [], "ask")
    tracer = RunTracer()
    stored: dict[str, Any] = {
        "checkpointer": MemoryCheckpointer(),
        "checkpoint_id": "r",
        "tracer": tracer,
    }
    with pytest.raises(GraphInterrupt):
        run(graph, **stored)
    assert tracer.summary().status == "paused"
    asyncio.run(graph.run(resume="yes", **stored))
    assert [event.type for event in tracer.events].count("run_start") == 2
    assert (tracer.summary().status, tracer.summary().run_id) == ("finished", "r")
    assert [(span.path, span.status) for span in tracer.timeline()] == [("ask/1", "ok")]


def test_a_limit_is_told_as_the_reason() -> None:
    graph = Graph({"a": make_function_node(lambda ctx, state: {})}, [Edge("a", "a")], "a")
    tracer = RunTracer()
    run(graph, tracer=tracer, limits=Limits(max_steps=3))
    summary = tracer.summary()
    assert (summary.status, summary.stop_reason, summary.node_count) == ("stopped", "max_steps", 3)


def test_tokens_of_streamed_answers_are_not_kept() -> None:
    tracer = RunTracer()
    state = {"messages": [user("when?")]}
    heard: list[StreamEvent] = []
    run(team(), state, tools=[clock], tracer=tracer, emit=heard.append)
    assert "token" in {event.type for event in heard}
    assert [event for event in heard if event.type != "token"] == tracer.events


def test_a_trace_is_plain_data() -> None:
    tracer = RunTracer()
    run(team(), {"messages": [user("when?")]}, tools=[clock], tracer=tracer)
    data = json.loads(json.dumps(tracer.to_json()))
    assert data["summary"]["llm_calls"] == 3
    assert data["events"][0]["type"] == "run_start"
    assert data["events"][-1]["data"]["usage"]["model_calls"] == 3


def test_a_tracer_that_heard_nothing_has_an_empty_summary() -> None:
    assert RunTracer().summary() == RunSummary()
    assert RunTracer().timeline() == []


def test_the_names_are_public() -> None:
    assert teff.RunTracer is RunTracer
    assert teff.RunSummary is RunSummary
    assert TraceEvent is StreamEvent
