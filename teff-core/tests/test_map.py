"""Map: the same work for each item, in order, as much at once as is allowed."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, StateError
from teff.flow import Flow
from teff.graph import Graph
from teff.node import Interrupt, Map, Node, Transform, make_function_node
from teff.runtime import ExecContext, Limits, StreamEvent
from teff.state import Append, Overwrite


def alone(node: Node, **options: Any) -> Graph:
    return Graph({"m": node}, [], "m", **options)


def run(node: Node, state: Any = None, *, reducers: Any = None, **options: Any) -> Any:
    return asyncio.run(alone(node, reducers=reducers).run(state or {}, **options))


def over_x(processor: Any, **options: Any) -> Map:
    return Map(processor, **{"input_keys": "x", "output_key": "y", **options})


async def double(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    return {"y": state["x"] * 2}


async def ten_by(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    return {"y": 10 // state["x"]}


async def echo_after(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(state["x"] / 1000)
    return {"y": state["x"]}


# Items and results.


def test_results_come_in_the_order_of_the_items() -> None:
    assert run(over_x(double), {"x": [3, 1, 2]}) == {"x": [3, 1, 2], "y": [6, 2, 4]}


def test_map_07_results_do_not_depend_on_what_is_ready_first() -> None:
    assert run(over_x(echo_after), {"x": [30, 10, 20]})["y"] == [30, 10, 20]


def test_all_ways_to_give_the_processor() -> None:
    keys = {"input_keys": "x", "output_key": "y"}
    for node in (
        Map(double, **keys),
        Map(processor=double, **keys),
        Map({"processor": double, **keys}),
        Map(keys, processor=double),
        Map([double], id="m", **keys),
        Map(Flow().step(double), **keys),
        Map(make_function_node(double), **keys),
    ):
        assert run(node, {"x": [1, 2]})["y"] == [2, 4]


def test_several_steps_see_what_the_ones_before_wrote() -> None:
    steps = [lambda ctx, state: {"half": state["x"] / 2}, lambda ctx, state: {"y": state["half"]}]
    result = run(over_x(steps), {"x": [2, 4]})
    assert result == {"x": [2, 4], "y": [1.0, 2.0]}, "other keys stay with the processor"


def test_several_input_keys_go_together() -> None:
    async def pair(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"y": f"{state['a']}{state['b']}"}

    node = Map(pair, input_keys=["a", "b"], output_key="y")
    assert run(node, {"a": [1, 2], "b": ("x", "y")})["y"] == ["1x", "2y"]


def test_lists_of_different_lengths_are_refused_with_their_lengths() -> None:
    node = Map(double, input_keys=["a", "b"], output_key="y")
    with pytest.raises(ValueError, match="'a' has 1, 'b' has 2"):
        run(node, {"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match="'b' has 0"):
        run(node, {"a": [1]})


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("text", "text"),
        (b"bytes", "a bytes"),
        (None, "nothing"),
        (3, "a whole number"),
        ({"a": 1}, "a mapping"),
        ({1, 2}, "a set"),
    ],
)
def test_what_is_no_list_is_refused_by_key(value: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=f"'x', not {kind}"):
        run(over_x(double), {"x": value})


def test_a_missing_key_is_an_empty_list() -> None:
    assert run(over_x(double)) == {"y": []}


def test_the_processor_sees_the_rest_of_the_state_and_shares_nothing() -> None:
    seen: list[Any] = []

    async def look(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        seen.append(dict(state))
        state["scratch"] = 1
        await asyncio.sleep(0)
        return {"y": 0, "scratch": 2}

    assert run(over_x(look), {"x": [1, 2], "who": "me"}) == {"x": [1, 2], "who": "me", "y": [0, 0]}
    assert seen == [{"x": 1, "who": "me"}, {"x": 2, "who": "me"}]


def test_the_result_may_stand_under_another_key() -> None:
    upper = Transform(action="uppercase", input_key="words", output_key="word")
    node = Map(upper, input_keys="words", output_key="loud", result_key="word")
    assert run(node, {"words": ["a", "b"]}) == {"words": ["a", "b"], "loud": ["A", "B"]}
    in_place = Transform(action="uppercase", input_key="words", output_key="words")
    node = Map(in_place, input_keys="words", output_key="words")
    assert run(node, {"words": ["a", "b"]}) == {"words": ["A", "B"]}


def test_a_processor_that_never_writes_the_result_is_refused_at_build() -> None:
    with pytest.raises(ConfigError, match="'loud'.*it writes output: .*'result_key'"):
        Map(Transform(action="uppercase"), input_keys="words", output_key="loud")
    with pytest.raises(ConfigError, match="under one key"):
        over_x(double, on_error="collect", errors_key="y")
    with pytest.raises(ConfigError, match="no 'output_key'"):
        Map(double, input_keys="x", result_key="y")


def test_an_item_with_other_keys_than_the_result_is_an_error_and_one_without_any_is_none() -> None:
    async def wrong(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"z": 1}

    with pytest.raises(StateError, match="wrote z, but no 'y'"):
        run(over_x(wrong), {"x": [1]})
    assert run(over_x(lambda ctx, state: None), {"x": [1, 2]})["y"] == [None, None]


def test_without_an_output_key_only_the_work_is_done() -> None:
    done: list[int] = []

    async def work(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        done.append(state["x"])
        return {"z": 1}

    assert run(Map(work, input_keys="x"), {"x": [1, 2]}) == {"x": [1, 2]}
    assert done == [1, 2]


def test_results_go_through_the_reducer_of_the_output_key_once() -> None:
    result = run(over_x(double), {"x": [1, 2], "y": [0]}, reducers={"y": "append", "x": "append"})
    assert result == {"x": [1, 2], "y": [0, 2, 4]}


def test_operators_of_a_result_are_read_within_the_item() -> None:
    async def operate(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"y": Append([state["x"]]) if state["x"] % 2 else Overwrite(state["x"])}

    assert run(over_x(operate), {"x": [1, 2]})["y"] == [[1], 2]


@pytest.mark.parametrize(
    ("size", "expected"), [(1, [[1], [2], [3]]), (2, [[1, 2], [3]]), (5, [[1, 2, 3]])]
)
def test_chunks_give_one_result_each(size: int, expected: Any) -> None:
    async def echo(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"y": [state["x"]] if size == 1 else state["x"]}

    assert run(over_x(echo, chunk_size=size), {"x": [1, 2, 3]})["y"] == expected


# Options.


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_concurrency", 0),
        ("max_concurrency", -1),
        ("max_concurrency", "x"),
        ("chunk_size", 0),
        ("chunk_size", -1),
        ("input_keys", ""),
        ("input_keys", []),
        ("input_keys", ["x", ""]),
        ("on_error", "ignore"),
        ("chunksize", 2),
    ],
)
def test_map_06_wrong_options_are_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=option) as caught:
        over_x(double, **{option: value})
    assert caught.value.path == option


@pytest.mark.parametrize("processor", [None, 3, "text", [], Map])
def test_what_cannot_run_is_refused_at_build(processor: Any) -> None:
    with pytest.raises(ConfigError, match="processor"):
        over_x(processor)


# How much at once.


def test_map_05_many_items_need_no_more_tasks_than_the_limit() -> None:
    most = 0

    async def count(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        await asyncio.sleep(0)
        return {"y": state["x"]}

    assert run(over_x(count, max_concurrency=2), {"x": list(range(1500))})["y"] == list(range(1500))
    assert most <= 3


def test_items_that_never_wait_need_few_tasks_without_a_limit() -> None:
    most = 0

    async def count(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        return {"y": 0}

    run(over_x(count), {"x": [0] * 20_000})
    assert most <= 4


def test_items_that_wait_for_each_other_all_run_without_a_limit() -> None:
    async def meet(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"met": await barrier.wait()}

    async def main() -> Any:
        nonlocal barrier
        barrier = asyncio.Barrier(1000)
        node = Map(meet, input_keys="x", output_key="places", result_key="met")
        return await alone(node).run({"x": [0] * 1000})

    barrier: Any = None
    result = asyncio.run(asyncio.wait_for(main(), 30))
    assert sorted(result["places"]) == list(range(1000))


@pytest.mark.parametrize("plain", [False, True])
def test_map_06_the_peak_is_the_limit(plain: bool) -> None:
    lock, active, peak = threading.Lock(), 0, 0

    def enter() -> None:
        nonlocal active, peak
        with lock:
            active += 1
            peak = max(peak, active)

    def leave() -> None:
        nonlocal active
        with lock:
            active -= 1

    async def wait(ctx: Any, state: dict[str, Any]) -> None:
        enter()
        await asyncio.sleep(0.02)
        leave()

    def block(ctx: Any, state: dict[str, Any]) -> None:
        enter()
        time.sleep(0.02)
        leave()

    run(Map(block if plain else wait, input_keys="x", max_concurrency=7), {"x": [0] * 30})
    assert (peak, active) == (7, 0)


def test_plain_functions_are_not_bounded_by_a_pool_of_threads() -> None:
    barrier = threading.Barrier(60)
    node = Map(lambda ctx, state: {"z": barrier.wait(20)}, input_keys="x", output_key="z")
    assert sorted(run(node, {"x": [0] * 60})["z"]) == list(range(60))


# Failures.


def test_map_02_collect_keeps_the_others_in_their_places() -> None:
    result = run(over_x(ten_by, on_error="collect"), {"x": [1, 0, 2]})
    assert result["y"] == [10, None, 5]
    (failure,) = result["y_errors"]
    assert (failure["index"], failure["type"]) == (1, "ZeroDivisionError")
    assert "by zero" in failure["message"]
    assert run(over_x(ten_by, on_error="collect", errors_key="bad"), {"x": [1]}) == {
        "x": [1],
        "y": [10],
        "bad": [],
    }


def test_map_02_fail_raises_one_error_that_names_the_item() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run(over_x(ten_by), {"x": [1, 0, 2]})
    assert "in item 1" in caught.value.__notes__
    with pytest.raises(TypeError) as in_chunk:
        run(over_x(ten_by, chunk_size=2), {"x": [1, 0, 2]})
    assert "in chunk 0" in in_chunk.value.__notes__


def test_skip_leaves_failed_items_out_and_keeps_the_order() -> None:
    assert run(over_x(ten_by, on_error="skip"), {"x": [1, 0, 2]})["y"] == [10, 5]


@pytest.mark.parametrize("limit", [None, 3])
def test_map_01_siblings_are_cancelled(limit: int | None) -> None:
    late: list[int] = []

    async def work(ctx: Any, state: dict[str, Any]) -> None:
        await asyncio.sleep(0.005)
        if state["x"] == 1:
            raise ValueError("bad")
        await asyncio.sleep(5)
        late.append(state["x"])

    async def main() -> None:
        node = Map(work, input_keys="x", max_concurrency=limit)
        with pytest.raises(ValueError, match="bad"):
            await alone(node).run({"x": list(range(50))})
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert late == []


def test_a_cancelled_map_leaves_no_task() -> None:
    async def wait(ctx: Any, state: dict[str, Any]) -> None:
        await asyncio.sleep(10)

    async def main() -> None:
        node = Map(wait, input_keys="x", on_error="collect")
        task = asyncio.ensure_future(alone(node).run({"x": [0] * 50}))
        await asyncio.sleep(0.05)
        assert task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_items_that_never_wait_can_be_cancelled() -> None:
    async def spin(ctx: Any, state: dict[str, Any]) -> None:
        pass

    async def main() -> None:
        task = asyncio.ensure_future(alone(Map(spin, input_keys="x")).run({"x": range(10**7)}))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(main(), 60))


# Pauses, limits, resuming.


@pytest.mark.parametrize("on_error", ["fail", "skip", "collect"])
def test_int_01_items_ask_at_once_and_finished_ones_are_not_done_again(on_error: Any) -> None:
    done: list[int] = []

    async def work(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        done.append(state["x"])
        answer = None
        if state["x"] % 2:
            answer = await ctx.interrupt("ok", f"{state['x']}?")
        return {"y": answer}

    graph, store = alone(over_x(work, on_error=on_error)), MemoryCheckpointer()
    stored: Any = {"checkpointer": store, "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt) as caught:
        asyncio.run(graph.run({"x": [0, 1, 2, 3]}, **stored))
    asked = {question.prompt: question.id for question in caught.value.interrupts}
    assert list(asked) == ["1?", "3?"]
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run(resume={asked["3?"]: "three"}, **stored))
    result = asyncio.run(graph.run(resume={asked["1?"]: 0}, **stored))
    assert result["y"] == [None, 0, None, "three"]
    assert [done.count(x) for x in (0, 2)] == [1, 1]


def test_a_pause_in_a_context_made_by_hand_is_no_failure_to_collect() -> None:
    node = over_x(Interrupt(key="y"), on_error="collect")
    with pytest.raises(GraphInterrupt):
        asyncio.run(node.execute(ExecContext(), {"x": [1]}))


@pytest.mark.parametrize("on_error", ["fail", "skip", "collect"])
def test_a_limit_keeps_the_results_that_there_are(on_error: Any) -> None:
    result = run(over_x(double, on_error=on_error), {"x": [1, 2, 3, 4]}, limits=Limits(max_steps=3))
    assert (result.stop_reason, result["y"]) == ("max_steps", [2, 4])


def test_a_deadline_keeps_the_results_that_there_are() -> None:
    node = over_x(echo_after, on_error="collect")
    result = run(node, {"x": [1, 60_000, 2]}, limits=Limits(deadline=0.2))
    assert (result.stop_reason, result["y"]) == ("deadline", [1, 2])


def test_each_item_has_a_path_and_the_node_its_id() -> None:
    events: list[StreamEvent] = []
    run(over_x(double), {"x": [1, 2]}, emit=events.append)
    run(over_x(make_function_node(double, id="double")), {"x": [1]}, emit=events.append)
    started = [(event.path, event.node_id) for event in events if event.type == "node_start"]
    assert started == [
        ("m/1", "m"),
        ("m/1/0", "0"),
        ("m/1/1", "1"),
        ("m/1", "m"),
        ("m/1/0", "double"),
    ]


def test_what_is_known_of_keys_and_children() -> None:
    render = Transform(action="render", template="{x} {tone}", output_key="y")
    node = over_x(render)
    assert set(node.reads()) == {"x", "tone"}
    assert list(node.writes()) == ["y"]
    assert list(over_x(render, on_error="collect").writes()) == ["y", "y_errors"]
    assert list(node.children()) == [render]
    assert over_x(render).signature() == node.signature()
    assert over_x(render, chunk_size=2).signature() != node.signature()


def test_the_time_of_a_run_for_each_node_says_of_a_thread_in_a_container_that_it_goes_on() -> None:
    release = threading.Event()
    graph = alone(Map(lambda ctx, state: {"y": release.wait(30)}, input_keys="x", output_key="y"))
    try:
        with pytest.raises(TimeoutError, match="its thread was abandoned and goes on"):
            asyncio.run(graph.run({"x": [1]}, node_timeout=0.01))
    finally:
        release.set()
