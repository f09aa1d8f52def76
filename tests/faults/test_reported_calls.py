"""Reported faults of streams and conversations, as whole runs; their parts are tested beside them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.faults.asking import ask, flow_for, without_waiting
from tests.faults.exchange import DIALECTS, HELLO, Dialect, answer, good, streamed

from teff.checkpoint import MemoryCheckpointer
from teff.errors import IncompleteStream, ProviderError
from teff.flow import Flow
from teff.messages import ToolCall, assistant, system, tool_result, user
from teff.provider import Capabilities, ChatDelta, ChatReply, ChatRequest
from teff.runtime import StreamEvent
from teff.testing import ScriptedProvider
from teff.testing.server import ReplayServer
from teff_providers_openai import Quirks

OPENAI, OLLAMA = DIALECTS

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def models(provider: Any) -> Flow:
    return Flow(providers={"p": provider}, default_provider="p", default_model="m")


# Streams.


class Endless:
    """A model that streams numbers, and counts how many were taken."""

    name = "endless"
    capabilities = Capabilities()

    def __init__(self, length: int, *, pause: float = 0.0) -> None:
        self.length = length
        self.pause = pause
        self.produced = 0
        self.closed = False

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("only streams")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        try:
            for number in range(self.length):
                await asyncio.sleep(self.pause)
                self.produced += 1
                yield ChatDelta(text=f"{number} ")
            yield ChatDelta(reply=ChatReply(text="all"))
        finally:
            self.closed = True

    async def aclose(self) -> None:
        pass


def test_str_01_a_reader_that_leaves_stops_the_model() -> None:
    model = Endless(1_000, pause=0.005)

    async def main() -> set[asyncio.Task[Any]]:
        stream = models(model).llm(input_key="input").compile().stream({"input": "Hi"})
        tokens = 0
        async for event in stream:
            tokens += event.type == "token"
            if tokens == 2:
                break
        await stream.aclose()  # type: ignore[attr-defined]
        return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}

    assert asyncio.run(main()) == set()
    assert model.closed
    assert model.produced < 20


@each_dialect
def test_str_04_a_stream_that_breaks_is_tried_again_before_its_first_token_only(
    dialect: Dialect,
) -> None:
    silent = streamed(dialect, dialect.piece(), then="reset")
    asked = ask(dialect, silent, good(dialect))
    assert ("".join(asked.tokens), len(asked.requests)) == (HELLO, 2)
    broken = streamed(dialect, dialect.piece("Hel"), dialect.piece("lo"), then="reset")
    asked = ask(dialect, broken, good(dialect))
    assert ("".join(asked.tokens), len(asked.requests)) == ("Hello", 1)
    assert isinstance(asked.error, IncompleteStream)


@pytest.mark.parametrize("then", ["reset", "close", "keep"])
def test_str_05_half_a_call_is_never_carried_out_nor_joined_with_the_next_try(then: Any) -> None:
    done: list[str] = []

    def run(cmd: str) -> str:
        """Run a command."""
        done.append(cmd)
        return "ok"

    def fragment(arguments: str) -> bytes:
        call = {"index": 0, "id": "c", "function": {"name": "run", "arguments": arguments}}
        return OPENAI.event({"choices": [{"delta": {"tool_calls": [call]}}]})

    cut = streamed(OPENAI, fragment('{"cmd": '), fragment('"rm -rf'), then=then)
    whole = streamed(OPENAI, fragment('{"cmd": "rm -r'), fragment('f /tmp/x"}'), OPENAI.end())
    asked = ask(OPENAI, cut, whole, good(OPENAI), tools=[run])
    assert asked.output == HELLO
    assert done == ["rm -rf /tmp/x"]
    assert len(asked.requests) == 3


@each_dialect
@pytest.mark.parametrize("then", ["reset", "close", "keep"])
def test_str_05_half_a_call_that_is_written_as_text_is_not_carried_out_either(
    dialect: Dialect, then: Any
) -> None:
    done: list[str] = []

    def run(cmd: str) -> str:
        """Run a command."""
        done.append(cmd)
        return "ok"

    half = dialect.piece('<tool_call>{"name": "run", "arguments": {"cmd": "rm -rf')
    asked = ask(dialect, streamed(dialect, half, then=then), good(dialect), tools=[run])
    assert (asked.output, "".join(asked.tokens), done) == (HELLO, HELLO, [])
    asked = ask(dialect, streamed(dialect, half, dialect.end()), tools=[run])
    assert done == []
    assert "rm -rf" in asked.output, "it is the answer, as it stands"


def test_str_07_a_slow_reader_slows_the_model_down_and_misses_nothing() -> None:
    model = Endless(10_000)

    async def main() -> tuple[int, list[str], str]:
        stream = models(model).llm(input_key="input").compile().stream({"input": "Hi"})
        tokens = [event.data["token"] async for event in first_token(stream)]
        for _ in range(2_000):
            await asyncio.sleep(0)
        ahead = model.produced
        last = ""
        async for event in stream:
            last = event.type
            if event.type == "token":
                tokens.append(event.data["token"])
        return ahead, tokens, last

    ahead, tokens, last = asyncio.run(main())
    assert ahead < 300
    assert tokens == [f"{number} " for number in range(10_000)]
    assert last == "run_end"


async def first_token(stream: AsyncIterator[StreamEvent]) -> AsyncIterator[StreamEvent]:
    while (event := await anext(stream)).type != "token":
        pass
    yield event


def test_str_09_a_timeout_on_the_first_token_leaves_no_error_of_the_model_behind() -> None:
    async def fail_later(request: ChatRequest) -> str:
        await asyncio.sleep(0.05)
        raise ProviderError("too late", permanent=True)

    async def main() -> list[Any]:
        complaints: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, about: complaints.append(about))
        graph = models(ScriptedProvider([fail_later])).llm(input_key="input").compile()
        stream = graph.stream({"input": "Hi"})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(first_token(stream)), 0.01)
        await asyncio.sleep(0.1)
        return complaints

    assert asyncio.run(main()) == []


# Conversations.


def roles(messages: Sequence[Any]) -> list[str]:
    return [message["role"] for message in messages]


@each_dialect
def test_msg_01_no_request_has_a_call_without_its_result(dialect: Dialect) -> None:
    call = ToolCall(id="t1", name="search", arguments={"q": "x"})
    history = [user("Find it."), assistant("", [call]), user("hi")]
    asked = ask(dialect, good(dialect), state={"messages": history}, messages_key="messages")
    sent = asked.requests[0].json()["messages"]
    assert roles(sent) == ["user", "assistant", "tool", "user"]
    assert "interrupted" in sent[2]["content"]


@each_dialect
def test_msg_02_no_cut_of_the_conversation_leaves_a_result_alone(dialect: Dialect) -> None:
    call = ToolCall(id="t1", name="search")
    history = [
        system("Be brief."),
        user("1"),
        assistant("", [call]),
        tool_result(call, "found"),
        assistant("2"),
        user("3"),
        assistant("4"),
        user("5"),
    ]
    for bound in range(1, 9):
        asked = ask(
            dialect,
            good(dialect),
            state={"messages": history},
            messages_key="messages",
            max_context_messages=bound,
        )
        sent = roles(asked.requests[0].json()["messages"])
        assert sent[0] == "system"
        whole = ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "user"]
        left = sent[1:]
        assert left == whole[len(whole) - len(left) :], "the newest, in their order"
        assert left[0] == "user"


def test_msg_04_and_msg_05_every_turn_of_a_thread_sends_one_system_text_and_none_is_stored() -> (
    None
):
    model = ScriptedProvider(["one", "two", "three", "four"])
    store = MemoryCheckpointer()

    def site(ctx: Any, state: Any) -> dict[str, Any]:
        return {"site": len(state["messages"])}

    graph = models(model).step(site).harness(system="be brief\n\nsite={site}").compile()

    async def main() -> list[Any]:
        for _ in range(4):
            turn = await graph.turn("hi", checkpointer=store, checkpoint_id="thread")
        stored: list[Any] = turn.state["messages"]
        return stored

    stored = asyncio.run(main())
    for request, length in zip(model.requests, (1, 3, 5, 7), strict=True):
        first, *others = request.messages
        assert first == system(f"be brief\n\nsite={length}")
        assert "system" not in roles(others)
    assert roles(stored) == ["user", "assistant"] * 4


def test_msg_05_a_system_text_that_the_stored_messages_hold_too_is_sent_once() -> None:
    history = [system("be brief"), user("hi"), assistant("hello"), user("again")]
    asked = ask(
        OPENAI,
        good(OPENAI),
        state={"messages": history},
        messages_key="messages",
        system="be brief",
    )
    assert roles(asked.requests[0].json()["messages"]) == ["system", "user", "assistant", "user"]


def test_msg_07_two_workers_in_turn_alternate_with_the_user_where_the_server_wants_it() -> None:
    async def main() -> list[Any]:
        async with ReplayServer(good(OPENAI, stream=False)) as server:
            flow = flow_for(OPENAI, server.url, quirks=Quirks(alternating=True))
            for worker in ("a", "b", "c"):
                flow = flow.llm(id=worker, messages_key="messages", append_reply=True)
            await flow.compile().run({"messages": [user("Go.")]})
            return [request.json()["messages"] for request in server.requests]

    requests = asyncio.run(main())
    for messages in requests:
        assert all(one != two for one, two in itertools.pairwise(roles(messages)))
        assert roles(messages)[-1] == "user"
    assert json.dumps(requests[2]).count(HELLO) == 2, "both answers are still there"


@each_dialect
def test_msg_09_all_calls_of_a_message_have_their_results_before_anything_goes_on(
    dialect: Dialect,
) -> None:
    def lookup(what: str) -> str:
        """Look something up."""
        return f"{what}: found"

    def transfer(to: str) -> str:
        """Hand over."""
        raise RuntimeError(f"{to} is away")

    both = answer(dialect, "", [("transfer", {"to": "b"}), ("lookup", {"what": "x"})], stream=True)
    asked = ask(dialect, both, good(dialect), tools=[lookup, transfer])
    sent = asked.requests[1].json()["messages"]
    assert roles(sent) == ["user", "assistant", "tool", "tool"]
    assert "b is away" in sent[2]["content"]
    assert "x: found" in sent[3]["content"]


# Both at once.


def test_sto_05_an_answer_that_was_cut_off_is_not_taken_although_it_is_valid() -> None:
    cut = streamed(OPENAI, OPENAI.piece('{"items": [1, 2]}'), OPENAI.end("length"))
    schema = {"type": "object", "required": ["items"]}
    asked = ask(OPENAI, cut, json_schema=schema)
    assert type(asked.error).__name__ == "TruncatedOutput"
    assert len(asked.requests) == 1


@each_dialect
@pytest.mark.parametrize(
    "text", ['```json\n{"n": 1}\n```', '```\n{"n": 1}', '\ufeff{"n": 1}', 'Sure: {"n": 1}']
)
def test_sto_01_an_answer_in_a_fence_takes_no_second_call(dialect: Dialect, text: str) -> None:
    schema = {"type": "object", "required": ["n"]}
    asked = ask(dialect, answer(dialect, text, stream=True), json_schema=schema)
    assert (asked.output, len(asked.requests)) == ({"n": 1}, 1)


@each_dialect
def test_sto_12_what_a_tool_returns_is_sent_as_it_is_written(dialect: Dialect) -> None:
    def place() -> dict[str, str]:
        """Say where."""
        return {"city": "Łódź", "e": "🙂", "odd": "\ud800"}

    asked = ask(
        dialect, answer(dialect, "", [("place", {})], stream=True), good(dialect), tools=[place]
    )
    assert asked.output == HELLO
    for word in ("Łódź", "🙂"):
        assert word.encode() in asked.requests[1].body


@each_dialect
def test_sto_13_the_third_request_has_one_system_text(dialect: Dialect) -> None:
    wrong, right = (
        answer(dialect, '{"n": "x"}', stream=True),
        answer(dialect, '{"n": 1}', stream=True),
    )
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with without_waiting():
        asked = ask(dialect, wrong, wrong, right, json_schema=schema, system="be brief")
    assert asked.output == {"n": 1}
    assert roles(asked.requests[2].json()["messages"]).count("system") == 1
