"""Faults of servers, proxies and other clients that were reported in public, one test for each.

The number in a name is that of the report in the project's list of provider faults.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from typing import Any

import attrs
import pytest

from teff.errors import IncompleteStream, ProviderError
from teff.messages import ToolCall, assistant, tool_result, user
from teff.provider.protocol import ChatReply, ChatRequest, ToolSpec
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_ollama import OllamaProvider

TOOLS = [ToolSpec(name="add"), ToolSpec(name="now")]
REQUEST = ChatRequest(model="qwen3:8b", messages=[user("Hi")])
WITH_TOOLS = attrs.evolve(REQUEST, tools=TOOLS)
END = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}


def frame(content: object = "", **message: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content, **message}, "done": False}


def call(name: str, arguments: object, **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments, **fields}}


def lines(*frames: object) -> bytes:
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in frames)


def streamed(
    *pieces: object, request: ChatRequest = REQUEST, then: Any = "keep", **options: Any
) -> ChatReply:
    """Return the reply of a stream; bytes are sent as they are, other pieces as a line each."""
    chunks = [each if isinstance(each, bytes) else lines(each) for each in pieces]
    answer = stream_answer(chunks, content_type="application/x-ndjson", then=then)

    async def ask(server: ReplayServer) -> ChatReply:
        provider = OllamaProvider(base_url=server.url, **options)
        *deltas, last = [each async for each in provider.stream(request)]
        assert last.reply is not None
        assert "".join(each.text for each in deltas) == last.reply.text
        return last.reply

    return run_with_server(ask, answer)


def plain(answer: Answer, request: ChatRequest = REQUEST, **options: Any) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        return await OllamaProvider(base_url=server.url, **options).chat(request)

    return run_with_server(ask, answer)


def refused(status: int, words: str, request: ChatRequest = REQUEST) -> ProviderError:
    """Return the error for a refusal, which a stream gives alike."""
    answer = json_answer({"error": words}, status=status)
    with pytest.raises(ProviderError) as of_stream:
        streamed_from(answer, request)
    with pytest.raises(ProviderError) as info:
        plain(answer, request)
    assert info.value.permanent == of_stream.value.permanent
    return info.value


def streamed_from(answer: Answer, request: ChatRequest = REQUEST) -> None:
    async def ask(server: ReplayServer) -> None:
        async for _ in OllamaProvider(base_url=server.url).stream(request):
            pass

    run_with_server(ask, answer)


def body_of(request: ChatRequest, **options: Any) -> Any:
    async def ask(server: ReplayServer) -> Any:
        await OllamaProvider(base_url=server.url, **options).chat(request)
        assert [each.path for each in server.requests] == ["/api/chat"]
        return server.requests[0].json()

    return run_with_server(ask, json_answer(END))


def named(reply: ChatReply) -> list[tuple[str, dict[str, Any]]]:
    return [(each.name, dict(each.arguments)) for each in reply.tool_calls]


def test_fault_01_two_calls_of_one_turn_stay_two() -> None:
    first, second = call("add", {"x": 1}, index=0), call("add", {"x": 2}, index=0)
    reply = streamed(frame(tool_calls=[first]), frame(tool_calls=[second]), END, request=WITH_TOOLS)
    assert named(reply) == [("add", {"x": 1}), ("add", {"x": 2})]
    together = streamed(frame(tool_calls=[first, second]), END, request=WITH_TOOLS)
    assert named(together) == named(reply)
    history = [*WITH_TOOLS.messages, assistant("", reply.tool_calls)]
    sent = body_of(attrs.evolve(WITH_TOOLS, messages=history))["messages"][-1]["tool_calls"]
    assert [each["function"]["arguments"] for each in sent] == [{"x": 1}, {"x": 2}]


def test_fault_02_a_streamed_call_has_one_id_and_ends_for_tool_calls() -> None:
    one = {**call("add", {"x": 1}), "id": "call_1"}
    reply = streamed(frame(tool_calls=[one]), END, request=WITH_TOOLS)
    assert [each.id for each in reply.tool_calls] == ["call_1"]
    assert reply.finish_reason == "tool_calls"


def test_fault_03_tools_go_to_the_server() -> None:
    assert [tool["function"]["name"] for tool in body_of(WITH_TOOLS)["tools"]] == ["add", "now"]


def test_fault_04_a_call_needs_no_index() -> None:
    reply = streamed(frame(tool_calls=[call("add", {"x": 1})]), END, request=WITH_TOOLS)
    assert named(reply) == [("add", {"x": 1})]


def test_fault_05_parallel_calls_that_all_have_index_0_stay_apart() -> None:
    calls = [call("add", {"x": 1}, index=0), call("now", {}, index=0)]
    reply = streamed(frame(tool_calls=calls), END, request=WITH_TOOLS)
    assert named(reply) == [("add", {"x": 1}), ("now", {})]
    assert len({each.id for each in reply.tool_calls}) == 2


def test_fault_06_a_name_is_never_put_together_of_two() -> None:
    calls = [frame(tool_calls=[call("now", {}, index=0)]) for _ in range(2)]
    assert named(streamed(*calls, END, request=WITH_TOOLS)) == [("now", {}), ("now", {})]


def test_fault_07_calls_in_the_last_frame_count() -> None:
    end = {**frame(tool_calls=[call("add", {"x": 1})]), "done": True, "done_reason": "stop"}
    assert named(streamed(frame("Let me see."), end, request=WITH_TOOLS)) == [("add", {"x": 1})]


def test_fault_17_a_call_that_is_written_as_text_is_left_as_the_text_it_is() -> None:
    text = '{"name": "add", "arguments": {"x": 1}}'
    reply = streamed(frame(text, tool_calls=None), END, request=WITH_TOOLS)
    assert (reply.text, reply.tool_calls) == (text, [])


def test_fault_18_empty_arguments_are_none() -> None:
    reply = streamed(frame(tool_calls=[call("now", "")]), END, request=WITH_TOOLS)
    assert named(reply) == [("now", {})]
    assert reply.tool_calls[0].error == ""


def test_fault_19_arguments_of_a_history_are_an_object_whatever_they_were() -> None:
    stored = [
        ToolCall(id="a", name="add", arguments={"x": 1}).to_json(),
        {**ToolCall(id="b", name="now").to_json(), "arguments": []},
    ]
    message = {**assistant(""), "tool_calls": stored}
    result = tool_result(ToolCall(id="a", name="add"), "1")
    request = attrs.evolve(WITH_TOOLS, messages=[user("?"), message, result])
    calls = body_of(request)["messages"][1]["tool_calls"]
    assert [each["function"]["arguments"] for each in calls] == [{"x": 1}, {}]


def test_fault_20_a_call_that_the_server_cannot_parse_may_be_tried_again() -> None:
    words = "error parsing tool call: raw='{\"x\": ', err=unexpected end of JSON input"
    error = refused(500, words, WITH_TOOLS)
    assert not error.permanent
    assert words in str(error)
    assert str(error).endswith("another try may do better.")
    with pytest.raises(ProviderError, match="error parsing tool call") as info:
        streamed(frame("Let"), {"error": words}, request=WITH_TOOLS)
    assert not info.value.permanent


def test_fault_30_what_is_missing_in_a_reply_has_a_neutral_value() -> None:
    message = {"content": "Hello", "tool_calls": [call("now", {})]}
    reply = plain(json_answer({"message": message, "done": True}), WITH_TOOLS)
    assert reply.tool_calls[0].id
    assert (reply.text, reply.finish_reason, reply.model) == ("Hello", "tool_calls", "qwen3:8b")


def test_fault_31_an_unknown_reason_is_kept_and_an_error_is_one() -> None:
    assert streamed(frame("a"), {**END, "done_reason": "tired"}).finish_reason == "tired"
    with pytest.raises(ProviderError, match="the model failed"):
        streamed(frame("a"), {**END, "done_reason": "error"})


def test_fault_32_an_empty_reason_is_none() -> None:
    assert streamed(frame("a"), {**END, "done_reason": ""}).finish_reason == "stop"


def test_fault_35_no_messages_are_refused_and_a_loaded_model_has_not_answered() -> None:
    with pytest.raises(ProviderError, match="there are no messages"):
        plain(json_answer(END), attrs.evolve(REQUEST, messages=[]))
    for reason in ("load", "unload"):
        with pytest.raises(ProviderError, match=f"only says that it did {reason} the model"):
            plain(json_answer({**END, "done_reason": reason}))


def test_fault_36_a_count_that_is_missing_is_not_zero() -> None:
    usage = streamed(frame("a"), {**END, "eval_count": 7}).usage
    assert attrs.astuple(usage) == (None, 7, None)


def test_fault_37_the_count_of_the_answer_is_that_of_the_answer() -> None:
    usage = streamed(frame("a"), {**END, "prompt_eval_count": 26, "eval_count": 7}).usage
    assert attrs.astuple(usage) == (26, 7, 33)


def test_fault_39_a_count_of_zero_is_known() -> None:
    usage = streamed(frame("a"), {**END, "prompt_eval_count": 0, "eval_count": 0}).usage
    assert attrs.astuple(usage) == (0, 0, 0)


def test_fault_40_the_harness_is_told_that_a_format_keeps_from_calling_tools() -> None:
    assert not OllamaProvider().capabilities.schema_with_tools
    assert OllamaProvider().capabilities.json_schema
    assert "format" not in body_of(WITH_TOOLS)


def test_fault_41_thinking_is_set_where_a_format_is() -> None:
    request = attrs.evolve(REQUEST, json_schema={"type": "object"})
    assert body_of(request)["think"] is False
    assert body_of(request, think=True)["think"] is True


def test_fault_42_a_family_with_levels_only_gets_a_level() -> None:
    request = attrs.evolve(REQUEST, model="gpt-oss:20b", json_schema={"type": "object"})
    assert body_of(request)["think"] == "low"
    assert body_of(request, think=False)["think"] == "low"


def test_fault_46_a_window_that_is_full_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="teff")
    end = {**END, "prompt_eval_count": 2048, "eval_count": 1}
    streamed(frame("a"), end, options={"num_ctx": 2048})
    assert "fills the context window, 2,048 of 2,048 tokens" in caplog.text


@pytest.mark.parametrize("then", ["keep", "close", "reset"])
def test_fault_51_a_stream_that_is_cut_is_no_answer(then: Any) -> None:
    with pytest.raises(IncompleteStream) as info:
        streamed(frame("Hel"), frame("lo"), then=then)
    assert info.value.partial == "Hello"
    assert not info.value.permanent


def test_fault_52_a_stream_that_ends_well_without_a_last_frame_is_no_answer() -> None:
    with pytest.raises(IncompleteStream, match="before the answer was whole"):
        streamed(frame("Hello"))
    with pytest.raises(IncompleteStream):
        streamed()


def test_fault_53_an_unexpected_eof_is_the_fault_of_a_connection() -> None:
    error = refused(400, "unexpected EOF")
    assert (error.status, error.permanent) == (400, False)
    assert refused(400, "invalid model name").permanent


def test_fault_60_blank_lines_are_skipped() -> None:
    assert streamed(b"\n\r\n", frame("Hello"), b"\n \n", END).text == "Hello"


def test_fault_61_a_line_may_be_long_and_come_in_many_pieces() -> None:
    text = "long " * 20_000
    line = lines(frame(text))
    pieces = [line[start : start + 4093] for start in range(0, len(line), 4093)]
    assert streamed(*pieces, END).text == text


def test_fault_62_only_line_feeds_end_a_line() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"
    assert streamed(frame(text), END).text == text
    raw = '{"message":{"content":"a\u2028b\u0085c"},"done":false}\n'.encode()
    assert streamed(raw, END).text == "a\u2028b\u0085c"


def test_fault_63_a_character_may_come_in_two_pieces() -> None:
    line = lines(frame("漢字🙂"))
    pieces = [line[place : place + 1] for place in range(len(line))]
    assert streamed(*pieces, END).text == "漢字🙂"


def test_fault_75_a_proxy_in_the_environment_hinders_no_import_and_no_loopback_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    code = "from teff_providers_ollama import OllamaProvider; OllamaProvider()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert plain(json_answer({"message": {"content": "Hello"}, "done": True})).text == "Hello"


def test_fault_76_loopback_addresses_are_reached_without_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost")
    monkeypatch.setenv("no_proxy", "localhost")
    assert streamed(frame("Hello"), END).text == "Hello"


def test_fault_77_nothing_is_asked_before_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    provider = OllamaProvider()
    assert provider.capabilities.choices
    with pytest.raises(ProviderError, match="Start it with: ollama serve"):
        asyncio.run(provider.models())


@pytest.mark.parametrize(
    ("status", "words", "hint", "permanent"),
    [
        (400, "m does not support tools", "ollama show qwen3:8b", True),
        (400, '"m" does not support thinking', "Set think to false", True),
        (400, "m does not support chat", "no chat model", True),
        (401, "unauthorized", "ollama signin", True),
        (404, 'model "m" not found, try pulling it first', "ollama pull qwen3:8b", True),
        (429, "too many requests", "too many requests", False),
        (499, "client closed", "client closed", False),
        (500, "llama runner process has terminated", "runner process", False),
        (502, "bad gateway", "bad gateway", False),
        (503, "server busy, please try again. maximum pending requests", "server busy", False),
    ],
)
def test_refusals_come_with_what_can_be_done(
    status: int, words: str, hint: str, permanent: bool
) -> None:
    error = refused(status, words, WITH_TOOLS)
    assert words in str(error)
    assert hint in str(error)
    assert (error.status, error.permanent) == (status, permanent)
