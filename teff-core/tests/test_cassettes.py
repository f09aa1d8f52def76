"""Cassettes: what was recorded is answered again, nothing else is, and no key is in the file."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff import LLM, Flow
from teff.errors import ConfigError, IncompleteStream, ProviderError, TruncatedOutput
from teff.messages import Message, ModelUsage, ToolCall, assistant, user
from teff.provider import Capabilities, ChatDelta, ChatReply, ChatRequest, Provider, ToolSpec
from teff.provider.http import HttpClient
from teff.provider.keys import names_a_secret
from teff.state import freeze
from teff.testing import (
    ScriptedAnswer,
    ScriptedProvider,
    after,
    call_tool,
    cassette,
    fail,
    pieces,
    record,
    replay,
    say,
    when,
)
from teff.testing.cassette_file import canonical, request_to_json
from teff.testing.differences import fits
from teff.testing.masking import masked
from teff.testing.server import ReplayServer, json_answer, run_with_server

CANARY = "canary-8f3d2a-never-written"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassettes" / "x.json"


def request(text: str = "Hi", **fields: Any) -> ChatRequest:
    return ChatRequest(**{"model": "m", "messages": [user(text)], **fields})


def ask(provider: Provider, *requests: ChatRequest) -> list[ChatReply]:
    async def chat() -> list[ChatReply]:
        return [await provider.chat(each) for each in requests or (request(),)]

    return asyncio.run(chat())


def stream(provider: Provider, asked: ChatRequest | None = None) -> list[ChatDelta]:
    async def read() -> list[ChatDelta]:
        return [delta async for delta in provider.stream(asked or request())]

    return asyncio.run(read())


def failure(call: Callable[[], object]) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        call()
    return raised.value


# What was recorded is answered again.


def test_a_conversation_is_recorded_and_answered_again(path: Path) -> None:
    asked = [
        request("1+2?", tools=[ToolSpec(name="add", description="Adds.")]),
        request("1+2?", messages=[user("1+2?"), assistant("", [ToolCall(id="1", name="add")])]),
        request("x", json_schema={"type": "object"}, temperature=0.5, options={"seed": 7}),
    ]
    answers: list[ScriptedAnswer] = [
        call_tool("add", {"a": 1, "b": 2}),
        say("3", thinking="hm"),
        "{}",
    ]
    first = ask(record(ScriptedProvider(answers, name="big"), path), *asked)
    with replay(path) as provider:
        assert ask(provider, *asked) == first
    assert provider.name == "big"
    assert provider.requests == asked


def test_the_capabilities_are_those_of_the_recording(path: Path) -> None:
    can = Capabilities(streaming=False, choices=True)
    recording = record(ScriptedProvider(["x"], capabilities=can), path)
    ask(recording)
    assert recording.capabilities == replay(path).capabilities == can


def test_requests_that_are_alike_are_answered_in_their_order(path: Path) -> None:
    asked = [request("a"), request("b"), request("a")]
    ask(record(ScriptedProvider(["1", "2", "3"]), path), *asked)
    replies = ask(replay(path), request("b"), request("a"), request("a"))
    assert [reply.text for reply in replies] == ["2", "1", "3"]


def test_requests_at_the_same_time_are_recorded_in_the_order_in_which_they_were_made(
    path: Path,
) -> None:
    async def both(provider: Provider) -> list[ChatReply]:
        return await asyncio.gather(*(provider.chat(request("a")) for _ in range(2)))

    asyncio.run(both(record(ScriptedProvider([after(0.02, "slow"), "quick"]), path)))
    assert [reply.text for reply in asyncio.run(both(replay(path)))] == ["slow", "quick"]


def test_streams_have_the_same_pieces_and_the_same_end(path: Path) -> None:
    answer = pieces(ChatDelta(thinking="hm"), "Hel", "lo", ", \n", then=call_tool("look"))
    first = stream(record(ScriptedProvider([answer]), path))
    assert stream(replay(path)) == first
    assert ask(replay(path)) == [first[-1].reply]


def test_a_whole_reply_can_be_streamed(path: Path) -> None:
    ask(record(ScriptedProvider([say("Hello to you", thinking="hm")]), path))
    piece, last = stream(replay(path))
    assert (piece.text, piece.thinking) == ("Hello to you", "hm")
    assert last.reply is not None


def test_a_reader_that_leaves_with_the_last_piece_has_a_whole_recording(path: Path) -> None:
    async def read(provider: Provider) -> ChatReply | None:
        async for delta in provider.stream(request()):
            if delta.reply is not None:
                return delta.reply
        return None

    reply = asyncio.run(read(record(ScriptedProvider(["Hello to you"]), path)))
    assert asyncio.run(read(replay(path))) == reply


def test_a_stream_that_was_left_early_can_be_left_early_again_but_not_read_on(path: Path) -> None:
    async def first_piece(provider: Provider) -> str:
        source = provider.stream(request())
        text = (await anext(source)).text
        await source.aclose()  # type: ignore[attr-defined]
        return text

    assert asyncio.run(first_piece(record(ScriptedProvider(["Hello to you"]), path))) == "Hello "
    assert asyncio.run(first_piece(replay(path))) == "Hello "
    with pytest.raises(AssertionError, match="left before its end"):
        stream(replay(path))


ERRORS = [
    fail(429, "slow down", retry_after=2.5),
    fail(400),
    IncompleteStream("cut", partial="Hel"),
    TruncatedOutput("too long", partial="{", status=200, permanent=True),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_are_recorded_and_raised_again(path: Path, error: ProviderError) -> None:
    script = ScriptedProvider([error, "fine"])
    recording = record(script, path)
    failure(lambda: ask(recording))
    ask(recording)
    provider = replay(path)
    again = failure(lambda: ask(provider))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))
    assert ask(provider)[0].text == "fine"


def test_an_error_after_some_pieces_comes_after_them_again(path: Path) -> None:
    async def texts(provider: Provider) -> list[str]:
        heard: list[str] = []
        with pytest.raises(IncompleteStream, match="cut"):
            async for delta in provider.stream(request()):
                heard.append(delta.text)
        return heard

    broken = pieces("Hel", "lo", then=IncompleteStream("cut"))
    assert asyncio.run(texts(record(ScriptedProvider([broken]), path))) == ["Hel", "lo"]
    assert asyncio.run(texts(replay(path))) == ["Hel", "lo"]
    failure(lambda: ask(replay(path)))


def test_errors_of_a_plugin_are_raised_again_as_what_they_derive_from(path: Path) -> None:
    class Overloaded(IncompleteStream):
        pass

    failure(lambda: ask(record(ScriptedProvider([Overloaded("x", partial="y")]), path)))
    assert type(failure(lambda: ask(replay(path)))) is IncompleteStream


def test_what_is_no_answer_of_the_provider_is_not_recorded(path: Path) -> None:
    recording = record(ScriptedProvider([ConfigError("no key"), "x"]), path)
    with pytest.raises(ConfigError):
        ask(recording)
    assert not path.exists()
    ask(recording)
    assert len(json.loads(path.read_text())["exchanges"]) == 1


def test_a_workflow_runs_from_a_cassette_under_the_name_of_its_provider(path: Path) -> None:
    def run(model: Provider) -> Any:
        flow = Flow(providers={"openai": model}, default_provider="openai", default_model="m")
        flow.step(LLM(prompt="Capital of {country}?", output_key="capital"))
        return asyncio.run(flow.compile().run({"country": "France"}))

    assert run(record(ScriptedProvider(["Paris."]), path))["capital"] == "Paris."
    assert run(replay(path))["capital"] == "Paris."


def test_values_of_the_state_are_recorded_as_plain_json(path: Path) -> None:
    messages = freeze([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])
    ask(record(ScriptedProvider(["x"]), path), request(messages=messages))
    assert ask(replay(path), request(messages=tuple(messages)))[0].text == "x"


def test_a_text_may_be_left_open_by_hand(path: Path) -> None:
    asked = [request("Today is Monday, 7:30."), request("Today is Monday, 7:30.")]
    ask(record(ScriptedProvider(["1", "2"]), path), *asked)
    path.write_text(path.read_text().replace("Monday, 7:30", "***", 1))
    days = ["Friday", "Monday, 7:30"]
    replies = ask(replay(path), *(request(f"Today is {day}.") for day in days))
    assert [reply.text for reply in replies] == ["1", "2"]
    with pytest.raises(AssertionError, match=r"was 'Today is \*\*\*\.' and is 'Was it Friday"):
        ask(replay(path), request("Was it Friday?"))


@given(
    parts=st.lists(st.text("ab", max_size=3), min_size=1, max_size=4),
    text=st.text("ab", max_size=9),
)
def test_stars_in_a_recorded_text_stand_for_any_text(parts: list[str], text: str) -> None:
    pattern = ".*".join(map(re.escape, parts))
    assert fits("***".join(parts), text) is (re.fullmatch(pattern, text) is not None)


def test_how_long_a_call_may_take_is_not_asked(path: Path) -> None:
    ask(record(ScriptedProvider(["x"]), path), request(timeout=5.0, deadline=3.2))
    assert ask(replay(path), request(timeout=60.0))[0].text == "x"


# Nothing else is.


def test_a_request_that_was_not_recorded_says_how_it_differs_from_the_nearest(path: Path) -> None:
    asked = [request("Where is it?"), request("Who are you?", temperature=0.5)]
    ask(record(ScriptedProvider(["1", "2"]), path), *asked)
    with pytest.raises(AssertionError) as raised:
        ask(replay(path), request("Who were you?", max_tokens=9))
    assert str(raised.value) == (
        f"cassette {path} does not have request 1. The nearest, exchange 1, differs: "
        "messages[0].content was 'Where is it?' and is 'Who were you?'; "
        "max_tokens was not there and is 9. "
        "Where that is meant, delete the file and record it again (TEFF_RECORD=1)."
    )


def test_of_long_texts_the_place_is_shown_where_they_part(path: Path) -> None:
    long = "All work and no play makes Jack a dull boy. " * 20
    ask(record(ScriptedProvider(["1"]), path), request(f"{long}Today is Monday. {long}"))
    with pytest.raises(AssertionError) as raised:
        ask(replay(path), request(f"{long}Today is Friday. {long}"))
    assert "was '… dull boy. Today is Monday. " in str(raised.value)
    assert "is '… dull boy. Today is Friday. " in str(raised.value)
    assert len(str(raised.value)) < 500 + len(str(path))


def test_many_differences_are_counted(path: Path) -> None:
    ask(record(ScriptedProvider(["1"]), path), request(options={str(n): n for n in range(9)}))
    with pytest.raises(AssertionError, match="5 more places differ"):
        ask(replay(path), request())


def test_an_answer_is_given_once(path: Path) -> None:
    ask(record(ScriptedProvider(["1"]), path))
    with pytest.raises(AssertionError, match="has request 2 only once, and it is asked once more"):
        ask(replay(path), request(), request())


def test_answers_that_were_not_asked_for_fail_the_block(path: Path) -> None:
    ask(record(ScriptedProvider(["1", "2"]), path), request("a"), request("b"))
    with (
        pytest.raises(AssertionError, match="1 answer was never asked for, .* to 'b'"),
        replay(path) as provider,
    ):
        ask(provider, request("a"))


def test_a_request_that_was_missed_fails_the_block_even_if_the_error_was_caught(path: Path) -> None:
    ask(record(ScriptedProvider(["1"]), path), request("a"))
    with (
        pytest.raises(AssertionError, match="does not have request 1"),
        replay(path) as provider,
    ):
        with pytest.raises(AssertionError):
            ask(provider, request("b"))
        ask(provider, request("a"))


def test_an_error_on_its_way_out_of_the_block_is_not_hidden(path: Path) -> None:
    ask(record(ScriptedProvider(["1"]), path))
    with pytest.raises(KeyError), replay(path):
        raise KeyError


# The file.


def test_the_file_is_readable_and_holds_only_what_was_said(path: Path) -> None:
    ask(record(ScriptedProvider(["Zürich."], name="big"), path), request("Größte Stadt?"))
    assert (
        path.read_text(encoding="utf-8")
        == """{
  "version": 1,
  "provider": "big",
  "capabilities": {
    "streaming": true,
    "tools": true,
    "choices": true,
    "json_schema": true,
    "schema_with_tools": false,
    "alternating": false
  },
  "exchanges": [
    {
      "request": {
        "model": "m",
        "messages": [
          {
            "role": "user",
            "content": "Größte Stadt?"
          }
        ]
      },
      "reply": {
        "text": "Zürich.",
        "usage": {
          "prompt_tokens": 10,
          "completion_tokens": 1,
          "total_tokens": null
        },
        "model": "m"
      }
    }
  ]
}
"""
    )


def test_the_same_recording_gives_the_same_file_and_nothing_beside_it(path: Path) -> None:
    ask(record(ScriptedProvider(["a", "b"]), path), request("1"), request("2"))
    first = path.read_bytes()
    ask(record(ScriptedProvider(["a", "b"]), path), request("1"), request("2"))
    assert path.read_bytes() == first
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_draft(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(record(ScriptedProvider(["a"]), path))
    first = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            ask(record(ScriptedProvider(["b"]), path))
    assert path.read_bytes() == first
    assert list(path.parent.iterdir()) == [path]


def test_the_file_stays_where_it_was_named_when_the_test_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = record(ScriptedProvider(["a"]), "x.json")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    ask(recording)
    assert (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no cassette: Expecting"),
        ("[]", "of no version, and this Teff reads version 1"),
        ('{"version": 2}', "of version 2, and this Teff reads version 1. Record it again"),
        ('{"version": 1}', "is damaged at provider: KeyError"),
        ('{"version": 1, "provider": "p", "capabilities": 1}', "is damaged at capabilities"),
        (
            '{"version": 1, "provider": "p", "capabilities": {}, "exchanges": [{"request": {}}]}',
            r"is damaged at exchanges\[0\]: ValueError: it has neither a reply nor an error",
        ),
        (
            '{"version": 1, "provider": "p", "capabilities": {}, '
            '"exchanges": [{"request": {}, "error": {"type": "SystemExit", "message": ""}}]}',
            r"is damaged at exchanges\[0\]: KeyError: 'SystemExit'",
        ),
    ],
)
def test_a_file_that_cannot_be_read_says_why(path: Path, text: str, message: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as raised:
        replay(path)
    assert str(raised.value).startswith(str(path))


def test_a_cassette_that_is_not_there_says_so(path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no cassette .*x.json"):
        replay(path)


def test_arguments_in_the_wrong_order_say_the_right_one(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"record\(provider, path\)"):
        record(path, ScriptedProvider())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"cassette\(path, provider\)"):
        cassette(ScriptedProvider(), path)  # type: ignore[arg-type]


# `cassette`: replay, record, or say what to do.


def test_without_a_file_it_says_how_to_record_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (None, "", "0", "no"):
        monkeypatch.delenv("TEFF_RECORD", raising=False)
        if value is not None:
            monkeypatch.setenv("TEFF_RECORD", value)
        with pytest.raises(ConfigError, match="there is no cassette .* TEFF_RECORD=1"):
            cassette(path, ScriptedProvider())


def test_it_records_where_it_is_told_to_and_then_asks_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEFF_RECORD", "1")
    with cassette(path, lambda: ScriptedProvider(["x"])) as model:
        ask(model)
    with cassette(path, lambda: pytest.fail("it is not made")) as model:
        assert ask(model)[0].text == "x"


def test_a_recording_closes_its_provider() -> None:
    provider = ScriptedProvider()
    asyncio.run(record(provider, "unused.json").aclose())
    assert provider.closed
    assert not Path("unused.json").exists()


# No keys.


class WireProvider:
    """A provider over HTTP, as plugins are, that sends and echoes keys wherever it can."""

    name = "wire"
    capabilities = Capabilities()
    api_key_env = "LLM_OF_MINE"

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.headers = {"X-Team-Token": f"team-{CANARY}"}
        self._http = HttpClient("wire")

    async def chat(self, request: ChatRequest) -> ChatReply:
        headers = {**self.headers, "Authorization": f"Bearer {os.environ[self.api_key_env]}"}
        body = {"model": request.model, "messages": [*request.messages]}
        data = await self._http.post_json(self.base_url, body, headers=headers, timeout=5.0)
        return ChatReply(text=data["text"])

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        reply = await self.chat(request)
        middle = len(reply.text) // 2
        yield ChatDelta(text=reply.text[:middle])
        yield ChatDelta(text=reply.text[middle:])
        yield ChatDelta(reply=reply)

    async def aclose(self) -> None:
        await self._http.aclose()


def test_a_key_that_the_server_echoes_is_not_in_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("httpx")
    monkeypatch.setenv("LLM_OF_MINE", CANARY)

    async def exchange(server: ReplayServer) -> None:
        provider = record(WireProvider(server.url), path)
        with pytest.raises(ProviderError):
            await provider.chat(request())
        await provider.chat(request(f"my key is {CANARY}"))
        assert [d async for d in provider.stream(request())]
        await provider.aclose()
        assert CANARY in server.requests[0].headers["authorization"]

    text = f"key {CANARY} of team-{CANARY}"
    answers = [
        json_answer({"error": {"message": f"wrong {text}"}}, status=401, headers={"X-Echo": text}),
        json_answer({"text": text}),
        json_answer({"text": CANARY}),
    ]
    run_with_server(exchange, *answers)
    written = path.read_text()
    assert "canary" not in written
    assert "never-written" not in written
    assert '"status": 401' in written
    provider = replay(path)
    assert "wrong key" in str(failure(lambda: ask(provider)))
    assert ask(provider, request(f"my key is {CANARY}"))[0].text == "key *** of ***"
    assert [delta.text for delta in stream(provider) if delta.text] == ["***"]


def test_a_request_with_a_key_in_it_is_found_under_another_key(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", CANARY)
    ask(record(ScriptedProvider(["x"]), path), request(f"use {CANARY}"))
    assert CANARY not in path.read_text()
    monkeypatch.setenv("SOME_API_KEY", "another-key-1234")
    assert ask(replay(path), request("use another-key-1234"))[0].text == "x"


def test_a_key_from_a_function_is_known(path: Path) -> None:
    provider: Any = ScriptedProvider([f"your key is {CANARY}"])
    provider.api_key = lambda: CANARY
    ask(record(provider, path))
    assert "your key is ***" in path.read_text()


def test_headers_among_the_options_are_not_written_but_the_rest_is(path: Path) -> None:
    options = {"extra_headers": {"Authorization": "x1y2", "X-Team": "red"}, "seed": 7}
    ask(record(ScriptedProvider(["x"]), path), request(options=options))
    asked = json.loads(path.read_text())["exchanges"][0]["request"]
    headers = {"Authorization": "***", "X-Team": "red"}
    assert asked["options"] == {"extra_headers": headers, "seed": 7}
    other = {"extra_headers": {"Authorization": "z9", "X-Team": "red"}, "seed": 7}
    assert ask(replay(path), request(options=other))[0].text == "x"


def test_arguments_of_tools_are_written_whatever_their_names(path: Path) -> None:
    call = call_tool("remember", {"key": "favourite colour", "token": "blue"})
    ask(record(ScriptedProvider([call]), path))
    assert ask(replay(path)) == [call]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abc123def456ghi789", "Authorization: Bearer ***"),
        ("authorization=Token99887766", "authorization=***"),
        ('{"x-api-key": "9f8e7d6c5b4a"}', '{"x-api-key": "***"}'),
        ("OPENAI_API_KEY=proj-1234567890", "OPENAI_API_KEY=***"),
        ("use sk-proj-abcDEF0123456789abcd, please", "use ***, please"),
        ("gsk_0123456789abcdefABCDEF", "***"),
        ("ghp_0123456789abcdefABCDEF0123", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.abc_def-123", "***"),
        ("Basic dXNlcjpwYXNzd29yZDE=", "Basic ***"),
    ],
)
def test_what_looks_like_a_key_is_masked_wherever_it_stands(text: str, left: str) -> None:
    assert masked(f"({text})", []) == f"({left})"
    assert masked(masked(text, []), []) == masked(text, [])


@pytest.mark.parametrize(
    "text",
    [
        "The bearer responsibilities and basic internationalization are yours.",
        "api_key: required",
        "Set the API key in the settings of authorization.",
        "a risk-assessment-of-2024-for-everyone",
        "Bearer ***",
        "Use skills, ask-me-anything",
    ],
)
def test_prose_is_left_alone(text: str) -> None:
    assert masked(text, []) == text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("HF_TOKEN", True),
        ("Proxy-Authorization", True),
        ("Set-Cookie", True),
        ("db.password", True),
        ("TOKENIZERS_PARALLELISM", False),
        ("KEYBOARD", False),
        ("X-Request-Id", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert names_a_secret(name) is secret


# The package.


def test_the_package_loads_nothing_heavy_and_its_replay_is_the_function() -> None:
    program = """
