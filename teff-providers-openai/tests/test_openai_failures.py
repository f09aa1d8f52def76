"""What is no answer, and streams that break: only `ProviderError` comes out."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.errors import IncompleteStream, ProviderError
from teff.messages import user
from teff.provider.protocol import ChatDelta, ChatReply, ChatRequest
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_openai import OpenAIProvider

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
CHOICE = attrs.evolve(REQUEST, choices=["billing", "technical"], max_tokens=4)


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


def test_a_stream_is_whole_with_either_sign_of_its_end() -> None:
    assert streamed_reply(events(delta("a"), done=True)).text == "a"
    assert streamed_reply(events(delta("a", finish="stop"), done=False)).text == "a"


@pytest.mark.parametrize("then", ["close", "reset", "hang"])
def test_what_breaks_after_the_reason_of_the_end_is_whole(
    then: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teff_providers_openai.provider._SECONDS_AFTER_FINISH", 0.05)
    data = f"data: {json.dumps(delta('a', finish='stop'))}\n\n".encode()
    assert streamed_reply(stream_answer([data], then=then)).text == "a"


@pytest.mark.parametrize("then", ["keep", "close", "reset"])
def test_a_stream_without_a_sign_of_its_end_is_incomplete(then: Any) -> None:
    pieces = [delta("Hel"), delta("lo"), delta(tool_calls=[{"index": 0, "id": "a"}])]
    data = [f"data: {json.dumps(piece)}\n\n".encode() for piece in pieces]
    with pytest.raises(IncompleteStream) as info:
        stream(stream_answer(data, then=then))
    assert info.value.partial == "Hello"


def test_a_stream_that_stalls_is_incomplete() -> None:
    data = [f"data: {json.dumps(delta('Hel'))}\n\n".encode()]
    with pytest.raises(IncompleteStream, match=r"no event for 0\.05 seconds") as info:
        stream(stream_answer(data, then="hang"), timeout=0.05)
    assert info.value.partial == "Hel"


@pytest.mark.parametrize(
    ("chunk", "words", "status"),
    [
        ({"error": {"message": "overloaded", "type": "server_error"}}, "overloaded", None),
        ({"error": "overloaded"}, "overloaded", None),
        ({"object": "error", "message": "too long", "code": 400}, "too long", 400),
        (delta() | {"error": {"message": "no provider", "code": 502}}, "no provider", 502),
    ],
)
def test_an_error_inside_a_stream_is_raised(
    chunk: dict[str, Any], words: str, status: int | None
) -> None:
    with pytest.raises(ProviderError, match=words) as info:
        stream(events(delta("a"), chunk))
    assert info.value.status == status
    assert info.value.permanent == (status == 400)
    with pytest.raises(ProviderError, match=words):
        chat(json_answer(chunk))


def test_an_event_of_type_error_is_raised_whatever_it_holds() -> None:
    data = b'event: error\ndata: {"message": "it broke"}\n\n'
    with pytest.raises(ProviderError, match="sent an error: it broke"):
        stream(stream_answer([data]))


def test_an_error_as_the_reason_of_the_end_is_raised() -> None:
    chunk = delta(finish="error")
    chunk["choices"][0]["error"] = {"message": "upstream is down"}
    with pytest.raises(ProviderError, match="the model failed: upstream is down"):
        stream(events(chunk))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": {}},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": 3}}]},
        {"choices": [{"message": {"content": "a", "tool_calls": "x"}}]},
        {"choices": [{"message": {"tool_calls": [{"function": {}}]}}]},
    ],
)
def test_a_reply_that_is_no_answer_is_an_error(body: object) -> None:
    with pytest.raises(ProviderError, match="sent a reply that cannot be read") as info:
        chat(json_answer(body))
    assert not info.value.permanent


@pytest.mark.parametrize(
    "text", ["{", "null", "[]", '{"choices": [{"delta": {"content": {}}}]}', "[" * 99_999]
)
def test_an_event_that_is_no_piece_of_an_answer_is_an_error(text: str) -> None:
    with pytest.raises(ProviderError, match="sent a reply that"):
        stream(events(text))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats()
    | st.sampled_from(["", "a", "stop", "length", "error", "{}", '{"choice": "billing"}']),
    lambda children: (
        st.lists(children, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "error",
                    "arguments",
                    "id",
                    "index",
                    "finish_reason",
                    "usage",
                    "prompt_tokens",
                    "reasoning",
                    "object",
                    "refusal",
                    "model",
                    "text",
                    "code",
                ]
            ),
            children,
            max_size=4,
        )
    ),
    max_leaves=25,
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "content": json_values,
        "tool_calls": st.lists(st.fixed_dictionaries({"function": json_values}), max_size=2)
        | json_values,
        "reasoning": json_values,
        "refusal": json_values,
    },
)
bodies = json_values | st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {"message": fields}, optional={"delta": fields, "finish_reason": json_values}
            ),
            max_size=2,
        )
        | json_values
    },
    optional={"usage": json_values, "error": json_values, "model": json_values},
)


@settings(max_examples=60, deadline=None)
@given(st.lists(bodies, min_size=1, max_size=3), st.sampled_from([REQUEST, CHOICE]))
def test_whatever_comes_gives_a_reply_or_a_provider_error(
    replies: list[object], request: ChatRequest
) -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url)
        with suppress(ProviderError):
            assert isinstance(await provider.chat(request), ChatReply)
        with suppress(ProviderError):
            deltas = [each async for each in provider.stream(request)]
            assert isinstance(deltas[-1].reply, ChatReply)

    run_with_server(ask, json_answer(replies[0]), events(*replies))


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200), st.integers(200, 599))
def test_whatever_bytes_come_give_a_reply_or_a_provider_error(body: bytes, status: int) -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url)
        for _ in range(2):
            with pytest.raises(ProviderError):
                await provider.chat(REQUEST)
        with pytest.raises(ProviderError):
            _ = [each async for each in provider.stream(REQUEST)]

    run_with_server(
        ask,
        json_answer(body, status=status),
        body + b"\r\n\r\n",
        json_answer(body, status=status, content_type="text/event-stream"),
    )
