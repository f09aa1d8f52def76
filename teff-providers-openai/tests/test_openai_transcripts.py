"""Exchanges recorded from real servers, replayed byte for byte and cut at every byte."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.errors import IncompleteStream, ProviderError
from teff.messages import user
from teff.provider.protocol import ChatDelta, ChatReply, ChatRequest, ModelInfo
from teff.provider.sse import SseParser
from teff.testing.server import ReplayServer, cut_at
from teff_providers_openai import OpenAIProvider

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "transcripts"
REQUEST = ChatRequest(model="m", messages=[user("Hi")])
STREAMS = [
    "aimock_openai_01_tools_stream",
    "litellm_mock-ok_stream",
    "llamacpp_03_chat_stream_usage",
    "llamacpp_06_tools_required_stream",
    "llmock_stream_maybe_truncated_2",
]
PLAIN = [
    "aimock_openai_02_429",
    "aimock_openai_03_stream_cut",
    "litellm_mock-429",
    "litellm_mock-500",
    "litellm_mock-ok",
    "litellm_nope",
    "llamacpp_05_tools_required",
    "llamacpp_07_json_schema",
    "llamacpp_08_json_schema_truncated_max_tokens",
    "llamacpp_10_context_overflow",
    "llamacpp_11_context_overflow_stream",
    "llamacpp_12_malformed_json",
    "llamacpp_14_unknown_path_404",
    "llamacpp_16_tool_result_roundtrip",
    "llamacpp_19_grammar",
    "llamacpp_20_tooltmpl_auto",
    "llamacpp_21_tooltmpl_required",
    "llamacpp_23_tooltmpl_parallel",
    "llamacpp_24_tooltmpl_truncated",
    "llamacpp_25_tooltmpl_named_choice",
    "llamacpp_26_tooltmpl_result_roundtrip",
    "llamacpp_27_tools_plus_schema",
    "llamacpp_30_tool_call_structured",
    "llamacpp_32_tool_call_truncated_arguments",
    "llamacpp_33_after_tool_result",
    "llmock_tools",
]
LISTS = ["llamacpp_01_models"]

pytestmark = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason="the recorded exchanges are in the workspace alone"
)


def recorded(name: str, part: str = "http") -> bytes:
    return (TRANSCRIPTS / f"{name}.response.{part}").read_bytes()


def outcomes(
    response: bytes, cuts: Iterable[list[int]], *, stream: bool, request: ChatRequest = REQUEST
) -> list[ChatReply | ProviderError]:
    """Return what comes out of a response, for each list of places at which it is cut."""
    answers = [cut_at(response, places) for places in cuts]

    async def ask(provider: OpenAIProvider) -> ChatReply:
        if not stream:
            return await provider.chat(request)
        return whole([delta async for delta in provider.stream(request)])

    async def main() -> list[ChatReply | ProviderError]:
        async with ReplayServer(*answers) as server:
            provider = OpenAIProvider(base_url=server.url)
            results: list[ChatReply | ProviderError] = []
            for _ in answers:
                try:
                    results.append(await ask(provider))
                except ProviderError as error:
                    results.append(error)
            await provider.aclose()
            return results

    return asyncio.run(main())


def whole(deltas: list[ChatDelta]) -> ChatReply:
    """Return the reply at the end of a stream, which the pieces before it add up to."""
    *pieces, last = deltas
    assert last.reply is not None
    assert all(piece.reply is None for piece in pieces)
    assert "".join(piece.text for piece in deltas) == last.reply.text
    assert "".join(piece.thinking for piece in deltas) == last.reply.thinking
    return last.reply


def replayed(name: str, *, stream: bool = False, request: ChatRequest = REQUEST) -> ChatReply:
    [result] = outcomes(recorded(name), [[]], stream=stream, request=request)
    assert isinstance(result, ChatReply), result
    return result


def refused(name: str, *, stream: bool = False) -> ProviderError:
    [result] = outcomes(recorded(name), [[]], stream=stream)
    assert isinstance(result, ProviderError)
    return result


def test_every_recorded_exchange_of_this_format_is_replayed() -> None:
    servers = ("aimock_openai", "litellm", "llamacpp", "llmock")
    found = {path.name.removesuffix(".response.http") for path in TRANSCRIPTS.glob("*.http")}
    ours = {name for name in found if name.startswith(servers) and "request" not in name}
    assert ours == {*STREAMS, *PLAIN, *LISTS}


def test_the_models_of_a_server() -> None:
    async def main() -> list[ModelInfo]:
        async with ReplayServer(recorded("llamacpp_01_models")) as server:
            provider = OpenAIProvider(base_url=server.url)
            models = list(await provider.models())
            await provider.aclose()
            return models

    assert asyncio.run(main()) == [ModelInfo(name="smollm2-135m", details="llamacpp, 2048 tokens")]


def test_a_plain_answer() -> None:
    reply = replayed("litellm_mock-ok")
    assert reply.text == "billing"
    assert reply.finish_reason == "stop"
    assert reply.model == "mock-ok"
    assert attrs.astuple(reply.usage) == (10, 20, 30)


def test_a_streamed_answer() -> None:
    reply = replayed("litellm_mock-ok_stream", stream=True)
    assert (reply.text, reply.finish_reason) == ("billing", "stop")


def test_a_streamed_answer_with_its_usage() -> None:
    reply = replayed("llamacpp_03_chat_stream_usage", stream=True)
    assert reply.text.startswith("Je suis")
    assert reply.finish_reason == "length"
    assert attrs.astuple(reply.usage) == (41, 24, 65)


def test_a_stream_that_ends_cleanly_but_too_early_is_incomplete() -> None:
    error = refused("llmock_stream_maybe_truncated_2", stream=True)
    assert isinstance(error, IncompleteStream)
    assert "before the answer was whole" in str(error)
    assert error.partial.startswith("Simulated answer from gpt-")


def test_streamed_tool_calls_are_put_together() -> None:
    reply = replayed("aimock_openai_01_tools_stream", stream=True)
    [call] = reply.tool_calls
    assert (call.id, call.name, call.arguments) == (
        "call_LgMGpRAr3-d8dwIu",
        "get_weather",
        {"city": "Paris"},
    )
    assert (reply.finish_reason, reply.text) == ("tool_calls", "")


@pytest.mark.parametrize(
    ("name", "city"), [("llmock_tools", "mock-city"), ("llamacpp_30_tool_call_structured", "Paris")]
)
def test_tool_calls_of_a_whole_answer(name: str, city: str) -> None:
    reply = replayed(name)
    [call] = reply.tool_calls
    assert (call.name, call.arguments, call.error) == ("get_weather", {"city": city}, "")
    assert reply.finish_reason == "tool_calls"


def test_a_tool_call_that_was_cut_off_is_marked() -> None:
    reply = replayed("llamacpp_32_tool_call_truncated_arguments")
    [call] = reply.tool_calls
    assert "not whole JSON" in call.error
    assert reply.finish_reason == "length"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("llamacpp_05_tools_required", "length"),
        ("llamacpp_07_json_schema", "stop"),
        ("llamacpp_08_json_schema_truncated_max_tokens", "length"),
        ("llamacpp_16_tool_result_roundtrip", "length"),
        ("llamacpp_19_grammar", "stop"),
        ("llamacpp_20_tooltmpl_auto", "length"),
        ("llamacpp_21_tooltmpl_required", "length"),
        ("llamacpp_23_tooltmpl_parallel", "length"),
        ("llamacpp_24_tooltmpl_truncated", "length"),
        ("llamacpp_25_tooltmpl_named_choice", "stop"),
        ("llamacpp_26_tooltmpl_result_roundtrip", "stop"),
        ("llamacpp_27_tools_plus_schema", "length"),
        ("llamacpp_33_after_tool_result", "stop"),
    ],
)
def test_other_answers_are_text_with_the_reason_of_their_end(name: str, reason: str) -> None:
    reply = replayed(name)
    assert reply.text
    assert not reply.tool_calls
    assert reply.finish_reason == reason
    assert reply.usage.total == reply.usage.total_tokens


def test_a_choice_under_a_grammar_is_bare() -> None:
    choices = ChatRequest(model="m", messages=[user("?")], choices=["billing", "technical"])
    assert replayed("llamacpp_19_grammar", request=choices).text == "billing"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("aimock_openai_02_429", 429, "Rate limited"),
        ("litellm_mock-429", 429, "this is a mock rate limit error"),
        ("litellm_mock-500", 500, "this is a mock internal server error"),
        ("litellm_nope", 400, "Invalid model name passed in model=nope"),
        ("llamacpp_10_context_overflow", 400, "exceeds the available context size (2048 tokens)"),
        ("llamacpp_11_context_overflow_stream", 400, "request (4031 tokens) exceeds"),
        ("llamacpp_12_malformed_json", 400, "syntax error while parsing value"),
        ("llamacpp_14_unknown_path_404", 404, "File Not Found. Is base_url complete?"),
    ],
)
def test_refusals_in_the_words_of_the_server(
    name: str, status: int, words: str, stream: bool
) -> None:
    error = refused(name, stream=stream)
    assert error.status == status
    assert words in str(error)
    assert error.permanent == (status < 429)


def test_a_rate_limit_says_how_long_to_wait() -> None:
    assert refused("aimock_openai_02_429").retry_after == 1.0
    assert refused("litellm_mock-429").retry_after is None


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_hangs_up_is_an_error(stream: bool) -> None:
    error = refused("aimock_openai_03_stream_cut", stream=stream)
    assert "broke the connection" in str(error)
    assert not error.permanent


def same(reply: ChatReply | ProviderError) -> object:
    return reply if isinstance(reply, ChatReply) else (type(reply), str(reply), reply.status)


@pytest.mark.parametrize("name", STREAMS)
def test_events_are_the_same_wherever_the_body_is_cut(name: str) -> None:
    body = recorded(name, "body")
    whole_events = SseParser().feed(body)
    for cut in range(len(body)):
        parser = SseParser()
        assert parser.feed(body[:cut]) + parser.feed(body[cut:]) == whole_events


@pytest.mark.parametrize("name", STREAMS)
def test_an_answer_is_the_same_one_byte_at_a_time(name: str) -> None:
    response = recorded(name)[:6000]
    results = outcomes(response, [[], list(range(len(response)))], stream=True)
    assert same(results[0]) == same(results[1])


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_answer_is_the_same_one_byte_at_a_time(name: str) -> None:
    response = recorded(name)
    results = outcomes(response, [[], list(range(len(response)))], stream=False)
    assert same(results[0]) == same(results[1])


@pytest.mark.parametrize("stream", [False, True])
def test_short_responses_are_the_same_wherever_they_are_cut(stream: bool) -> None:
    response = recorded("llamacpp_10_context_overflow")
    places = [[place] for place in range(len(response))]
    first, *others = outcomes(response, places, stream=stream)
    assert [same(other) for other in others] == [same(first)] * len(others)


@pytest.mark.parametrize("name", STREAMS)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_long_streams_are_the_same_wherever_they_are_cut(name: str, data: st.DataObject) -> None:
    response = recorded(name)
    places = data.draw(st.lists(st.integers(1, len(response) - 1), max_size=12))
    results = outcomes(response, [[], places], stream=True)
    assert same(results[0]) == same(results[1])


@pytest.mark.parametrize("name", STREAMS)
def test_no_stream_that_breaks_off_passes_for_an_answer(name: str) -> None:
    response = recorded(name)
    marks = [b'"finish_reason":"', b"[DONE]"]
    end = min((response.find(mark) for mark in marks if mark in response), default=len(response))
    body = response.index(b"\r\n\r\n") + 4
    for length in range(body, end, max(1, (end - body) // 40)):
        [result] = outcomes(response[:length], [[]], stream=True)
        assert isinstance(result, ProviderError), length
