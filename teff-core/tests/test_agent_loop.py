"""Agents and tools: the loop in one node, the loop in the graph, and people in between."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, ToolError
from teff.flow import Flow, agent_step
from teff.graph import Graph
from teff.messages import ToolCall, assistant, message_text, user
from teff.node import LLM, ReActAgent, ToolExec
from teff.node.model import Overlay
from teff.provider import ChatReply
from teff.runtime import Limits, StreamEvent
from teff.testing import ScriptedProvider, call_tool


class Desk:
    """Tools that remember what was really done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[Any]:
        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            self.done.append(f"add {a} {b}")
            return a + b

        async def pay(amount: int) -> str:
            """Pay an amount."""
            self.done.append(f"pay {amount}")
            return f"paid {amount}"

        async def fail() -> str:
            """Fail."""
            raise ValueError("no luck")

        return [add, pay, fail]


def calls(*wanted: tuple[str, dict[str, Any]]) -> ChatReply:
    return ChatReply(
        tool_calls=[
            ToolCall(id=f"t{number}", name=name, arguments=arguments)
            for number, (name, arguments) in enumerate(wanted, 1)
        ]
    )


def models(provider: ScriptedProvider) -> dict[str, Any]:
    return {"providers": {"p": provider}, "default_provider": "p", "default_model": "m"}


def react(provider: ScriptedProvider, **config: Any) -> Graph:
    return Flow(**models(provider)).harness(**{"use_tools": "all", "id": "a", **config}).compile()


def llm(provider: ScriptedProvider, **config: Any) -> Graph:
    return (
        Flow(**models(provider))
        .llm(**{"input_key": "input", "use_tools": "all", **config})
        .compile()
    )


def run(graph: Graph, desk: Desk, state: Any = None, **options: Any) -> Any:
    given = {"input": "What is 1 + 2?"} if state is None else state
    return asyncio.run(graph.run(given, tools=desk.tools(), **options))


@pytest.mark.parametrize("build", [react, llm])
def test_a_tool_is_called_and_its_result_goes_back_to_the_model(build: Any) -> None:
    desk = Desk()
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 2}, id="t1"), "It is 3."])
    result = run(build(provider, system="Calculate."), desk)
    assert result["output"] == "It is 3."
    assert desk.done == ["add 1 2"]
    assert result.usage.tool_calls == 1
    second = provider.requests[1].messages
    assert [message["role"] for message in second] == ["system", "user", "assistant", "tool"]
    assert second[3] == {"role": "tool", "content": "3", "tool_call_id": "t1", "name": "add"}
    assert [tool.name for tool in provider.requests[0].tools] == ["add", "pay", "fail"]


@pytest.mark.parametrize("build", [react, llm])
def test_results_stand_in_the_order_of_the_calls(build: Any) -> None:
    provider = ScriptedProvider(
        [calls(("pay", {"amount": 1}), ("add", {"a": 1, "b": 1}), ("pay", {"amount": 2})), "done"]
    )
    run(build(provider), Desk())
    results = [m for m in provider.requests[1].messages if m["role"] == "tool"]
    assert [message_text(message) for message in results] == ["paid 1", "2", "paid 2"]


@pytest.mark.parametrize("build", [react, llm])
def test_what_goes_wrong_in_a_tool_is_told_to_the_model(build: Any) -> None:
    desk = Desk()
    provider = ScriptedProvider(
        [
            calls(
                ("fail", {}),
                ("ad", {"a": 1, "b": 1}),
                ("add", {"a": "x", "b": 1}),
                ("pay", {"amount": 5}),
            ),
            "sorry",
        ]
    )
    run(build(provider), desk)
    texts = [message_text(m) for m in provider.requests[1].messages if m["role"] == "tool"]
    assert "no luck" in texts[0]
    assert "add" in texts[1]
    assert "'a'" in texts[2] or "a" in texts[2]
    assert texts[3] == "paid 5"
    assert desk.done == ["pay 5"]


@pytest.mark.parametrize("build", [react, llm])
def test_a_tool_error_can_end_the_run_after_the_other_calls(build: Any) -> None:
    desk = Desk()
    provider = ScriptedProvider([calls(("fail", {}), ("pay", {"amount": 5}))])
    with pytest.raises(ToolError, match="no luck"):
        run(build(provider, tool_error_mode="raise"), desk)
    assert desk.done == ["pay 5"]


