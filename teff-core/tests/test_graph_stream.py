"""Events: their order, their paths, back-pressure, and streams that are left early."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.flow import Flow, SubFlow
from teff.graph import Edge, Graph
from teff.node import make_function_node
from teff.runtime import EventChannel, Limits, StreamEvent


async def step(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    return {"n": state.get("n", 0) + 1}


def endless() -> Graph:
    return Graph({"step": make_function_node(step)}, [Edge("step", "step")], "step")


def nested() -> Graph:
    inner = Graph(
        {"a": make_function_node(step), "b": make_function_node(step)},
        [Edge("a", "b", "n>=1")],
        "a",
    )
    return Flow("outer").step(step, id="first").step(SubFlow(inner, id="team")).compile()


def events_of(graph: Graph, state: Any = None, **options: Any) -> list[StreamEvent]:
    async def collect() -> list[StreamEvent]:
        return [event async for event in graph.stream(state, **options)]

    return asyncio.run(collect())


def test_events_come_in_order_with_the_paths_of_nested_nodes() -> None:
    events = events_of(nested())
    assert [(event.type, event.path) for event in events] == [
        ("run_start", ""),
        ("node_start", "first/1"),
        ("node_end", "first/1"),
        ("edge", "first/1"),
        ("node_start", "team/1"),
        ("node_start", "team/1/a/1"),
        ("node_end", "team/1/a/1"),
        ("edge", "team/1/a/1"),
        ("node_start", "team/1/b/1"),
        ("node_end", "team/1/b/1"),
        ("edge", "team/1/b/1"),
        ("node_end", "team/1"),
        ("edge", "team/1"),
        ("run_end", ""),
    ]
    assert events[7].data == {"target": "b", "condition": "n>=1"}
    assert events[10].data == {"target": None, "condition": None}
    assert events[2].data["keys"] == ("n",)


def test_the_last_event_carries_how_the_run_ended() -> None:
    last = events_of(nested())[-1]
    assert last.data["status"] == "finished"
    assert last.data["stop_reason"] == "end"
    assert last.data["state"] == {"n": 3}
    assert last.data["steps"] == 4


def test_run_and_stream_tell_the_same_events() -> None:
    heard: list[StreamEvent] = []
    asyncio.run(nested().run(emit=heard.append))
    assert [event.type for event in heard] == [event.type for event in events_of(nested())]


def test_an_async_listener_is_waited_for() -> None:
    heard: list[str] = []

    async def listen(event: StreamEvent) -> None:
        await asyncio.sleep(0)
        heard.append(event.type)

    asyncio.run(nested().run(emit=listen))
    assert heard[-1] == "run_end"


def test_a_stream_raises_what_run_raises_after_its_last_event() -> None:
    async def fail(ctx: Any, state: Any) -> None:
        raise ValueError("no luck")

    async def scenario() -> list[StreamEvent]:
        events = []
        with pytest.raises(ValueError, match="no luck"):
            async for event in Flow().step(fail).compile().stream():
                events.append(event)
        return events

    events = asyncio.run(scenario())
    assert [event.type for event in events][-2:] == ["node_error", "run_end"]
    assert events[-1].data["status"] == "failed"
    assert sum(event.type == "run_end" for event in events) == 1


def test_a_limit_is_told_before_the_end() -> None:
    events = events_of(endless(), limits=Limits(max_steps=2))
    assert [event.type for event in events][-2:] == ["limit", "run_end"]
    assert events[-2].data == {"reason": "max_steps"}


def test_a_slow_reader_slows_the_run_down() -> None:
    async def scenario() -> int:
        stream = endless().stream(limits=Limits(max_steps=5_000))
        await anext(stream)
        for _ in range(200):
            await asyncio.sleep(0)
        ahead = 0
        async for event in stream:
            ahead = event.data["steps"] if event.type == "run_end" else ahead
        return ahead

    assert asyncio.run(scenario()) == 5_000


def test_the_channel_never_holds_more_than_its_size() -> None:
    async def scenario() -> tuple[int, list[int]]:
        channel = EventChannel(size=4)
        most = 0

        async def write() -> None:
            nonlocal most
            for number in range(50):
                waiting = channel.offer(StreamEvent("custom", "", "", "", {"n": number}, 0.0))
                most = max(most, len(channel._events))
                if waiting is not None:
                    await waiting
            channel.close()

        writer = asyncio.create_task(write())
        got = [event.data["n"] async for event in channel]
        await writer
        return most, got

    most, got = asyncio.run(scenario())
    assert most == 4
    assert got == list(range(50))


def test_leaving_a_stream_early_ends_the_run() -> None:
    async def scenario() -> tuple[bool, int]:
        cancelled = asyncio.Event()

        async def wait(ctx: Any, state: Any) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        stream = Flow().step(wait).compile().stream()
        async for event in stream:
            if event.type == "node_start":
                break
        await stream.aclose()
        return cancelled.is_set(), len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == (True, 1)


def test_str_01_a_stream_that_is_never_read_starts_nothing() -> None:
    async def scenario() -> int:
        stream = endless().stream()
        await stream.aclose()
        return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1


def test_str_09_a_timeout_on_an_event_leaves_no_error_behind() -> None:
    async def scenario() -> list[Any]:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, about: complaints.append(about)
        )

        async def fail_later(ctx: Any, state: Any) -> None:
            await asyncio.sleep(0.05)
            raise ValueError("too late")

        stream = Flow().step(fail_later).compile().stream()
        await anext(stream)
        await anext(stream)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.01)
        await asyncio.sleep(0.1)
        return complaints

    assert asyncio.run(scenario()) == []


def test_custom_events_carry_their_name_and_data() -> None:
    async def tell(ctx: Any, state: Any) -> None:
        await ctx.emit_custom("progress", 0.5)

    custom = [event for event in events_of(Flow().step(tell).compile()) if event.type == "custom"]
    assert [event.data for event in custom] == [{"name": "progress", "data": 0.5}]


def test_a_cancelled_run_tells_its_end_once() -> None:
    heard: list[StreamEvent] = []

    async def scenario() -> None:
        task = asyncio.create_task(endless().run(emit=heard.append))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    ends = [event for event in heard if event.type == "run_end"]
    assert [event.data["status"] for event in ends] == ["cancelled"]