import sys, teff.testing
print(*sorted({"hypothesis", "httpx", "pytest", "yaml", "anyio"} & set(sys.modules)))
import teff.testing.server
from teff.testing.server import ReplayServer
from teff.testing import replay
print(callable(replay))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\nTrue\n", "")


# Properties.

texts = st.text(max_size=12)
replies = st.builds(
    ChatReply,
    text=texts,
    thinking=texts,
    tool_calls=st.lists(
        st.builds(
            ToolCall,
            id=texts,
            name=texts,
            arguments=st.dictionaries(texts, st.integers() | texts | st.lists(texts), max_size=3),
            error=texts,
        ),
        max_size=2,
    ).map(tuple),
    finish_reason=texts,
    usage=st.builds(ModelUsage, prompt_tokens=st.none() | st.integers(0, 9)),
    model=texts,
)
requests = st.builds(
    ChatRequest,
    model=texts,
    messages=st.lists(
        st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": texts}),
        min_size=1,
        max_size=3,
    ),
    choices=st.none() | st.lists(texts, max_size=2),
    stop=st.lists(texts, max_size=2),
    temperature=st.none() | st.floats(0, 1),
)


@given(exchanges=st.lists(st.tuples(requests, replies), min_size=1, max_size=4))
def test_whatever_was_said_is_answered_again(
    tmp_path_factory: pytest.TempPathFactory, exchanges: list[tuple[ChatRequest, ChatReply]]
) -> None:
    path = tmp_path_factory.mktemp("x") / "x.json"
    asked = [request for request, _ in exchanges]
    said = [reply for _, reply in exchanges]
    ask(record(ScriptedProvider(said), path), *asked)
    with replay(path) as provider:
        assert ask(provider, *asked) == said


