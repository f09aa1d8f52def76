"""Faults of servers and clients that were reported in public, each under its number.

The numbers are those of the project's list of such reports; here are the ones that concern a client
of the chat-completions format.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import httpx
import pytest

from teff.errors import IncompleteStream, ProviderError
from teff.messages import ToolCall, assistant, system, tool_result, user
from teff.provider.protocol import ChatReply, ChatRequest, ToolSpec
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_openai import OpenAIProvider, Quirks

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
TOOL = ToolSpec(name="now", description="The time", schema={"type": "object", "properties": {}})
WITH_TOOL = attrs.evolve(REQUEST, tools=[TOOL])
ANSWER = json_answer({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]})


def whole(content: object = None, finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content, **fields}, "finish_reason": finish}]}


def piece(content: object = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    delta = {"content": content, **fields}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(
    index: int | None = 0, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    fields = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return fields if index is None else {"index": index, **fields}


def calling(*calls: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return piece(finish=finish, tool_calls=list(calls))


def events(*chunks: object, done: bool = True, **options: Any) -> Answer:
    pieces = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    data = [f"data: {each}\n\n".encode() for each in [*pieces, *["[DONE]"] * done]]
    return stream_answer(data, **options)


def chat(answer: Answer | bytes, request: ChatRequest = REQUEST, **options: Any) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        return await OpenAIProvider(base_url=server.url, **options).chat(request)

    return run_with_server(ask, answer)


def streamed(answer: Answer | bytes, request: ChatRequest = REQUEST, **options: Any) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        provider = OpenAIProvider(base_url=server.url, **options)
        *pieces, last = [each async for each in provider.stream(request)]
        assert last.reply is not None
        assert "".join(each.text for each in pieces) == last.reply.text
        return last.reply

    return run_with_server(ask, answer)


def sent(request: ChatRequest = REQUEST, *, stream: bool = False, **options: Any) -> Any:
    """Return the body that is posted."""

    async def ask(server: ReplayServer) -> Any:
        provider = OpenAIProvider(base_url=server.url, **options)
        if stream:
            _ = [each async for each in provider.stream(request)]
        else:
            await provider.chat(request)
        return server.requests[0].json()

    return run_with_server(ask, ANSWER)


def calls_of(*chunks: object) -> list[tuple[str, str, dict[str, Any]]]:
    reply = streamed(events(*chunks))
    return [(each.id, each.name, dict(each.arguments)) for each in reply.tool_calls]


# Tool calls in streams.


def test_fault_01_two_calls_in_one_are_an_error_of_the_call_and_go_back_as_valid_json() -> None:
    """The next turn died of the history that the joined arguments made."""
    reply = streamed(events(calling(call(0, "a", "now", '{"x": 1}{"x": 2}'), finish="tool_calls")))
    [joined] = reply.tool_calls
    assert "not whole JSON" in joined.error
    history = [user("?"), assistant("", [joined]), tool_result(joined, "error: …")]
    written = sent(ChatRequest(model="m", messages=history))["messages"][1]["tool_calls"][0]
    assert written["function"]["arguments"] == "{}"


def test_fault_02_native_shapes_in_a_stream_are_calls() -> None:
    """A stop as the reason, arguments as an object, and a new id in each piece."""
    reply = streamed(
        events(
            calling(call(0, "a", "now", {"zone": "UTC"})),
            calling(call(0, "b", None, None)),
            piece(finish="stop"),
        )
    )
    assert reply.tool_calls == [ToolCall(id="a", name="now", arguments={"zone": "UTC"})]
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
def test_fault_03_tools_reach_the_server_in_either_way(stream: bool) -> None:
    """They were dropped on the way to an endpoint that knows none."""
    assert sent(WITH_TOOL, stream=stream)["tools"][0]["function"]["name"] == "now"


def test_fault_04_pieces_without_an_index_are_put_together() -> None:
    assert calls_of(
        calling(call(None, "a", "now", '{"x"')), calling(call(None, None, None, ": 1}"))
    ) == [("a", "now", {"x": 1})]


def test_fault_05_parallel_calls_that_all_have_index_0_are_several() -> None:
    assert calls_of(
        calling(call(0, "a", "now", "{}")), calling(call(0, "b", "now", '{"x": 1}'))
    ) == [("a", "now", {}), ("b", "now", {"x": 1})]


def test_fault_06_a_name_is_set_and_never_appended() -> None:
    assert calls_of(
        calling(call(0, "a", "terminal", '{"x"')), calling(call(0, "a", "terminal", ": 1}"))
    ) == [("a", "terminal", {"x": 1})]


def test_fault_07_calls_in_the_last_piece_are_read() -> None:
    assert calls_of(piece("Let me see."), calling(call(0, "a", "now", "{}"), finish="stop")) == [
        ("a", "now", {})
    ]


def test_fault_08_a_null_index_is_no_index() -> None:
    first = call(None, "a", "now", "{}") | {"index": None}
    second = call(None, "b", "then", "{}") | {"index": None}
    assert [name for _, name, _ in calls_of(calling(first), calling(second))] == ["now", "then"]


def test_fault_09_interleaved_pieces_belong_to_the_call_of_their_index() -> None:
    assert calls_of(
        calling(call(0, "a", "now"), call(1, "b", "then")),
        calling(call(1, None, None, '{"y": ')),
        calling(call(0, None, None, '{"x": 1}')),
        calling(call(1, None, None, "2}")),
    ) == [("a", "now", {"x": 1}), ("b", "then", {"y": 2})]


def test_fault_10_null_ids_and_names_are_nothing() -> None:
    assert calls_of(
        calling(call(0, "a", "now", None)), calling(call(0, None, None, "{}"), finish="tool_calls")
    ) == [("a", "now", {})]


def test_fault_11_a_server_that_fails_amid_a_call_raises_its_words_and_may_be_asked_again() -> None:
    broken = {"error": {"code": 500, "message": "now finding less tool calls", "type": "x"}}
    with pytest.raises(ProviderError, match="finding less tool calls") as info:
        streamed(events(calling(call(0, "a", "now", '{"x"')), broken, done=False))
    assert (info.value.status, info.value.permanent) == (500, False)


@pytest.mark.parametrize("then", ["keep", "close", "reset"])
def test_fault_12_a_call_comes_out_only_when_it_is_whole(then: Any) -> None:
    with pytest.raises(IncompleteStream):
        streamed(events(calling(call(0, "a", "now", '{"x": 1}')), done=False, then=then))


@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ('{"city": "Rome"', {"city": "Rome"}),
        ('{"a": {"b": [1, 2', {"a": {"b": [1, 2]}}),
        ('{"text": "a } and ]"', {"text": "a } and ]"}),
    ],
)
def test_fault_13_brackets_lost_at_the_end_of_a_complete_call_are_put_there(
    arguments: str, meant: dict[str, Any], finish: str
) -> None:
    reply = streamed(events(calling(call(0, "a", "now", arguments), finish=finish)))
    assert [(each.arguments, each.error) for each in reply.tool_calls] == [(meant, "")]


@pytest.mark.parametrize("finish", ["length", None])
def test_fault_13_but_a_call_that_was_cut_off_stays_one(finish: str | None) -> None:
    reply = streamed(events(calling(call(0, "a", "now", '{"city": "Rome"'), finish=finish)))
    assert "not whole JSON" in reply.tool_calls[0].error
    cut = streamed(events(calling(call(0, "a", "now", '{"city": "Ro'), finish="tool_calls")))
    assert "not whole JSON" in cut.tool_calls[0].error


@pytest.mark.parametrize("arguments", ["", None, "{}", "  "])
def test_fault_14_a_call_without_arguments_has_an_empty_object(arguments: str | None) -> None:
    assert calls_of(calling(call(0, "a", "now", arguments), finish="tool_calls")) == [
        ("a", "now", {})
    ]


def test_fault_15_braces_in_an_argument_do_no_harm_and_calls_as_text_stay_text() -> None:
    command = "awk '{ print $1 }' \"{x\""
    text = json.dumps({"command": command})
    [(_, _, arguments)] = calls_of(*(calling(call(0, "a", "sh", mark)) for mark in text))
    assert arguments == {"command": command}
    written = f'<tool_call>{{"name": "sh", "arguments": {text}}}</tool_call>'
    reply = streamed(events(*map(piece, written), piece(finish="stop")), WITH_TOOL)
    assert (reply.text, reply.tool_calls, reply.finish_reason) == (written, [], "stop")


# Arguments and history.


def test_fault_18_empty_arguments_are_an_empty_object_and_go_back_as_one() -> None:
    reply = chat(json_answer(whole(finish="tool_calls", tool_calls=[call(None, "a", "now", "")])))
    [made] = reply.tool_calls
    assert (made.arguments, made.error) == ({}, "")
    history = ChatRequest(model="m", messages=[user("?"), assistant("", [made])])
    written = sent(history)["messages"][1]["tool_calls"][0]["function"]
    assert written == {"name": "now", "arguments": "{}"}


def test_fault_21_arguments_of_the_history_are_whole_json_whatever_the_model_wrote() -> None:
    """The server answered 500 to each retry, for the history could not be parsed."""
    stored: list[dict[str, Any]] = [
        {"id": "a", "name": "now", "args": '{"x": '},
        {"id": "b", "name": "now", "args": [1]},
        {"id": "c", "function": {"name": "now", "arguments": "no JSON"}},
    ]
    message = {"role": "assistant", "content": "", "tool_calls": stored}
    written = sent(ChatRequest(model="m", messages=[user("?"), message]))["messages"][1]
    for each in written["tool_calls"]:
        assert json.loads(each["function"]["arguments"]) == {}


def test_fault_22_the_content_beside_calls_is_null_or_empty_as_the_server_wants() -> None:
    history = [user("?"), assistant("", [ToolCall(id="a", name="now")])]
    request = ChatRequest(model="m", messages=history)
    assert sent(request)["messages"][1]["content"] is None
    assert sent(request, quirks=Quirks(null_content=False))["messages"][1]["content"] == ""
    assert sent(request, preset="lmstudio")["messages"][1]["content"] == ""
    assert sent(request, preset="mistral")["messages"][1]["content"] == ""


@pytest.mark.parametrize("content", ["", None])
def test_fault_23_empty_turns_of_the_assistant_are_left_out(content: str | None) -> None:
    empty = {"role": "assistant", "content": content}
    body = sent(ChatRequest(model="m", messages=[user("a"), empty, user("b")]))
    assert body["messages"] == [user("a"), user("b")]


def test_fault_24_reasoning_goes_back_where_the_server_wants_it() -> None:
    made = ToolCall(id="a", name="now")
    history = [user("?"), assistant("", [made], thinking="Hm."), tool_result(made, "12:00")]
    request = ChatRequest(model="m", messages=history)
    assert sent(request, preset="deepseek")["messages"][1]["reasoning_content"] == "Hm."
    assert sent(request, preset="openrouter")["messages"][1]["reasoning"] == "Hm."
    assert set(sent(request)["messages"][1]) == {"role", "content", "tool_calls"}
    refusal = json_answer({"error": "Missing `reasoning_content` field"}, status=400)
    with pytest.raises(ProviderError, match=r"quirks: \{reasoning_field: reasoning_content\}"):
        chat(refusal, request)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_fault_25_reasoning_is_read_under_either_name(field: str) -> None:
    assert chat(json_answer(whole("4", **{field: "2+2"}))).thinking == "2+2"
    assert streamed(events(piece(**{field: "2+2"}), piece("4", "stop"))).thinking == "2+2"


def test_fault_25_reasoning_among_the_parts_of_the_content_is_no_text() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "2+2"}]}
    reply = chat(json_answer(whole([thinking, {"type": "text", "text": "4"}])))
    assert (reply.thinking, reply.text) == ("2+2", "4")


def test_fault_26_settings_of_tools_are_sent_beside_tools_only() -> None:
    options = {"parallel_tool_calls": False, "tool_choice": "required"}
    assert set(sent(options=options)) == {"model", "messages", "stream"}
    assert sent(WITH_TOOL, options=options).items() >= options.items()
    plain = attrs.evolve(REQUEST, options=options)
    assert set(sent(plain)) == {"model", "messages", "stream"}
    body = sent(WITH_TOOL, options=options, preset="gemini")
    assert body["tool_choice"] == "required"
    assert "parallel_tool_calls" not in body
    assert "tool_choice" not in sent(WITH_TOOL, options=options, quirks=Quirks(tool_choice=False))


# Empty, missing or odd fields.


def test_fault_27_pieces_without_choices_are_skipped_and_their_usage_is_read() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    reply = streamed(
        events(
            {"choices": [], "prompt_filter_results": [{}]},
            piece("a"),
            {"choices": [], "usage": usage},
            piece(finish="stop"),
        )
    )
    assert (reply.text, attrs.astuple(reply.usage)) == ("a", (3, 1, 4))


def test_fault_28_a_last_piece_with_usage_alone_does_no_harm() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    reply = streamed(events(piece("a", "stop"), {"choices": [], "usage": usage}, done=False))
    assert (reply.text, reply.usage.total_tokens) == ("a", 4)


def test_fault_29_a_first_piece_without_choices_does_not_end_the_stream() -> None:
    assert streamed(events({"choices": []}, piece("a", "stop"))).text == "a"


def test_fault_30_ids_and_reasons_may_be_missing() -> None:
    assert chat(json_answer({"choices": [{"message": {"content": "a"}}]})).finish_reason == "stop"
    chunk = {"choices": [{"delta": {"content": "a"}}]}
    assert streamed(events(chunk)).finish_reason == "stop"


def test_fault_31_the_reason_error_is_one_and_unknown_reasons_are_kept() -> None:
    failed = whole("So ", "error") | {"error": {"code": 502, "message": "upstream is down"}}
    with pytest.raises(ProviderError, match="upstream is down"):
        chat(json_answer(failed))
    with pytest.raises(ProviderError, match="the model failed"):
        streamed(events(piece("So "), piece(finish="error")))
    assert chat(json_answer(whole("a", "new_reason"))).finish_reason == "new_reason"


def test_fault_32_an_empty_reason_is_none() -> None:
    assert chat(json_answer(whole("a", ""))).finish_reason == "stop"
    assert streamed(events(piece("a", ""), piece("b", "stop"))).text == "ab"
    with pytest.raises(IncompleteStream):
        streamed(events(piece("a", ""), done=False))


def test_fault_33_the_calls_that_are_there_decide_and_not_the_reason() -> None:
    reply = chat(json_answer(whole("a", "tool_calls", tool_calls=[])))
    assert (reply.tool_calls, reply.finish_reason) == ([], "stop")


def test_fault_34_the_text_beside_the_reason_is_read() -> None:
    assert streamed(events(piece("a"), piece("b", "stop"), done=False)).text == "ab"


def test_fault_35_an_empty_conversation_is_refused_before_it_is_sent() -> None:
    nothing: list[list[Any]] = [[], [assistant("")]]
    for messages in nothing:
        with pytest.raises(ProviderError, match="no messages") as info:
            chat(ANSWER, ChatRequest(model="m", messages=messages))
        assert info.value.permanent


# Usage.


def test_fault_38_of_counts_that_grow_the_last_ones_count() -> None:
    counts = [{"prompt_tokens": 3, "completion_tokens": done} for done in (1, 2, 3)]
    chunks = [piece("a") | {"usage": each} for each in counts]
    reply = streamed(events(*chunks, piece(finish="stop") | {"usage": None}))
    assert attrs.astuple(reply.usage) == (3, 3, 6)


def test_fault_39_zero_is_a_count_and_a_missing_count_is_unknown() -> None:
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    assert attrs.astuple(chat(json_answer(whole("") | {"usage": usage})).usage) == (0, 0, 0)
    for unknown in (None, {}, {"prompt_tokens": None}, {"prompt_tokens": -1}):
        reply = chat(json_answer(whole("") | {"usage": unknown}))
        assert attrs.astuple(reply.usage) == (None, None, None)


# Structured output.


SCHEMA = attrs.evolve(
    REQUEST, messages=[user("Answer in JSON.")], json_schema={"type": "object", "properties": {}}
)


def test_fault_43_a_server_that_refuses_schemas_says_so_and_can_be_asked_without() -> None:
    words = 'Either "json_schema" or "grammar" can be specified, but not both'
    refusal = json_answer({"error": {"code": 400, "message": words}}, status=400)
    with pytest.raises(ProviderError, match="json_schema: false") as info:
        chat(refusal, SCHEMA)
    assert info.value.permanent
    without = Quirks(json_schema=False)
    assert "response_format" not in sent(SCHEMA, quirks=without)
    instead = Quirks(json_schema=False, json_object=True)
    assert sent(SCHEMA, quirks=instead)["response_format"] == {"type": "json_object"}
    silent = attrs.evolve(SCHEMA, messages=[system("Be brief."), user("Hi")])
    assert "response_format" not in sent(silent, quirks=instead)


def test_fault_44_schemas_that_are_too_large_are_no_matter_of_another_try() -> None:
    refusal = json_answer({"error": {"message": "failed to parse grammar"}}, status=400)
    with pytest.raises(ProviderError, match="offer fewer tools") as info:
        chat(refusal, WITH_TOOL)
    assert info.value.permanent


def test_fault_45_a_tool_choice_that_the_server_ignores_gives_what_it_answered() -> None:
    request = attrs.evolve(WITH_TOOL, options={"tool_choice": "required"})
    reply = chat(ANSWER, request)
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("Hello", [], "stop")


def test_fault_47_only_openai_gets_the_newer_name_of_the_token_limit() -> None:
    limited = attrs.evolve(REQUEST, max_tokens=8)
    assert sent(limited)["max_tokens"] == 8
    assert "max_completion_tokens" not in sent(limited)
    refusal = {
        "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead."
    }
    with pytest.raises(ProviderError, match=r"\{max_tokens_field: max_completion_tokens\}"):
        chat(json_answer({"error": refusal}, status=400), limited)


# Streams and connections.


@pytest.mark.parametrize("then", ["close", "reset"])
def test_fault_50_a_connection_that_breaks_is_an_error_of_the_provider(then: Any) -> None:
    with pytest.raises(ProviderError) as info:
        streamed(events(piece("Hel"), piece("lo"), done=False, then=then))
    assert isinstance(info.value, IncompleteStream)
    assert info.value.partial == "Hello"
    assert not isinstance(info.value.__cause__, httpx.HTTPError)


@pytest.mark.parametrize("last", [piece("lo"), calling(call(0, "a", "now", "{}"))])
def test_fault_51_the_end_of_the_bytes_is_not_the_end_of_the_answer(last: Any) -> None:
    with pytest.raises(IncompleteStream):
        streamed(events(piece("Hel"), last, done=False))


def test_fault_52_a_stream_that_ends_cleanly_without_its_last_event_is_incomplete() -> None:
    for answer in (events(done=False), events(piece(), {"choices": []}, done=False)):
        with pytest.raises(IncompleteStream):
            streamed(answer)


def test_fault_54_streams_give_their_connection_back_after_the_end() -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url)
        for _ in range(12):
            _ = [each async for each in provider.stream(REQUEST)]
        assert server.connections == 1

    run_with_server(ask, *[events(piece("a", "stop"))] * 12)


def test_fault_55_refused_streams_give_their_connection_back_too() -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url)
        for _ in range(12):
            with pytest.raises(ProviderError, match="429"):
                _ = [each async for each in provider.stream(REQUEST)]
        assert server.open_connections <= 1
        await provider.aclose()
        await server.all_closed()

    run_with_server(ask, *[json_answer({"error": "slow down"}, status=429)] * 12)


def test_fault_57_a_stream_closed_early_closes_quietly() -> None:
    async def ask(server: ReplayServer) -> None:
        deltas = OpenAIProvider(base_url=server.url).stream(REQUEST)
        await anext(deltas)
        await deltas.aclose()  # type: ignore[attr-defined]  # an async generator
        await server.all_closed()

    run_with_server(ask, events(piece("a"), piece("b"), done=False, then="hang"))


# The bytes of a stream.


def test_fault_60_blank_lines_before_a_reply_and_between_events_are_nothing() -> None:
    body = b"\r\n\n\n" + json.dumps(whole("a")).encode()
    assert chat(json_answer(body)).text == "a"
    assert streamed(json_answer(body)).text == "a"
    data = [b"\n\n\r\n", f"data: {json.dumps(piece('a', 'stop'))}\n\n\n\n\n".encode()]
    assert streamed(stream_answer([*data, b"\n\n", b"data: [DONE]\n\n"])).text == "a"


def test_fault_61_a_long_event_in_many_pieces_is_one() -> None:
    text = "x" * 70_000
    event = f"data: {json.dumps(piece(text, 'stop'))}\n\n".encode()
    chunks = [event[at : at + 4096] for at in range(0, len(event), 4096)]
    assert streamed(stream_answer([*chunks, b"data: [DONE]\n\n"])).text == text


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_fault_62_lines_end_at_cr_and_lf_alone(mark: str) -> None:
    text = json.dumps(piece("AB", "stop"), ensure_ascii=False)
    # Control characters are escaped in JSON; the others may stand there as they are.
    shown = mark if mark > "\x7f" else json.dumps(mark)[1:-1]
    raw = text.replace("AB", f"A{shown}B")
    assert streamed(events(raw)).text == f"A{mark}B"


def test_fault_63_characters_may_be_split_over_pieces() -> None:
    text = "Łódź 東京 🙂"
    event = json.dumps(piece(text, "stop"), ensure_ascii=False).encode()
    data = b"data: " + event + b"\n\ndata: [DONE]\n\n"
    assert streamed(stream_answer([data[at : at + 1] for at in range(len(data))])).text == text


def test_fault_64_a_byte_order_mark_does_not_hide_the_first_event() -> None:
    data = b"\xef\xbb\xbfdata: " + json.dumps(piece("a", "stop")).encode() + b"\n\n"
    for cut in range(4):
        assert streamed(stream_answer([data[:cut], data[cut:]])).text == "a"


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "it broke", "type": "server_error", "code": None}},
        {"error": {"message": "it broke", "code": 500}},
        {"error": "it broke"},
        {"error": [{"message": "it broke"}]},
        {"object": "error", "message": "it broke", "code": 500},
        piece(finish="error") | {"error": {"code": 502, "message": "it broke"}},
    ],
)
def test_fault_65_an_error_amid_a_stream_is_raised_in_any_shape(error: dict[str, Any]) -> None:
    with pytest.raises(ProviderError, match="it broke") as info:
        streamed(events(piece("So "), error))
    assert not isinstance(info.value, IncompleteStream)
    assert not info.value.permanent
