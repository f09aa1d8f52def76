"""The names that users' programs rely on: where they are imported from, what they take and have."""

from __future__ import annotations

import asyncio
import inspect
from importlib import import_module
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, StructuredOutputError, TeffError
from teff.flow import AgentRole, Flow, SubFlow, agent_step
from teff.graph import Edge, Graph
from teff.graph.options import RunOptions
from teff.messages import user
from teff.node import (
    LLM,
    Ask,
    Command,
    ExecContext,
    Extract,
    Fallback,
    Node,
    NodeRegistry,
    ReActAgent,
    ToolExec,
    Transform,
    Validate,
    default_registry,
    last_user_message,
)
from teff.provider import ProviderRegistry
from teff.runtime import Limits, RunTracer
from teff.testing import ScriptedProvider, call_tool
from teff.tool import tool

PATHS = {
    "teff": "AgentTool Delegate Limits Price Prices Supervisor SupervisorStrategy",
    "teff.checkpoint": "MemoryCheckpointer",
    "teff.flow": "AgentRole Case Flow SubFlow agent_step",
    "teff.flow.agent": "AgentRole agent_step",
    "teff.flow.sub_flow": "SubFlow",
    "teff.graph": "Edge Graph",
    "teff.graph.conditions": "evaluate",
    "teff.harness": "Harness",
    "teff.memory.context": "MemoryConfig",
    "teff.node": (
        "LLM AppendAssistant Ask Command CommandNode ContextBuilder Delegate ExecContext Extract "
        "Fallback Gate GraphInterrupt Interrupt Loop Map Node NodeRegistry Parallel ReActAgent "
        "Retry StructuredOutputError Supervisor ToolCall ToolExec Transform Validate "
        "default_registry last_user_message"
    ),
    "teff.node.agent": "ReActAgent ToolExec",
    "teff.node.gate": "Gate",
    "teff.node.interrupt": "GraphInterrupt Interrupt",
    "teff.node.registry": "make_function_node node",
    "teff.node.supervisor": "Supervisor",
    "teff.prompt": "render_template",
    "teff.provider": "Provider ProviderRegistry",
    "teff.runtime": "Limits Price Prices",
    "teff.skill": "Skill load_skill",
    "teff.state": "Append DELETE Overwrite",
    "teff.stream": "StreamEvent",
    "teff.testing": "ScriptedProvider",
    "teff.tool": "Tool ToolRegistry tool",
    "teff.trace": "RunTracer",
    "teff.workflow": "load loads from_yaml",
}

TYPES = {
    "append_assistant": "AppendAssistant",
    "command": "CommandNode",
    "context_builder": "ContextBuilder",
    "delegate": "Delegate",
    "fallback": "Fallback",
    "gate": "Gate",
    "interrupt": "Interrupt",
    "llm_chat": "LLM",
    "loop": "Loop",
    "map": "Map",
    "parallel": "Parallel",
    "react_agent": "ReActAgent",
    "retry": "Retry",
    "subflow": "SubFlow",
    "supervisor": "Supervisor",
    "tool_call": "ToolCall",
    "tool_exec": "ToolExec",
    "transform": "Transform",
    "validate": "Validate",
}

FLOW_METHODS = (
    "step default llm transform context_builder append_assistant supervisor harness react "
    "branch converge parallel map loop interrupt interrupt_loop route team add_flow command "
    "label compile to_yaml gate ask extract retry delegate limits"
)
RESULT = "run_id status stop_reason usage steps duration_ms durable error"
USAGE = "prompt_tokens completion_tokens total_tokens model_calls tool_calls cost by_model"
BOUNDS = "max_steps max_model_calls max_tool_calls max_tokens max_cost deadline"
CONTEXT = (
    "node_id node_type tracer reducers emit providers default_provider default_model hooks "
    "node_timeout checkpointer checkpoint_id owner resume on_llm_payload"
)
CONTEXT_HAS = "path call once interrupt idempotency_key limits emit emit_custom llm"


def parameters(callable_: Any) -> list[str]:
    return [name for name in inspect.signature(callable_).parameters if name != "self"]


@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, names in PATHS.items() for name in names.split()]
)
def test_a_name_is_found_where_programs_import_it_from(path: str, name: str) -> None:
    assert getattr(import_module(path), name) is not None


@pytest.mark.parametrize(("type_name", "class_name"), TYPES.items())
def test_every_node_type_is_registered_under_its_name(type_name: str, class_name: str) -> None:
    home = import_module("teff.flow" if class_name == "SubFlow" else "teff.node")
    assert getattr(home, class_name).type == type_name
    assert type_name in default_registry.list()


