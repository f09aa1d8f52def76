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
from teff_providers_openai import OpenAIProvider

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


def chunk(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def events(*chunks: object, then: Any = "keep") -> Answer:
    """Return a stream of these chunks; texts are written as they are."""
    pieces = [each if isinstance(each, str) else json.dumps(each) for each in chunks]
    return stream_answer([f"data: {each}\n\n".encode() for each in pieces], then=then)


def stream(answer: Answer, request: ChatRequest = REQUEST) -> list[ChatDelta]:
    async def ask(server: ReplayServer) -> list[ChatDelta]:
        return [each async for each in OpenAIProvider(base_url=server.url).stream(request)]

    return run_with_server(ask, answer)


def chat(message: dict[str, Any]) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        return await OpenAIProvider(base_url=server.url).chat(REQUEST)

    return run_with_server(ask, json_answer({"choices": [{"message": message}]}))


def failure(answer: Answer) -> tuple[ProviderError, str]:
    """Return what a stream failed with, and what it had shown before."""
    shown: list[str] = []

    async def ask(server: ReplayServer) -> None:
        async for each in OpenAIProvider(base_url=server.url).stream(REQUEST):
            shown.append(each.text)

    with pytest.raises(ProviderError) as info:
        run_with_server(ask, answer)
    return info.value, "".join(shown)


# --- Halves of characters ------------------------------------------------------------------------


@each_cut
@pytest.mark.parametrize("ends_with", [[chunk("stop"), "[DONE]"], [chunk("stop")], ["[DONE]"]])
def test_halves_of_a_character_are_joined(
    pieces: Sequence[str], shown: Sequence[str], ends_with: list[Any]
) -> None:
    *deltas, last = stream(events(*(chunk(content=piece) for piece in pieces), *ends_with))
    assert [delta.text for delta in deltas] == shown
    assert last.reply is not None
    assert last.reply.text == "".join(shown)


@each_cut
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_halves_of_a_character_in_the_reasoning_are_joined(
    pieces: Sequence[str], shown: Sequence[str], field: str
) -> None:
    *deltas, last = stream(events(*(chunk(**{field: piece}) for piece in pieces), chunk("stop")))
    assert [delta.thinking for delta in deltas] == shown
    assert last.reply is not None
    assert (last.reply.thinking, last.reply.text) == ("".join(shown), "")


def test_text_and_reasoning_wait_for_halves_of_their_own() -> None:
    answer = events(
        chunk(reasoning=HIGH), chunk(content=HIGH), chunk(reasoning=LOW), chunk("stop", content=LOW)
    )
    *deltas, last = stream(answer)
    assert [(delta.thinking, delta.text) for delta in deltas] == [("🌊", ""), ("", "🌊")]
    assert last.reply is not None
    assert (last.reply.thinking, last.reply.text) == ("🌊", "🌊")


def test_a_half_waits_over_a_tool_call() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "now", "arguments": "{}"}}
    *deltas, last = stream(
        events(chunk(content=HIGH), chunk(tool_calls=[call]), chunk("stop", content=LOW))
    )
    assert [delta.text for delta in deltas] == ["🌊"]
    assert last.reply is not None
    assert last.reply.tool_calls


@pytest.mark.parametrize(
    ("pieces", "city"),
    [
        (['{"city": "' + HIGH, LOW + '"}'], "🌊"),
        ([r'{"city": "\ud83c', r'\udf0a"}'], "🌊"),
        ([r'{"city": "\ud8', r'3c\udf0a"}'], "🌊"),
        (['{"city": "' + HIGH, '"}'], LONE),
        ([r'{"city": "\ud83c"}'], LONE),
        ([r'{"city": "\udf0a"'], LONE),  # the bracket was lost on the way
    ],
)
def test_arguments_have_no_halves(pieces: Sequence[str], city: str) -> None:
    calls = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    calls[0] |= {"id": "a"}
    calls[0]["function"] |= {"name": "find"}  # type: ignore[operator]
    *_, last = stream(events(*(chunk(tool_calls=[call]) for call in calls), chunk("stop")))
    assert last.reply is not None
    (call,) = last.reply.tool_calls
    assert (call.arguments, call.error) == ({"city": city}, "")


def test_reasoning_that_goes_back_has_no_halves() -> None:
    details = [{"type": "reasoning.text", "index": 0, "text": text} for text in (HIGH, LOW, HIGH)]
    call = {"index": 0, "id": "a", "function": {"name": "now", "arguments": "{}"}}
    *_, last = stream(
        events(
            *(chunk(reasoning_details=[detail]) for detail in details),
            chunk("stop", tool_calls=[call]),
        )
    )
    assert last.reply is not None
    assert "🌊" + LONE in json.dumps(last.reply.tool_calls[0].to_json(), ensure_ascii=False)
    json.dumps(last.reply.tool_calls[0].to_json(), ensure_ascii=False).encode()


def test_a_choice_has_no_halves() -> None:
    request = attrs.evolve(REQUEST, choices=["a 🌊", "b"])
    pieces = stream(events(chunk(content="a " + HIGH), chunk("stop", content=LOW)), request)
    assert [piece.text for piece in pieces] == ["a 🌊", ""]


def test_a_whole_reply_has_no_halves() -> None:
    reply = chat({"content": "a" + HIGH, "reasoning": LOW})
    assert (reply.text, reply.thinking) == ("a" + LONE, LONE)
    assert chat({"content": [{"text": HIGH}, {"text": LOW}]}).text == "🌊"


# --- Streams that fail ---------------------------------------------------------------------------

HEL, LO = chunk(content="Hel"), chunk(content="lo")


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("{malformed", r"no JSON \(.*\); it says: {malformed"),
        ("[1]", "no JSON object"),
        ({"error": {"message": "too long", "code": 400}}, "too long"),
        ({"choices": "none"}, "cannot be read: its choices are str"),
        (chunk("error"), "the model failed"),
    ],
)
def test_a_stream_that_fails_tells_the_text_that_was_shown(last: object, said: str) -> None:
    error, shown = failure(events(HEL, LO, last))
    assert error.partial == shown == "Hello"
    with pytest.raises(ProviderError, match=said):
        raise error


def test_half_a_character_is_not_among_what_was_shown() -> None:
    error, shown = failure(events(HEL, chunk(content=HIGH), then="close"))
    assert isinstance(error, IncompleteStream)
    assert error.partial == shown == "Hel"


def test_a_stream_that_fails_at_once_has_shown_nothing() -> None:
    error, shown = failure(events("{malformed"))
    assert error.partial == shown == ""
