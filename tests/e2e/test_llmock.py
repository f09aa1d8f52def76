"""A server that breaks answers and judges who asks: the package llmock, in its own environment.

Installed by ``nox -s e2e``, which says where in ``TEFF_E2E_LLMOCK``, the path of its Python. What
it does is scripted by each test, see https://pypi.org/project/llmock/.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import attrs
import httpx
import pytest

from teff import LLM, Flow
from teff.errors import IncompleteStream, ProviderError
from teff.harness import Harness
from teff.messages import user
from teff.provider import ChatReply, ToolSpec
from teff.runtime import StreamEvent
from teff.tool import tool
from teff_providers_openai import OpenAIProvider

pytestmark = pytest.mark.e2e

FORECAST = "It rains in Riga today, and the sun comes back tomorrow, with a little wind."


@attrs.frozen
class Llmock:
    """The server: what it shall do, what it was asked, and what it thinks of who asks."""

    url: str
    client: httpx.Client

    def script(self, *behaviors: dict[str, Any]) -> None:
        added = self.client.post("/_llmock/scenario", json={"behaviors": behaviors})
        assert added.status_code == 201, added.text

    def requests(self) -> list[dict[str, Any]]:
        asked: list[dict[str, Any]] = self.client.get("/_llmock/requests").json()["requests"]
        return asked

    def statuses(self) -> list[int]:
        return [request["status"] for request in self.requests()]

    def findings(self) -> list[str]:
        """Return what the server finds wrong with how it was asked, warnings too."""
        verdict = self.client.get("/_llmock/verdict").json()
        return [finding["code"] for finding in verdict["findings"]]

    def provider(self, preset: str = "openai", path: str = "/v1") -> OpenAIProvider:
        return OpenAIProvider(preset=preset, base_url=self.url + path)

    def harness(self, **settings: Any) -> Harness:
        providers = {"p": self.provider()}
        return Harness(**{"model": "m", "provider": "p", "providers": providers, **settings})

    def flow(self) -> Flow:
        providers = {"p": self.provider()}
        return Flow(providers=providers, default_provider="p", default_model="m")


@pytest.fixture(scope="module")
def start_llmock(
    start_server: Callable[..., str], cannot_run: Callable[[str], NoReturn]
) -> Callable[..., str]:
    """Starts the server with these options."""
    python = os.environ.get("TEFF_E2E_LLMOCK", "")
    if not Path(python).is_file():
        cannot_run("there is no llmock: TEFF_E2E_LLMOCK names no Python that has it")

    def start(*options: str) -> str:
        return start_server(python, "-m", "llmock.cli", "serve", "--port", "0", *options)

    return start


@pytest.fixture(scope="module")
def llmock_url(start_llmock: Callable[..., str]) -> str:
    return start_llmock()


@pytest.fixture(scope="module")
def flaky_url(start_llmock: Callable[..., str]) -> str:
    """The URL of a server that ends about half of its streams early, in good order."""
    return start_llmock("--stream-fault", "truncate=0.5")


@pytest.fixture(scope="module")
def failing_url(start_llmock: Callable[..., str]) -> str:
    """The URL of a server that refuses every second request, for one reason or another."""
    rates = ("429=0.2", "500=0.2", "503=0.1")
    return start_llmock(*(word for rate in rates for word in ("--error-rate", rate)))


def _reset(url: str) -> Iterator[Llmock]:
    with httpx.Client(base_url=url, trust_env=False) as client:
        assert client.post("/_llmock/reset").json() == {"reset": True}
        yield Llmock(url, client)


@pytest.fixture
def llmock(llmock_url: str) -> Iterator[Llmock]:
    yield from _reset(llmock_url)


@pytest.fixture
def flaky(flaky_url: str) -> Iterator[Llmock]:
    yield from _reset(flaky_url)


@pytest.fixture
def failing(failing_url: str) -> Iterator[Llmock]:
    yield from _reset(failing_url)


each_way = pytest.mark.parametrize("stream", [False, True])


def says(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "reply", "text": text, **fields}


def breaks(kind: str, after_chunks: int, **fields: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after_chunks, **fields}


def fails(status: int, **fields: Any) -> dict[str, Any]:
    return {"type": "fail", "status": status, **fields}


@attrs.define
class Asked:
    """What came of a call: its reply, the pieces that were shown, its error."""

    reply: ChatReply | None = None
    tokens: list[str] = attrs.field(factory=list)
    error: ProviderError | None = None

    @property
    def text(self) -> str:
        assert self.error is None, self.error
        assert self.reply is not None
        return self.reply.text


async def asked_of(
    harness: Harness, *, text: str = "How is the weather?", stream: bool = False, **options: Any
) -> Asked:
    asked = Asked()
    try:
        asked.reply = await harness.call(
            [user(text)], stream=stream, on_token=asked.tokens.append, **options
        )
    except ProviderError as error:
        asked.error = error
    return asked


def ask(harness: Harness, **options: Any) -> Asked:
    return asyncio.run(asked_of(harness, **options))


def run(flow: Flow, **options: Any) -> tuple[Any, list[StreamEvent]]:
    events: list[StreamEvent] = []
    state = {"input": "How is the weather in Riga?"}
    result = asyncio.run(flow.compile().run(state, emit=events.append, **options))
    return result, events


def of_type(events: list[StreamEvent], type_: str) -> list[Mapping[str, Any]]:
    return [event.data for event in events if event.type == type_]


# --- Answers -------------------------------------------------------------------------------------


@each_way
def test_a_question_is_answered_and_counted(llmock: Llmock, stream: bool) -> None:
    llmock.script(says(FORECAST))
    asked = ask(llmock.harness(), stream=stream)
    assert asked.text == FORECAST
    assert "".join(asked.tokens) == (FORECAST if stream else "")
    assert asked.reply is not None
    assert asked.reply.usage.prompt_tokens
    assert asked.reply.usage.completion_tokens
    assert llmock.findings() == []


@each_way
@pytest.mark.parametrize(
    ("preset", "path"),
    [
        ("openai", "/v1"),
        ("groq", "/groq/openai/v1"),
        ("mistral", "/mistral/v1"),
        ("together", "/together/v1"),
    ],
)
def test_servers_of_each_preset_take_what_an_agent_sends(
    llmock: Llmock, preset: str, path: str, stream: bool
) -> None:
    told: list[tuple[str, int]] = []

    @tool(register=False)
    def get_weather(city: str, days: int) -> str:
        """Get the weather of a city."""
        told.append((city, days))
        return "rain"

    providers = {"p": llmock.provider(preset, path)}
    flow = Flow(providers=providers, default_provider="p", default_model="m")
    flow.harness("m", "You know the weather.", use_tools="all", stream=stream, temperature=0)
    result, events = run(flow, tools=[get_weather])
    ((city, days),) = told
    assert city
    assert isinstance(days, int)
    assert result["output"]
    tokens = "".join(data["token"] for data in of_type(events, "token"))
    assert tokens == (result["output"] if stream else "")
    assert llmock.statuses() == [200, 200]
    messages = llmock.requests()[1]["body"]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    assert messages[2]["tool_calls"][0]["id"] == messages[3]["tool_call_id"]


@each_way
def test_several_tools_are_called_at_once(llmock: Llmock, stream: bool) -> None:
    calls = [
        {"name": "first", "arguments": {"a": 1, "b": "«ü» \u2028"}},
        {"name": "second", "arguments": {}},
        {"name": "first", "arguments": {"a": [1, {"deep": None}]}},
    ]
    llmock.script(says("I look.", tool_calls=calls))
    tools = [ToolSpec(name="first"), ToolSpec(name="second")]
    asked = ask(llmock.harness(), stream=stream, tools=tools)
    assert asked.text == "I look."
    assert asked.reply is not None
    assert [{"name": c.name, "arguments": c.arguments} for c in asked.reply.tool_calls] == calls
    assert len({call.id for call in asked.reply.tool_calls}) == 3
    assert asked.reply.finish_reason == "tool_calls"


@each_way
def test_an_answer_fits_its_schema(llmock: Llmock, stream: bool) -> None:
    wanted = {"city": "string", "days": "integer"}
    flow = llmock.flow().step(LLM(input_key="input", output_type=wanted, stream=stream))
    result, events = run(flow)
    assert set(result["output"]) == {"city", "days"}
    assert of_type(events, "structured") == []
    assert llmock.requests()[0]["body"]["response_format"]["type"] == "json_schema"


@each_way
@pytest.mark.parametrize("kind", ["malformed_arguments", "unknown_tool"])
def test_a_broken_call_is_told_to_the_model_and_not_carried_out(
    llmock: Llmock, stream: bool, kind: str
) -> None:
    llmock.script({"type": "tool_fault", "kind": kind})
    told: list[str] = []

    @tool(register=False)
    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        told.append(city)
        return "rain"

    flow = llmock.flow().harness(use_tools="all", stream=stream)
    result, _ = run(flow, tools=[get_weather])
    assert told == []
    assert result["output"]
    assert llmock.statuses() == [200, 200]
    told_of = llmock.requests()[1]["body"]["messages"][-1]
    assert told_of["role"] == "tool"
    assert told_of["content"]


# --- Refusals ------------------------------------------------------------------------------------


@each_way
def test_the_server_finds_nothing_wrong_with_how_a_limit_is_kept(
    llmock: Llmock, stream: bool
) -> None:
    llmock.script(fails(429, retry_after=0.15, times=2), says(FORECAST))
    assert ask(llmock.harness(), stream=stream).text == FORECAST
    assert llmock.statuses() == [429, 429, 200]
    assert llmock.findings() == []


def test_the_server_finds_nothing_wrong_with_how_an_outage_is_met(llmock: Llmock) -> None:
    llmock.script(fails(503, times=None))
    asked = ask(llmock.harness())
    assert asked.error is not None
    assert asked.error.status == 503
    assert llmock.statuses() == [503, 503, 503]
    assert llmock.findings() == []


def test_the_server_finds_nothing_wrong_with_how_chance_is_met(failing: Llmock) -> None:
    async def ask_all() -> list[Asked]:
        harness = failing.harness(max_retry_wait=5)
        return await asyncio.gather(
            *(asked_of(harness, text=f"Question {number}?") for number in range(30))
        )

    outcomes = asyncio.run(ask_all())
    for asked in outcomes:
        assert asked.reply if asked.error is None else asked.error.status in {429, 500, 503}
    statuses = failing.statuses()
    assert statuses.count(200) == sum(asked.error is None for asked in outcomes)
    assert len(statuses) > len(outcomes)
    assert failing.findings() == []


@each_way
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_told_at_once(llmock: Llmock, stream: bool, status: int) -> None:
    llmock.script(fails(status, message="not like this", times=None))
    asked = ask(llmock.harness(), stream=stream)
    assert asked.error is not None
    assert asked.error.status == status
    assert "not like this" in str(asked.error)
    assert llmock.statuses() == [status]
    assert llmock.findings() == []


# --- Streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["truncate", "disconnect"])
@pytest.mark.parametrize("chunks", range(1, 8))
def test_a_stream_that_ends_early_is_no_answer(llmock: Llmock, kind: str, chunks: int) -> None:
    llmock.script(says(FORECAST, times=None), breaks(kind, chunks))
    asked = ask(llmock.harness(), stream=True)
    if asked.tokens and asked.error is None:
        # Nothing had been shown, so it was asked again.
        assert asked.text == "".join(asked.tokens) == FORECAST
        assert [request["completed"] for request in llmock.requests()] == [False, True]
        assert llmock.findings() == []
    else:
        assert isinstance(asked.error, IncompleteStream)
        assert asked.error.partial == "".join(asked.tokens) != ""
        assert FORECAST.startswith(asked.error.partial)
        assert len(llmock.requests()) == 1


def test_the_calls_of_a_stream_that_ends_early_are_not_carried_out(llmock: Llmock) -> None:
    told: list[bool] = []

    @tool(register=False)
    def delete_all(sure: bool) -> str:
        """Delete everything."""
        told.append(sure)
        return "gone"

    calls = [{"name": "delete_all", "arguments": {"sure": True}}] * 2
    outcomes = set()
    for chunks in range(1, 12):
        llmock.client.post("/_llmock/reset")
        llmock.script(
            says("I look.", tool_calls=calls), breaks("truncate", chunks), says("Done.", times=None)
        )
        flow = llmock.flow().harness(use_tools="all", stream=True, max_retries=0)
        try:
            run(flow, tools=[delete_all])
        except IncompleteStream:
            outcomes.add("incomplete")
            assert told == [], chunks
        else:
            # The stream was over before it could be broken.
            outcomes.add("whole")
            told.clear()
    assert "incomplete" in outcomes


def test_what_is_maybe_cut_is_taken_only_where_it_is_whole(flaky: Llmock) -> None:
    async def ask_all() -> list[Asked]:
        harness = flaky.harness(max_retries=0)
        return [await asked_of(harness, stream=True) for _ in range(40)]

    outcomes = asyncio.run(ask_all())
    requests = flaky.requests()
    assert len(requests) == len(outcomes) == 40
    for asked, request in zip(outcomes, requests, strict=True):
        if request["completed"]:
            assert asked.text == "".join(asked.tokens) != ""
        else:
            assert isinstance(asked.error, IncompleteStream)
            assert asked.error.partial == "".join(asked.tokens)
    assert {request["completed"] for request in requests} == {True, False}


def test_a_stream_that_is_no_json_is_no_answer(llmock: Llmock) -> None:
    llmock.script(says(FORECAST, times=None), breaks("malformed", 3))
    asked = ask(llmock.harness(), stream=True)
    assert asked.error is not None
    assert FORECAST.startswith("".join(asked.tokens))
    assert "".join(asked.tokens) != FORECAST


def test_a_stream_that_stalls_is_given_up(llmock: Llmock) -> None:
    llmock.script(says(FORECAST), breaks("stall", 3, stall_seconds=20))
    asked = ask(llmock.harness(timeout=0.3), stream=True)
    assert isinstance(asked.error, IncompleteStream)
    assert "sent no event for 0.3 seconds" in str(asked.error)
    assert asked.error.partial == "".join(asked.tokens) != ""
    # It does not wait for who has gone.
    (request,) = llmock.requests()
    assert not request["completed"]


def test_a_stream_that_pauses_is_heard_to_its_end(llmock: Llmock) -> None:
    llmock.script(
        says(FORECAST),
        breaks("stall", 3, stall_seconds=0.2),
        {"type": "slow_first_token", "seconds": 0.2},
    )
    asked = ask(llmock.harness(timeout=5.0), stream=True)
    assert asked.text == "".join(asked.tokens) == FORECAST
    assert llmock.findings() == []