@given(parts=st.lists(texts.filter(bool), max_size=5), end=replies)
def test_whatever_was_streamed_is_streamed_again(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], end: ChatReply
) -> None:
    path = tmp_path_factory.mktemp("x") / "x.json"
    first = stream(record(ScriptedProvider([pieces(*parts, then=end)]), path))
    assert stream(replay(path)) == first


@given(cuts=st.lists(st.integers(0, len(CANARY)), max_size=4), around=st.tuples(texts, texts))
def test_a_key_is_found_however_a_stream_cuts_it(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], around: tuple[str, str]
) -> None:
    path = tmp_path_factory.mktemp("x") / "x.json"
    borders = [0, *sorted(cuts), len(CANARY)]
    parts = [CANARY[a:b] for a, b in zip(borders, borders[1:], strict=False)]
    provider: Any = ScriptedProvider([pieces(around[0], *parts, around[1])])
    provider.api_key = lambda: CANARY
    stream(record(provider, path))
    heard = "".join(delta.text for delta in stream(replay(path)))
    assert CANARY not in heard
    assert heard == f"{around[0]}***{around[1]}"


@given(one=requests, other=requests)
def test_requests_are_alike_exactly_where_they_are_equal(
    one: ChatRequest, other: ChatRequest
) -> None:
    def key(asked: ChatRequest) -> str:
        return canonical(request_to_json(asked, ()))

    def normal(asked: ChatRequest) -> Mapping[str, Any]:
        return {"choices": asked.choices, "stop": asked.stop, "rest": (asked.model, asked.messages)}

    same = normal(one) == normal(other) and one.temperature == other.temperature
    assert (key(one) == key(other)) is same


def test_rules_record_like_lists(path: Path) -> None:
    messages: list[Message] = [user("refund")]
    ask(record(ScriptedProvider([when("refund", "billing")]), path), request(messages=messages))
    assert ask(replay(path), request("refund"))[0].text == "billing"
