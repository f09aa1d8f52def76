"""Fallbacks: which model is asked when one fails, and when none is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, IncompleteStream, ProviderError
from teff.flow import Flow
from teff.graph import Graph
from teff.harness import Harness
from teff.messages import user
from teff.provider import Capabilities, ChatDelta, ChatReply, ChatRequest, ToolSpec
from teff.runtime import Limits, RunResult, StreamEvent
from teff.testing import ScriptedProvider


def failure(status: int | None, body: str = "", **details: Any) -> ProviderError:
    return ProviderError(f"status {status}", status=status, body=body, **details)


def graph_of(first: Any, second: Any, fallbacks: Any, **options: Any) -> Graph:
    flow = Flow(providers={"a": first, "b": second}, default_provider="a", default_model="m")
    chosen = {"input_key": "input", "http_max_retries": 0, "fallbacks": fallbacks, **options}
    return flow.llm(**chosen).compile()


def run(graph: Graph, heard: list[StreamEvent] | None = None, **options: Any) -> RunResult:
    emit = heard.append if heard is not None else None
    return asyncio.run(graph.run({"input": "hi"}, emit=emit, **options))


@pytest.mark.parametrize(
    "error",
    [
        failure(None),
        failure(404, "model not found", permanent=True),
        failure(429, '{"error": {"code": "insufficient_quota"}}', permanent=True),
        failure(402, permanent=True),
        failure(429, retry_after=9_999.0),
        failure(500),
        failure(529),
        IncompleteStream("cut", partial=""),
    ],
    ids=lambda error: f"{type(error).__name__}-{error.status}",
)
def test_another_provider_answers_where_the_first_one_fails(error: ProviderError) -> None:
    first, second = ScriptedProvider([error], name="a"), ScriptedProvider(["from b"], name="b")
    heard: list[StreamEvent] = []
    result = run(graph_of(first, second, ["b/big:8b"]), heard)
    assert result["output"] == "from b"
    assert second.requests[0].model == "big:8b"
    (told,) = [event.data for event in heard if event.type == "llm_fallback"]
    assert told == {
        "provider": "a",
        "model": "m",
        "to_provider": "b",
        "to_model": "big:8b",
        "error": str(error),
    }
    assert set(result.usage.by_model) == {"b/big:8b"}
    assert result.usage.model_calls == 2, "the call that failed counts"


@pytest.mark.parametrize("status", [400, 401, 403])
def test_nobody_else_is_asked_where_the_request_or_the_key_is_wrong(status: int) -> None:
    first, second = ScriptedProvider([failure(status, permanent=True)]), ScriptedProvider(["no"])
    with pytest.raises(ProviderError, match=f"status {status}"):
        run(graph_of(first, second, ["b/m"]))
    assert second.requests == []


def test_what_a_content_filter_refused_is_handed_to_nobody_else() -> None:
    refused = failure(None, '{"error": {"code": "content_filter"}}', permanent=True)
    second = ScriptedProvider(["no"])
    with pytest.raises(ProviderError):
        run(graph_of(ScriptedProvider([refused]), second, ["b/m"]))
    assert second.requests == []


def test_a_passing_failure_is_tried_again_before_another_is_asked() -> None:
    first = ScriptedProvider([failure(503, retry_after=0.0), "from a"])
    second = ScriptedProvider()
    assert run(graph_of(first, second, ["b/m"], http_max_retries=1))["output"] == "from a"
    assert second.requests == []


def test_each_target_has_all_the_retries_and_nothing_multiplies_them() -> None:
    first = ScriptedProvider([failure(503, retry_after=0.0)] * 3)
    second = ScriptedProvider([failure(503, retry_after=0.0)] * 3)
    with pytest.raises(ProviderError) as raised:
        run(graph_of(first, second, ["b/m"], http_max_retries=2))
    assert (len(first.requests), len(second.requests)) == (3, 3)
    assert any("a/m was asked: status 503" in note for note in raised.value.__notes__)


def test_a_name_alone_and_names_with_slashes_are_models_of_the_same_provider() -> None:
    first = ScriptedProvider([failure(500), failure(500), "third"])
    run(graph_of(first, ScriptedProvider(), ["small", "meta-llama/llama-3.3-70b"]))
    assert [request.model for request in first.requests] == [
        "m",
        "small",
        "meta-llama/llama-3.3-70b",
    ]


def test_a_fallback_may_name_both_apart() -> None:
    second = ScriptedProvider(["ok"])
    run(graph_of(ScriptedProvider([failure(500)]), second, [{"provider": "b", "model": "x/y"}]))
    assert second.requests[0].model == "x/y"


def test_an_empty_answer_falls_back() -> None:
    first = ScriptedProvider([ChatReply(text=" \n", thinking="hm")])
    heard: list[StreamEvent] = []
    result = run(graph_of(first, ScriptedProvider(["ok"]), ["b/m"]), heard)
    assert result["output"] == "ok"
    (told,) = [event.data for event in heard if event.type == "llm_fallback"]
    assert told["error"] == "the answer is empty"


def test_an_empty_answer_is_an_answer_where_nobody_is_left() -> None:
    assert run(graph_of(ScriptedProvider([""]), ScriptedProvider([""]), ["b/m"]))["output"] == ""


def test_an_empty_answer_that_a_filter_made_is_handed_to_nobody_else() -> None:
    first = ScriptedProvider([ChatReply(text="", finish_reason="content_filter")])
    second = ScriptedProvider(["no"])
    assert run(graph_of(first, second, ["b/m"]))["output"] == ""
    assert second.requests == []


def test_a_status_that_is_named_passes_even_where_the_provider_says_otherwise() -> None:
    first = ScriptedProvider([failure(404, permanent=True, retry_after=0.0), "found"])
    options = {"http_max_retries": 1, "retry_on": [404, 429]}
    assert run(graph_of(first, ScriptedProvider(), [], **options))["output"] == "found"
    spent = failure(429, permanent=True, retry_after=0.0)
    with pytest.raises(ProviderError):
        run(graph_of(ScriptedProvider([spent, "no"]), ScriptedProvider(), [], **options))


def test_white_space_is_no_answer_yet() -> None:
    first = Halting("\n", " \n")
    heard: list[StreamEvent] = []
    result = run(graph_of(first, ScriptedProvider(["\n\nHello"]), ["b/m"]), heard)
    assert result["output"] == "\n\nHello"
    assert "".join(e.data["token"] for e in heard if e.type == "token") == "\n\nHello"


class Halting:
    """Streams some words, then fails."""

    name = "halting"
    capabilities = Capabilities()

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces
        self.calls = 0

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("only streams")

    async def stream(self, request: ChatRequest) -> Any:
        self.calls += 1
        for piece in self.pieces:
            yield ChatDelta(text=piece)
        raise failure(503, retry_after=0.0)

    async def aclose(self) -> None:
        pass


def test_str_04_after_a_token_was_shown_nobody_is_asked_again() -> None:
    first, second, heard = Halting("Hel", "lo"), ScriptedProvider(["Hello!"]), []
    with pytest.raises(ProviderError):
        run(graph_of(first, second, ["b/m"], http_max_retries=2), heard)
    assert "".join(e.data["token"] for e in heard if e.type == "token") == "Hello"
    assert (first.calls, second.requests) == (1, [])


def test_a_stream_that_fails_before_its_first_token_falls_back_and_streams() -> None:
    first, second, heard = Halting(), ScriptedProvider(["Hello there"]), []
    assert run(graph_of(first, second, ["b/m"]), heard)["output"] == "Hello there"
    assert [e.data["token"] for e in heard if e.type == "token"] == ["Hello ", "there"]


def test_each_target_is_asked_for_what_it_can_enforce() -> None:
    second = ScriptedProvider(['{"n": 1}'], capabilities=Capabilities(json_schema=False))
    schema = {"type": "object", "required": ["n"]}
    first = ScriptedProvider([failure(500)])
    result = run(graph_of(first, second, ["b/m"], json_schema=schema))
    assert result["output"] == {"n": 1}
    assert first.requests[0].json_schema == schema
    assert second.requests[0].json_schema is None


def test_options_of_the_node_are_not_those_of_another_provider() -> None:
    with pytest.raises(ConfigError, match="given as an object"):
        run(graph_of(ScriptedProvider(), ScriptedProvider(), [], base_url="http://x"))
    harness = Harness(
        model="m",
        provider="a",
        providers={
            "a": {"type": "openai", "base_url": "http://127.0.0.1:9/v1"},
            "b": {"type": "openai", "base_url": "http://127.0.0.1:9/other"},
        },
        overrides={"base_url": "http://127.0.0.1:9/replaced"},
        fallbacks=["a/small", "b/m"],
    )
    urls = [target.provider.base_url for target in harness.targets]  # type: ignore[attr-defined]
    assert [url.rpartition("/")[2] for url in urls] == ["replaced", "replaced", "other"]


def test_limits_bound_fallbacks_too() -> None:
    first, second = ScriptedProvider([failure(500)]), ScriptedProvider(["never"])
    result = run(graph_of(first, second, ["b/m"]), limits=Limits(max_model_calls=1))
    assert (result.status, result.stop_reason) == ("stopped", "max_model_calls")
    assert second.requests == []


def test_a_resumed_run_keeps_the_answer_of_the_fallback() -> None:
    first = ScriptedProvider([failure(500)])
    second = ScriptedProvider(["from b"])
    flow = Flow(providers={"a": first, "b": second}, default_provider="a", default_model="m")
    flow.llm(input_key="input", fallbacks=["b/m"], http_max_retries=0)
    flow.interrupt("go")
    graph, store = flow.compile(), MemoryCheckpointer()

    async def main() -> RunResult:
        from teff.errors import GraphInterrupt

        with pytest.raises(GraphInterrupt):
            await graph.run({"input": "hi"}, checkpointer=store, checkpoint_id="r")
        return await graph.run(checkpointer=store, checkpoint_id="r", resume={"go": "yes"})

    result = asyncio.run(main())
    assert result["output"] == "from b"
    assert (len(first.requests), len(second.requests)) == (1, 1)


def test_fallbacks_left_is_a_harness_for_the_rest() -> None:
    second = ScriptedProvider(["from b"])
    harness = Harness(
        model="m",
        provider="a",
        providers={"a": ScriptedProvider(), "b": second},
        fallbacks="b/m",
    )
    left = harness.fallbacks_left()
    assert left is not None
    assert asyncio.run(left.call([user("hi")])).text == "from b"
    assert left.fallbacks_left() is None


@pytest.mark.parametrize(
    "wrong",
    [
        [3],
        [""],
        ["/m"],
        ["p/"],
        [{"model": " "}],
        [{"model": ""}],
        [{"provider": "a"}],
        [{"m": "x"}],
    ],
)
def test_a_fallback_that_names_no_model_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="fallbacks"):
        graph_of(ScriptedProvider(), ScriptedProvider(), wrong)
    with pytest.raises(ConfigError, match="fallbacks"):
        Harness(model="m", provider="a", providers={"a": ScriptedProvider()}, fallbacks=wrong)


def test_an_unknown_provider_of_a_fallback_is_found_before_the_first_step() -> None:
    first = ScriptedProvider()
    with pytest.raises(ConfigError, match="nobody"):
        run(graph_of(first, ScriptedProvider(), [{"provider": "nobody", "model": "m"}]))
    assert first.requests == []


def test_tools_need_a_provider_that_takes_them_among_the_fallbacks_too() -> None:
    mute = ScriptedProvider(capabilities=Capabilities(tools=False), name="mute")
    harness = Harness(
        model="m",
        provider="a",
        providers={"a": ScriptedProvider(["x"]), "b": mute},
        fallbacks=["b/m"],
    )
    with pytest.raises(ConfigError, match="'mute' cannot call tools"):
        asyncio.run(harness.call([user("hi")], tools=[ToolSpec(name="add")]))


def test_a_deadline_bounds_retries_and_fallbacks_together() -> None:
    first = ScriptedProvider([failure(503, retry_after=60.0)])
    second = ScriptedProvider(["in time"])
    graph = graph_of(first, second, ["b/m"], http_max_retries=5, deadline=30)
    assert run(graph)["output"] == "in time"
    assert len(first.requests) == 1, "there is no time to wait for a minute"
    assert 0 < (second.requests[0].deadline or 0) < 30
