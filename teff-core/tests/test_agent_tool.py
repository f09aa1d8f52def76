"""`AgentTool`: flows, nodes and roles as tools of any model."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, ToolError
from teff.flow import AgentRole, AgentTool, Flow
from teff.node import LLM, ExecContext
from teff.runtime import Limits, StreamEvent
from teff.testing import ScriptedProvider, call_tool


class Seen:
    type = "seen"

    def __init__(self, answer: Any = "done") -> None:
        self.answer = answer
        self.states: list[dict[str, Any]] = []

    async def __call__(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        self.states.append(dict(state))
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"output": self.answer}


def agent_tool(agent: Any, **options: Any) -> AgentTool:
    return AgentTool(agent, name="helper", description="Helps.", **options)


def flow_of(model: ScriptedProvider) -> Flow:
    return Flow(providers={"p": model}, default_provider="p", default_model="m")


def test_it_is_told_to_a_model_as_a_tool_with_one_text() -> None:
    spec = agent_tool(Seen()).spec()
    assert (spec.name, spec.description) == ("helper", "Helps.")
    assert spec.schema["required"] == ["message"]


def test_the_agent_has_the_message_as_the_users() -> None:
    seen = Seen()
    assert asyncio.run(agent_tool(seen).call({"message": "go"})) == "done"
    assert seen.states == [{"input": "go", "messages": [{"role": "user", "content": "go"}]}]


@pytest.mark.parametrize("arguments", [{}, {"message": 3}, {"message": "x", "more": 1}])
def test_arguments_that_do_not_fit_run_nothing(arguments: dict[str, Any]) -> None:
    seen = Seen()
    with pytest.raises(ToolError):
        asyncio.run(agent_tool(seen).call(arguments))
    assert seen.states == []


class Order(TypedDict):
    """An order."""

    item: str
    count: int


def test_an_input_type_gives_the_agent_its_fields() -> None:
    seen = Seen()
    made = agent_tool(seen, input_type=Order)
    assert set(made.spec().schema["properties"]) == {"item", "count"}
    asyncio.run(made.call({"item": "nut", "count": 2}))
    (state,) = seen.states
    assert (state["item"], state["count"]) == ("nut", 2)
    assert state["messages"][0]["content"] == '{"item": "nut", "count": 2}'
    with pytest.raises(ToolError, match="count"):
        asyncio.run(made.call({"item": "nut", "count": "two"}))


def test_context_comes_from_the_state_of_the_caller() -> None:
    seen = Seen()
    made = agent_tool(seen, context={"customer": "who"})
    asyncio.run(made.call({"message": "go"}, state={"customer": 7, "secret": 1}))
    assert seen.states[0]["who"] == 7
    assert "secret" not in seen.states[0]


def test_a_failing_agent_is_a_failing_tool() -> None:
    with pytest.raises(ToolError, match="'helper' failed: ValueError: broken"):
        asyncio.run(agent_tool(Seen(ValueError("broken"))).call({"message": "go"}))
    with pytest.raises(ToolError, match="no answer"):
        asyncio.run(agent_tool(Seen("")).call({"message": "go"}))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "a b", "description": "A."}, "no name"),
        ({"name": "a", "description": " "}, "description"),
        ({"name": "a", "description": "A.", "input_type": str}, "object with fields"),
        ({"name": "a", "description": "A.", "input_type": {"messages": "string"}}, "'messages'"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        AgentTool(Seen(), **options)


def test_what_cannot_run_is_refused() -> None:
    with pytest.raises(ConfigError):
        agent_tool(3)


def test_a_model_calls_it_inside_the_run_with_events_and_limits() -> None:
    model = ScriptedProvider([call_tool("helper", {"message": "hi"}), "inner", "outer"])
    made = agent_tool(LLM(input_key="input"))
    graph = flow_of(model).llm(input_key="q", use_tools=["helper"], id="lead").compile()
    events: list[StreamEvent] = []
    result = asyncio.run(graph.run({"q": "x"}, tools=[made], emit=events.append))
    assert result["output"] == "outer"
    assert result.usage.model_calls == 3
    assert [e.path for e in events if e.type == "node_start" and e.node_id == "helper"] == [
        "lead/1/tool:1.1:call_helper/helper"
    ]
    model = ScriptedProvider([call_tool("helper", {"message": "hi"}), "inner", "outer"])
    bounded = flow_of(model).llm(input_key="q", use_tools=["helper"]).compile()
    stopped = asyncio.run(bounded.run({"q": "x"}, tools=[made], limits=Limits(max_model_calls=1)))
    assert stopped.stop_reason == "max_model_calls"


def test_a_role_and_its_mapping_are_agents() -> None:
    role = AgentRole("You help.", output_key="help")
    for agent in (role, {"system": "You help.", "output_key": "help"}):
        model = ScriptedProvider([call_tool("helper", {"message": "hi"}), "inner", "outer"])
        graph = flow_of(model).harness(use_tools="all").compile()
        asyncio.run(graph.run({"input": "x"}, tools=[agent_tool(agent)]))
        assert model.requests[1].messages[0]["content"] == "You help."
        assert model.requests[2].messages[-1]["content"] == "inner"


def test_a_question_inside_pauses_the_run_and_is_answered_in_place() -> None:
    async def ask(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return {"output": f"said {await ctx.interrupt('human', 'May I?')}"}

    model = ScriptedProvider([call_tool("helper", {"message": "hi"}), "outer"])
    graph = flow_of(model).llm(input_key="q", use_tools=["helper"]).compile()
    store, tools = MemoryCheckpointer(), [agent_tool(Flow().step(ask))]
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run({"q": "x"}, tools=tools, checkpointer=store, checkpoint_id="r"))
    asyncio.run(
        graph.run(None, tools=tools, checkpointer=store, checkpoint_id="r", resume={"human": "yes"})
    )
    assert len(model.requests) == 2
    assert model.requests[1].messages[-1]["content"] == "said yes"


def test_it_may_be_called_several_times_in_one_step() -> None:
    seen = Seen()
    made = agent_tool(seen)

    async def both(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        await made.call({"message": "1"}, ctx=ctx)
        await made.call({"message": "2"}, ctx=ctx)
        return {}

    asyncio.run(Flow().step(both).compile().run({}))
    assert [state["input"] for state in seen.states] == ["1", "2"]
