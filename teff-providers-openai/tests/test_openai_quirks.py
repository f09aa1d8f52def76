"""What servers want otherwise, in requests and in what goes back to them."""

from __future__ import annotations

import json
import re
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ProviderError
from teff.messages import ToolCall, assistant, tool_result, user
from teff.provider.protocol import ChatReply, ChatRequest
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_openai import PRESETS, OpenAIProvider, Quirks
from teff_providers_openai.history import wire_messages
from teff_providers_openai.quirks import COMPATIBLE

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
OPENAI = "https://api.openai.com/v1"


def sent(request: ChatRequest, *, stream: bool = False, **options: Any) -> dict[str, Any]:
    options = {"base_url": "http://127.0.0.1:1/v1", **options}
    return OpenAIProvider(**options)._body(request, stream=stream)


def answered(answer: Answer, *, stream: bool = False, **options: Any) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        provider = OpenAIProvider(base_url=server.url, **options)
        if not stream:
            return await provider.chat(REQUEST)
        last = [each async for each in provider.stream(REQUEST)][-1].reply
        assert last is not None
        return last

    return run_with_server(ask, answer)


def whole(finish: str = "stop", **message: Any) -> Answer:
    return json_answer({"choices": [{"message": message, "finish_reason": finish}]})


def events(*deltas: dict[str, Any]) -> Answer:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    data = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return stream_answer([*data, b"data: [DONE]\n\n"])


# Ids, names and roles.


def history(*ids: str) -> list[Any]:
    calls = [ToolCall(id=each, name="now") for each in ids]
    return [user("?"), assistant("", calls), *(tool_result(call, "12:00") for call in calls)]


def test_ids_of_calls_are_short_where_templates_want_it_and_match_their_results() -> None:
    request = ChatRequest(model="m", messages=history("call_12345678", "abcdefghi"))
    assert sent(request)["messages"][2]["tool_call_id"] == "call_12345678"
    messages = sent(request, preset="mistral")["messages"]
    ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert [message["tool_call_id"] for message in messages[2:]] == ids
    assert ids[1] == "abcdefghi"
    assert re.fullmatch("[A-Za-z0-9]{9}", ids[0])
    assert sent(request, preset="mistral") == sent(request, preset="mistral")


@given(st.lists(st.text(max_size=12), unique=True, max_size=6))
def test_short_ids_are_as_distinct_as_those_they_stand_for(ids: list[str]) -> None:
    quirks = Quirks(short_call_ids=True).over(COMPATIBLE)
    messages = wire_messages(history(*ids), quirks)
    short = [call["id"] for call in messages[1].get("tool_calls", [])] if ids else []
    assert len(set(short)) == len(ids)
    assert all(re.fullmatch("[A-Za-z0-9]{9}", each) for each in short)
    assert [each["tool_call_id"] for each in messages if each["role"] == "tool"] == short


def test_the_result_of_a_tool_says_its_name_where_the_server_wants_it() -> None:
    request = ChatRequest(model="m", messages=history("a"))
    assert sent(request, preset="gemini")["messages"][2]["name"] == "now"
    assert "name" not in sent(request)["messages"][2]


# Settings.


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        ("gpt-4o-mini", True),
        ("gpt-5-chat-latest", True),
        ("gpt-5.1", True),
        ("gpt-5", False),
        ("gpt-5-mini-2025-08-07", False),
        ("o3-mini", False),
        ("o1", False),
    ],
)
def test_models_that_refuse_sampling_settings_get_none(model: str, takes: bool) -> None:
    request = attrs.evolve(REQUEST, model=model, temperature=0.0, stop=["\n"])
    body = sent(request, base_url=OPENAI)
    assert ("temperature" in body, "stop" in body) == (takes, takes)
    assert "temperature" in sent(request)
    assert sent(request, base_url=OPENAI, options={"temperature": 1})["temperature"] == 1


def test_stream_options_are_sent_in_streams_only() -> None:
    request = attrs.evolve(REQUEST, options={"stream_options": {"include_usage": False}})
    assert sent(request, stream=True)["stream_options"] == {"include_usage": False}
    assert "stream_options" not in sent(request)
    assert "stream_options" not in sent(REQUEST, stream=True, preset="mistral")


def test_json_is_asked_for_where_the_server_takes_no_schema_and_the_prompt_speaks_of_it() -> None:
    schema = {"type": "object", "properties": {}}
    speaking = ChatRequest(model="m", messages=[user("Reply as JSON.")], json_schema=schema)
    for preset in ("deepseek", "groq"):
        assert sent(speaking, preset=preset)["response_format"] == {"type": "json_object"}
        silent = attrs.evolve(speaking, messages=[user("Hi")])
        assert "response_format" not in sent(silent, preset=preset)
        choice = attrs.evolve(REQUEST, choices=["a", "b"])
        assert "response_format" not in sent(choice, preset=preset)
    taken = sent(speaking, preset="groq", quirks=Quirks(json_schema=True))["response_format"]
    assert taken["type"] == "json_schema"


def test_strict_is_left_out_where_the_server_does_not_know_it() -> None:
    request = attrs.evolve(REQUEST, json_schema={"type": "object"})
    described = sent(request, quirks=Quirks(strict=False))["response_format"]["json_schema"]
    assert set(described) == {"name", "schema"}
    assert sent(request)["response_format"]["json_schema"]["strict"] is False


