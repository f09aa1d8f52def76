"""The types of OpenAI's own client accept every request, over all presets.

What the types do not know is dropped when a body is read by them: so a body that comes out as it
went in has no field that OpenAI does not document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.messages import ToolCall, assistant, system, tool_result, user
from teff.provider.protocol import ChatRequest, ToolSpec
from teff_providers_openai import PRESETS, AzureProvider, OpenAIProvider

completion_params = pytest.importorskip("openai.types.chat.completion_create_params")
pydantic = pytest.importorskip("pydantic")

ADAPTERS = {
    False: pydantic.TypeAdapter(completion_params.CompletionCreateParamsNonStreaming),
    True: pydantic.TypeAdapter(completion_params.CompletionCreateParamsStreaming),
}

#: Fields beyond those of OpenAI, which the judge does not get to see, and why they are sent.
BEYOND = {
    "deepseek": {"reasoning_content"},  # refuses the turn after a tool call without it
    "gemini": {"name"},  # of the tool, in its result: refuses a result without it
    "llamacpp": {"grammar", "reasoning_content"},  # exact choices; templates of models that reason
    "openrouter": {"reasoning"},  # keeps the reasoning between two calls of tools
}

texts = st.text(max_size=12)
names = st.from_regex("[a-z][a-z_]{0,8}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda children: st.lists(children, max_size=2) | st.dictionaries(texts, children, max_size=2),
    max_leaves=4,
)
schemas = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(names, st.just({"type": "string"}))},
    optional={
        "title": texts,
        "required": st.lists(names, max_size=2),
        "additionalProperties": st.booleans(),
    },
)
tools = st.builds(ToolSpec, name=names, description=texts, schema=schemas)
calls = st.builds(
    ToolCall,
    id=st.text("abc_123", min_size=1, max_size=12),
    name=names,
    arguments=st.dictionaries(texts, json_values, max_size=3),
)
settings_of_models = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 9),
        "top_p": st.floats(0.1, 1),
        "parallel_tool_calls": st.booleans(),
        "reasoning_effort": st.sampled_from(["low", "high"]),
        "tool_choice": st.sampled_from(
            ["auto", "none", "required", {"type": "function", "function": {"name": "now"}}]
        ),
        "stream_options": st.just({"include_usage": True}),
    },
)


@st.composite
def conversations(draw: st.DrawFn) -> list[Mapping[str, Any]]:
    messages: list[Mapping[str, Any]] = draw(st.lists(st.builds(system, texts), max_size=1))
    messages += [user(draw(texts) or "Answer in JSON.")]
    for _ in range(draw(st.integers(0, 2))):
        made = draw(st.lists(calls, max_size=2))
        messages += [assistant(draw(texts), made, thinking=draw(texts))]
        messages += [tool_result(call, draw(texts)) for call in made]
        messages += [user(draw(texts))] if draw(st.booleans()) else []
    return messages


requests = st.builds(
    ChatRequest,
    model=st.sampled_from(["gpt-4o-mini", "gpt-5", "o3-mini", "llama3.1:8b"]),
    messages=conversations(),
    tools=st.lists(tools, max_size=2),
    choices=st.none() | st.lists(names, min_size=2, max_size=3, unique=True),
    json_schema=st.none() | schemas | st.just({"type": "array"}),
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(1, 99),
    stop=st.lists(texts, max_size=4),
    options=settings_of_models,
)


PROVIDERS = {
    name: OpenAIProvider(preset=name, base_url=preset.base_url)
    for name, preset in PRESETS.items()
    if preset.base_url
} | {"azure": AzureProvider(endpoint="https://example.openai.azure.com")}


def read_out(value: Any) -> Any:
    """Read the lazy iterables that pydantic gives, which raises what is wrong in them."""
    if isinstance(value, Mapping):
        return {name: read_out(each) for name, each in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [read_out(each) for each in value]
    return value


def without(body: Mapping[str, Any], fields: set[str]) -> dict[str, Any]:
    messages = [
        {name: value for name, value in message.items() if name not in fields}
        for message in body["messages"]
    ]
    kept = {name: value for name, value in body.items() if name not in fields}
    return kept | {"messages": messages}


def judged(body: Mapping[str, Any], *, stream: bool) -> Any:
    return read_out(ADAPTERS[stream].validate_python(body))


@pytest.mark.parametrize("name", sorted(PRESETS))
@settings(max_examples=40, deadline=None)
@given(request=requests, stream=st.booleans())
def test_the_types_of_the_official_client_take_every_request(
    name: str, request: ChatRequest, stream: bool
) -> None:
    body = without(PROVIDERS[name]._body(request, stream=stream), BEYOND.get(name, set()))
    assert judged(body, stream=stream) == body


@pytest.mark.parametrize(
    "change",
    [
        {"temprature": 1},
        {"messages": [{"role": "assistant", "contents": "x"}]},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"tools": [{"type": "function", "function": {"nam": "x"}}]},
        {"stream": True},
    ],
)
def test_the_judge_is_no_rubber_stamp(change: dict[str, Any]) -> None:
    request = ChatRequest(model="m", messages=[user("Hi")])
    body = PROVIDERS["openai"]._body(request, stream=False) | change
    with suppress(pydantic.ValidationError):
        assert judged(body, stream=False) != body
