"""Characters that a server has cut in two, and what is kept of a stream that fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from teff.errors import IncompleteStream, ProviderError
from teff.messages import user
from teff.provider.protocol import ChatDelta, ChatReply, ChatRequest
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_ollama import OllamaProvider

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
HIGH, LOW, LONE = "\ud83c", "\udf0a", "\ufffd"

#: Pieces as a server sends them, and what is to be shown for each, and at the end.
CUT: list[tuple[list[str], list[str]]] = [
    (["a ", HIGH, LOW, " b"], ["a ", "🌊", " b"]),
    (["a " + HIGH, LOW + " b"], ["a ", "🌊 b"]),
    (["🌊"], ["🌊"]),
    ([HIGH, HIGH, LOW], [LONE, "🌊"]),
    ([LOW, "a"], [LONE, "a"]),
    ([HIGH, "a"], [LONE + "a"]),
    (["a", HIGH], ["a", LONE]),
    ([HIGH], [LONE]),
    ([HIGH, "", LOW], ["🌊"]),
]
each_cut = pytest.mark.parametrize(("pieces", "shown"), CUT)


def frame(text: str = "", done: bool = False, **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text, **fields}, "done": done}


END = frame(done=True)


def frames(
    *lines: object, then: Any = "keep", content_type: str = "application/x-ndjson"
) -> Answer:
    """Return a stream of these frames; texts are written as they are."""
    texts = [line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines]
    pieces = [text.encode() for text in texts]
    return stream_answer(pieces, content_type=content_type, then=then)


def stream(answer: Answer, request: ChatRequest = REQUEST) -> list[ChatDelta]:
    async def ask(server: ReplayServer) -> list[ChatDelta]:
        return [each async for each in OllamaProvider(base_url=server.url).stream(request)]

    return run_with_server(ask, answer)


def chat(body: object) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        return await OllamaProvider(base_url=server.url).chat(REQUEST)

    return run_with_server(ask, json_answer(body))


def failure(answer: Answer) -> tuple[ProviderError, str]:
    """Return what a stream failed with, and what it had shown before."""
    shown: list[str] = []

    async def ask(server: ReplayServer) -> None:
        async for each in OllamaProvider(base_url=server.url).stream(REQUEST):
            shown.append(each.text)

    with pytest.raises(ProviderError) as info:
        run_with_server(ask, answer)
    return info.value, "".join(shown)


# --- Halves of characters ------------------------------------------------------------------------


@each_cut
def test_halves_of_a_character_are_joined(pieces: Sequence[str], shown: Sequence[str]) -> None:
    *deltas, last = stream(frames(*map(frame, pieces), END))
    assert [delta.text for delta in deltas] == shown
    assert last.reply is not None
    assert last.reply.text == "".join(shown)


@each_cut
def test_halves_of_a_character_in_the_last_frame_are_joined(
    pieces: Sequence[str], shown: Sequence[str]
) -> None:
    *deltas, last = stream(frames(*map(frame, pieces[:-1]), frame(pieces[-1], done=True)))
    assert "".join(delta.text for delta in deltas) == "".join(shown)
    assert last.reply is not None
    assert last.reply.text == "".join(shown)


@each_cut
def test_halves_of_a_character_in_the_reasoning_are_joined(
    pieces: Sequence[str], shown: Sequence[str]
) -> None:
    *deltas, last = stream(frames(*(frame(thinking=piece) for piece in pieces), END))
    assert [delta.thinking for delta in deltas] == shown
    assert last.reply is not None
    assert (last.reply.thinking, last.reply.text) == ("".join(shown), "")


def test_text_and_reasoning_wait_for_halves_of_their_own() -> None:
    *deltas, _ = stream(
        frames(frame(thinking=HIGH), frame(HIGH), frame(thinking=LOW), frame(LOW, done=True))
    )
    assert [(delta.thinking, delta.text) for delta in deltas] == [("🌊", ""), ("", "🌊")]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("arguments", "city"),
    [
        ({"city": "🌊"}, "🌊"),
        ({"city": HIGH}, LONE),
        ({"city": LOW + "a"}, LONE + "a"),
        ({"city": [HIGH]}, [LONE]),
        (r'{"city": "\ud83c\udf0a"}', "🌊"),
        (r'{"city": "\ud83c"}', LONE),
    ],
)
def test_arguments_have_no_halves(streamed: bool, arguments: object, city: object) -> None:
    body = frame(done=True, tool_calls=[{"function": {"name": "find", "arguments": arguments}}])
    reply = stream(frames(body))[-1].reply if streamed else chat(body)
    assert reply is not None
    (call,) = reply.tool_calls
    assert (call.arguments, call.error) == ({"city": city}, "")


def test_a_choice_has_no_halves() -> None:
    request = attrs.evolve(REQUEST, choices=["a 🌊", "b"])
    pieces = stream(frames(frame("a " + HIGH), frame(LOW, done=True)), request)
    assert [piece.text for piece in pieces] == ["a 🌊", ""]


def test_a_whole_reply_has_no_halves() -> None:
    reply = chat(frame("a" + HIGH, done=True, thinking=LOW))
    assert (reply.text, reply.thinking) == ("a" + LONE, LONE)


# --- Streams that fail ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("{malformed\n", r"no JSON \(.*\); it says: {malformed"),
        ("[1]\n", "no JSON object"),
        ({"error": "runner died"}, "runner died"),
        ({"message": {"content": 3}}, "cannot be read: its content is int"),
        (frame(tool_calls=[{"function": {}}]), "without saying which"),
        ({**END, "done_reason": "error"}, "the model failed"),
    ],
)
def test_a_stream_that_fails_tells_the_text_that_was_shown(last: object, said: str) -> None:
    error, shown = failure(frames(frame("Hel"), frame("lo"), last))
    assert error.partial == shown == "Hello"
    with pytest.raises(ProviderError, match=said):
        raise error


def test_half_a_character_is_not_among_what_was_shown() -> None:
    error, shown = failure(frames(frame("Hel"), frame(HIGH), then="close"))
    assert isinstance(error, IncompleteStream)
    assert error.partial == shown == "Hel"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_what_is_no_stream_is_told(content_type: str, end: str) -> None:
    error, _ = failure(frames("{malformed json: yes" + end, content_type=content_type))
    assert not isinstance(error, IncompleteStream)
    assert "no JSON" in str(error)
    assert "it says: {malformed json: yes" in str(error)


def test_a_first_frame_that_is_cut_off_is_an_incomplete_stream() -> None:
    error, _ = failure(frames('{"message": {"con'))
    assert isinstance(error, IncompleteStream)


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_stream_of_another_type_is_one_all_the_same(content_type: str) -> None:
    *_, last = stream(frames(frame("Hel"), frame("lo"), END, content_type=content_type))
    assert last.reply is not None
    assert last.reply.text == "Hello"
    cut = frames(frame("Hel"), '{"message": {"con', content_type=content_type)
    error, shown = failure(cut)
    assert isinstance(error, IncompleteStream)
    assert error.partial == shown == "Hel"


def test_a_body_that_is_empty_is_an_incomplete_stream() -> None:
    error, _ = failure(frames(content_type="application/json"))
    assert isinstance(error, IncompleteStream)
