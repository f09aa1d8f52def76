"""What the provider makes of an answer, whole or in pieces."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from teff.errors import ProviderError
from teff.messages import ToolCall, assistant, tool_result, user
from teff.provider.protocol import ChatDelta, ChatReply, ChatRequest
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_openai import OpenAIProvider

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
CHOICE = attrs.evolve(REQUEST, choices=["billing", "technical"], max_tokens=4)
ANSWER = json_answer({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]})


def events(*chunks: object, done: bool = True) -> Answer:
    """Return a stream of these chunks; texts are written as they are."""
    pieces = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return stream_answer([f"data: {each}\n\n".encode() for each in [*pieces, *["[DONE]"] * done]])


def delta(content: object = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content, **fields}, "finish_reason": finish}
    return {"choices": [choice]}


def chat(answer: Answer | bytes, request: ChatRequest = REQUEST, **options: Any) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        return await OpenAIProvider(base_url=server.url, **options).chat(request)

    return run_with_server(ask, answer)


def stream(
    answer: Answer | bytes, request: ChatRequest = REQUEST, **options: Any
) -> list[ChatDelta]:
    async def ask(server: ReplayServer) -> list[ChatDelta]:
        provider = OpenAIProvider(base_url=server.url, **options)
        return [each async for each in provider.stream(request)]

    return run_with_server(ask, answer)


def streamed_reply(answer: Answer | bytes, request: ChatRequest = REQUEST) -> ChatReply:
    *pieces, last = stream(answer, request)
    assert last.reply is not None
    assert "".join(piece.text for piece in pieces) == last.reply.text
    assert all(piece.reply is None for piece in pieces)
    return last.reply


def test_the_pieces_of_a_stream_add_up_to_its_reply() -> None:
    answer = events(
        delta("", role="assistant"), delta("Hel"), delta("lo"), delta(finish="stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
    )  # fmt: skip
    pieces = stream(answer)
    assert [piece.text for piece in pieces] == ["Hel", "lo", ""]
    reply = pieces[-1].reply
    assert reply is not None
    assert (reply.text, reply.finish_reason, reply.usage.total_tokens) == ("Hello", "stop", 5)
    assert reply.model == "m"


def test_null_missing_and_odd_pieces_are_nothing() -> None:
    reply = streamed_reply(
        events(
            {"choices": [], "prompt_filter_results": []},
            {"choices": None},
            {"choices": [{"index": 0, "delta": None}]},
            {"choices": [{"index": 0}]},
            {"choices": [{"delta": {}}]},
            {"choices": [{"index": 1, "delta": {"content": "another answer"}}]},
            {"obfuscation": "xx", "usage": None},
            delta(None),
            delta("a"),
            {"choices": [{"index": 0, "message": {"content": "b"}, "finish_reason": "stop"}]},
        )
    )
    assert reply.text == "ab"


def test_the_last_token_may_come_with_the_reason_and_usage_after_it() -> None:
    reply = streamed_reply(
        events(
            delta("a") | {"usage": {"prompt_tokens": 1, "completion_tokens": 1}},
            delta("b", finish="stop") | {"usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        )
    )
    assert reply.text == "ab"
    assert attrs.astuple(reply.usage) == (1, 2, 3)


@pytest.mark.parametrize(
    "content", ["billing", '"billing"', '{"choice": "billing"}', '{\n "choice" : "billing"\n']
)
def test_a_choice_comes_back_bare(content: str) -> None:
    body = {"choices": [{"message": {"content": content}, "finish_reason": "length"}]}
    reply = chat(json_answer(body), CHOICE)
    assert (reply.text, reply.finish_reason) == ("billing", "stop")
    pieces = stream(events(*map(delta, content), delta(finish="length")), CHOICE)
    assert [piece.text for piece in pieces] == ["billing", ""]
    assert pieces[-1].reply == attrs.evolve(reply, model="m")


def test_an_answer_that_is_no_choice_is_given_as_it_is() -> None:
    body = {"choices": [{"message": {"content": "I think billing"}, "finish_reason": "length"}]}
    reply = chat(json_answer(body), CHOICE)
    assert (reply.text, reply.finish_reason) == ("I think billing", "length")


def test_an_answer_to_a_stream_may_come_whole() -> None:
    assert streamed_reply(ANSWER).text == "Hello"
    assert [piece.text for piece in stream(ANSWER)] == ["Hello", ""]


def test_a_page_instead_of_an_answer_is_named() -> None:
    page = json_answer(b"<title>Sign in</title>", content_type="text/html; charset=utf-8")
    for ask in (chat, stream):
        with pytest.raises(ProviderError, match="it says: Sign in"):
            ask(page)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart(field: str) -> None:
    answer = events(delta(**{field: "Let me "}), delta(**{field: "see"}), delta("4", finish="stop"))
    pieces = stream(answer)
    assert [piece.thinking for piece in pieces] == ["Let me ", "see", "", ""]
    assert pieces[-1].reply is not None
    assert (pieces[-1].reply.thinking, pieces[-1].reply.text) == ("Let me see", "4")
    message = {"content": "4", field: "Let me see"}
    assert chat(json_answer({"choices": [{"message": message}]})).thinking == "Let me see"


def test_reasoning_under_both_names_is_not_doubled() -> None:
    chunk = delta(reasoning="a", reasoning_content="a", finish="stop")
    assert streamed_reply(events(chunk)).thinking == "a"


@pytest.mark.parametrize(
    ("finish", "calls", "reason"),
    [
        ("stop", True, "tool_calls"),
        ("tool_calls", False, "stop"),
        (None, False, "stop"),
        ("", True, "tool_calls"),
        ("eos", False, "stop"),
        ("length", True, "length"),
        ("max_tokens", False, "length"),
        ("content_filter", False, "content_filter"),
        ("something_new", False, "something_new"),
    ],
)
def test_the_reason_of_the_end_is_decided_by_the_calls_that_are_there(
    finish: str | None, calls: bool, reason: str
) -> None:
    call = {"id": "a", "function": {"name": "now", "arguments": "{}"}}
    message = {"content": None, "tool_calls": [call] if calls else []}
    reply = chat(json_answer({"choices": [{"message": message, "finish_reason": finish}]}))
    assert reply.finish_reason == reason
    assert len(reply.tool_calls) == calls


def test_a_refusal_is_text_with_its_reason() -> None:
    message = {"content": None, "refusal": "I cannot help."}
    reply = chat(json_answer({"choices": [{"message": message, "finish_reason": "stop"}]}))
    assert (reply.text, reply.finish_reason) == ("I cannot help.", "content_filter")


def test_content_may_be_parts() -> None:
    message = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    assert chat(json_answer({"choices": [{"message": message}]})).text == "ab"


def test_ids_of_tool_calls_are_unique_within_the_conversation() -> None:
    old = ToolCall(id="call_0", name="now")
    call = {"id": "call_0", "function": {"name": "now", "arguments": "{}"}}
    body = {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    messages = [user("?"), assistant("", [old]), tool_result(old, "12:00")]
    reply = chat(json_answer(body), ChatRequest(model="m", messages=messages))
    assert reply.tool_calls[0].id != "call_0"
