"""The llama.cpp server with a real model, asked as users do: by flows, harnesses and the provider.

What is promised whatever the model says is asserted: it has 135 million parameters.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from teff import LLM, Flow, RunResult
from teff.errors import ProviderError, TruncatedOutput
from teff.harness import Harness
from teff.messages import Message, ToolCall, assistant, tool_result, user
from teff.provider import ChatReply, ChatRequest
from teff.runtime import StreamEvent
from teff.tool import Tool, tool
from teff_providers_ollama import OllamaProvider
from teff_providers_openai import OpenAIProvider
from teff_providers_openai.quirks import Quirks

pytestmark = pytest.mark.e2e

#: Of each slot of the server; see conftest.
CONTEXT_TOKENS = 4096

PLACE = {
    "type": "object",
    "properties": {
        "continent": {"enum": ["Africa", "Asia", "Europe"]},
        "rank": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["continent", "rank"],
    "additionalProperties": False,
}


def server_at(url: str, **options: Any) -> OpenAIProvider:
    return OpenAIProvider(preset="llamacpp", base_url=url, **options)


def harness_at(url: str, **settings: Any) -> Harness:
    settings = {"temperature": 0.0, "max_tokens": 24, **settings}
    return Harness(
        model="m", provider="llamacpp", providers={"llamacpp": server_at(url)}, **settings
    )


def flow_at(url: str) -> Flow:
    providers = {"llamacpp": server_at(url)}
    return Flow(providers=providers, default_provider="llamacpp", default_model="m")


def run(flow: Flow, state: dict[str, Any], **options: Any) -> tuple[RunResult, list[StreamEvent]]:
    events: list[StreamEvent] = []
    result = asyncio.run(flow.compile().run(state, emit=events.append, **options))
    return result, events


def of_type(events: list[StreamEvent], type_: str) -> list[Mapping[str, Any]]:
    return [event.data for event in events if event.type == type_]


# --- Answers -------------------------------------------------------------------------------------


def test_a_question_is_answered_and_counted(llama_server: str) -> None:
    flow = flow_at(llama_server).step(LLM(prompt="Say hello.", temperature=0, max_tokens=16))
    result, events = run(flow, {})
    assert result["output"].strip()
    (answered,) = of_type(events, "llm")
    assert answered["finish_reason"] in {"stop", "length"}
    assert 0 < answered["completion_tokens"] <= 16
    assert answered["prompt_tokens"] > 0
    assert result.usage.total_tokens == answered["total_tokens"]


def test_a_stream_gives_the_answer_in_pieces_and_counts_it(llama_server: str) -> None:
    node = LLM(prompt="Name three colours.", stream=True, temperature=0, max_tokens=24)
    result, events = run(flow_at(llama_server).step(node), {})
    tokens = [data["token"] for data in of_type(events, "token")]
    assert len(tokens) > 1
    assert "".join(tokens) == result["output"]
    (answered,) = of_type(events, "llm")
    # One piece for each token, but for those of a character that takes several.
    assert len(tokens) <= answered["completion_tokens"] <= 24
    assert answered["prompt_tokens"] > 0
    assert of_type(events, "llm_retry") == []


def test_what_the_provider_streams_is_the_reply(llama_server: str) -> None:
    async def ask() -> tuple[str, ChatReply | None]:
        request = ChatRequest(model="m", messages=[user("Count to five.")], max_tokens=24)
        text, reply = "", None
        async for delta in server_at(llama_server).stream(request):
            assert reply is None, "nothing follows the whole reply"
            text, reply = text + delta.text, delta.reply
        return text, reply

    text, reply = asyncio.run(ask())
    assert reply is not None
    assert reply.text == text != ""
    assert reply.usage.prompt_tokens
    assert reply.usage.completion_tokens


def test_the_models_are_listed(llama_server: str) -> None:
    (model,) = asyncio.run(server_at(llama_server).models())
    assert "SmolLM2" in model.name


# --- Answers of a form ---------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_fits_its_schema(llama_server: str, stream: bool) -> None:
    node = LLM(
        prompt="Describe Kenya.", json_schema=PLACE, stream=stream, temperature=0, max_tokens=64
    )
    result, events = run(flow_at(llama_server).step(node), {})
    assert result["output"]["continent"] in {"Africa", "Asia", "Europe"}
    assert result["output"]["rank"] in range(1, 10)
    # The server held the model to it, so it was asked once.
    assert len(of_type(events, "llm")) == 1


@pytest.mark.parametrize("choices", ["grammar", "json_schema"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_one_of_the_choices(llama_server: str, choices: Any, stream: bool) -> None:
    async def ask() -> tuple[ChatReply, list[str]]:
        provider = server_at(llama_server, quirks=Quirks(choices=choices))
        harness = Harness(model="m", provider="p", providers={"p": provider}, max_tokens=16)
        heard: list[str] = []
        reply = await harness.call(
            [user("Is the sea blue or green?")],
            choices=["blue", "sea green", "naïve 青"],
            stream=stream,
            on_token=heard.append,
        )
        return reply, heard

    reply, heard = asyncio.run(ask())
    assert reply.text in {"blue", "sea green", "naïve 青"}
    assert heard == [reply.text] * stream


def test_an_answer_that_is_cut_off_says_so(llama_server: str) -> None:
    reply = asyncio.run(
        harness_at(llama_server, max_tokens=3).call([user("Tell me a long story.")])
    )
    assert reply.finish_reason == "length"
    assert reply.usage.completion_tokens == 3


def test_a_structured_answer_that_is_cut_off_is_never_taken(llama_server: str) -> None:
    node = LLM(prompt="Describe Kenya.", json_schema=PLACE, temperature=0, max_tokens=3)
    events: list[StreamEvent] = []
    graph = flow_at(llama_server).step(node).compile()
    with pytest.raises(TruncatedOutput, match="cut off by its token limit") as caught:
        asyncio.run(graph.run({}, emit=events.append))
    assert caught.value.partial.startswith("{")
    # It was asked once more, with twice the room.
    assert [data["max_tokens"] for data in of_type(events, "structured")] == [6]
    assert len(of_type(events, "llm")) == 2


# --- Tools ---------------------------------------------------------------------------------------


def weather(told: list[str]) -> Tool:
    @tool(register=False)
    def get_weather(city: str) -> str:
        """Get the weather of a city."""
        told.append(city)
        return "18 C, cloudy"

    return get_weather


def exchanges() -> list[Message]:
    """Return what was said before: a model of this size does as it did, not as it is told."""
    said: list[Message] = []
    places = [("Rome", "21 C, sunny"), ("Berlin", "9 C, rain"), ("Madrid", "30 C, sunny")]
    for city, found in places:
        call = ToolCall(id=f"call_{city}", name="get_weather", arguments={"city": city})
        said += [
            user(f"What is the weather in {city}?"),
            assistant("", [call]),
            tool_result(call, found),
            assistant(f"In {city} it is {found}."),
        ]
    return said


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_calls_a_tool_and_hears_of_its_result(
    llama_server_with_tools: str, stream: bool
) -> None:
    told: list[str] = []
    flow = flow_at(llama_server_with_tools)
    flow.harness(use_tools=["get_weather"], stream=stream, temperature=0, max_tokens=64)
    state = {"messages": exchanges(), "input": "What is the weather in Paris?"}
    result, events = run(flow, state, tools=[weather(told)])
    asked, called, answered, final = result["messages"][-4:]
    assert (asked["role"], called["role"]) == ("user", "assistant")
    (call,) = called["tool_calls"]
    assert (call["name"], call["args"]) == ("get_weather", {"city": told[0]})
    assert len(told) == 1
    assert called["content"] == ""
    assert answered["content"] == "18 C, cloudy"
    assert answered["tool_call_id"] == call["id"] != ""
    assert final["content"] == result["output"] != ""
    assert "<tool_call>" not in result["output"]
    first, second = of_type(events, "llm")
    assert first["finish_reason"] == "tool_calls"
    assert second["prompt_tokens"] > first["prompt_tokens"]
    tokens = "".join(data["token"] for data in of_type(events, "token"))
    assert tokens == (result["output"] if stream else "")


def test_a_call_can_be_required(llama_server_with_tools: str) -> None:
    async def ask() -> ChatReply:
        harness = harness_at(
            llama_server_with_tools, max_tokens=64, options={"tool_choice": "required"}
        )
        question = user("What is the weather in Oslo?")
        return await harness.call([*exchanges(), question], tools=[weather([]).spec()])

    reply = asyncio.run(ask())
    (call,) = reply.tool_calls
    assert (call.name, set(call.arguments)) == ("get_weather", {"city"})
    assert reply.text == ""


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_cut_off_is_not_carried_out(
    llama_server_with_tools: str, stream: bool
) -> None:
    told: list[str] = []
    flow = flow_at(llama_server_with_tools)
    flow.harness(use_tools=["get_weather"], stream=stream, temperature=0, max_tokens=20)
    state = {"messages": exchanges(), "input": "What is the weather in Paris?"}
    try:
        result, _ = run(flow, state, tools=[weather(told)])
    except TruncatedOutput:
        pass
    else:
        assert "{" not in result["output"]
    assert told == []


def test_an_answer_after_a_call_fits_its_schema(llama_server_with_tools: str) -> None:
    told: list[str] = []
    node = LLM(
        messages_key="messages",
        use_tools=["get_weather"],
        json_schema=PLACE,
        temperature=0,
        max_tokens=64,
    )
    state = {"messages": [*exchanges(), user("What is the weather in Paris?")]}
    result, events = run(flow_at(llama_server_with_tools).step(node), state, tools=[weather(told)])
    assert set(result["output"]) == {"continent", "rank"}
    # The schema, which would keep the model from calling, is sent when the tools have done.
    assert len(told) == 1
    assert of_type(events, "llm")[0]["finish_reason"] == "tool_calls"


# --- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_is_too_long_is_refused_in_a_sentence(
    llama_server: str, stream: bool
) -> None:
    node = LLM(prompt="one two " * CONTEXT_TOKENS, stream=stream, max_tokens=8)
    events: list[StreamEvent] = []
    graph = flow_at(llama_server).step(node).compile()
    with pytest.raises(ProviderError) as caught:
        asyncio.run(graph.run({}, emit=events.append))
    error = caught.value
    assert (error.status, error.provider, error.model) == (400, "llamacpp", "m")
    assert "exceeds the available context size (4096 tokens" in str(error)
    assert "exceed_context_size_error" in error.body
    assert of_type(events, "llm_retry") == []
    assert of_type(events, "token") == []


def test_a_wrong_path_is_told(llama_server: str) -> None:
    wrong = llama_server.replace("/v1", "/v7")
    with pytest.raises(ProviderError, match="base_url") as caught:
        asyncio.run(harness_at(wrong).call([user("Hi")]))
    assert caught.value.status == 404


def test_a_server_of_another_kind_is_told(llama_server: str) -> None:
    other = OllamaProvider(base_url=llama_server.removesuffix("/v1"), chat_path="/api/chatter")
    harness = Harness(model="m", provider="ollama", providers={"ollama": other})
    with pytest.raises(ProviderError, match="provider type openai") as caught:
        asyncio.run(harness.call([user("Hi")]))
    assert caught.value.status == 404


# --- Connections ---------------------------------------------------------------------------------


def test_four_are_answered_at_once(llama_server: str) -> None:
    async def ask(harness: Harness, number: int) -> str:
        own = [f"{number}{letter}" for letter in "abc"]
        reply = await harness.call(
            [user(f"Choose one of {', '.join(own)}.")],
            choices=own,
            stream=number % 2 == 0,
            on_token=lambda token: None,
        )
        assert reply.usage.completion_tokens
        return reply.text

    async def ask_all() -> list[str]:
        harness = harness_at(llama_server)
        return await asyncio.gather(*(ask(harness, number) for number in range(1, 5)))

    answers = asyncio.run(ask_all())
    # Each got the answer to its own question.
    assert [answer[0] for answer in answers] == ["1", "2", "3", "4"]


def test_a_connection_that_the_server_closes_is_no_failure(llama_server: str) -> None:
    # It closes the connection of a stream after the last byte, though it says that it keeps it.
    async def ask_often() -> list[ChatReply]:
        harness = harness_at(llama_server, max_tokens=1, max_retries=0)
        question = [user("Hi")]
        return [
            await harness.call(question, stream=number % 2 == 0, on_token=lambda token: None)
            for number in range(100)
        ]

    assert len(asyncio.run(ask_often())) == 100


@asynccontextmanager
async def relay(url: str) -> AsyncIterator[tuple[str, set[asyncio.StreamWriter]]]:
    """Stand between client and server; give the URL to ask, and the connections that are open."""
    target, open_ = urlsplit(url), set[asyncio.StreamWriter]()

    async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                to.write(data)
                await to.drain()
        to.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.add(writer)
        answers, there = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(copy(reader, there), copy(answers, writer))
        open_.discard(writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}{target.path}", open_


async def become(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.02)


async def is_idle(url: str) -> bool:
    async with httpx.AsyncClient(trust_env=False) as client:
        slots = (await client.get(url.replace("/v1", "/slots"))).json()
    return not any(slot["is_processing"] for slot in slots)


async def is_busy(url: str) -> bool:
    return not await is_idle(url)


def endless(stream: bool) -> LLM:
    """Return a node whose answer takes far longer than a test has time for."""
    return LLM(
        prompt="Tell me a long story.",
        stream=stream,
        max_tokens=2000 if stream else 60,
        provider_options={"ignore_eos": True},
    )


async def assert_answers_again(url: str, open_: set[asyncio.StreamWriter]) -> None:
    async def is_closed() -> bool:
        return not open_

    await become(is_closed)
    reply = await harness_at(url).call([user("Say hello.")])
    assert reply.text


def test_a_stream_that_is_left_early_leaves_nothing_behind(llama_server: str) -> None:
    async def leave() -> None:
        async with relay(llama_server) as (url, open_):
            request = ChatRequest(
                model="m",
                messages=[user("Tell me a long story.")],
                max_tokens=2000,
                options={"ignore_eos": True},
            )
            stream = server_at(url).stream(request)
            async with aclosing(stream) as deltas:  # type: ignore[type-var]  # a generator
                async for delta in deltas:
                    if delta.text:
                        break
                assert len(open_) == 1
            await assert_answers_again(llama_server, open_)
            await become(lambda: is_idle(llama_server))

    asyncio.run(leave())


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_that_is_cancelled_leaves_nothing_behind(llama_server: str, stream: bool) -> None:
    async def cancel() -> None:
        async with relay(llama_server) as (url, open_):
            graph = flow_at(url).step(endless(stream)).compile()
            running = asyncio.create_task(graph.run({}, emit=lambda event: None))
            await become(lambda: is_busy(llama_server))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await assert_answers_again(llama_server, open_)
            # The server finishes an answer that is not streamed, though nobody waits for it.
            await become(lambda: is_idle(llama_server))

    asyncio.run(cancel())
