"""Tools in a harness: calls written as text, what of them is shown, and where a loop ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import GraphInterrupt, WorkflowError
from teff.flow import Flow
from teff.graph import Edge, Graph
from teff.node import ReActAgent
from teff.provider import ChatReply, ChatRequest
from teff.runtime import Limits, RunResult, StreamEvent
from teff.testing import ScriptedProvider, call_tool

HERMES = 'Let me see.\n<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 3}}\n</tool_call>'


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def graph_of(answers: list[Any], *, node: str = "llm", **options: Any) -> tuple[Graph, Any]:
    provider = ScriptedProvider(answers)
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    if node == "llm":
        flow.llm(input_key="input", use_tools=["add"], **options)
    else:
        flow.harness(use_tools=["add"], **options)
    return flow.compile(), provider


def run(graph: Graph, heard: list[StreamEvent] | None = None, **options: Any) -> RunResult:
    emit = heard.append if heard is not None else None
    return asyncio.run(graph.run({"input": "2+3?"}, tools=[add], emit=emit, **options))


def shown(heard: list[StreamEvent]) -> str:
    return "".join(event.data["token"] for event in heard if event.type == "token")


def called(heard: list[StreamEvent]) -> list[Any]:
    return [
        (event.data["name"], event.data["arguments"])
        for event in heard
        if event.type == "tool_call"
    ]


@pytest.mark.parametrize("node", ["llm", "agent"])
def test_a_call_written_as_text_is_carried_out_and_never_shown(node: str) -> None:
    heard: list[StreamEvent] = []
    graph, provider = graph_of([HERMES, "It is 5."], node=node)
    assert run(graph, heard)["output"] == "It is 5."
    assert called(heard) == [("add", {"a": 2, "b": 3})]
    assert "tool_call" not in shown(heard)
    assert shown(heard).split() == ["Let", "me", "see.", "It", "is", "5."]
    said, result = provider.requests[1].messages[-2:]
    assert (said["role"], result["role"], result["content"]) == ("assistant", "tool", "5")
    assert "<tool_call>" not in said["content"]
    assert said["tool_calls"][0]["id"] == result["tool_call_id"]


def test_text_stays_text_where_it_is_not_to_be_read() -> None:
    graph, provider = graph_of([HERMES], parse_text_tool_calls=False)
    heard: list[StreamEvent] = []
    assert run(graph, heard)["output"] == HERMES == shown(heard)
    assert called(heard) == []
    assert len(provider.requests) == 1


def test_a_call_of_a_tool_that_was_not_offered_stays_text() -> None:
    text = HERMES.replace('"add"', '"delete_everything"')
    heard: list[StreamEvent] = []
    graph, _ = graph_of([text])
    assert "delete_everything" in run(graph, heard)["output"]
    assert called(heard) == []


def test_a_call_that_was_cut_off_is_not_carried_out() -> None:
    heard: list[StreamEvent] = []
    graph, _ = graph_of([ChatReply(text=HERMES[:-30], finish_reason="length")])
    run(graph, heard)
    assert called(heard) == []


def test_native_calls_win_over_what_the_text_looks_like() -> None:
    native = call_tool("add", {"a": 1, "b": 1})
    both = ChatReply(text=HERMES, tool_calls=native.tool_calls)
    heard: list[StreamEvent] = []
    graph, _ = graph_of([both, "2"])
    run(graph, heard)
    assert called(heard) == [("add", {"a": 1, "b": 1})]


def test_ids_of_decoded_calls_are_the_same_when_a_run_goes_on() -> None:
    graph, provider = graph_of([HERMES, "It is 5."], tool_approval="pause")
    store = MemoryCheckpointer()

    async def main() -> RunResult:
        options: Any = {"checkpointer": store, "checkpoint_id": "r", "tools": [add]}
        with pytest.raises(GraphInterrupt) as paused:
            await graph.run({"input": "2+3?"}, **options)
        return await graph.run(resume={paused.value.interrupts[0].id: "approve"}, **options)

    assert asyncio.run(main())["output"] == "It is 5."
    assert len(provider.requests) == 2


@pytest.mark.parametrize("node", ["llm", "agent"])
def test_a_loop_ends_where_stop_when_says_so(node: str) -> None:
    def enough(reply: ChatReply) -> bool:
        return "see" in reply.text

    heard: list[StreamEvent] = []
    graph, provider = graph_of([HERMES], node=node, stop_when=enough)
    assert run(graph, heard)["output"].strip() == "Let me see."
    assert called(heard) == []
    assert len(provider.requests) == 1


def test_on_llm_hears_of_every_answer() -> None:
    heard: list[Any] = []
    graph, _ = graph_of(
        [call_tool("add", {"a": 1, "b": 1}), "two"],
        on_llm=lambda *told: heard.append(told[:2]),
    )
    run(graph)
    assert heard == [("p", "m")] * 2


def test_the_deadline_of_a_call_reaches_the_provider() -> None:
    graph, provider = graph_of(["ok"], deadline=7.5, timeout=2)
    run(graph)
    request: ChatRequest = provider.requests[0]
    assert request.timeout == 2
    assert request.deadline is not None
    assert 0 < request.deadline <= 7.5


def test_an_agent_whose_calls_nobody_carries_out_says_so() -> None:
    """An edge that leads back without a ToolExec would ask the model for ever."""
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 1})] * 9)
    graph = Graph(
        {"agent": ReActAgent(use_tools=["add"])},
        [Edge("agent", "agent", condition="_tool_call_name!=")],
        "agent",
        providers={"p": provider},
        default_provider="p",
        default_model="m",
    )
    with pytest.raises(WorkflowError, match="visited again before its tool calls"):
        asyncio.run(graph.run({"input": "hi"}, tools=[add], limits=Limits(max_steps=20)))
    assert len(provider.requests) == 1


def test_an_empty_answer_is_not_stored() -> None:
    for node in ("llm", "agent"):
        more = {"messages_key": "messages", "append_reply": True} if node == "llm" else {}
        graph, _ = graph_of([""], node=node, **more)
        messages = run(graph).get("messages", [])
        assert all(message["role"] != "assistant" for message in messages)