@pytest.mark.parametrize("build", [react, llm])
def test_after_the_last_round_the_model_is_asked_without_tools(build: Any) -> None:
    desk = Desk()
    more = call_tool("add", {"a": 1, "b": 1})
    provider = ScriptedProvider([more, more, "my best answer"])
    heard: list[StreamEvent] = []
    result = run(build(provider, max_tool_rounds=2), desk, emit=heard.append)
    assert result["output"] == "my best answer"
    assert [len(request.tools) for request in provider.requests] == [3, 3, 0]
    assert [event.data for event in heard if event.type == "limit"] == [
        {"reason": "max_tool_rounds"}
    ]


def test_the_rounds_are_counted_anew_in_each_turn() -> None:
    desk, more = Desk(), call_tool("add", {"a": 1, "b": 1})
    provider = ScriptedProvider([more, "first", more, "second"])
    graph = react(provider, max_tool_rounds=1)
    first = run(graph, desk)
    second = run(graph, desk, {**first, "input": "And again?"})
    assert second["output"] == "second"
    assert [m["role"] for m in second["messages"]] == ["user", "assistant", "tool", "assistant"] * 2


def test_the_system_text_is_sent_each_time_and_never_stored() -> None:
    provider = ScriptedProvider(["hello"])
    history = [user("earlier"), assistant("yes")]
    result = run(react(provider, system="Be kind."), Desk(), {"messages": history, "input": "now"})
    assert [m["role"] for m in provider.requests[0].messages] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert [m["role"] for m in result["messages"]] == ["user", "assistant", "user", "assistant"]


def test_msg_05_one_system_message_however_often_it_is_there() -> None:
    provider = ScriptedProvider(["hello"])
    history = [
        {"role": "system", "content": "Be kind."},
        user("hi"),
        {"role": "system", "content": "x=1"},
    ]
    run(react(provider, system="Be kind."), Desk(), {"messages": history})
    systems = [m for m in provider.requests[0].messages if m["role"] == "system"]
    assert systems == [{"role": "system", "content": "Be kind.\n\nx=1"}]
    assert provider.requests[0].messages[0] == systems[0]


def test_tools_are_none_by_default_and_unknown_ones_are_refused_before_the_first_step() -> None:
    provider = ScriptedProvider(["plain"])
    assert run(llm(provider, use_tools=None), Desk())["output"] == "plain"
    assert not provider.requests[0].tools
    with pytest.raises(ConfigError, match="ad2"):
        run(llm(ScriptedProvider(), use_tools=["ad2"]), Desk())


def test_tool_events_carry_arguments_result_and_duration() -> None:
    heard: list[StreamEvent] = []
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 2}, id="t1"), "3"])
    run(react(provider), Desk(), emit=heard.append)
    told = {event.type: event.data for event in heard if event.type.startswith("tool_")}
    assert told["tool_call"] == {"id": "t1", "name": "add", "arguments": {"a": 1, "b": 2}}
    assert told["tool_result"]["text"] == "3"
    assert told["tool_result"]["error"] is False
    assert told["tool_result"]["duration_ms"] >= 0


def test_max_tool_calls_stops_the_run_before_the_call() -> None:
    desk = Desk()
    result = run(
        react(ScriptedProvider([call_tool("pay", {"amount": 1})])),
        desk,
        limits=Limits(max_tool_calls=0),
    )
    assert (result.status, result.stop_reason, desk.done) == ("stopped", "max_tool_calls", [])


