"""What the provider sends."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from teff.errors import ConfigError, ProviderError
from teff.messages import ToolCall, assistant, system, tool_result, user
from teff.provider.protocol import ChatRequest, Provider, ToolSpec
from teff.provider.registry import ProviderRegistry
from teff.testing.server import ReplayServer, json_answer, run_with_server
from teff_providers_ollama import OllamaProvider

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
ANSWER = json_answer({"message": {"content": "Hello"}, "done": True})


def sent(request: ChatRequest = REQUEST, *, streams: bool = False, **options: Any) -> Any:
    """Return the body that the provider posts."""

    async def ask(server: ReplayServer) -> Any:
        provider = OllamaProvider(base_url=server.url, **options)
        if streams:
            _ = [each async for each in provider.stream(request)]
        else:
            await provider.chat(request)
        assert server.requests[0].path == "/api/chat"
        return server.requests[0].json()

    return run_with_server(ask, ANSWER)


def test_it_is_a_provider_that_the_registry_finds() -> None:
    options = {"type": "ollama", "base_url": "gpu", "keep_alive": "5m", "think": False}
    registry = ProviderRegistry({"big": {**options, "options": {"num_ctx": 8192}}})
    provider = registry.resolve("big")
    assert isinstance(provider, OllamaProvider)
    assert isinstance(provider, Provider)
    assert provider.name == "big"
    assert (provider.keep_alive, provider.think) == ("5m", False)
    assert provider.capabilities.choices


def test_whether_to_stream_is_always_said() -> None:
    plain = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert sent() == {**plain, "stream": False}
    assert sent(streams=True) == {**plain, "stream": True}


def test_settings_of_a_request_become_options_under_their_names_here() -> None:
    request = attrs.evolve(REQUEST, temperature=0.0, max_tokens=8, stop=["\n"])
    assert sent(request)["options"] == {"temperature": 0.0, "num_predict": 8, "stop": ["\n"]}


def test_options_of_the_request_win_over_those_of_the_provider() -> None:
    request = attrs.evolve(REQUEST, options={"num_ctx": 2, "seed": 3, "think": "low"}, max_tokens=9)
    body = sent(request, options={"num_ctx": 1, "top_k": 4}, think=True, keep_alive=-1)
    assert body["options"] == {"num_predict": 9, "num_ctx": 2, "top_k": 4, "seed": 3}
    assert (body["think"], body["keep_alive"]) == ("low", -1)


def test_history_has_arguments_as_objects_and_results_with_their_tool() -> None:
    call = ToolCall(id="c1", name="get_weather", arguments={"city": "Łódź"})
    broken = ToolCall(id="c2", name="now", error="not whole JSON", extra={"x": 1})
    thinking = {**assistant("", [call, broken]), "thinking": "Two calls."}
    messages = [system("Be brief."), user("Weather?"), thinking, tool_result(call, "21 C")]
    body = sent(ChatRequest(model="m", messages=messages, tools=[ToolSpec(name="now")]))
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "",
            "thinking": "Two calls.",
            "tool_calls": [
                {"id": "c1", "function": {"name": "get_weather", "arguments": {"city": "Łódź"}}},
                {"id": "c2", "function": {"name": "now", "arguments": {}}, "x": 1},
            ],
        },
        {"role": "tool", "content": "21 C", "tool_name": "get_weather", "tool_call_id": "c1"},
    ]
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "now",
                "description": "",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]


def test_content_is_always_one_text_and_images_stand_beside_it() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    parts = [{"type": "text", "text": "What is this?"}, image]
    request = ChatRequest(model="m", messages=[{"role": "user", "content": parts}])
    assert sent(request)["messages"] == [
        {"role": "user", "content": "What is this?", "images": ["AAAA"]}
    ]
    remote = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    with pytest.raises(ConfigError, match="only as data: URLs"):
        sent(ChatRequest(model="m", messages=[{"role": "user", "content": [remote]}]))


def test_choices_and_schemas_are_the_format() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert sent(attrs.evolve(REQUEST, json_schema=schema))["format"] == schema
    choices = attrs.evolve(REQUEST, choices=["yes", "no"], json_schema=schema)
    assert sent(choices)["format"] == {"type": "string", "enum": ["yes", "no"]}


def test_no_messages_are_refused_for_the_server_would_only_load_the_model() -> None:
    async def ask(server: ReplayServer) -> None:
        with pytest.raises(ProviderError, match="no messages") as info:
            await OllamaProvider(base_url=server.url).chat(ChatRequest(model="m", messages=[]))
        assert info.value.permanent
        assert not server.requests

    run_with_server(ask, ANSWER)
