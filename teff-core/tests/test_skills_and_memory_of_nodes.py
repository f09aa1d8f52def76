"""What skills and memories do in nodes: laid over requests, never stored; narrowing, never widening."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt
from teff.flow import Flow
from teff.memory import InMemoryStore, MemoryConfig
from teff.node import LLM, ReActAgent, ToolExec, default_registry
from teff.node.delegation import replace
from teff.skill import Skill
from teff.testing import ScriptedProvider, call_tool

REFUNDS = Skill(
    name="refunds",
    description="How refunds are handled.",
    instructions="Ask a person above 100 EUR.",
    allowed_tools=["search"],
)


def search(query: str) -> str:
    """Search the handbook."""
    return f"found {query}"


def shell(command: str) -> str:
    """Run a command."""
    raise AssertionError("no skill allows this")


def ask(flow: Flow, state: Any, model: ScriptedProvider, **options: Any) -> Any:
    options = {"providers": {"scripted": model}, "default_provider": "scripted", **options}
    return asyncio.run(flow.compile().run(state, default_model="m", **options))


def system_of(model: ScriptedProvider, number: int = 0) -> str:
    first = model.requests[number].messages[0]
    assert first["role"] == "system"
    return str(first["content"])


def test_a_whole_skill_is_laid_over_the_request_beside_the_system_text() -> None:
    model = ScriptedProvider(["ok"])
    flow = Flow().llm(prompt="Hi", system="Be kind.", skills=[REFUNDS], skill_mount="full")
    result = ask(flow, {}, model)
    assert system_of(model) == "Be kind.\n\n# Skill: refunds\n\nAsk a person above 100 EUR."
    assert dict(result) == {"output": "ok"}


def test_a_model_loads_a_skill_when_it_needs_it() -> None:
    model = ScriptedProvider([call_tool("load_skill", {"name": "refunds"}), "Ask a person."])
    result = ask(Flow().llm(prompt="Refund 200 EUR?", skills=[REFUNDS]), {}, model)
    assert "- refunds: How refunds are handled." in system_of(model)
    assert [spec.name for spec in model.requests[0].tools] == ["load_skill"]
    assert "Ask a person above 100 EUR." in str(model.requests[1].messages)
    assert result["output"] == "Ask a person."


@pytest.mark.parametrize("build", ["llm", "harness"])
def test_a_skill_narrows_the_tools_that_are_offered_and_those_that_run(build: str) -> None:
    model = ScriptedProvider([call_tool("shell", {"command": "rm"}), "I may not."])
    options: Any = {"use_tools": "all", "skills": [REFUNDS]}
    flow = Flow().llm(input_key="input", **options)
    if build == "harness":
        flow = Flow().harness("m", **options)
    result = ask(flow, {"input": "Clean up"}, model, tools=[search, shell])
    assert [spec.name for spec in model.requests[0].tools] == ["search", "load_skill"]
    assert "unknown tool 'shell'" in str(model.requests[1].messages)
    assert result["output"] == "I may not."


def test_an_agent_loads_skills_too() -> None:
    model = ScriptedProvider([call_tool("load_skill", {"name": "refunds"}), "Done."])
    ask(Flow().harness("m", "Help.", skills=[REFUNDS]), {"input": "?"}, model)
    assert "Ask a person above 100 EUR." in str(model.requests[1].messages)


@pytest.mark.parametrize("node", [LLM, ReActAgent, ToolExec])
def test_a_skill_that_is_not_there_is_an_error_when_the_node_is_made(
    node: Any, tmp_path: Path
) -> None:
    (tmp_path / "tone").mkdir()
    (tmp_path / "tone" / "SKILL.md").write_text("Be brief.")
    with pytest.raises(ConfigError, match="no skill 'tome'.*'tone'") as caught:
        node(skills=["tome"], skill_dir=str(tmp_path), id="a")
    assert caught.value.path == "skills"
    assert "'a'" in caught.value.message
    assert node(skills="tone", skill_dir=str(tmp_path)).config["skills"] == "tone"


def remembering(**options: Any) -> MemoryConfig:
    store = InMemoryStore()
    asyncio.run(store.put(["users", "ada"], "tea", {"text": "Ada likes green tea."}))
    return MemoryConfig(store=store, namespace=["users", "{user}"], **options)


def test_memories_are_laid_over_the_request_and_never_stored() -> None:
    model = ScriptedProvider(["Green.", "Green."])
    flow = Flow().llm(prompt="Which tea?", system="Be brief.", memory=remembering())
    result = ask(flow, {"user": "ada"}, model)
    assert system_of(model) == "Be brief.\n\nRelevant memories:\n- Ada likes green tea."
    assert dict(result) == {"user": "ada", "output": "Green."}


def test_an_agent_with_memory_keeps_its_system_text_and_the_users_words() -> None:
    model = ScriptedProvider(["Green.", "Black."])
    agent = ReActAgent(system="Be brief.", memory=remembering())
    flow = Flow().step(agent, "agent")
    first = ask(flow, {"user": "ada", "input": "Which tea?"}, model)
    assert [message["role"] for message in first["messages"]] == ["user", "assistant"]
    assert "green tea" in system_of(model)
    again = {**first, "input": "And which tea at night?"}
    second = ask(flow, again, model)
    assert "Be brief." in system_of(model, 1)
    assert "green tea" in system_of(model, 1)
    assert "green tea" not in str(second["messages"])


def test_nobody_elses_memories_are_recalled() -> None:
    model = ScriptedProvider(["?"])
    flow = Flow().llm(prompt="Which tea?", memory=remembering())
    ask(flow, {"user": "bob"}, model)
    assert "green tea" not in str(model.requests[0].messages)


def test_memory_may_be_given_as_options() -> None:
    made = default_registry.create(
        "llm_chat", {"memory": {"store": "in_memory", "namespace": ["{owner}"], "k": 2}}
    )
    assert made.config["memory"].k == 2
    with pytest.raises(ConfigError, match="namespce"):
        LLM(memory={"store": "in_memory", "namespce": ["a"]})
    with pytest.raises(ConfigError, match="in_memry"):
        LLM(memory={"store": "in_memry", "namespace": ["a"]})


def test_a_step_that_begins_again_recalls_what_it_recalled() -> None:
    memory = remembering()
    model = ScriptedProvider([call_tool("ask_human", {"question": "Hot?"}), "Green."])
    flow = Flow().llm(prompt="Which tea?", memory=memory, use_tools=["ask_human"])
    graph = flow.compile()
    stored: Any = {
        "checkpointer": MemoryCheckpointer(),
        "checkpoint_id": "r",
        "providers": {"scripted": model},
        "default_provider": "scripted",
        "default_model": "m",
    }
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run({"user": "ada"}, **stored))
    store: Any = memory.store
    asyncio.run(store.put(["users", "ada"], "new", {"text": "Ada now takes black tea."}))
    result = asyncio.run(graph.run(resume={"ask_human": "yes"}, **stored))
    assert result["output"] == "Green."
    assert len(model.requests) == 2
    assert "black tea" not in str(model.requests[1].messages)


def test_a_delegate_looks_up_what_its_guard_lets_through() -> None:
    class Watched(InMemoryStore):
        async def search(self, namespace: Any, query: str, *, k: int = 10) -> Any:
            asked.append(query)
            return await super().search(namespace, query, k=k)

    asked: list[str] = []
    flow = Flow().delegate(
        agents={"clerk": {"description": "Counts.", "system": "Count."}},
        memory=MemoryConfig(store=Watched(), namespace=["ada"]),
        guards={"input": lambda text: replace(text.replace("4711", "****"))},
    )
    ask(flow, {"input": "My PIN is 4711"}, ScriptedProvider(["Keep it."]))
    assert asked == ["My PIN is ****"]
