"""A server that fails on demand, with the shapes of OpenAI and of Ollama: the npm package aimock.

Installed by ``nox -s e2e``, which says where in ``TEFF_E2E_AIMOCK``. What it answers is scripted by
each test, see https://aimock.copilotkit.dev/fixtures; its journal holds what it was asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import attrs
import httpx
import pytest

from teff import LLM, Flow
from teff.errors import IncompleteStream, ProviderError, TruncatedOutput
from teff.harness import Harness
from teff.messages import user
from teff.provider import ChatReply, Provider
from teff.runtime import StreamEvent
from teff.tool import tool
from teff_providers_ollama import OllamaProvider
from teff_providers_openai import OpenAIProvider
from teff_providers_openai.azure import AzureProvider

pytestmark = pytest.mark.e2e

MAIN = Path("@copilotkit", "aimock", "dist", "aimock-cli.js")

FORECAST = "It rains in Riga today, and the sun comes back tomorrow."


@attrs.frozen
class Aimock:
    """The server: what it shall answer, and what it was asked."""

    url: str
    client: httpx.Client

    def script(self, *fixtures: dict[str, Any]) -> None:
        added = self.client.post("/__aimock/fixtures", json={"fixtures": fixtures})
        assert added.status_code == 200, added.text

    def exchanges(self) -> list[tuple[dict[str, Any], int]]:
        """Return body and status of every request."""
        entries = self.client.get("/__aimock/journal").json()
        return [(entry["body"], entry["response"]["status"]) for entry in entries]

    def statuses(self) -> list[int]:
        return [status for _, status in self.exchanges()]

    def provider(self, kind: str, **options: Any) -> Provider:
        if kind == "ollama":
            return OllamaProvider(base_url=self.url, **options)
        return OpenAIProvider(base_url=f"{self.url}/v1", **options)

    def harness(self, kind: str, **settings: Any) -> Harness:
        providers = {name: self.provider(name) for name in ("openai", "ollama")}
        return Harness(**{"model": "m", "provider": kind, "providers": providers, **settings})

    def flow(self, kind: str) -> Flow:
        providers = {kind: self.provider(kind)}
        return Flow(providers=providers, default_provider=kind, default_model="m")


@pytest.fixture(scope="module")
def aimock_url(
    start_server: Callable[..., str],
    cannot_run: Callable[[str], NoReturn],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    modules, node = os.environ.get("TEFF_E2E_AIMOCK"), shutil.which("node")
    if modules == "":
        pytest.skip("npm was not there to install aimock with")
    if not modules or not node or not Path(modules, MAIN).is_file():
        cannot_run("there is no aimock: node, or the folder that TEFF_E2E_AIMOCK names")
    config = tmp_path_factory.mktemp("aimock") / "config.json"
    config.write_text(json.dumps({"llm": {}}))
    return start_server(node, str(Path(modules, MAIN)), "--config", str(config), "--port", "0")


@pytest.fixture
def aimock(aimock_url: str) -> Iterator[Aimock]:
    with httpx.Client(base_url=aimock_url, trust_env=False) as client:
        assert client.post("/__aimock/reset").json() == {"reset": True}
        yield Aimock(aimock_url, client)


each_kind = pytest.mark.parametrize("kind", ["openai", "ollama"])
each_way = pytest.mark.parametrize("stream", [False, True])


def says(
    text: str, *, match: dict[str, Any] | None = None, fields: Any = None, **how: Any
) -> dict[str, Any]:
    """Return a fixture: an answer, and how it is streamed."""
    return {"match": match or {}, "response": {"content": text, **(fields or {})}, **how}


def refuses(status: int, *, match: dict[str, Any] | None = None, **error: Any) -> dict[str, Any]:
    wait = {"retryAfter": error.pop("retry_after")} if "retry_after" in error else {}
    described = {"message": "not now", "type": "server_error", **error}
    return {"match": match or {}, "response": {"error": described, "status": status, **wait}}


def first(**match: Any) -> dict[str, Any]:
    """Return a condition that holds for the first of several requests."""
    return {"sequenceIndex": 0, **match}


@attrs.define
class Asked:
    """What came of a call: its reply, the pieces that were shown, and its events."""

    reply: ChatReply | None = None
    tokens: list[str] = attrs.field(factory=list)
    error: Exception | None = None


def ask(harness: Harness, *, stream: bool = False, **options: Any) -> Asked:
    asked = Asked()
    call = harness.call(
        [user("How is the weather?")], stream=stream, on_token=asked.tokens.append, **options
    )
    try:
        asked.reply = asyncio.run(call)
    except ProviderError as error:
        asked.error = error
    return asked


def text_of(asked: Asked) -> str:
    assert asked.error is None, asked.error
    assert asked.reply is not None
    return asked.reply.text


def run(flow: Flow, **options: Any) -> tuple[Any, list[StreamEvent]]:
    events: list[StreamEvent] = []
    state = {"input": "How is the weather in Riga?"}
    result = asyncio.run(flow.compile().run(state, emit=events.append, **options))
    return result, events


def of_type(events: list[StreamEvent], type_: str) -> list[Mapping[str, Any]]:
    return [event.data for event in events if event.type == type_]


# --- Answers -------------------------------------------------------------------------------------


@each_kind
@each_way
def test_a_question_is_answered(aimock: Aimock, kind: str, stream: bool) -> None:
    aimock.script(says(FORECAST, chunkSize=5))
    asked = ask(aimock.harness(kind), stream=stream)
    assert text_of(asked) == FORECAST
    assert "".join(asked.tokens) == (FORECAST if stream else "")
    assert not stream or len(asked.tokens) > 1
    assert asked.reply is not None
    assert asked.reply.finish_reason == "stop"
    ((body, status),) = aimock.exchanges()
    assert (body["model"], body["stream"], status) == ("m", stream, 200)
    assert body["messages"] == [{"role": "user", "content": "How is the weather?"}]


@each_way
def test_tokens_are_those_that_the_server_counted(aimock: Aimock, stream: bool) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    aimock.script(says(FORECAST, fields={"usage": usage}))
    asked = ask(aimock.harness("openai"), stream=stream)
    assert asked.reply is not None
    assert (asked.reply.usage.prompt_tokens, asked.reply.usage.completion_tokens) == (11, 7)


@each_kind
@each_way
def test_text_comes_as_it_was_sent(aimock: Aimock, kind: str, stream: bool) -> None:
    text = "naïve 青い海 \u2028 \u0085 \x0b \r\n \ufeff {} data: [DONE] \n\n end"
    aimock.script(says(text, chunkSize=1))
    asked = ask(aimock.harness(kind), stream=stream)
    assert text_of(asked) == text
    assert "".join(asked.tokens) == (text if stream else "")


@each_kind
def test_a_character_that_comes_in_two_halves_is_whole(aimock: Aimock, kind: str) -> None:
    # Servers that count UTF-16 units may cut between the two of a pair.
    aimock.script(says("a 🌊 b", chunkSize=1))
    asked = ask(aimock.harness(kind), stream=True)
    assert text_of(asked) == "".join(asked.tokens) == "a 🌊 b"


@each_way
def test_reasoning_is_kept_apart(aimock: Aimock, stream: bool) -> None:
    # Of Ollama's shape it would come in a field that Ollama does not have.
    aimock.script(says(FORECAST, fields={"reasoning": "Look out of the window."}))
    asked = ask(aimock.harness("openai", model="o3"), stream=stream)
    assert text_of(asked) == FORECAST
    assert "window" not in "".join(asked.tokens)
    assert asked.reply is not None
    assert asked.reply.thinking == "Look out of the window."


@each_way
def test_openrouter_is_understood(aimock: Aimock, stream: bool) -> None:
    fields = {"reasoning": "Look out.", "provider": "Anyone", "usage": {"cost": 0.0021}}
    aimock.script(says(FORECAST, fields=fields, chunkSize=5, openRouterProcessing=True))
    provider = OpenAIProvider(preset="openrouter", base_url=f"{aimock.url}/api/v1")
    harness = Harness(model="openai/o3", provider="p", providers={"p": provider})
    asked = ask(harness, stream=stream)
    assert text_of(asked) == FORECAST
    assert asked.reply is not None
    assert (asked.reply.thinking, asked.reply.finish_reason) == ("Look out.", "stop")


@each_way
@pytest.mark.parametrize("version", ["", "2024-10-21"])
def test_azure_is_understood(aimock: Aimock, stream: bool, version: str) -> None:
    aimock.script(says(FORECAST, chunkSize=5))
    provider = AzureProvider(
        name="azure", endpoint=aimock.url, deployment="my-gpt", api_version=version
    )
    harness = Harness(model="gpt", provider="azure", providers={"azure": provider})
    assert text_of(ask(harness, stream=stream)) == FORECAST
    ((body, status),) = aimock.exchanges()
    assert (body["model"], status) == ("my-gpt", 200)


@each_kind
def test_the_models_are_listed(aimock: Aimock, kind: str) -> None:
    aimock.script(says(FORECAST, match={"model": "tiny"}))
    provider = aimock.provider(kind)
    models = asyncio.run(provider.models())  # type: ignore[attr-defined]  # it lists models
    assert "tiny" in [model.name for model in models]


@each_kind
@each_way
def test_an_agent_calls_tools_and_answers(aimock: Aimock, kind: str, stream: bool) -> None:
    calls = [
        {"name": "get_weather", "arguments": {"city": "Riga", "days": 2}},
        {"name": "get_weather", "arguments": {"city": "Tartu \u2028 «ü»", "days": 3}},
        {"name": "say_nothing", "arguments": {}},
    ]
    aimock.script(
        {"match": {"hasToolResult": False}, "response": {"toolCalls": calls}, "chunkSize": 3},
        says(FORECAST, match={"hasToolResult": True}),
    )
    told: list[Any] = []

    @tool(register=False)
    def get_weather(city: str, days: int) -> str:
        """Get the weather of a city."""
        told.append((city, days))
        return f"rain in {city}"

    @tool(register=False)
    def say_nothing() -> str:
        """Say nothing."""
        told.append(None)
        return "nothing"

    flow = aimock.flow(kind).harness(use_tools="all", stream=stream)
    result, events = run(flow, tools=[get_weather, say_nothing])
    assert result["output"] == FORECAST
    assert sorted(told, key=str) == sorted([("Riga", 2), ("Tartu \u2028 «ü»", 3), None], key=str)
    assert len(of_type(events, "llm")) == 2
    tokens = "".join(data["token"] for data in of_type(events, "token"))
    assert tokens == (FORECAST if stream else "")
    second = aimock.exchanges()[1][0]["messages"]
    results = [message["content"] for message in second if message["role"] == "tool"]
    assert results == ["rain in Riga", "rain in Tartu \u2028 «ü»", "nothing"]


# --- Refusals ------------------------------------------------------------------------------------


@each_kind
@each_way
def test_a_busy_server_is_asked_again_when_it_says(aimock: Aimock, kind: str, stream: bool) -> None:
    busy = refuses(429, match=first(), message="slow down", retry_after=0.1)
    aimock.script(busy, says(FORECAST))
    flow = aimock.flow(kind).step(LLM(input_key="input", stream=stream))
    result, events = run(flow)
    assert result["output"] == FORECAST
    (retry,) = of_type(events, "llm_retry")
    assert retry["wait"] == 0.1
    assert "slow down" in retry["error"]
    assert aimock.statuses() == [429, 200]


@each_kind
def test_a_wait_that_is_too_long_is_not_waited_for(aimock: Aimock, kind: str) -> None:
    aimock.script(refuses(429, retry_after=600), says(FORECAST))
    asked = ask(aimock.harness(kind))
    assert isinstance(asked.error, ProviderError)
    assert (asked.error.status, asked.error.retry_after) == (429, 600)
    assert aimock.statuses() == [429]


@each_kind
def test_a_quota_that_is_used_up_is_not_asked_again(aimock: Aimock, kind: str) -> None:
    spent = refuses(429, match=first(), code="insufficient_quota", retry_after=0.1)
    aimock.script(spent, says(FORECAST))
    asked = ask(aimock.harness(kind))
    assert isinstance(asked.error, ProviderError)
    assert asked.error.permanent
    assert aimock.statuses() == [429]


@each_kind
@each_way
def test_a_server_that_fails_is_asked_again(aimock: Aimock, kind: str, stream: bool) -> None:
    aimock.script(refuses(500, match=first()), says(FORECAST))
    assert text_of(ask(aimock.harness(kind), stream=stream)) == FORECAST
    assert aimock.statuses() == [500, 200]


@each_kind
@each_way
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_told_at_once(aimock: Aimock, kind: str, stream: bool, status: int) -> None:
    aimock.script(refuses(status, message="the context is too long"))
    asked = ask(aimock.harness(kind), stream=stream)
    assert isinstance(asked.error, ProviderError)
    assert asked.error.status == status
    assert "the context is too long" in str(asked.error)
    assert asked.error.provider == kind
    assert aimock.statuses() == [status]


@each_kind
@each_way
def test_a_body_that_is_no_json_is_no_answer(aimock: Aimock, kind: str, stream: bool) -> None:
    aimock.script(says(FORECAST, chaos={"malformedRate": 1}))
    asked = ask(aimock.harness(kind, max_retries=0), stream=stream)
    assert isinstance(asked.error, ProviderError)
    assert asked.tokens == []


@each_kind
@each_way
def test_a_connection_that_is_dropped_is_opened_again(
    aimock: Aimock, kind: str, stream: bool
) -> None:
    dropped = says(FORECAST, match=first(), chaos={"disconnectRate": 1})
    aimock.script(dropped, says(FORECAST))
    assert text_of(ask(aimock.harness(kind), stream=stream)) == FORECAST


# --- Streams -------------------------------------------------------------------------------------


@each_kind
def test_a_slow_stream_is_heard_to_its_end(aimock: Aimock, kind: str) -> None:
    # The whole takes longer than may pass between two events.
    aimock.script(says(FORECAST, chunkSize=5, latency=100))
    asked = ask(aimock.harness(kind, timeout=0.8), stream=True)
    assert text_of(asked) == "".join(asked.tokens) == FORECAST


@each_kind
def test_a_stream_that_falls_silent_is_given_up(aimock: Aimock, kind: str) -> None:
    silent = {"ttft": 0, "tps": 0.2}
    aimock.script(says(FORECAST, chunkSize=5, streamingProfile=silent))
    asked = ask(aimock.harness(kind, timeout=0.3, max_retries=0), stream=True)
    assert isinstance(asked.error, IncompleteStream)
    assert "sent no event for 0.3 seconds" in str(asked.error)
    assert asked.error.partial == "".join(asked.tokens)


@each_kind
def test_a_stream_that_is_cut_is_no_answer(aimock: Aimock, kind: str) -> None:
    aimock.script(says(FORECAST, chunkSize=5, latency=30, truncateAfterChunks=5))
    asked = ask(aimock.harness(kind), stream=True)
    assert isinstance(asked.error, IncompleteStream)
    assert asked.reply is None
    assert asked.error.partial == "".join(asked.tokens) != ""
    assert FORECAST.startswith(asked.error.partial)
    # Something was shown, so it was not asked again.
    assert aimock.statuses() == [200]


@each_kind
def test_a_run_does_not_go_on_with_a_stream_that_was_cut(aimock: Aimock, kind: str) -> None:
    aimock.script(says(FORECAST, chunkSize=5, latency=30, truncateAfterChunks=5))
    events: list[StreamEvent] = []
    flow = aimock.flow(kind).step(LLM(input_key="input", stream=True))
    with pytest.raises(IncompleteStream) as caught:
        asyncio.run(flow.compile().run({"input": "Weather?"}, emit=events.append))
    tokens = "".join(data["token"] for data in of_type(events, "token"))
    assert caught.value.partial == tokens != ""
    assert of_type(events, "llm") == []


@each_kind
def test_calls_of_a_stream_that_was_cut_are_not_carried_out(aimock: Aimock, kind: str) -> None:
    blocks = [
        {"type": "text", "text": "I look."},
        {"type": "toolCall", "name": "delete_all", "arguments": {"sure": True}},
        {"type": "toolCall", "name": "delete_all", "arguments": {"sure": True}},
    ]
    # Nearly everything, but not what says that it is whole.
    chunks = {"openai": 6, "ollama": 3}[kind]
    aimock.script(
        {
            "match": {},
            "response": {"blocks": blocks},
            "chunkSize": 100,
            "latency": 30,
            "truncateAfterChunks": chunks,
        }
    )
    told: list[bool] = []

    @tool(register=False)
    def delete_all(sure: bool) -> str:
        """Delete everything."""
        told.append(sure)
        return "gone"

    flow = aimock.flow(kind).harness(use_tools="all", stream=True)
    with pytest.raises(IncompleteStream):
        run(flow, tools=[delete_all])
    assert told == []


# --- Fallbacks -----------------------------------------------------------------------------------

OTHER = {"openai": "ollama", "ollama": "openai"}


@each_kind
@each_way
@pytest.mark.parametrize("status", [429, 500])
def test_the_other_provider_is_asked_where_one_fails(
    aimock: Aimock, kind: str, stream: bool, status: int
) -> None:
    failing = refuses(status, match={"model": "first"}, retry_after=0.1)
    aimock.script(failing, says(FORECAST, match={"model": "second"}))
    harness = aimock.harness(
        kind, model="first", fallbacks=[f"{OTHER[kind]}/second"], max_retries=0
    )
    asked = ask(harness, stream=stream)
    assert text_of(asked) == FORECAST
    assert "".join(asked.tokens) == (FORECAST if stream else "")
    assert [body["model"] for body, _ in aimock.exchanges()] == ["first", "second"]


@each_kind
@each_way
def test_the_other_provider_is_asked_where_one_is_silent(
    aimock: Aimock, kind: str, stream: bool
) -> None:
    hanging = says("Too late.", match={"model": "first"}, chaos={"latencyMs": 3000})
    aimock.script(hanging, says(FORECAST, match={"model": "second"}))
    harness = aimock.harness(
        kind, model="first", timeout=0.3, fallbacks=[f"{OTHER[kind]}/second"], max_retries=0
    )
    assert text_of(ask(harness, stream=stream)) == FORECAST


@each_kind
def test_nobody_else_is_asked_once_something_was_shown(aimock: Aimock, kind: str) -> None:
    cut = says(FORECAST, match={"model": "first"}, chunkSize=5, latency=30, truncateAfterChunks=5)
    aimock.script(cut, says("Sunny.", match={"model": "second"}))
    harness = aimock.harness(kind, model="first", fallbacks=[f"{OTHER[kind]}/second"])
    asked = ask(harness, stream=True)
    assert isinstance(asked.error, IncompleteStream)
    assert [body["model"] for body, _ in aimock.exchanges()] == ["first"]


@each_kind
def test_nobody_else_is_asked_after_a_refusal(aimock: Aimock, kind: str) -> None:
    aimock.script(refuses(400, match={"model": "first"}), says("Sunny.", match={"model": "second"}))
    harness = aimock.harness(kind, model="first", fallbacks=[f"{OTHER[kind]}/second"])
    assert isinstance(ask(harness).error, ProviderError)
    assert aimock.statuses() == [400]


# --- Answers of a form ---------------------------------------------------------------------------

PLACE = {"city": "string", "days": "integer"}


@each_kind
@each_way
def test_an_answer_is_read_and_checked(aimock: Aimock, kind: str, stream: bool) -> None:
    aimock.script(
        says('```json\n{"city": "Riga"}\n```', match={"turnIndex": 0}),
        says('{"city": "Riga", "days": 2}', match={"turnIndex": 1}),
    )
    flow = aimock.flow(kind).step(LLM(input_key="input", output_type=PLACE, stream=stream))
    result, events = run(flow)
    assert result["output"] == {"city": "Riga", "days": 2}
    assert [data["errors"] for data in of_type(events, "structured")] == [
        ["'days' is a required property"]
    ]


@each_way
def test_an_answer_that_was_cut_off_is_not_taken(aimock: Aimock, stream: bool) -> None:
    whole = '{"city": "Riga", "days": 2}'
    aimock.script(says(whole, fields={"finishReason": "length"}))
    flow = aimock.flow("openai").step(LLM(input_key="input", output_type=PLACE, stream=stream))
    with pytest.raises(TruncatedOutput):
        run(flow)
