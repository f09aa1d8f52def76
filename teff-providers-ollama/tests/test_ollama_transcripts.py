"""Exchanges recorded from servers with Ollama's API, replayed byte for byte and cut at every byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.errors import ProviderError
from teff.messages import user
from teff.provider.protocol import ChatReply, ChatRequest
from teff.provider.sse import NdjsonParser
from teff.testing.server import ReplayServer, cut_at, run_with_server
from teff_providers_ollama import OllamaProvider
from teff_providers_ollama.reply import ReplyBuilder

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "transcripts"
REQUEST = ChatRequest(model="m", messages=[user("Hi")])
#: Every exchange about a chat, with Ollama's API.
CHATS = sorted(
    path.name.removesuffix(".response.http")
    for path in TRANSCRIPTS.glob("*ollama*.response.http")
    if b"POST /api/chat " in path.with_name(path.name.replace("response", "request")).read_bytes()
)
STREAMS = [
    "aimock_ollama_04_chat_stream_ndjson",
    "ollamaproxy_04_chat_stream",
    "ollamaproxy_06_tools_stream",
]

pytestmark = pytest.mark.skipif(
    not TRANSCRIPTS.is_dir(), reason="the recorded exchanges are in the workspace alone"
)


def recorded(name: str, part: str = "http") -> bytes:
    return (TRANSCRIPTS / f"{name}.response.{part}").read_bytes()


def recorded_request(name: str) -> bytes:
    return (TRANSCRIPTS / f"{name}.request.http").read_bytes()


def outcomes(
    response: bytes, cuts: Iterable[list[int]], *, stream: bool, request: ChatRequest = REQUEST
) -> list[ChatReply | ProviderError]:
    """Return what comes out of a response, for each list of places at which it is cut."""
    answers = [cut_at(response, places) for places in cuts]

    async def ask(provider: OllamaProvider) -> ChatReply:
        if not stream:
            return await provider.chat(request)
        *pieces, last = [delta async for delta in provider.stream(request)]
        assert last.reply is not None
        assert "".join(piece.text for piece in pieces) == last.reply.text
        return last.reply

    async def ask_all(server: ReplayServer) -> list[ChatReply | ProviderError]:
        provider = OllamaProvider(base_url=server.url)
        results: list[ChatReply | ProviderError] = []
        for _ in answers:
            try:
                results.append(await ask(provider))
            except ProviderError as error:
                results.append(error)
        return results

    return run_with_server(ask_all, *answers)


def replayed(name: str, *, stream: bool = False, request: ChatRequest = REQUEST) -> ChatReply:
    [result] = outcomes(recorded(name), [[]], stream=stream, request=request)
    assert isinstance(result, ChatReply), result
    return result


def refused(name: str, *, stream: bool = False) -> ProviderError:
    [result] = outcomes(recorded(name), [[]], stream=stream)
    assert isinstance(result, ProviderError)
    return result


def test_a_plain_answer() -> None:
    reply = replayed("ollamaproxy_03_chat")
    assert reply.text.startswith("I'm so glad you're here.")
    assert (reply.finish_reason, reply.model) == ("stop", "local/smollm2-135m")
    assert attrs.astuple(reply.usage) == (2, 15, 17)
    assert replayed("aimock_ollama_03_chat_nostream").text == "Hello from the mock."


def test_a_streamed_answer() -> None:
    reply = replayed("ollamaproxy_04_chat_stream", stream=True)
    assert reply.text.startswith("I'm so glad you're here.")
    assert replayed(STREAMS[0], stream=True).text == "Hello from the mock."


def test_counts_of_zero_are_known() -> None:
    reply = replayed("aimock_ollama_03_chat_nostream")
    assert attrs.astuple(reply.usage) == (0, 0, 0)


def test_a_tool_call_without_an_id_gets_one() -> None:
    reply = replayed("aimock_ollama_05_tools_nostream")
    [call] = reply.tool_calls
    assert (call.name, call.arguments, reply.finish_reason) == (
        "get_weather",
        {"city": "Paris"},
        "tool_calls",
    )
    assert len(call.id) == 9


def test_an_answer_in_a_format() -> None:
    assert replayed("ollamaproxy_09_format_schema").text == '{\n  "next": "technical"\n}'


def test_an_error_in_the_last_frame_of_a_stream() -> None:
    error = refused("ollamaproxy_06_tools_stream", stream=True)
    assert "Failed to parse messages: Missing tool call type" in str(error)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("aimock_ollama_07_429", 429, "Rate limited"),
        ("aimock_ollama_08_500_stream", 500, "Internal"),
        ("ollamaproxy_07_bad_model", 500, "Internal Server Error"),
        ("llamacpp_14_unknown_path_404", 404, "File Not Found. Is this a server of Ollama?"),
    ],
)
def test_refusals_in_the_words_of_the_server(
    name: str, status: int, words: str, stream: bool
) -> None:
    error = refused(name, stream=stream)
    assert error.status == status
    assert words in str(error)
    assert error.permanent == (status == 404)
    assert error.retry_after == (1.0 if status == 429 else None)


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_hangs_up_is_an_error(stream: bool) -> None:
    assert "broke the connection" in str(refused("aimock_ollama_10_stream_cut", stream=stream))


def same(reply: ChatReply | ProviderError) -> object:
    if isinstance(reply, ProviderError):
        # The port of the server is another one each time.
        return type(reply), re.sub(r":[0-9]+/", "/", str(reply)), reply.status
    # Ids that the server left out are made, and differ.
    return attrs.evolve(reply, tool_calls=[attrs.evolve(each, id="") for each in reply.tool_calls])


def read_in_pieces(pieces: list[bytes]) -> object:
    """Return what becomes of the body of a stream: the reply, or the last words of a failure."""
    parser, builder = NdjsonParser(), ReplyBuilder(REQUEST)
    lines = [line for piece in pieces for line in parser.feed(piece)] + parser.close()
    for line in lines:
        frame = json.loads(line)
        if "error" in frame:
            return frame
        builder.add(frame)
    assert builder.is_whole
    # Ids that the server left out are made, and differ.
    return attrs.evolve(builder.reply(), tool_calls=())


@pytest.mark.parametrize("name", STREAMS)
def test_a_reply_is_the_same_wherever_the_body_is_cut(name: str) -> None:
    body = recorded(name, "body")
    whole = read_in_pieces([body])
    for cut in range(len(body)):
        assert read_in_pieces([body[:cut], body[cut:]]) == whole, cut


def test_all_recorded_chats_are_replayed() -> None:
    assert len(CHATS) == 11
    assert set(STREAMS) <= set(CHATS)


@pytest.mark.parametrize("name", CHATS)
def test_an_exchange_is_the_same_one_byte_at_a_time(name: str) -> None:
    response = recorded(name)
    stream = b'"stream": false' not in recorded_request(name)  # the default of servers
    whole, cut = outcomes(response, [[], list(range(len(response)))], stream=stream)
    assert same(whole) == same(cut)


def test_a_short_stream_is_the_same_wherever_it_is_cut() -> None:
    response = recorded("aimock_ollama_04_chat_stream_ndjson")
    places = [[place] for place in range(len(response))]
    first, *others = outcomes(response, places, stream=True)
    assert [same(other) for other in others] == [same(first)] * len(others)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_long_stream_is_the_same_wherever_it_is_cut(data: st.DataObject) -> None:
    response = recorded("ollamaproxy_04_chat_stream")
    places = data.draw(st.lists(st.integers(1, len(response) - 1), max_size=12))
    results = outcomes(response, [[], places], stream=True)
    assert same(results[0]) == same(results[1])


@pytest.mark.parametrize("name", STREAMS[:2])
def test_no_stream_that_breaks_off_passes_for_an_answer(name: str) -> None:
    response = recorded(name)
    body, end = response.index(b"\r\n\r\n") + 4, response.rindex(b"}")
    for length in range(body, end, max(1, (end - body) // 40)):
        [result] = outcomes(response[:length], [[]], stream=True)
        assert isinstance(result, ProviderError), length
