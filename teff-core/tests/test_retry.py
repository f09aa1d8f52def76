"""Trying a node again: what counts as a failure, what is told, and what a resumed run repeats."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import (
    CheckpointError,
    ConfigError,
    GraphChanged,
    GraphInterrupt,
    ProviderError,
    ToolError,
)
from teff.flow import Flow, SubFlow
from teff.graph import Edge, Graph
from teff.node import (
    LLM,
    Command,
    ExecContext,
    Interrupt,
    Node,
    Retry,
    ToolCall,
    default_registry,
    make_function_node,
)
from teff.runtime import Limits, StreamEvent
from teff.testing import ScriptedProvider


class Outcomes:
    """A step that raises or returns one outcome after the other."""

    def __init__(self, *outcomes: Any) -> None:
        self.left = list(outcomes)
        self.calls = 0

    async def __call__(self, ctx: ExecContext, state: dict[str, Any]) -> Any:
        self.calls += 1
        outcome = self.left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def graph_of(node: Node) -> Graph:
    return Graph({"it": node}, [], "it")


def run(node: Node, state: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return dict(asyncio.run(graph_of(node).run(state or {}, **options)))


def events_of(node: Node, kind: str, **options: Any) -> list[StreamEvent]:
    heard: list[StreamEvent] = []
    with contextlib.suppress(ValueError, ConnectionError, TimeoutError):
        asyncio.run(graph_of(node).run({}, emit=heard.append, **options))
    return [event for event in heard if event.type == kind]


# What a user notices first


def test_a_node_that_fails_is_run_again_until_it_succeeds() -> None:
    step = Outcomes(ValueError("one"), ConnectionError("two"), {"answer": 42})
    assert run(Retry(step)) == {"answer": 42}
    assert step.calls == 3


def test_max_retries_counts_attempts_and_the_last_error_is_raised_with_a_note() -> None:
    step = Outcomes(ValueError("one"), ValueError("two"), {"answer": 42})
    with pytest.raises(ValueError, match="two") as caught:
        run(Retry(step, max_retries=2))
    assert step.calls == 2
    assert "after 2 attempts" in caught.value.__notes__
    assert any("in node 'it' (retry)" in note for note in caught.value.__notes__)


def test_one_attempt_tries_nothing_again() -> None:
    step = Outcomes(ValueError("one"))
    with pytest.raises(ValueError, match="one") as caught:
        run(Retry(step, max_retries=1))
    assert "after 1 attempt" in caught.value.__notes__


@pytest.mark.parametrize(
    "made",
    [
        lambda step: Retry(step, max_retries=2),
        lambda step: Retry(node=step, max_retries=2),
        lambda step: Retry({"node": step, "max_retries": 2}),
        lambda step: Retry({"node": step}, max_retries=2),
        lambda step: Retry(make_function_node(step), max_retries=2),
        lambda step: default_registry.create("retry", {"node": step, "max_retries": 2}),
        lambda step: default_registry.create("retry", node=step, max_retries=2),
    ],
)
def test_the_node_is_given_in_any_of_the_usual_ways(made: Callable[[Any], Node]) -> None:
    step = Outcomes(ValueError("one"), {"ok": True})
    assert run(made(step)) == {"ok": True}


def test_a_flow_is_run_again_as_a_whole() -> None:
    second = Outcomes(ValueError("one"), {"second": 2})
    first = Outcomes({"first": 1}, {"first": 1})
    flow = Flow().step(first).step(second)
    assert run(Retry(flow)) == {"first": 1, "second": 2}
    assert (first.calls, second.calls) == (2, 2)


def test_a_graph_as_a_sub_flow_is_run_again_too() -> None:
    inner = Outcomes(ValueError("one"), {"n": 1})
    assert run(Retry(SubFlow(graph_of(make_function_node(inner))))) == {"n": 1}


def test_each_failure_that_is_tried_again_is_told() -> None:
    step = Outcomes(ValueError("one"), ConnectionError("two"), {})
    heard = events_of(Retry(step, delay=0.001, backoff=2), "retry")
    assert [event.data for event in heard] == [
        {"attempt": 1, "of": 3, "delay": 0.001, "error": "one", "type": "ValueError"},
        {"attempt": 2, "of": 3, "delay": 0.002, "error": "two", "type": "ConnectionError"},
    ]
    assert {event.path for event in heard} == {"it/1"}


def test_attempts_are_events_with_paths_of_their_own() -> None:
    heard = events_of(Retry(Outcomes(ValueError("one"), {})), "node_start")
    assert [event.path for event in heard] == ["it/1", "it/1/attempt-1", "it/1/attempt-2"]
    assert {event.node_id for event in heard} == {"it"}


# Waiting


def waits_of(**given: Any) -> list[float]:
    step = Outcomes(*[ValueError("no")] * 10)
    return [event.data["delay"] for event in events_of(Retry(step, **given), "retry")]


def test_waits_grow_by_the_backoff_up_to_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("teff.node.retry.asyncio.sleep", sleep)
    assert waits_of(max_retries=5, delay=1, backoff=3, max_delay=10) == [1, 3, 9, 10]
    assert [seconds for seconds in slept if seconds] == [1, 3, 9, 10]


def test_jitter_adds_at_most_its_part_also_beyond_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(seconds: float) -> None: ...

    monkeypatch.setattr("teff.node.retry.asyncio.sleep", sleep)
    waits = waits_of(max_retries=10, delay=4, backoff=2, max_delay=4, jitter=0.5)
    assert all(4 <= wait <= 6 for wait in waits)
    assert len(set(waits)) > 1


@pytest.mark.parametrize(("delay", "longest"), [(1, 7.0), (0, 0.0)])
def test_a_backoff_beyond_all_numbers_is_capped(delay: float, longest: float) -> None:
    node = Retry(Outcomes(), max_retries=5000, delay=delay, backoff=10.0, max_delay=7)
    assert node._wait_after(4000) == longest


# What is tried again


class Refused(ConnectionError):
    pass


class Reply(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"HTTP {status_code}")
        self.response = type("Response", (), {"status_code": status_code})()


@pytest.mark.parametrize(
    ("retry_on", "error", "tried"),
    [
        ([], Refused(), True),
        (None, Refused(), True),
        ([ConnectionError], Refused(), True),
        (ConnectionError, Refused(), True),
        ([OSError], Refused(), True),
        ([Refused], ConnectionError(), False),
        (["Refused"], Refused(), True),
        (["ConnectionError"], Refused(), True),
        ("OSError", Refused(), True),
        (["builtins.OSError"], Refused(), True),
        (["Exception"], Refused(), True),
        (["asyncio.TimeoutError"], TimeoutError(), True),
        (["TimeoutError"], TimeoutError(), True),
        (["teff.errors.ProviderError"], ProviderError("x"), True),
        (["teff.ProviderError"], ProviderError("x"), True),
        (["httpx.ConnectError"], Refused(), False),
        (["other.Refused"], Refused(), False),
        (["Error"], Refused(), False),
        ([ValueError, "ConnectionError"], Refused(), True),
        ([429], ProviderError("x", status=429), True),
        (429, ProviderError("x", status=429), True),
        (["429"], ProviderError("x", status=429), True),
        (["429"], Reply(429), True),
        ([429], Reply(503), False),
        ([429], ValueError("429"), False),
        (["5xx"], Reply(503), True),
        (["5XX"], Reply(429), False),
    ],
)
def test_what_retry_on_names_is_tried_again(retry_on: Any, error: Exception, tried: bool) -> None:
    step = Outcomes(error, {"ok": True})
    node = Retry(step) if retry_on is None else Retry(step, retry_on=retry_on)
    if tried:
        assert run(node) == {"ok": True}
    else:
        with pytest.raises(type(error)) as caught:
            run(node)
        assert caught.value is error
        assert step.calls == 1


def test_a_class_of_another_module_with_the_name_matches_by_its_module() -> None:
    error = type("ReadError", (Exception,), {"__module__": "remote.errors"})()
    assert run(Retry(Outcomes(error, {"ok": 1}), retry_on=["remote.ReadError"])) == {"ok": 1}
    assert run(Retry(Outcomes(error, {"ok": 1}), retry_on=["remote.errors.ReadError"])) == {"ok": 1}
    with pytest.raises(type(error)) as caught:
        run(Retry(Outcomes(error, {"ok": 1}), retry_on=["remot.ReadError"]))
    assert caught.value is error


def test_what_a_tool_raised_counts() -> None:
    raised = [ConnectionError("down")]

    async def look(city: str) -> str:
        if raised:
            raise raised.pop()
        return f"rain in {city}"

    node = Retry(ToolCall(look, args={"city": "Riga"}), retry_on=["ConnectionError"])
    assert run(node) == {"output": "rain in Riga"}


def test_an_error_that_is_not_named_ends_the_attempts() -> None:
    step = Outcomes(ConnectionError("one"), ValueError("two"), {})
    with pytest.raises(ValueError, match="two"):
        run(Retry(step, retry_on=[ConnectionError], max_retries=9))
    assert step.calls == 2


@pytest.mark.parametrize("retry_on", [(), [KeyError], [Exception]])
def test_wrong_settings_are_never_tried_again(retry_on: Any) -> None:
    step = Outcomes(ConfigError("no such tool"), {})
    with pytest.raises(ConfigError, match="no such tool"):
        run(Retry(step, retry_on=retry_on))
    assert step.calls == 1


def test_a_cancellation_that_the_node_raises_itself_is_not_tried_again() -> None:
    step = Outcomes(asyncio.CancelledError(), {})
    with pytest.raises(RuntimeError, match="raised CancelledError"):
        run(Retry(step))
    assert step.calls == 1


def test_a_limit_is_not_tried_again() -> None:
    step = Outcomes(*[ValueError("no")] * 9)
    result = asyncio.run(graph_of(Retry(step, max_retries=9)).run({}, limits=Limits(max_steps=3)))
    assert (result.status, result.stop_reason) == ("stopped", "max_steps")
    assert step.calls == 2


def test_a_limit_keeps_the_state_of_the_flow_inside() -> None:
    flow = Flow().step(Outcomes({"first": 1})).step(Outcomes({"second": 2}))
    result = asyncio.run(graph_of(Retry(flow)).run({}, limits=Limits(max_steps=3)))
    assert result.stop_reason == "max_steps"
    assert dict(result) == {"first": 1}


# State


def test_nothing_of_a_failed_attempt_remains() -> None:
    seen: list[dict[str, Any]] = []

    async def step(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(state))
        state["scratch"] = "left behind"
        state["log"] += ["again"]
        ctx.set_stop_reason("finish")
        if len(seen) == 1:
            raise ValueError("one")
        return {"done": True}

    start = {"log": ["begin"]}
    assert run(Retry(step), start, reducers={"log": "append"}) == {"log": ["begin"], "done": True}
    assert seen == [{"log": ["begin"]}] * 2
    assert start == {"log": ["begin"]}


def test_the_dict_that_was_given_may_be_returned_and_doubles_nothing() -> None:
    outcomes = [ValueError("one")]

    async def step(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        state["log"] += ["entry"]
        if outcomes:
            raise outcomes.pop()
        return state

    for reducers in ({}, {"log": "append"}):
        outcomes[:] = [ValueError("one")]
        assert run(Retry(step), {"log": ["a"]}, reducers=reducers) == {"log": ["a", "entry"]}


def test_a_command_of_the_node_is_followed() -> None:
    step = Outcomes(ValueError("one"), Command({"n": 1}, goto="b"))
    nodes: dict[str, Node] = {
        "it": Retry(step),
        "a": make_function_node(lambda ctx, state: {"at": "a"}, "a"),
        "b": make_function_node(lambda ctx, state: {"at": "b"}, "b"),
    }
    graph = Graph(nodes, [Edge("it", "a")], "it")
    assert dict(asyncio.run(graph.run({}))) == {"n": 1, "at": "b"}


def test_a_command_to_stop_is_followed() -> None:
    graph = Graph(
        {"it": Retry(Outcomes(Command({"n": 1}, goto=Command.STOP))), "a": Retry(Outcomes())},
        [Edge("it", "a")],
        "it",
    )
    result = asyncio.run(graph.run({}))
    assert (dict(result), result.stop_reason) == ({"n": 1}, "command_stop")


@pytest.mark.parametrize("fails", [True, False])
def test_the_reason_that_the_node_gives_for_the_end_counts_unless_it_failed(fails: bool) -> None:
    calls: list[int] = []

    async def step(ctx: ExecContext, state: dict[str, Any]) -> None:
        calls.append(1)
        if len(calls) == 1:
            ctx.set_stop_reason("finish")
            if fails:
                raise ValueError("one")

    result = asyncio.run(graph_of(Retry(step)).run({}))
    assert result.stop_reason == ("end" if fails else "finish")


def test_a_retry_in_a_retry_multiplies_the_attempts() -> None:
    step = Outcomes(*[ValueError("no")] * 5, {"ok": True})
    assert run(Retry(Retry(step, max_retries=2), max_retries=3)) == {"ok": True}
    assert step.calls == 6


def test_effects_outside_have_one_key_in_all_attempts_and_places() -> None:
    keys: list[str] = []

    async def step(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        keys.append(ctx.idempotency_key)
        if len(keys) < 4:
            raise ValueError("no")
        return {}

    run(Retry(Retry(step, max_retries=2), max_retries=2))
    assert len(set(keys)) == 1

    flow = Flow().step(step, id="pay")
    keys.clear()
    run(Retry(flow, max_retries=9))
    assert len(set(keys)) == 1
    assert keys[0].endswith(":it/1/attempt/pay/1")


def test_effects_that_are_done_once_are_done_in_each_attempt() -> None:
    done: list[str] = []

    async def step(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        await ctx.once("act", lambda: done.append("act"))
        if len(done) < 2:
            raise ValueError("one")
        return {}

    run(Retry(step), checkpointer=MemoryCheckpointer(), checkpoint_id="r")
    assert done == ["act", "act"]


# Timeouts


def test_an_attempt_that_takes_too_long_is_tried_again() -> None:
    calls: list[int] = []

    async def step(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            await asyncio.Event().wait()
        return {"calls": len(calls)}

    assert run(Retry(step, timeout=0.02)) == {"calls": 2}


def test_the_timeout_is_an_error_that_retry_on_may_leave_out() -> None:
    async def step(ctx: ExecContext, state: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"attempt of node 'it' took longer than 0\.01 seconds"):
        run(Retry(step, timeout=0.01, retry_on=[ValueError]))


def test_a_timeout_of_the_node_itself_is_its_own() -> None:
    step = Outcomes(TimeoutError(), TimeoutError("mine"))
    with pytest.raises(TimeoutError, match="mine"):
        run(Retry(step, max_retries=2, timeout=60))


def test_the_bound_of_the_run_for_each_node_is_one_for_each_attempt() -> None:
    calls: list[int] = []

    async def step(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        if len(calls) < 3:
            await asyncio.Event().wait()
        return {"calls": len(calls)}

    assert run(Retry(step, timeout=60), node_timeout=0.02) == {"calls": 3}


def test_rty_02_a_cancellation_is_never_tried_again() -> None:
    calls: list[int] = []

    async def step(ctx: ExecContext, state: dict[str, Any]) -> None:
        calls.append(1)
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.wait_for(graph_of(Retry(step, max_retries=5, delay=10)).run({}), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert calls == [1]


def test_rty_02_a_cancellation_ends_the_wait_between_attempts() -> None:
    step = Outcomes(ValueError("one"), {})

    async def main() -> None:
        await asyncio.wait_for(graph_of(Retry(step, delay=1000)).run({}), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert step.calls == 1


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit])
def test_rty_02_the_end_of_the_process_is_never_tried_again(leaving: type[BaseException]) -> None:
    calls: list[int] = []

    class Exits(Node):
        async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> None:
            calls.append(1)
            raise leaving

    async def main() -> None:
        with pytest.raises(leaving):
            await Retry(Exits()).execute(ExecContext(), {})

    asyncio.run(main())
    assert calls == [1]


def test_rty_04_a_cancellation_while_the_own_timeout_fires_is_a_cancellation() -> None:
    async def step(ctx: ExecContext, state: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    async def trial(late: float) -> None:
        node = Retry(step, timeout=0.01, max_retries=1)
        task = asyncio.ensure_future(graph_of(node).run({}))
        await asyncio.sleep(0.01 + late)
        if task.cancel():
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(TimeoutError):
                await task

    async def main() -> None:
        offsets = [(number - 50) / 25_000 for number in range(200)]
        await asyncio.gather(*map(trial, offsets))

    asyncio.run(main())


def test_rty_07_the_time_limit_of_a_run_says_that_a_thread_goes_on() -> None:
    release = threading.Event()

    def slow(ctx: ExecContext, state: dict[str, Any]) -> None:
        release.wait(10)

    graph = Graph({"slow": make_function_node(slow)}, [], "slow")
    try:
        with pytest.raises(TimeoutError, match="its thread was abandoned and goes on"):
            asyncio.run(graph.run({}, node_timeout=0.01))
    finally:
        release.set()


def test_rty_07_a_function_that_is_not_async_is_abandoned_at_the_timeout_and_that_is_said() -> None:
    release, done = threading.Event(), threading.Event()

    def step(ctx: ExecContext, state: dict[str, Any]) -> None:
        release.wait(30)
        done.set()

    with pytest.raises(TimeoutError, match="its thread was abandoned and goes on"):
        run(Retry(step, timeout=0.02, max_retries=1))
    assert not done.is_set()  # it was not waited for
    release.set()
    assert done.wait(30)


# Questions, and runs that go on


def test_a_pause_is_no_failure() -> None:
    store = MemoryCheckpointer()
    graph = graph_of(Retry(Interrupt(key="name", prompt="Who?")))
    with pytest.raises(GraphInterrupt) as pause:
        asyncio.run(graph.run({}, checkpointer=store, checkpoint_id="r"))
    assert pause.value.key == "name"
    result = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume={"name": "Ada"}))
    assert dict(result) == {"name": "Ada"}


def test_a_pause_in_a_context_made_by_hand_is_no_failure() -> None:
    step = Outcomes(GraphInterrupt("name", "Who?"), {})
    with pytest.raises(GraphInterrupt):
        asyncio.run(Retry(step).execute(ExecContext(), {}))
    assert step.calls == 1


def test_a_question_keeps_its_attempt_and_failed_attempts_are_not_repeated() -> None:
    calls: list[str] = []

    async def step(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        calls.append("call")
        if len(calls) == 1:
            raise ValueError("one")
        await ctx.once("look", lambda: calls.append("look"))
        return {"name": await ctx.interrupt("name", "Who?")}

    store = MemoryCheckpointer()
    graph = graph_of(Retry(step))
    ids = []
    for _ in range(2):
        with pytest.raises(GraphInterrupt) as pause:
            asyncio.run(graph.run(checkpointer=store, checkpoint_id="r"))
        ids += [question.id for question in pause.value.interrupts]
    assert ids == ["it/1/attempt-2:name"] * 2
    result = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume={"name": "Ada"}))
    assert dict(result) == {"name": "Ada"}
    assert calls == ["call", "call", "look", "call"]
    assert result.steps == 3


class BreakingStore(MemoryCheckpointer):
    """Breaks down after some records, until it is repaired."""

    def __init__(self, records: int) -> None:
        super().__init__()
        self.records = records

    async def append(self, *args: Any, **options: Any) -> Any:
        if self.records == 0:
            raise CheckpointError("the store is down")
        self.records -= 1
        return await super().append(*args, **options)


@pytest.mark.parametrize("records", range(1, 8))
def test_a_run_that_crashed_anywhere_goes_on_with_the_attempt_it_was_in(records: int) -> None:
    async def execute(
        self: Any, ctx: ExecContext, state: dict[str, Any]
    ) -> Command:  # fails twice, then says where to go
        tries = await ctx.once("tries", lambda: len(done))
        done.append(ctx.path)
        if ctx.path.endswith(("attempt-1", "attempt-2")):
            raise ValueError("no")
        return Command({"tries": tries}, goto="b")

    done: list[str] = []
    flaky = type("Flaky", (Node,), {"type": "flaky", "execute": execute})
    nodes: dict[str, Node] = {
        "it": Retry(flaky()),
        "a": make_function_node(lambda ctx, state: {"at": "a"}, "a"),
        "b": make_function_node(lambda ctx, state: {"at": "b"}, "b"),
    }
    graph = Graph(nodes, [Edge("it", "a")], "it")
    store = BreakingStore(records)
    options: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r"}
    with pytest.raises(CheckpointError):
        asyncio.run(graph.run({}, **options))
    store.records = 1000
    result = asyncio.run(graph.run(**options))
    assert result["at"] == "b"
    attempts = [path[-1] for path in done]
    assert attempts == sorted(attempts), "no attempt is made again after a later one"
    assert len(attempts) <= 4


def test_a_run_that_failed_has_all_its_attempts_anew() -> None:
    step = Outcomes(*[ValueError("no")] * 4, {"ok": True})
    graph = graph_of(Retry(step, max_retries=3))
    options: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(ValueError, match="no"):
        asyncio.run(graph.run({}, **options))
    assert dict(asyncio.run(graph.run(**options))) == {"ok": True}
    assert step.calls == 5


def test_a_stored_run_is_bound_to_the_node_inside() -> None:
    store = MemoryCheckpointer()
    options: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph_of(Retry(Interrupt(key="a"))).run({}, **options))
    with pytest.raises(GraphChanged):
        asyncio.run(graph_of(Retry(Outcomes({}))).run(**options, resume={"a": 1}))


def test_an_open_question_comes_before_a_failure_beside_it() -> None:
    async def step(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"name": await ctx.interrupt("name")}
        except BaseException as signal:
            raise ValueError("caught") from signal

    store = MemoryCheckpointer()
    graph = graph_of(Retry(step))
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run({}, checkpointer=store, checkpoint_id="r"))
    result = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume={"name": "Ada"}))
    assert dict(result) == {"name": "Ada"}


# What a graph knows of it


def test_it_tells_what_the_node_inside_tells() -> None:
    node = Retry(LLM(prompt="{question}", output_key="answer", model="m", provider="p"))
    assert list(node.reads() or ()) == ["question"]
    assert list(node.writes() or ()) == ["answer"]
    assert [child.type for child in node.children()] == ["llm_chat"]
    assert list(Retry(Outcomes()).reads() or ()) == []
    assert Retry(Outcomes()).writes() is None


def test_the_model_and_the_tools_inside_are_checked_before_the_run() -> None:
    with pytest.raises(ConfigError, match="no provider is named"):
        run(Retry(LLM(prompt="x")))
    with pytest.raises(ConfigError, match="no_such_tool"):
        run(Retry(ToolCall("no_such_tool")))


def test_a_model_call_is_tried_again() -> None:
    provider = ScriptedProvider([ProviderError("busy", status=503, permanent=True), "Hello."])
    node = Retry(LLM(prompt="x", http_max_retries=0), retry_on=["5xx"])
    graph = Flow(providers={"p": provider}, default_provider="p", default_model="m").step(node)
    assert asyncio.run(graph.compile().run({}))["output"] == "Hello."


# Options


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the option 'node' is missing"),
        ({"node": "transform"}, "must be a Node or a function"),
        ({"node": lambda: None}, "must take"),
        ({"max_retries": 0}, "'max_retries' must be >= 1"),
        ({"max_retries": "many"}, "'max_retries' must be"),
        ({"delay": -1}, "'delay' must be >= 0"),
        ({"delay": float("inf")}, "'delay' must be"),
        ({"backoff": 0}, "'backoff' must be > 0"),
        ({"jitter": 2}, "'jitter' must be <= 1"),
        ({"max_delay": -1}, "'max_delay' must be >= 0"),
        ({"timeout": 0}, "'timeout' must be > 0"),
        ({"retries": 3}, "unknown option 'retries'"),
        ({"retry_on": [KeyboardInterrupt]}, "retry_on: KeyboardInterrupt is never tried again"),
        ({"retry_on": ["asyncio.CancelledError"]}, "CancelledError is never tried again"),
        ({"retry_on": [ConfigError]}, "ConfigError is never tried again"),
        ({"retry_on": ["a b"]}, "retry_on: 'a b' is neither an exception class"),
        ({"retry_on": [42]}, "42 is neither"),
        ({"retry_on": [True]}, "True is neither"),
        ({"retry_on": [int]}, "int is never tried again"),
    ],
)
def test_options_that_do_not_fit_are_refused_when_the_node_is_made(
    given: dict[str, Any], message: str
) -> None:
    if given and "node" not in given:
        given = {"node": Outcomes(), **given}
    with pytest.raises(ConfigError, match=message):
        Retry(id="again", **given)


def test_the_options_are_seen_as_they_were_given() -> None:
    node = Retry(Outcomes(), retry_on=[429, "OSError"], id="again")
    assert (node.id, node.config["max_retries"], node.config["retry_on"]) == (
        "again",
        3,
        [429, "OSError"],
    )
    assert issubclass(ToolError, Exception)