class Store:
    """A stored run with a checkpointer of its own."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}

    def pause(self, graph: Graph, desk: Desk, state: Any = None, **more: Any) -> GraphInterrupt:
        with pytest.raises(GraphInterrupt) as caught:
            run(graph, desk, state, **self.options, **more)
        return caught.value

    def resume(self, graph: Graph, desk: Desk, answer: Any) -> Any:
        return run(graph, desk, {}, resume=answer, **self.options)


@pytest.mark.parametrize("build", [react, llm])
def test_d2_an_answered_question_reaches_the_model_as_the_tools_result(build: Any) -> None:
    desk, store = Desk(), Store()
    provider = ScriptedProvider([call_tool("ask_human", {"question": "Which?"}), "Thanks."])
    graph = build(provider)
    interrupt = store.pause(graph, desk)
    assert (interrupt.key, interrupt.prompt) == ("ask_human", "Which?")
    result = store.resume(graph, desk, "the red one")
    assert result["output"] == "Thanks."
    assert message_text(provider.requests[1].messages[-1]) == "the red one"
    assert len(provider.requests) == 2


@pytest.mark.parametrize("build", [react, llm])
def test_d5_two_questions_in_one_round_are_both_answered(build: Any) -> None:
    desk, store = Desk(), Store()
    provider = ScriptedProvider(
        [
            calls(
                ("ask_human", {"question": "A?"}),
                ("pay", {"amount": 1}),
                ("ask_human", {"question": "B?"}),
            ),
            "ok",
        ]
    )
    graph = build(provider)
    interrupt = store.pause(graph, desk)
    assert [question.prompt for question in interrupt.interrupts] == ["A?", "B?"]
    ids = [question.id for question in interrupt.interrupts]
    store.resume(graph, desk, {ids[1]: "b", ids[0]: "a"})
    texts = [message_text(m) for m in provider.requests[1].messages if m["role"] == "tool"]
    assert texts == ["a", "paid 1", "b"]
    assert desk.done == ["pay 1"]


@pytest.mark.parametrize("build", [react, llm])
def test_d4_an_approval_is_for_one_call_and_no_other(build: Any) -> None:
    desk, store = Desk(), Store()
    provider = ScriptedProvider(
        [
            ChatReply(tool_calls=[ToolCall(id="t1", name="pay", arguments={"amount": 1})]),
            ChatReply(tool_calls=[ToolCall(id="t2", name="pay", arguments={"amount": 666})]),
            "done",
        ]
    )
    graph = build(provider, tool_approval="pause")
    assert "pay" in store.pause(graph, desk).prompt
    with pytest.raises(GraphInterrupt) as again:
        store.resume(graph, desk, "approve")
    assert "666" in again.value.prompt
    assert desk.done == ["pay 1"]
    store.resume(graph, desk, "deny")
    assert desk.done == ["pay 1"]
    assert "declined" in message_text(provider.requests[2].messages[-1])


@pytest.mark.parametrize("answer", ["approved", "yes", 1, "", None, {"ok": True}, False])
def test_an_approval_that_is_no_clear_yes_is_a_no(answer: Any) -> None:
    desk, store = Desk(), Store()
    provider = ScriptedProvider([call_tool("pay", {"amount": 1}), "done"])
    graph = react(provider, tool_approval="pause")
    question = store.pause(graph, desk).interrupts[0]
    store.resume(graph, desk, {question.id: answer})
    assert desk.done == []


def test_tol_09_the_declined_call_has_a_result_and_the_others_run() -> None:
    desk = Desk()

    async def policy(name: str, arguments: dict[str, Any]) -> bool:
        return name != "pay"

    provider = ScriptedProvider([calls(("pay", {"amount": 1}), ("add", {"a": 1, "b": 1})), "done"])
    run(react(provider, tool_approval=policy), desk)
    texts = [message_text(m) for m in provider.requests[1].messages if m["role"] == "tool"]
    assert "declined" in texts[0]
    assert texts[1] == "2"
    assert desk.done == ["add 1 1"]


def test_an_agent_step_keeps_its_conversation_to_itself() -> None:
    desk = Desk()
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 2}), "It is 3."])
    step = agent_step("Calculate.", "sum", use_tools=["add"], sections={"plan": "Plan"}, id="calc")
    graph = Flow(**models(provider)).step(step).compile()
    result = run(graph, desk, {"messages": [user("1 + 2?")], "plan": "add them"})
    assert result == {
        "messages": [user("1 + 2?"), assistant("It is 3.")],
        "plan": "add them",
        "sum": "It is 3.",
    }
    sent = provider.requests[0].messages
    assert message_text(sent[0]) == "Calculate."
    assert message_text(sent[1]) == "Plan:\nadd them\n\nUser: 1 + 2?"


def test_an_agent_step_refuses_a_misspelt_option() -> None:
    with pytest.raises(ConfigError, match="temprature.*Did you mean 'temperature'"):
        agent_step("x", "y", temprature=0.5)


def test_an_agent_with_tools_streams_its_answer() -> None:
    heard: list[StreamEvent] = []
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 2}), "It is 3."])
    run(react(provider, stream=True), Desk(), emit=heard.append)
    tokens = [event for event in heard if event.type == "token"]
    assert "".join(event.data["token"] for event in tokens) == "It is 3."
    assert {event.node_id for event in tokens} == {"a/agent"}


def test_d4_an_approval_does_not_pass_on_to_a_call_with_the_same_id_and_other_arguments() -> None:
    desk, store = Desk(), Store()
    provider = ScriptedProvider(
        [
            call_tool("pay", {"amount": 1}, id="same"),
            call_tool("pay", {"amount": 666}, id="same"),
            "done",
        ]
    )
    graph = react(provider, tool_approval="pause")
    first = store.pause(graph, desk).interrupts[0]
    with pytest.raises(GraphInterrupt) as again:
        store.resume(graph, desk, {first.id: "approve"})
    second = again.value.interrupts[0]
    assert second.id != first.id
    with pytest.raises(GraphInterrupt):
        store.resume(graph, desk, {first.id: "approve"})
    assert desk.done == ["pay 1"]
    store.resume(graph, desk, {second.id: "deny"})
    assert desk.done == ["pay 1"]


@pytest.mark.parametrize("build", [react, llm])
def test_d6_results_of_calls_without_ids_are_matched_by_their_place(build: Any) -> None:
    desk = Desk()
    nameless = ChatReply(
        tool_calls=[ToolCall(id="", name="pay", arguments={"amount": n}) for n in (1, 2)]
    )
    provider = ScriptedProvider([nameless, "done"])
    run(build(provider), desk)
    texts = [message_text(m) for m in provider.requests[1].messages if m["role"] == "tool"]
    assert texts == ["paid 1", "paid 2"]


@pytest.mark.parametrize("build", [react, llm])
def test_two_calls_that_wait_are_approved_one_by_one(build: Any) -> None:
    desk, store = Desk(), Store()
    provider = ScriptedProvider([calls(("pay", {"amount": 1}), ("pay", {"amount": 2})), "done"])
    graph = build(provider, tool_approval="pause")
    one, two = store.pause(graph, desk).interrupts
    store.resume(graph, desk, {one.id: "deny", two.id: "approve"})
    assert desk.done == ["pay 2"]
    texts = [message_text(m) for m in provider.requests[1].messages if m["role"] == "tool"]
    assert "declined" in texts[0]
    assert texts[1] == "paid 2"


def test_what_belongs_to_a_turn_is_named() -> None:
    loop = ["_tool_calls", "_tool_call_name", "_tool_call_args", "_tool_call_id"]
    assert ReActAgent(id="a").turn_keys() == [*loop, "_react_round_*"]
    assert "_react_round_a" in ReActAgent(id="a").writes()
    assert ToolExec(tool_call_key="wait").turn_keys() == ["_tool_calls", "wait", *loop[2:]]
    result = run(react(ScriptedProvider([call_tool("add", {"a": 1, "b": 1}), "2"])), Desk())
    scratch = {key for key in result if key.startswith("_")}
    assert scratch == {*loop, "_react_round_a/agent"}


def test_the_waiting_calls_are_in_the_state_while_they_wait() -> None:
    desk, store = Desk(), Store()
    provider = ScriptedProvider([call_tool("pay", {"amount": 1}, id="t1"), "done"])
    graph = react(provider, tool_approval="pause")
    state = store.pause(graph, desk).result
    assert state["_tool_calls"] == [{"id": "t1", "name": "pay", "args": {"amount": 1}}]
    assert (state["_tool_call_name"], state["_tool_call_id"]) == ("pending", "t1")
    assert state["_tool_call_args"] == {"amount": 1}
    done = store.resume(graph, desk, "approve")
    assert done["_tool_calls"] == []
    assert done["_tool_call_name"] == ""


@pytest.mark.parametrize("kind", [LLM, ReActAgent])
def test_one_method_decides_what_is_laid_over_a_request(kind: Any) -> None:
    class Narrow(kind):  # type: ignore[misc]  # one class of two
        async def overlay(self, ctx: Any, state: Any, messages: Any) -> Overlay:
            whole: Overlay = await super().overlay(ctx, state, messages)
            kept = [spec for spec in whole.offered if spec.name == "add"]
            return attrs.evolve(whole, system=f"{whole.system} And more.", offered=kept)

    provider = ScriptedProvider(["ok"])
    node = Narrow(system="Calculate.", use_tools="all", input_key="input", id="n")
    result = run(Flow(**models(provider)).step(node).compile(), Desk())
    assert message_text(provider.requests[0].messages[0]) == "Calculate. And more."
    assert [tool.name for tool in provider.requests[0].tools] == ["add"]
    assert "more" not in str(result)