def test_the_options_of_a_graph_and_a_flow() -> None:
    shared = ["state", "reducers", "providers", "default_provider", "default_model", "limits"]
    assert parameters(Graph)[:3] == ["nodes", "edges", "entry_point"]
    assert parameters(Flow)[0] == "name"
    for made in (Graph, Flow):
        assert set(shared) <= set(parameters(made))


def test_the_methods_of_a_flow() -> None:
    for name in FLOW_METHODS.split():
        assert callable(getattr(Flow, name)), name


def test_the_options_of_a_run() -> None:
    wanted = (
        "tools reducers tracer max_iterations hooks limits node_timeout checkpointer checkpoint_id "
        "owner resume providers default_provider default_model on_llm_payload"
    )
    assert set(wanted.split()) <= RunOptions.__annotations__.keys()
    for name in ("run", "stream", "turn", "aclose", "pending", "last_reply", "get_state"):
        assert callable(getattr(Graph, name))
    flow = Flow().transform(action="render", template="x")
    tracer = RunTracer()
    result = asyncio.run(flow.compile().run({}, tracer=tracer, max_iterations=3, reducers={}))
    for name in RESULT.split():
        assert hasattr(result, name)
    for name in USAGE.split():
        assert hasattr(result.usage, name)


def test_leaving_a_graph_frees_the_connections_of_its_providers() -> None:
    closed: list[str] = []

    class Registry(ProviderRegistry):
        async def aclose(self) -> None:
            closed.append("all")
            await super().aclose()

    async def main() -> None:
        providers = Registry({"p": ScriptedProvider(["."])})
        flow = Flow(providers=providers, default_provider="p", default_model="m")
        async with flow.llm(prompt="Hi.").compile() as graph:
            assert (await graph.run())["output"] == "."
            assert closed == []
        assert closed == ["all"]
        await graph.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("bound", [0, -1, "5", 2.5, True])
def test_a_bound_that_is_no_number_of_steps_is_refused(bound: Any) -> None:
    with pytest.raises(ConfigError, match="max_iterations"):
        asyncio.run(Flow().transform(action="now").compile().run({}, max_iterations=bound))


def test_a_limit_is_named_as_documented() -> None:
    assert parameters(Limits) == BOUNDS.split()


def test_a_context_made_by_hand_has_what_nodes_use() -> None:
    assert parameters(ExecContext)[:2] == ["state", "tools"]
    assert set(parameters(ExecContext)[2:]) >= set(CONTEXT.split())

    @tool(register=False)
    def add(a: int, b: int) -> int:
        return a + b

    ctx = ExecContext({"a": 1}, [add], node_id="n")
    assert ctx.tool("add").name == "add"
    with pytest.raises(KeyError, match="sub"):
        ctx.tool("sub")
    for name in CONTEXT_HAS.split():
        assert hasattr(ctx, name), name

    async def main() -> None:
        child = Transform(action="render", template="{a}!")
        assert await ctx.call("child", child, {"a": 1}) == {"output": "1!"}
        assert await ctx.once("effect", lambda: 7) == 7
        with pytest.raises(GraphInterrupt) as caught:
            await ctx.interrupt("ok", "Really?")
        assert (caught.value.key, caught.value.prompt) == ("ok", "Really?")

    asyncio.run(main())


def test_the_pause_that_run_raises() -> None:
    pause = GraphInterrupt("ok", "Really?", "ask", "r1")
    assert isinstance(pause, TeffError)
    assert (pause.key, pause.prompt, pause.node_id, pause.checkpoint_id) == (
        "ok",
        "Really?",
        "ask",
        "r1",
    )
    assert pause.nested_checkpoint_id is None
    assert GraphInterrupt("ok").prompt == ""


def test_an_answer_that_never_fits_says_what_was_wanted_and_given() -> None:
    error = StructuredOutputError({"type": "object"}, "no", ["is no object"], 3)
    assert isinstance(error, TeffError)
    assert isinstance(error, ValueError)
    assert (error.schema, error.content, list(error.errors), error.attempts) == (
        {"type": "object"},
        "no",
        ["is no object"],
        3,
    )


