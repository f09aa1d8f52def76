"""Values of a wrong kind: one clear sentence that names the option, wherever they are given."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, suggest
from teff.flow import Flow, SubFlow
from teff.graph import Edge, Graph
from teff.node import LLM, Extract, Gate, Map, Node, Parallel, Retry, ToolExec, make_function_node
from teff.provider import ProviderRegistry
from teff.testing import ScriptedProvider


async def nothing(ctx: Any, state: dict[str, Any]) -> None:
    pass


def graph_of(node: Node | None = None, **options: Any) -> Graph:
    return Graph({"a": node or make_function_node(nothing)}, [], "a", **options)


def stored() -> dict[str, Any]:
    return {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("tools", "search"),
        ("tools", 5),
        ("tools", {"search": nothing}),
        ("tools", [None]),
        ("reducers", ["append"]),
        ("node_timeout", True),
        ("node_timeout", float("nan")),
        ("on_llm_payload", 5),
        ("default_provider", 5),
        ("default_model", ["m"]),
        ("owner", None),
        ("owner", ["ada"]),
        ("checkpoint_id", 5),
        ("checkpoint_id", ["r"]),
    ],
)
def test_an_option_of_a_run_is_named(option: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=option):
        asyncio.run(graph_of().run({}, **{**stored(), option: wrong}))


@pytest.mark.parametrize("option", ["tracer", "emit", "hooks", "on_llm_payload", "tools"])
def test_none_is_like_leaving_an_option_out(option: str) -> None:
    given: Any = {option: None}
    assert asyncio.run(graph_of().run({}, **given)).status == "finished"


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("name", 5),
        ("default_provider", 5),
        ("default_model", []),
        ("reducers", 5),
        ("reducers", ["append"]),
        ("providers", 5),
        ("providers", ["ollama"]),
        ("limits", 5),
    ],
)
def test_an_option_of_a_graph_is_named(option: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=option):
        graph_of(**{option: wrong})


def test_limits_of_a_graph_may_be_a_mapping_as_everywhere_else() -> None:
    given: Any = {"max_steps": 3}
    limits = graph_of(limits=given).limits
    assert limits is not None
    assert limits.max_steps == 3
    assert limits == Flow(limits=given).step(nothing).limits(max_tokens=None).compile().limits


@pytest.mark.parametrize("wrong", [None, 5, (), [], {}, {"a": 1}, b"a"])
def test_an_edge_leads_from_text_to_text(wrong: Any) -> None:
    for edge in (Edge("a", wrong), Edge(wrong, "a")):
        with pytest.raises(ConfigError, match="edge"):
            Graph({"a": make_function_node(nothing)}, [edge], "a")


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("state", 5),
        ("state", ["x"]),
        ("checkpoint_id", 5),
        ("messages_key", ["messages"]),
        ("transient_keys", "topic"),
        ("transient_keys", 5),
    ],
)
def test_an_option_of_a_turn_is_named(option: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=option):
        asyncio.run(graph_of().turn("hi", **{**stored(), option: wrong}))


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("input_map", "x"),
        ("input_map", ["x"]),
        ("output_map", 5),
        ("max_iterations", True),
        ("max_iterations", 0),
        ("turn_keys", "topic"),
        ("turn_keys", None),
    ],
)
def test_an_option_of_a_sub_flow_is_named(option: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=option):
        SubFlow(graph_of(), **{option: wrong})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Retry("search"), "retry: 'node'"),
        (lambda: Retry(5), "retry: 'node'"),
        (lambda: Retry(Gate), "retry: 'node': Gate is a class"),
        (lambda: Retry(lambda: None), "retry: 'node'"),
        (lambda: Retry(nothing, retry_on=None), "retry: retry_on: None"),
        (lambda: Retry(nothing, retry_on=1.5), "retry: retry_on: 1.5"),
        (lambda: Retry(nothing, retry_on=b"x"), "retry: retry_on: b'x'"),
        (lambda: Parallel([5]), "parallel: 'branches'"),
        (lambda: Parallel({"one": 5}), "parallel: branch 'one'"),
        (lambda: LLM(["a"]), "llm_chat: the options"),
        (lambda: Gate("verdict"), "gate: the options"),
        (lambda: LLM(tool_timeout=0), "llm_chat: option 'tool_timeout'"),
        (lambda: ToolExec(tool_timeout=-1), "tool_exec: option 'tool_timeout'"),
        (lambda: LLM(output_type=set()), "llm_chat: output_type"),
        (lambda: LLM(output_type={"a": [set()]}), r"llm_chat: output_type: the field 'a\[\]'"),
    ],
)
def test_a_node_names_itself_and_its_option(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda flow: flow.step(nothing, ["a"]), "id"),
        (lambda flow: flow.gate(id={"a": 1}), "id"),
        (lambda flow: flow.label([]), "name"),
        (lambda flow: flow.limits(5), "limits"),
        (lambda flow: flow.extract("fields"), "Extract"),
        (lambda flow: flow.react(agent="ReActAgent"), "agent="),
        (lambda flow: flow.react(agent=lambda **config: 1), "agent="),
        (lambda flow: flow.route("who", agents=["a"]), "agents"),
        (lambda flow: flow.team("lead", roles=["a"]), "roles"),
    ],
)
def test_a_method_of_a_flow_names_its_option(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make(Flow().step(nothing))


def test_an_extract_is_still_taken() -> None:
    assert Flow().extract(Extract.model(schema={"name": "string"})).nodes


def test_no_key_of_the_state_is_empty() -> None:
    with pytest.raises(ConfigError, match="text, not ''"):
        graph_of(state={"": int})


def test_providers_that_are_no_mapping_are_refused_by_the_registry() -> None:
    wrong: Any = ["ollama"]
    with pytest.raises(ConfigError, match="providers"):
        ProviderRegistry(wrong)


def test_what_is_known_may_hold_what_is_no_text() -> None:
    assert suggest("max_rund", [1, None, "max_rounds"]) == " Did you mean 'max_rounds'?"
    assert suggest("x", [(), 1]) == ""


def test_a_missing_key_is_named_beside_keys_that_are_no_text() -> None:
    graph = graph_of(
        LLM(prompt="{name}"),
        providers={"p": ScriptedProvider(["hi"])},
        default_provider="p",
        default_model="m",
    )
    state: Any = {1: "one", "nane": "Ada"}
    with pytest.raises(ConfigError, match="'name'"):
        asyncio.run(graph.run(state))


def test_a_map_names_its_result_beside_keys_that_are_no_text() -> None:
    async def writes(ctx: Any, state: dict[str, Any]) -> dict[Any, Any]:
        return {1: "one", "two": 2}

    node = Map(writes, input_keys="xs", output_key="ys")
    with pytest.raises(ValueError, match="no 'ys'"):
        asyncio.run(graph_of(node).run({"xs": [1]}))
