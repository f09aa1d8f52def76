"""Model calls: retries, streaming, limits, events, and what is recorded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, ProviderError
from teff.flow import Flow
from teff.graph import Graph
from teff.harness import Harness, RetryPolicy
from teff.messages import ModelUsage, user
from teff.node import LLM, ExecContext
from teff.provider import Capabilities, ChatDelta, ChatReply
from teff.runtime import Limits, StreamEvent
from teff.testing import ScriptedProvider


def busy(wait: float | None = 0.0, status: int | None = 503, **details: Any) -> ProviderError:
    return ProviderError("the server is busy", status=status, retry_after=wait, **details)


def flow_of(provider: ScriptedProvider, **llm: Any) -> Graph:
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    return flow.llm(**{"input_key": "input", **llm}).compile()


def run(graph: Graph, state: Any = None, **options: Any) -> Any:
    return asyncio.run(graph.run({"input": "hi"} if state is None else state, **options))


def test_a_call_sends_the_message_and_keeps_the_answer() -> None:
    provider = ScriptedProvider(["Hello, you."])
    result = run(flow_of(provider, system="Be brief.", temperature=0.5, max_tokens=9))
    assert result["output"] == "Hello, you."
    request = provider.requests[0]
    assert [dict(message) for message in request.messages] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]
    assert (request.model, request.temperature, request.max_tokens) == ("m", 0.5, 9)


def test_usage_is_counted_for_the_run_and_by_model() -> None:
    result = run(flow_of(ScriptedProvider(["one two three"])))
    assert result.usage.model_calls == 1
    assert result.usage.total_tokens == 13
    assert result.usage.by_model["p/m"]["completion_tokens"] == 3


def test_a_passing_failure_is_tried_again_and_told() -> None:
    heard: list[StreamEvent] = []
    provider = ScriptedProvider([busy(), busy(status=None), "at last"])
    result = run(flow_of(provider), emit=heard.append)
    assert result["output"] == "at last"
    assert result.usage.model_calls == 3, "retried calls count"
    retries = [event.data for event in heard if event.type == "llm_retry"]
    assert [retry["attempt"] for retry in retries] == [1, 2]
    assert [event.type for event in heard].count("llm") == 1


@pytest.mark.parametrize(
    "error",
    [
        busy(status=400),
        busy(status=401),
        busy(status=404),
        busy(status=429, permanent=True),
        busy(wait=121.0, status=429),
    ],
)
def test_what_will_not_pass_is_not_tried_again(error: ProviderError) -> None:
    provider = ScriptedProvider([error])
    with pytest.raises(ProviderError) as caught:
        run(flow_of(provider))
    assert caught.value is error
    assert len(provider.requests) == 1


def test_the_tries_are_bounded_and_the_last_error_is_raised() -> None:
    provider = ScriptedProvider([busy(), busy(), busy()])
    with pytest.raises(ProviderError, match="busy"):
        run(flow_of(provider, http_max_retries=2))
    provider.assert_done()


def test_no_retry_once_a_token_was_shown() -> None:
    class Broken(ScriptedProvider):
        async def stream(self, request: Any) -> Any:
            self.requests.append(request)
            yield ChatDelta(text="Hel")
            raise busy()

    provider = Broken()
    heard: list[StreamEvent] = []
    with pytest.raises(ProviderError):
        run(flow_of(provider, stream=True), emit=heard.append)
    assert len(provider.requests) == 1
    assert [event.data["token"] for event in heard if event.type == "token"] == ["Hel"]


def test_a_stream_that_fails_before_its_first_token_is_tried_again() -> None:
    provider = ScriptedProvider([busy(), "Hello you"])
    heard: list[StreamEvent] = []
    run(flow_of(provider, stream=True), emit=heard.append)
    assert "".join(e.data["token"] for e in heard if e.type == "token") == "Hello you"


def test_tokens_reach_a_plain_and_an_async_callback() -> None:
    pieces: list[str] = []

    async def listen(token: str) -> None:
        await asyncio.sleep(0)
        pieces.append(token)

    for callback in (pieces.append, listen):
        run(flow_of(ScriptedProvider(["a b c"]), stream=True, on_token=callback))
    assert pieces == ["a ", "b ", "c"] * 2


def test_nothing_streams_while_nobody_listens() -> None:
    class Plain(ScriptedProvider):
        async def stream(self, request: Any) -> Any:
            raise AssertionError("asked for a stream")
            yield

    assert run(flow_of(Plain(["whole"]), stream=True))["output"] == "whole"


def test_a_provider_that_cannot_stream_is_asked_for_the_whole() -> None:
    provider = ScriptedProvider(["whole"], capabilities=Capabilities(streaming=False))
    assert run(flow_of(provider, stream=True), emit=lambda event: None)["output"] == "whole"


def test_limits_are_checked_before_the_call() -> None:
    provider = ScriptedProvider(["one"])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = flow.llm(prompt="a", id="a").llm(prompt="b", id="b").compile()
    for limits in (Limits(max_model_calls=1), Limits(max_tokens=5)):
        provider = ScriptedProvider(["one"])
        result = run(graph, limits=limits, providers={"p": provider})
        assert result.status == "stopped"
        assert result.stop_reason in ("max_model_calls", "max_tokens")
        assert result["output"] == "one"
        assert len(provider.requests) == 1


def test_a_resumed_step_does_not_pay_twice_for_a_model_call() -> None:
    provider = ScriptedProvider(["first"])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = flow.step(_AskThenAnswer()).compile()
    options: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        run(graph, **options)
    result = run(graph, state={}, resume="yes", **options)
    assert result["text"] == "first yes"
    assert len(provider.requests) == 1
    assert result.usage.model_calls == 1


class _AskThenAnswer(LLM):
    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        reply = await self.harness(ctx).call([user("x")])
        answer = await ctx.interrupt("sure")
        return {"text": f"{reply.text} {answer}"}


def test_a_harness_works_alone() -> None:
    provider = ScriptedProvider([ChatReply(text="hi", usage=ModelUsage(total_tokens=3))])
    harness = Harness(model="m", provider="p", providers={"p": provider})
    assert asyncio.run(harness.call([user("hello")])).text == "hi"


def test_an_empty_conversation_is_refused_before_it_is_sent() -> None:
    harness = Harness(model="m", provider="p", providers={"p": ScriptedProvider()})
    with pytest.raises(ConfigError, match="no message"):
        asyncio.run(harness.call([]))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_retrys": 5}, "no setting 'max_retrys'.*'max_retries'"),
        ({"max_parallel": 0}, "max_parallel is a whole number of at least 1"),
    ],
)
def test_a_setting_that_would_do_nothing_or_wait_for_ever_is_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        Harness(model="m", provider="p", providers={"p": ScriptedProvider()}, **settings)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"default_model": "m"}, "no provider is named"),
        ({"default_provider": "p"}, "no model is named"),
        ({"default_provider": "q", "default_model": "m"}, "'q'"),
    ],
)
def test_a_missing_provider_or_model_is_found_before_the_first_step(
    options: dict[str, Any], words: str
) -> None:
    done: list[str] = []

    async def before(ctx: Any, state: Any) -> None:
        done.append("before")

    with pytest.raises(ConfigError, match=words):
        flow = Flow(providers={"p": ScriptedProvider()}, **options)
        run(flow.step(before).llm(prompt="x").compile())
    assert done == []


def test_the_wait_grows_and_is_bounded() -> None:
    policy = RetryPolicy(max_retries=8)
    waits = [policy.wait_before_retry(busy(wait=None), attempt) for attempt in range(1, 9)]
    assert all(wait is not None and wait <= 8.0 for wait in waits)
    assert waits[0] is not None
    assert 0.375 <= waits[0] <= 0.5
    assert policy.wait_before_retry(busy(wait=None), 9) is None
    assert policy.wait_before_retry(busy(wait=7.5), 1) == 7.5


def test_cancelling_a_run_closes_its_stream() -> None:
    closed: list[bool] = []

    class Slow(ScriptedProvider):
        async def stream(self, request: Any) -> Any:
            try:
                yield ChatDelta(text="first ")
                await asyncio.sleep(60)
            finally:
                closed.append(True)

    async def scenario() -> None:
        stream = flow_of(Slow(), stream=True).stream({"input": "hi"})
        async for event in stream:
            if event.type == "token":
                break
        await stream.aclose()

    asyncio.run(scenario())
    assert closed == [True]


def test_a_node_asks_a_model_through_its_context() -> None:
    provider = ScriptedProvider(["hello"])

    async def ask(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return {"said": (await ctx.llm("", [user("hi")])).text}

    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    result = run(flow.step(ask).compile())
    assert (result["said"], result.usage.model_calls) == ("hello", 1)


def test_a_context_made_by_hand_asks_a_model_too() -> None:
    from teff.provider import ProviderRegistry

    provider = ScriptedProvider(["hello"])
    ctx = ExecContext(providers=ProviderRegistry({"p": provider}), default_provider="p")
    assert asyncio.run(ctx.llm("m", [user("hi")])).text == "hello"