@pytest.mark.parametrize(
    ("words", "cure", "quirks"),
    [
        ("max_completion_tokens: Extra inputs", "max_tokens_field: max_tokens", "max_completion"),
        ("Unrecognized: stream_options", "stream_usage: false", ""),
        ("Unknown name parallel_tool_calls", "parallel_tool_calls: false", ""),
        ("tool_choice is not supported", "tool_choice: false", ""),
        ("unknown field grammar", "choices: json_schema", "grammar"),
        ("Conversation roles must alternate", "alternating: true", ""),
    ],
)
def test_a_refused_field_names_the_quirk_that_does_without_it(
    words: str, cure: str, quirks: str
) -> None:
    changes: dict[str, Quirks] = {
        "": Quirks(),
        "grammar": Quirks(choices="grammar"),
        "max_completion": Quirks(max_tokens_field="max_completion_tokens"),
    }
    refusal = json_answer({"error": {"message": words}}, status=400)
    with pytest.raises(ProviderError) as info:
        answered(refusal, quirks=changes[quirks])
    assert f"set quirks: {{{cure}}}." in str(info.value)


def test_a_quirk_that_is_in_force_is_not_advised() -> None:
    refusal = json_answer({"error": {"message": "stream_options is odd"}}, status=400)
    with pytest.raises(ProviderError) as info:
        answered(refusal, quirks=Quirks(stream_usage=False))
    assert "quirks" not in str(info.value)


# What goes back unchanged.


def going_back(reply: ChatReply, **options: Any) -> dict[str, Any]:
    """Return the turn of the assistant in the next request, with the calls of ``reply``."""
    stored = json.loads(json.dumps(assistant(reply.text, reply.tool_calls)))
    request = ChatRequest(model="m", messages=[user("?"), stored])
    message: dict[str, Any] = sent(request, **options)["messages"][1]
    return message


SIGNED = {
    "id": "a",
    "type": "function",
    "extra_content": {"google": {"thought_signature": "c2ln"}},
    "function": {"name": "now", "arguments": "{}", "extra_content": {"google": {"part": 1}}},
}


@pytest.mark.parametrize("stream", [False, True])
def test_signatures_of_gemini_go_back_at_the_call_and_its_function(stream: bool) -> None:
    piece = {"tool_calls": [{**SIGNED, "index": 0}]}
    reply = answered(events(piece) if stream else whole(tool_calls=[SIGNED]), stream=stream)
    assert going_back(reply, preset="gemini")["tool_calls"] == [SIGNED]


DETAILS = [
    {"type": "reasoning.text", "index": 0, "text": "Let me", "signature": "s"},
    {"type": "reasoning.encrypted", "index": 1, "data": "QUJD", "id": "r1"},
]
CALL = {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_details_of_openrouter_go_back_with_the_calls(stream: bool) -> None:
    answer = whole(reasoning_details=DETAILS, tool_calls=[CALL])
    if stream:
        first, second = DETAILS
        answer = events(
            {"reasoning_details": [{**first, "text": "Let ", "signature": None}]},
            {"reasoning_details": [{**first, "text": "me"}]},
            {"reasoning_details": [second], "tool_calls": [CALL]},
        )
    reply = answered(answer, stream=stream)
    message = going_back(reply, preset="openrouter")
    assert message["reasoning_details"] == DETAILS
    assert message["tool_calls"] == [CALL]
    # Another server would refuse the field.
    assert set(going_back(reply)) == {"role", "content", "tool_calls"}
    assert going_back(reply)["tool_calls"] == [CALL]


@pytest.mark.parametrize("details", [None, "x", [1, None], {"a": 1}])
def test_odd_reasoning_details_are_nothing(details: Any) -> None:
    reply = answered(whole(reasoning_details=details, tool_calls=[CALL]))
    assert "reasoning_details" not in going_back(reply, preset="openrouter")


# Older and rarer forms of answers.


@pytest.mark.parametrize("stream", [False, True])
def test_the_older_form_of_a_call_is_one(stream: bool) -> None:
    pieces = [
        {"function_call": {"name": "now", "arguments": ""}},
        {"function_call": {"arguments": '{"zone"'}},
        {"function_call": {"arguments": ': "UTC"}'}},
    ]
    called = {"name": "now", "arguments": '{"zone": "UTC"}'}
    answer = events(*pieces) if stream else whole("function_call", function_call=called)
    reply = answered(answer, stream=stream)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("now", {"zone": "UTC"})]
    assert reply.tool_calls[0].id
    assert reply.finish_reason == "tool_calls"


def test_a_null_form_of_the_older_call_is_none() -> None:
    reply = answered(whole(content="a", function_call=None, tool_calls=None))
    assert (reply.text, reply.tool_calls) == ("a", [])


def test_unknown_fields_of_a_call_do_not_go_to_a_server_that_refuses_them() -> None:
    stored = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "abc123XYZ", "name": "add", "args": {}, "extra": {"extra_content": {"s": 1}}}
        ],
    }
    wire = {
        name: wire_messages([stored], PRESETS[name].quirks.over(COMPATIBLE))[0]["tool_calls"][0]
        for name in ("gemini", "mistral")
    }
    assert wire["gemini"]["extra_content"] == {"s": 1}
    assert set(wire["mistral"]) == {"id", "type", "function"}
