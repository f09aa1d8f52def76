"""The types of the official client, as judges of the requests that are sent.

They ignore fields that they do not know, so a request is also compared with what the client itself
would send of it.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teff.messages import ToolCall, assistant, system, tool_result, user
from teff.provider.protocol import ChatRequest, ToolSpec
from teff_providers_ollama import OllamaProvider
from teff_providers_ollama.options import OPTIONS

if TYPE_CHECKING:
    from ollama import _types as types
else:
    types = pytest.importorskip("ollama._types", reason="the official client is not installed")

#: Fields that the server has and the client's types have not.
NOT_IN_CLIENT = {
    "request": {"shift", "truncate"},  # api/types.go: ChatRequest
    "message": {"tool_call_id"},  # api/types.go: Message; older servers ignore it
    "call": {"id"},  # api/types.go: ToolCall
    "options": {"draft_num_predict", "min_p"},  # api/types.go: Options
}

names = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
texts = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | texts,
    lambda children: st.lists(children, max_size=2) | st.dictionaries(names, children, max_size=2),
    max_leaves=5,
)
calls = st.builds(
    ToolCall, id=names, name=names, arguments=st.dictionaries(names, json_values, max_size=3)
)
images = (
    st.binary(max_size=9)
    .map(lambda data: b"\x89PNG" + data)
    .map(
        lambda data: {
            "type": "image_url",
            "image_url": {"url": f"data:image/png;base64,{base64.b64encode(data).decode()}"},
        }
    )
)
parts = st.tuples(texts, st.lists(images, max_size=2)).map(
    lambda both: {"role": "user", "content": [{"type": "text", "text": both[0]}, *both[1]]}
)
messages = st.one_of(
    texts.map(user),
    texts.map(system),
    parts,
    st.builds(assistant, texts, st.lists(calls, max_size=3)),
    st.builds(lambda text, thought: {**assistant(text), "thinking": thought}, texts, texts),
    st.builds(tool_result, calls, texts),
)
properties = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "array", ["string", "null"]])},
    optional={"description": texts, "enum": st.lists(texts, max_size=2)},
)
schemas = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(names, properties, max_size=3)},
    optional={"required": st.lists(names, max_size=2), "$defs": st.just({"a": {"type": "null"}})},
)
specs = st.builds(ToolSpec, name=names, description=texts, schema=schemas)
values = {
    "a whole number": st.integers(10_000, 90_000),
    "a whole number of at least 1": st.integers(10_000, 90_000),
    "a number": st.floats(0, 2, width=32),
    "true or false": st.booleans(),
    "a list of texts": st.lists(texts, max_size=2),
}
options = st.fixed_dictionaries(
    {},
    optional={
        **{name: values[kind] for name, kind in OPTIONS.items()},
        "format": st.just("json") | schemas,
        "keep_alive": st.sampled_from(["5m", "1h30m", -1, 0, 2.5]),
        "logprobs": st.booleans(),
        "shift": st.booleans(),
        "think": st.sampled_from([True, False, "low", "medium", "high", "max"]),
        "top_logprobs": st.integers(0, 20),
        "truncate": st.booleans(),
    },
)
requests = st.builds(
    ChatRequest,
    model=st.sampled_from(["llama3.1:8b", "gpt-oss:20b"]),
    messages=st.lists(messages, min_size=1, max_size=4),
    tools=st.lists(specs, max_size=2),
    choices=st.none() | st.lists(names, min_size=1, max_size=3, unique=True),
    json_schema=st.none() | schemas,
    temperature=st.none() | st.floats(0, 2, width=32),
    max_tokens=st.none() | st.integers(1, 9000),
    stop=st.lists(texts, max_size=2),
    options=options,
)


def bodies(request: ChatRequest) -> list[Any]:
    """Return what is posted for a request, asked for at once and piece by piece."""
    provider = OllamaProvider(keep_alive="5m", options={"seed": 7})
    return [
        json.loads(json.dumps(provider._body(request, stream=stream))) for stream in (False, True)
    ]


def known_to_client(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without what the client's types have no field for."""
    kept = without(body, "request")
    kept["messages"] = [without(message, "message") for message in body["messages"]]
    for message in kept["messages"]:
        if "tool_calls" in message:
            message["tool_calls"] = [without(call, "call") for call in message["tool_calls"]]
    kept["options"] = without(body["options"], "options")
    return kept


def without(value: dict[str, Any], kind: str) -> dict[str, Any]:
    return {name: value[name] for name in value if name not in NOT_IN_CLIENT[kind]}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests)
def test_the_official_client_would_send_what_is_sent(request_: ChatRequest) -> None:
    for body in bodies(request_):
        kept = known_to_client(body)
        # Declared as mappings too, which would let everything pass.
        typed = {
            **kept,
            "messages": [typed_message(message) for message in kept["messages"]],
            "options": types.Options.model_validate(kept["options"]),
        }
        request = types.ChatRequest.model_validate(typed)
        assert request.model_dump(exclude_none=True, by_alias=True) == kept


def typed_message(message: dict[str, Any]) -> types.Message:
    """Read a message; the client takes images as objects of its own, and sends their base64."""
    images = [types.Image(value=image) for image in message.get("images", ())]
    return types.Message.model_validate({**message, "images": images} if images else message)


def test_what_the_client_has_no_field_for_is_still_missing_there() -> None:
    assert not NOT_IN_CLIENT["request"] & set(types.ChatRequest.model_fields)
    assert not NOT_IN_CLIENT["message"] & set(types.Message.model_fields)
    assert not NOT_IN_CLIENT["call"] & set(types.Message.ToolCall.model_fields)
    assert not NOT_IN_CLIENT["options"] & set(types.Options.model_fields)
