"""What the provider sends."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from teff.errors import ProviderError
from teff.messages import ToolCall, assistant, system, tool_result, user
from teff.provider.protocol import ChatRequest, Provider, ToolSpec
from teff.provider.registry import ProviderRegistry
from teff.testing.server import ReplayServer, json_answer, run_with_server
from teff_providers_openai import OpenAIProvider, Quirks

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
CHOICE = attrs.evolve(REQUEST, choices=["billing", "technical"], max_tokens=4)
ANSWER = json_answer({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]})
WEATHER = ToolSpec(
    name="get_weather",
    description="Weather of a city",
    schema={"type": "object", "properties": {"city": {"type": "string"}}},
)


def sent(request: ChatRequest = REQUEST, *, streams: bool = False, **options: Any) -> Any:
    """Return the body that the provider posts."""

    async def ask(server: ReplayServer) -> Any:
        provider = OpenAIProvider(base_url=server.url, **options)
        if streams:
            _ = [each async for each in provider.stream(request)]
        else:
            await provider.chat(request)
        return server.requests[0].json()

    return run_with_server(ask, ANSWER)


def test_it_is_a_provider_that_the_registry_finds() -> None:
    registry = ProviderRegistry(
        {"vllm": {"type": "openai", "base_url": "http://127.0.0.1:8000/v1", "timeout": 5}}
    )
    provider = registry.resolve("vllm")
    assert isinstance(provider, OpenAIProvider)
    assert isinstance(provider, Provider)
    assert (provider.name, provider.timeout) == ("vllm", 5.0)
    quirky = {"type": "openai", "quirks": {"choices": "grammar"}}
    made = ProviderRegistry({"x": quirky}).resolve("x")
    assert isinstance(made, OpenAIProvider)
    assert made.quirks == Quirks(choices="grammar")


def test_a_plain_request_has_no_more_than_it_needs() -> None:
    assert sent() == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
    }


def test_a_stream_asks_for_its_usage() -> None:
    body = sent(streams=True)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert "stream_options" not in sent(streams=True, quirks=Quirks(stream_usage=False))


def test_settings_of_a_request_are_sent() -> None:
    request = attrs.evolve(
        REQUEST, temperature=0.0, max_tokens=8, stop=["\n"], options={"top_p": 0.5, "seed": 2}
    )
    body = sent(request, options={"seed": 1, "reasoning_effort": "low"})
    assert body | {"messages": 0, "model": 0, "stream": 0} == {
        "messages": 0,
        "model": 0,
        "stream": 0,
        "temperature": 0.0,
        "max_tokens": 8,
        "stop": ["\n"],
        "top_p": 0.5,
        "seed": 2,
        "reasoning_effort": "low",
    }


def test_options_cannot_replace_the_question() -> None:
    body = sent(attrs.evolve(REQUEST, options={"stream": True, "messages": [], "model": "x"}))
    assert (body["stream"], body["model"], len(body["messages"])) == (False, "m", 1)


def test_openai_itself_gets_the_newer_name_of_the_token_limit() -> None:
    quirks = OpenAIProvider(base_url="https://api.openai.com/v1")._quirks
    assert quirks.max_tokens_field == "max_completion_tokens"
    body = sent(attrs.evolve(REQUEST, max_tokens=8), quirks=quirks)
    assert body["max_completion_tokens"] == 8


def test_history_is_written_in_the_form_of_the_format() -> None:
    call = ToolCall(id="c1", name="get_weather", arguments={"city": "Łódź"})
    messages = [
        system("Be brief."),
        user("Weather?"),
        assistant("", [call]),
        tool_result(call, "21 C"),
        assistant("It is 21 C."),
    ]
    body = sent(ChatRequest(model="m", messages=messages, tools=[WEATHER]))
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Łódź"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "21 C"},
        {"role": "assistant", "content": "It is 21 C."},
    ]
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Weather of a city",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        }
    ]


def test_quirks_change_what_a_server_wants_otherwise() -> None:
    call = ToolCall(id="c1", name="now")
    thinking = {**assistant("", [call]), "thinking": "It asks for the time."}
    messages = [system("s"), user("u"), thinking, tool_result(call, "12:00")]
    quirks = Quirks(
        system_role="developer", null_content=False, reasoning_field="reasoning_content"
    )
    body = sent(ChatRequest(model="m", messages=messages), quirks=quirks)
    assert body["messages"][0]["role"] == "developer"
    assert body["messages"][2]["content"] == ""
    assert body["messages"][2]["reasoning_content"] == "It asks for the time."
    assert "reasoning_content" not in sent(ChatRequest(model="m", messages=messages))["messages"][2]


def test_a_wrong_quirk_is_refused() -> None:
    with pytest.raises(ValueError, match="choices"):
        Quirks(choices="regex")  # type: ignore[arg-type]  # the point of the test


def test_a_schema_is_strict_only_where_it_keeps_the_rules_of_strict_mode() -> None:
    closed = {
        "title": "A place!",
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }

    def format_of(schema: dict[str, Any]) -> dict[str, Any]:
        body = sent(attrs.evolve(REQUEST, json_schema=schema))
        assert body["response_format"]["type"] == "json_schema"
        described: dict[str, Any] = body["response_format"]["json_schema"]
        assert described["schema"] == schema
        return described

    assert format_of(closed)["strict"] is True
    assert format_of(closed)["name"] == "A_place_"
    assert format_of({"type": "object"})["strict"] is False
    assert format_of({"type": "object"})["name"] == "answer"
    assert format_of({**closed, "required": []})["strict"] is False
    nested = {**closed, "properties": {"city": {"type": "object"}}}
    assert format_of(nested)["strict"] is False
    assert format_of({**closed, "oneOf": []})["strict"] is False


def test_no_schema_is_sent_where_the_server_takes_none() -> None:
    request = attrs.evolve(REQUEST, json_schema={"type": "object"})
    assert "response_format" not in sent(request, quirks=Quirks(json_schema=False))


@pytest.mark.parametrize("schema", [{"type": "array"}, {"enum": ["a"]}, {}])
def test_a_schema_of_no_object_is_not_sent_since_the_api_refuses_it(schema: dict[str, Any]) -> None:
    assert "response_format" not in sent(attrs.evolve(REQUEST, json_schema=schema))


def test_no_messages_are_refused_before_anything_is_sent() -> None:
    async def ask(server: ReplayServer) -> None:
        with pytest.raises(ProviderError, match="no messages") as info:
            await OpenAIProvider(base_url=server.url).chat(ChatRequest(model="m", messages=[]))
        assert info.value.permanent
        assert not server.requests

    run_with_server(ask, ANSWER)


def test_a_choice_is_asked_for_as_a_schema_with_room_for_its_wrapper() -> None:
    body = sent(CHOICE)
    described = body["response_format"]["json_schema"]
    assert described["strict"] is True
    assert described["schema"]["properties"] == {
        "choice": {"type": "string", "enum": ["billing", "technical"]}
    }
    assert body["max_tokens"] > 40


def test_a_choice_is_asked_for_as_a_grammar_where_the_server_has_them() -> None:
    quirks = Quirks(choices="grammar")
    body = sent(CHOICE, quirks=quirks)
    assert body["grammar"] == 'root ::= "billing" | "technical"'
    assert body["max_tokens"] == 4
    assert "response_format" not in body
    # llama.cpp answers 400 to a grammar beside tools.
    assert "grammar" not in sent(attrs.evolve(CHOICE, tools=[WEATHER]), quirks=quirks)


def test_a_choice_is_left_to_the_prompt_where_nothing_enforces_it() -> None:
    provider = OpenAIProvider(base_url="http://127.0.0.1:1", quirks=Quirks(choices="none"))
    assert not provider.capabilities.choices
    body = sent(CHOICE, quirks=Quirks(choices="none"))
    assert "response_format" not in body
    assert "grammar" not in body