def test_the_recipes_for_answers() -> None:
    made = {
        "equals": Ask.equals("yes"),
        "any_of": Ask.any_of(["yes", "go"]),
        "regex": Ask.regex(r"\d+"),
        "check": Ask.check(bool),
        "llm": Ask.llm(system="Is it a yes?"),
    }
    for strategy, ask in made.items():
        assert ask.strategy == strategy
        assert ask.needs_classifier() is (strategy == "llm")
        assert isinstance(ask.validate_node("approval"), Validate)
    assert isinstance(made["llm"].classifier(), LLM)
    assert Ask(equals="yes").strategy == Ask.from_mapping({"equals": "yes"}).strategy == "equals"


def test_the_recipe_for_fields() -> None:
    recipe = Extract.model(schema={"name": "string"}, id="who")
    assert isinstance(recipe.llm(), LLM)
    recipe.fallback("name", lambda value: "Ann").fallback("name", lambda value: "Bo")
    nodes = recipe.nodes()
    assert [node.id for node in nodes] == ["who", "who-fallback-1", "who-fallback-2"]
    assert isinstance(nodes[1], Fallback)


def test_where_a_command_stops_and_the_last_words_of_a_user() -> None:
    flow = (
        Flow()
        .step(lambda ctx, state: Command({"a": 1}, Command.STOP))
        .step(lambda ctx, state: {"b": 1})
    )
    result = asyncio.run(flow.compile().run())
    assert (dict(result), result.stop_reason) == ({"a": 1}, "command_stop")
    assert last_user_message([user("One."), user("Two."), {"role": "assistant"}]) == "Two."


def test_a_registry_of_ones_own() -> None:
    class Shout(Node):
        type = "shout"

    registry = NodeRegistry()
    registry.register("shout", Shout)
    assert isinstance(registry.create("shout", {"id": "s"}), Shout)
    assert "shout" in registry.copy().list()
    assert "shout" not in default_registry.list()


def test_the_state_keys_of_the_tool_loop() -> None:
    seen: list[dict[str, Any]] = []

    def add(a: int, b: int) -> int:
        return a + b

    class Watched(ToolExec):
        async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Any:
            seen.append(dict(state))
            return await super().execute(ctx, state)

    nodes: dict[str, Node] = {"agent": ReActAgent(use_tools="all"), "tools": Watched()}
    edges = [Edge("agent", "tools", "_tool_call_name!="), Edge("tools", "agent")]
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 2}), "3"])
    graph = Graph(
        nodes, edges, "agent", providers={"p": provider}, default_provider="p", default_model="m"
    )
    result = asyncio.run(graph.run({"input": "1 + 2?"}, tools=[add]))
    (waiting,) = seen
    (call,) = waiting["_tool_calls"]
    assert {"id", "name", "args"} <= call.keys()
    assert waiting["_tool_call_name"]
    assert waiting["_tool_call_args"] == call["args"]
    assert waiting["_tool_call_id"] == call["id"]
    assert waiting["_react_round_agent"] == 1
    assert (result["output"], result["_tool_call_name"], result["_tool_calls"]) == ("3", "", [])


@pytest.mark.parametrize(
    ("options", "reply", "key"),
    [
        ({}, call_tool("ask_human", {"question": "Which?"}), "ask_human"),
        ({"tool_approval": "pause"}, call_tool("add", {"a": 1, "b": 2}), "tool_approval"),
    ],
)
def test_the_keys_of_the_questions_of_the_tool_loop(options: Any, reply: Any, key: str) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    provider = ScriptedProvider([reply])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = flow.harness("m", use_tools=["ask_human", "add"], **options).compile()
    stored: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt) as caught:
        asyncio.run(graph.run({"input": "Go."}, tools=[add], **stored))
    assert caught.value.key == key


def test_the_agents_of_a_team() -> None:
    named = ["system", "output_key", "model", "provider", "sections", "messages_key", "use_tools"]
    assert parameters(AgentRole)[:8] == [*named, "stream"]
    assert {*named, "stream", "id"} <= set(parameters(agent_step))
    role = AgentRole.from_mapping({"system": "x", "tools": ["add"], "temperature": 0.5}, name="r")
    assert (role.output_key, role.use_tools, role.config) == ("r", ["add"], {"temperature": 0.5})
    built = role.build(model="m", provider="p", id="r")
    assert isinstance(built, SubFlow)
    (agent,) = [node for node in built.children() if isinstance(node, ReActAgent)]
    assert (agent.temperature, agent.messages_key) == (0.5, "_r_messages")
    step = agent_step("You are kind.", "draft", model="m", provider="p")
    assert "_draft_messages" in {
        node.messages_key for node in step.children() if isinstance(node, ReActAgent)
    }
