"""What the provider makes of answers, refusals, and of what is neither."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.errors import IncompleteStream, ProviderError
from teff.messages import ToolCall, assistant, tool_result, user
from teff.provider.protocol import ChatDelta, ChatReply, ChatRequest
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_ollama import OllamaProvider

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
CHOICE = attrs.evolve(REQUEST, choices=["billing", "technical"])
END = {"message": {"content": ""}, "done": True, "done_reason": "stop"}


def frame(content: object = "", done: bool = False, **message: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content, **message}, "done": done}


def frames(*values: object) -> Answer:
    """Return a stream of these frames; texts are written as they are."""
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return stream_answer(
        [f"{line}\n".encode() for line in lines], content_type="application/x-ndjson"
    )


def chat(answer: Answer | bytes, request: ChatRequest = REQUEST, **options: Any) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        return await OllamaProvider(base_url=server.url, **options).chat(request)

    return run_with_server(ask, answer)


def stream(
    answer: Answer | bytes, request: ChatRequest = REQUEST, **options: Any
) -> list[ChatDelta]:
    async def ask(server: ReplayServer) -> list[ChatDelta]:
        provider = OllamaProvider(base_url=server.url, **options)
        return [each async for each in provider.stream(request)]

    return run_with_server(ask, answer)


def streamed_reply(answer: Answer | bytes, request: ChatRequest = REQUEST) -> ChatReply:
    *pieces, last = stream(answer, request)
    assert last.reply is not None
    assert "".join(piece.text for piece in pieces) == last.reply.text
    assert all(piece.reply is None for piece in pieces)
    return last.reply


def test_the_pieces_of_a_stream_add_up_to_its_reply() -> None:
    end = {**END, "model": "llama", "prompt_eval_count": 3, "eval_count": 2}
    pieces = stream(frames(frame("Hel"), frame("lo"), end))
    assert [piece.text for piece in pieces] == ["Hel", "lo", ""]
    reply = pieces[-1].reply
    assert reply is not None
    assert (reply.text, reply.finish_reason, reply.model) == ("Hello", "stop", "llama")
    assert attrs.astuple(reply.usage) == (3, 2, 5)


def test_a_count_that_is_missing_is_unknown() -> None:
    assert attrs.astuple(chat(json_answer({**END, "eval_count": 2})).usage) == (None, 2, None)


def test_text_and_calls_of_the_last_frame_count_too() -> None:
    call = {"function": {"name": "now", "arguments": {}}}
    end = {**frame("lo", done=True, tool_calls=[call]), "done_reason": "stop"}
    reply = streamed_reply(frames(frame("Hel"), end))
    assert reply.text == "Hello"
    assert [call.name for call in reply.tool_calls] == ["now"]
    assert reply.finish_reason == "tool_calls"


def test_calls_of_several_frames_are_all_kept_with_ids_of_their_own() -> None:
    def calling(**fields: Any) -> dict[str, Any]:
        function = {"name": "add", "arguments": {"x": 1}, "index": 0, **fields.pop("function", {})}
        return frame(tool_calls=[{"function": function, **fields}])

    old = ToolCall(id="call_1", name="add")
    messages = [user("?"), assistant("", [old]), tool_result(old, "1")]
    reply = streamed_reply(
        frames(
            calling(),
            calling(id="call_1"),
            calling(id="call_2", function={"arguments": '{"x": 2}'}),
            calling(id="call_3", function={"arguments": "{"}, signature="s"),
            END,
        ),
        ChatRequest(model="m", messages=messages),
    )
    assert [dict(call.arguments) for call in reply.tool_calls] == [{"x": 1}, {"x": 1}, {"x": 2}, {}]
    ids = [call.id for call in reply.tool_calls]
    assert len({*ids, "call_1"}) == 5
    assert ids[2] == "call_2"
    assert "not whole JSON" in reply.tool_calls[3].error
    assert reply.tool_calls[3].extra == {"signature": "s"}


def test_frames_without_text_are_not_shown() -> None:
    silent = [frame(), frame(None), {"model": "m", "done": False}, {"message": {}, "done": False}]
    pieces = stream(frames(*silent, frame("Hi"), *silent, "", END))
    assert [piece.text for piece in pieces] == ["Hi", ""]


def test_thinking_is_kept_apart() -> None:
    pieces = stream(frames(frame("", thinking="Hm"), frame("4", thinking="m"), END))
    assert [(piece.text, piece.thinking) for piece in pieces] == [("", "Hm"), ("4", "m"), ("", "")]
    assert pieces[-1].reply is not None
    assert pieces[-1].reply.thinking == "Hmm"


@pytest.mark.parametrize(
    "content", ["billing", '"billing"', ' "billing" \n', '{"choice":"billing"}']
)
def test_a_choice_comes_back_bare(content: str) -> None:
    answer = {**frame(content, done=True), "done_reason": "length"}
    assert attrs.astuple(chat(json_answer(answer), CHOICE))[0] == "billing"
    assert chat(json_answer(answer), CHOICE).finish_reason == "stop"
    pieces = stream(frames(*map(frame, content), END), CHOICE)
    assert [piece.text for piece in pieces] == ["billing", ""]


def test_the_reason_of_the_end_may_be_the_limit_or_missing() -> None:
    assert chat(json_answer({**END, "done_reason": "length"})).finish_reason == "length"
    assert chat(json_answer({"message": {"content": "a"}, "done": True})).finish_reason == "stop"


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_a_model_that_was_only_loaded_has_not_answered(reason: str) -> None:
    for ask, answer in ((chat, json_answer), (stream, frames)):
        with pytest.raises(ProviderError, match=f"only says that it did {reason} the model"):
            ask(answer({**END, "done_reason": reason}))


def test_a_model_that_is_not_there_comes_with_the_line_that_gets_it() -> None:
    refusal = json_answer({"error": 'model "llama3.1:8b" not found'}, status=404)
    request = attrs.evolve(REQUEST, model="llama3.1:8b")
    for ask in (chat, stream):
        with pytest.raises(ProviderError, match=r"Get it with: ollama pull llama3\.1:8b$") as info:
            ask(refusal, request)
        assert info.value.permanent
        assert 'model "llama3.1:8b" not found. Get' in str(info.value)


def test_another_server_at_the_address_is_named() -> None:
    with pytest.raises(ProviderError, match="Is this a server of Ollama"):
        chat(json_answer({"detail": "Not Found"}, status=404))


def test_a_server_that_is_not_running_comes_with_the_line_that_starts_it() -> None:
    async def ask(server: ReplayServer) -> None:
        with pytest.raises(ProviderError) as info:
            await OllamaProvider(base_url="http://127.0.0.1:1").chat(REQUEST)
        assert "cannot be reached at http://127.0.0.1:1/api/chat" in str(info.value)
        assert str(info.value).endswith("Start it with: ollama serve")

    run_with_server(ask, json_answer({}))


@pytest.mark.parametrize(
    ("error", "status", "permanent"),
    [
        ("registry.ollama.ai/x does not support tools", 400, True),
        ({"message": "busy", "code": None}, 503, False),
    ],
)
def test_refusals_are_in_the_words_of_the_server(
    error: object, status: int, permanent: bool
) -> None:
    words = error if isinstance(error, str) else "busy"
    for ask in (chat, stream):
        with pytest.raises(ProviderError, match=words) as info:
            ask(json_answer({"error": error}, status=status))
        assert (info.value.status, info.value.permanent) == (status, permanent)


@pytest.mark.parametrize(
    "last",
    [
        {"error": "runner died"},
        {"error": {"message": "runner died", "code": None}},
        {**END, "done_reason": "error", "error": "runner died"},
    ],
)
def test_an_error_inside_a_stream_is_raised(last: dict[str, Any]) -> None:
    with pytest.raises(ProviderError, match="sent an error: runner died"):
        stream(frames(frame("Hel"), last))
    with pytest.raises(ProviderError, match="sent an error: runner died"):
        stream(stream_answer([json.dumps(last).encode()]))


@pytest.mark.parametrize("then", ["keep", "close", "reset"])
def test_a_stream_without_its_last_frame_is_incomplete(then: Any) -> None:
    lines = [json.dumps(frame(text)).encode() + b"\n" for text in ("Hel", "lo")]
    with pytest.raises(IncompleteStream) as info:
        stream(stream_answer([*lines, b'{"mess'], then=then))
    assert info.value.partial == "Hello"


def test_a_stream_that_stalls_is_incomplete() -> None:
    line = json.dumps(frame("Hel")).encode() + b"\n"
    with pytest.raises(IncompleteStream, match=r"no event for 0\.05 seconds") as info:
        stream(stream_answer([line, b"\n"], then="hang"), timeout=0.05)
    assert info.value.partial == "Hel"


def test_blank_lines_are_nothing() -> None:
    assert streamed_reply(frames("", frame("a"), "", "  ", END)).text == "a"


def test_the_last_line_may_lack_its_end() -> None:
    assert (
        streamed_reply(stream_answer([json.dumps({**END, **frame("a", True)}).encode()])).text
        == "a"
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"done": True},
        {"message": None, "done": True},
        {"message": {"content": 3}, "done": True},
        {"message": {"content": "a"}, "done": False},
        {"message": {"content": "a", "tool_calls": {}}, "done": True},
        {"message": {"content": "a", "tool_calls": [None]}, "done": True},
        {"message": {"content": "a", "tool_calls": [{"function": {"name": ""}}]}, "done": True},
    ],
)
def test_a_reply_that_is_no_answer_is_an_error(body: object) -> None:
    with pytest.raises(ProviderError, match="sent a reply that cannot be read"):
        chat(json_answer(body))


@pytest.mark.parametrize("body", [b"<title>Sign in</title>", b"", b"[]", b"null", b"[" * 99_999])
def test_what_is_no_json_object_is_an_error(body: bytes) -> None:
    with pytest.raises(ProviderError, match="sent a reply that is no JSON"):
        chat(json_answer(body))
    with pytest.raises(ProviderError):
        stream(stream_answer([body + b"\n"]))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats()
    | st.sampled_from(["", "a", "stop", "load", "error", "{}", '"billing"']),
    lambda children: (
        st.lists(children, max_size=2)
        | st.dictionaries(
            st.sampled_from(["function", "name", "arguments", "id", "index", "text", "message"]),
            children,
            max_size=3,
        )
    ),
    max_leaves=15,
)
bodies = json_values | st.fixed_dictionaries(
    {
        "message": json_values
        | st.fixed_dictionaries(
            {},
            optional={
                "content": json_values,
                "thinking": json_values,
                "tool_calls": json_values
                | st.lists(st.fixed_dictionaries({"function": json_values}), max_size=2),
            },
        ),
        "done": st.just(True) | json_values,
    },
    optional={
        "error": json_values,
        "done_reason": json_values,
        "eval_count": json_values,
        "prompt_eval_count": json_values,
        "model": json_values,
    },
)


@settings(max_examples=60, deadline=None)
@given(st.lists(bodies, min_size=1, max_size=3), st.sampled_from([REQUEST, CHOICE]))
def test_whatever_comes_gives_a_reply_or_a_provider_error(
    replies: list[object], request: ChatRequest
) -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OllamaProvider(base_url=server.url)
        with suppress(ProviderError):
            assert isinstance(await provider.chat(request), ChatReply)
        with suppress(ProviderError):
            deltas = [each async for each in provider.stream(request)]
            assert isinstance(deltas[-1].reply, ChatReply)

    run_with_server(ask, json_answer(replies[0]), frames(*replies))


def test_half_characters_in_ids_and_names_of_calls_are_replaced() -> None:
    calls = [{"id": "a\ud800", "function": {"name": "ad\udc00", "arguments": {}}}]
    (call,) = chat(json_answer(frame(done=True, tool_calls=calls))).tool_calls
    assert (call.id, call.name) == ("a\ufffd", "ad\ufffd")


def test_what_no_state_can_hold_is_an_error_for_the_model_or_left_out() -> None:
    deep: Any = json.loads('{"x":' * 300 + "1" + "}" * 300)
    calls = [{"own": 1, "deep": deep, "function": {"name": "add", "arguments": deep}}]
    (call,) = chat(json_answer(frame(done=True, tool_calls=calls))).tool_calls
    assert (call.arguments, call.error) == ({}, "the arguments are nested too deeply")
    assert call.extra == {"own": 1}


def test_an_answer_makes_a_thousand_calls_at_most() -> None:
    calls = [{"function": {"name": "add", "arguments": {}}}] * 1000
    assert len(chat(json_answer(frame(done=True, tool_calls=calls))).tool_calls) == 1000
    with pytest.raises(ProviderError, match="more than 1,000 tool calls"):
        chat(json_answer(frame(done=True, tool_calls=[*calls, calls[0]])))


def test_counts_that_no_answer_has_are_unknown() -> None:
    counts = {"prompt_eval_count": 10**400, "eval_count": 5}
    usage = chat(json_answer({**frame("Hi", done=True), **counts})).usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (None, 5)


def test_frames_that_say_nothing_do_not_prolong_the_wait() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"
    endless = Answer(chunks=[head, *[b"{}\n"] * 1000], pause=0.02, then="hang")
    with pytest.raises(IncompleteStream, match=r"sent no event for 0\.2 seconds"):
        stream(endless, timeout=0.2)
