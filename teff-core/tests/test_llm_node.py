"""`LLM`: what is sent, what is kept, and who hears the answer come."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from teff.errors import ConfigError, StateError
from teff.flow import Flow
from teff.messages import assistant, message_text, user
from teff.node import LLM
from teff.provider import Capabilities, ChatReply
from teff.runtime import StreamEvent
from teff.testing import ScriptedProvider, call_tool


def ask(provider: ScriptedProvider, state: Any, **options: Any) -> Any:
    given = {key: options.pop(key) for key in ("tools", "emit") if key in options}
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    return asyncio.run(flow.llm(**options).compile().run(state, **given))


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def sent(provider: ScriptedProvider) -> list[tuple[str, str]]:
    return [(str(m["role"]), message_text(m)) for m in provider.requests[-1].messages]


def test_the_conversation_comes_before_the_prompt_and_the_prompt_before_the_input() -> None:
    state = {"messages": [user("from history")], "input": "from input", "name": "Ada"}
    how = {"prompt": "Greet {name}.", "input_key": "input", "messages_key": "messages"}
    provider = ScriptedProvider(["."] * 4)
    ask(provider, state, **how)
    assert sent(provider) == [("user", "from history")]
    ask(provider, {**state, "messages": []}, **how)
    assert sent(provider) == [("user", "Greet Ada.")]
    ask(provider, state, input_key="input")
    assert sent(provider) == [("user", "from input")]
    ask(provider, {"input": {"a": [1]}}, input_key="input")
    assert sent(provider) == [("user", '{"a": [1]}')]


def test_d31_without_a_source_the_whole_state_is_the_message_as_documented() -> None:
    provider = ScriptedProvider(["."])
    ask(provider, {"a": 1, "city": "Łódź"})
    assert [(role, json.loads(text)) for role, text in sent(provider)] == [
        ("user", {"a": 1, "city": "Łódź"})
    ]
    assert "Łódź" in sent(provider)[0][1]
    assert "whole state" in (LLM.__doc__ or "")


def test_an_input_that_is_not_there_is_named() -> None:
    with pytest.raises(StateError, match="'inptu'.*Did you mean 'input'"):
        ask(ScriptedProvider(), {"input": "x"}, input_key="inptu")


def test_the_system_text_is_filled_in_laid_over_and_never_stored() -> None:
    provider = ScriptedProvider(["hello"])
    state = {"messages": [{"role": "system", "content": "Old."}, user("hi")], "who": "Ada"}
    result = ask(provider, state, system="You help {who}.", messages_key="messages")
    assert sent(provider) == [("system", "You help Ada.\n\nOld."), ("user", "hi")]
    assert result["messages"] == state["messages"]


@pytest.mark.parametrize(("append", "added"), [(False, []), (True, [assistant("hello")])])
def test_d32_the_reply_is_added_to_the_conversation_where_that_is_asked(
    append: bool, added: list[Any]
) -> None:
    result = ask(
        ScriptedProvider(["hello"]),
        {"messages": [user("hi")]},
        messages_key="messages",
        append_reply=append,
    )
    assert result["messages"] == [user("hi"), *added]
    assert result["output"] == "hello"


@pytest.mark.parametrize("stream", [True, False])
def test_d54_an_answer_after_tools_streams_and_is_heard_in_both_ways(stream: bool) -> None:
    heard: list[StreamEvent] = []
    pieces: list[str] = []

    async def listen(token: str) -> None:
        await asyncio.sleep(0)
        pieces.append(token)

    for callback in (pieces.append, listen):
        provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 2}), "It is three."])
        result = ask(
            provider,
            {"input": "1 + 2?"},
            input_key="input",
            use_tools=["add"],
            tools=[add],
            stream=stream,
            on_token=callback,
            emit=heard.append,
        )
        assert result["output"] == "It is three."
    tokens = "".join(event.data["token"] for event in heard if event.type == "token")
    assert tokens == "".join(pieces) == ("It is three." * 2 if stream else "")


def test_d30_what_a_listener_raises_ends_the_step() -> None:
    async def listen(token: str) -> None:
        raise ValueError("cannot listen")

    with pytest.raises(ValueError, match="cannot listen"):
        ask(ScriptedProvider(["a"]), {"input": "x"}, input_key="input", on_token=listen)


def test_d29_after_the_last_round_there_is_an_answer_and_a_limit_event() -> None:
    heard: list[StreamEvent] = []
    last = ChatReply(text="My best.", tool_calls=call_tool("add", {"a": 1, "b": 1}).tool_calls)
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 1}), last])
    result = ask(
        provider,
        {"input": "x"},
        input_key="input",
        use_tools="all",
        tools=[add],
        max_tool_rounds=1,
        emit=heard.append,
    )
    assert result["output"] == "My best."
    assert result.usage.tool_calls == 1
    assert [e.data["reason"] for e in heard if e.type == "limit"] == ["max_tool_rounds"]


def test_tools_for_a_provider_without_tool_calls_are_refused_before_the_call() -> None:
    provider = ScriptedProvider(capabilities=Capabilities(tools=False))
    with pytest.raises(ConfigError, match="cannot call tools"):
        ask(provider, {"input": "x"}, input_key="input", use_tools="all", tools=[add])
    assert provider.requests == []


def test_what_it_reads_and_writes_is_known() -> None:
    node = LLM(prompt="{a.b}", system="{c}", messages_key="m", output_key="o", append_reply=True)
    assert set(node.reads() or ()) == {"a", "c", "m"}
    assert list(node.writes() or ()) == ["o", "m"]


@pytest.mark.parametrize(
    "options",
    [
        {"skils": []},
        {"parse": "yes"},
        {"max_retries": 1.5},
        {"response_format": 3},
        {"json_schema": "object"},
        {"max_tool_rounds": 0},
        {"tool_approval": "autoo"},
        {"prompt": 3},
    ],
)
def test_an_option_that_does_not_fit_is_refused_by_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        LLM(id="ask", **options)
    assert next(iter(options)) in str(caught.value)
    assert "ask" in str(caught.value)


def test_options_that_are_set_later_are_checked_and_used() -> None:
    provider = ScriptedProvider(['{"a": 1}'])
    node = LLM(input_key="input", id="ask")
    node.config["parse"] = True
    with pytest.raises(ConfigError, match="no JSON Schema"):
        node.config["json_schema"] = {"type": "nothing"}
    node.config["json_schema"] = {"type": "object"}
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    assert asyncio.run(flow.step(node).compile().run({"input": "x"}))["output"] == {"a": 1}
