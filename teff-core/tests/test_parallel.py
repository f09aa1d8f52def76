"""Parallel: branches that know nothing of each other, merged in their order."""

from __future__ import annotations

import asyncio
import operator
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt
from teff.flow import Flow
from teff.graph import Edge, Graph
from teff.node import LLM, Interrupt, Loop, Map, Node, Parallel, make_function_node
from teff.runtime import ExecContext, Limits, StreamEvent
from teff.state import DELETE, Append, Overwrite
from teff.testing import ScriptedProvider


def alone(node: Node, **options: Any) -> Graph:
    return Graph({"p": node}, [], "p", **options)


def run(node: Node, state: Any = None, *, reducers: Any = None, **options: Any) -> Any:
    return asyncio.run(alone(node, reducers=reducers).run(state or {}, **options))


def gives(**update: Any) -> Any:
    async def give(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return update

    return give


def waits(seconds: float, **update: Any) -> Any:
    async def wait(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(seconds)
        return update

    return wait


def fails(error: Exception) -> Any:
    async def fail(ctx: Any, state: dict[str, Any]) -> None:
        raise error

    return fail


async def left_over() -> list[Any]:
    """Return the tasks of the loop besides this one."""
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


# What branches may be, and what comes of them.


def test_branches_are_nodes_functions_lists_and_flows() -> None:
    flow = Flow().step(gives(c=3)).step(lambda ctx, state: {"d": state["c"] + 1})
    node = Parallel(
        [
            make_function_node(gives(a=1)),
            [gives(b=2), lambda ctx, state: {"bb": state["b"] * 10}],
            flow,
            flow.compile(),
            lambda ctx, state: {"e": state["x"]},
        ]
    )
    assert run(node, {"x": 5}) == {"x": 5, "a": 1, "b": 2, "bb": 20, "c": 3, "d": 4, "e": 5}


def test_all_ways_to_give_the_branches() -> None:
    branches = [gives(a=1), gives(b=2)]
    for node in (
        Parallel(branches),
        Parallel(branches=branches),
        Parallel({"branches": branches}),
        Parallel({"one": branches[0], "two": branches[1]}),
        Parallel({"branches": branches, "id": "n"}, timeout=5),
    ):
        assert run(node) == {"a": 1, "b": 2}
    assert Parallel(branches, id="fan").id == "fan"


@pytest.mark.parametrize("branches", [None, [], {}, 3, "text", [3], [[]], [Loop], [lambda: None]])
def test_what_cannot_run_is_refused_at_build(branches: Any) -> None:
    with pytest.raises(ConfigError, match="branch"):
        Parallel(branches)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_concurrency", 0),
        ("max_concurrency", -1),
        ("max_concurrency", "x"),
        ("timeout", 0),
        ("timeout", -1),
        ("on_error", "ignore"),
        ("errors_key", ""),
        ("max_paralel", 2),
    ],
)
def test_wrong_options_are_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=option) as caught:
        Parallel([gives()], **{option: value})
    assert caught.value.path == option


def test_branches_really_run_at_the_same_time() -> None:
    async def meet(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"met": Append([await barrier.wait()])}

    async def main() -> Any:
        nonlocal barrier
        barrier = asyncio.Barrier(20)
        return await alone(Parallel([meet] * 20)).run({})

    barrier: Any = None
    result = asyncio.run(asyncio.wait_for(main(), 10))
    assert sorted(result["met"]) == list(range(20))


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_branches_than_allowed_run_at_once(limit: int) -> None:
    active, peak = 0, 0

    async def work(ctx: Any, state: dict[str, Any]) -> None:
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        await asyncio.sleep(0.01)
        active -= 1

    run(Parallel([work] * 9, max_concurrency=limit))
    assert peak == limit


def test_a_command_of_a_branch_counts_for_its_update_only() -> None:
    from teff.node import Command

    async def jump(ctx: Any, state: dict[str, Any]) -> Command:
        return Command({"a": 1}, goto="nowhere")

    assert run(Parallel([jump])) == {"a": 1}


# Merging.


def test_red_01_branches_that_write_one_key_merge_in_declared_order() -> None:
    for _ in range(50):
        same = Parallel([gives(owner="kim"), gives(owner="kim")])
        assert run(same) == {"owner": "kim"}
        different = Parallel([waits(0.001, owner="kim"), gives(owner="lee")])
        assert run(different) == {"owner": "lee"}


def test_red_01_a_value_that_was_there_before_is_written_like_any_other() -> None:
    node = Parallel([gives(ok=True), gives(ok=False)])
    assert run(node, {"ok": False}) == {"ok": False}
    assert run(node, {"ok": False, "n": 1}) == {"ok": False, "n": 1}


def test_map_07_appending_branches_merge_in_declared_order() -> None:
    for _ in range(50):
        node = Parallel([waits(0.001, log="a"), gives(log="b"), waits(0, log="c")])
        assert run(node, {"log": ["0"]}, reducers={"log": "append"})["log"] == ["0", "a", "b", "c"]


def test_red_02_what_nested_flows_append_comes_once() -> None:
    inner = Flow().step(gives(log="zz"))
    middle = Flow().step(gives(log="yo")).step(inner)
    for node in (Parallel([middle]), Parallel([Parallel([middle])]), Parallel([[middle]])):
        assert run(node, {"log": ["hi"]}, reducers={"log": "append"})["log"] == ["hi", "yo", "zz"]


def test_red_02_a_branch_that_returns_the_whole_state_changes_what_it_changed() -> None:
    async def everything(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "log": ["a"], "n": 1}

    async def all_but_log(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "m": 2}

    node = Parallel([everything, all_but_log])
    result = run(node, {"log": ["0"], "n": 0}, reducers={"log": "append"})
    assert result == {"log": ["0", "a"], "n": 1, "m": 2}


def test_red_04_a_branch_cannot_change_a_value_in_place() -> None:
    async def mutate(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        state["notes"].append("x")
        return {"note": "y"}

    with pytest.raises(TypeError, match="return an update"):
        run(Parallel([mutate]), {"notes": []})


def test_red_06_a_loop_until_a_list_is_empty_ends_after_the_reset() -> None:
    async def fix(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"rounds": 1, "errors": Overwrite([]) if state["rounds"] == 2 else []}

    node = Parallel([Loop(fix, key="errors", until="")])
    reducers = {"errors": "append", "rounds": operator.add}
    assert run(node, {"errors": ["e1"], "rounds": 0}, reducers=reducers) == {
        "errors": [],
        "rounds": 3,
    }


def test_red_07_the_same_node_run_twice_starts_anew() -> None:
    async def rebind(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        state["items"] += ["x"]
        state["n"] = {"c": state["n"]["c"] + 1}
        return state

    graph, start = alone(Parallel([rebind])), {"items": [], "n": {"c": 0}}
    for _ in range(2):
        assert asyncio.run(graph.run(start)) == {"items": ["x"], "n": {"c": 1}}
    assert start == {"items": [], "n": {"c": 0}}


def test_branches_do_not_see_each_other() -> None:
    seen: list[Any] = []

    async def look(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        seen.append(dict(state))
        state["mine"] = True
        return {"log": "x"}

    run(Parallel([look, look, look]), {"log": []}, reducers={"log": "append"})
    assert seen == [{"log": []}] * 3


@pytest.mark.parametrize(
    ("updates", "reducers", "start", "expected"),
    [
        ([{"k": 1}, {"k": 2}], {}, {}, {"k": 2}),
        ([{"k": 1}, {"k": 2}], {"k": "keep"}, {}, {"k": 1}),
        ([{"k": 1}, {"k": 2}], {"k": "keep"}, {"k": 0}, {"k": 0}),
        ([{"k": 1}, {"k": 2}], {"k": operator.add}, {"k": 10}, {"k": 13}),
        ([{"k": 1}, {"k": 2}], {"k": operator.add}, {}, {"k": 3}),
        ([{"k": 1}, {"k": 2}], {"k": lambda old, new: old - new}, {"k": 10}, {"k": 7}),
        ([{"k": 1}, {"k": 2}], {"k": lambda old, new: [*old, new]}, {"k": [0]}, {"k": [0, 1, 2]}),
        ([{"k": Append([1])}, {"k": Append([2])}], {}, {"k": [0]}, {"k": [0, 1, 2]}),
        ([{"k": Append([1])}, {"k": [2]}], {}, {"k": [0]}, {"k": [2]}),
        ([{"k": [1]}, {"k": Append([2])}], {}, {"k": [0]}, {"k": [1, 2]}),
        ([{"k": DELETE}, {"k": Append([2])}], {}, {"k": [0]}, {"k": [2]}),
        ([{"k": 1}, {"k": DELETE}], {}, {"k": [0]}, {}),
        ([{"k": 1}, {"k": Overwrite([9])}], {"k": "append"}, {"k": [0]}, {"k": [9]}),
        ([{"k": Overwrite([9])}, {"k": 1}], {"k": "append"}, {"k": [0]}, {"k": [9, 1]}),
    ],
)
@pytest.mark.parametrize("depth", [1, 2])
def test_updates_of_one_key_are_applied_one_after_the_other(
    updates: Any, reducers: Any, start: Any, expected: Any, depth: int
) -> None:
    node = Parallel([gives(**update) for update in updates])
    for _ in range(depth - 1):
        node = Parallel([node])
    assert run(node, start, reducers=reducers) == expected


def test_sums_of_containers_in_containers_add_up() -> None:
    one = Loop(gives(total=1, log="r"), key="x", until="y", max_rounds=3)
    node = Parallel([one, Parallel([one, [one, gives(total=100)]])])
    reducers = {"total": operator.add, "log": "append"}
    result = run(node, {"total": 1000, "log": []}, reducers=reducers)
    assert result == {"total": 1109, "log": ["r"] * 9}


def test_map_09_a_step_after_the_branches_runs_once_and_sees_all() -> None:
    seen: list[Any] = []

    async def join(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        seen.append((state["a"], state["b"]))
        return {"n": state["n"] + 1}

    nodes = {"p": Parallel([gives(a=1), gives(b=2)]), "join": make_function_node(join)}
    graph = Graph(nodes, [Edge("p", "join"), Edge("join", "p", "n<2")], "p")
    assert asyncio.run(graph.run({"n": 0}))["n"] == 2
    assert seen == [(1, 2), (1, 2)]


# Failures.


def test_map_01_siblings_are_cancelled_and_awaited_before_the_error_is_raised() -> None:
    late: list[str] = []

    async def slow(ctx: Any, state: dict[str, Any]) -> None:
        try:
            await asyncio.sleep(5)
            late.append("went on")
        finally:
            await asyncio.sleep(0)
            late.append("cleaned up")

    bad = fails(ZeroDivisionError("oh"))

    async def main() -> list[Any]:
        with pytest.raises(ZeroDivisionError, match="oh") as caught:
            await alone(Parallel({"bad": [waits(0.01), bad], "slow": slow})).run({})
        assert any("branch 'bad'" in note for note in caught.value.__notes__)
        assert late == ["cleaned up"]
        assert await left_over() == []
        return late

    assert asyncio.run(main()) == ["cleaned up"]


def test_skip_leaves_out_what_a_failed_branch_changed() -> None:
    node = Parallel(
        [gives(a=1), [gives(b=2), fails(ValueError("no"))], gives(c=3)], on_error="skip"
    )
    assert run(node) == {"a": 1, "c": 3}


def test_map_02_collect_keeps_the_others_and_describes_the_failure() -> None:
    bad = make_function_node(fails(ValueError("no")), id="bad")
    node = Parallel([gives(a=1), bad, fails(KeyError("k"))], on_error="collect")
    result = run(node)
    assert result["a"] == 1
    assert result["errors"] == [
        {"branch": "bad", "type": "ValueError", "message": "no"},
        {"branch": "2", "type": "KeyError", "message": "'k'"},
    ]
    assert run(Parallel([gives(a=1)], on_error="collect", errors_key="bad")) == {"a": 1, "bad": []}


def test_an_outer_cancellation_is_never_swallowed() -> None:
    async def main() -> None:
        node = Parallel([waits(10), waits(10)], on_error="collect", timeout=20)
        task = asyncio.ensure_future(alone(node).run({}))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await left_over() == []

    asyncio.run(main())


def test_a_branch_that_cancels_itself_has_failed() -> None:
    async def give_up(ctx: Any, state: dict[str, Any]) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    with pytest.raises(RuntimeError, match="cancelled"):
        run(Parallel([give_up, waits(5)]))


# Timeouts.


def test_rty_10_a_timeout_keeps_the_finished_and_marks_the_rest() -> None:
    async def main() -> Any:
        branches = {"fast": waits(0.001, fast=1), "slow": waits(5, slow=1)}
        node = Parallel(branches, on_error="collect", timeout=0.1)
        result = await alone(node).run({})
        assert await left_over() == []
        return result

    assert asyncio.run(main()) == {
        "fast": 1,
        "errors": [
            {
                "branch": "slow",
                "type": "TimeoutError",
                "message": "took longer than 0.1 seconds",
            }
        ],
    }


def test_rty_10_with_skip_the_rest_is_left_out_and_told_of() -> None:
    events: list[StreamEvent] = []
    node = Parallel([gives(fast=1), [gives(a=1), waits(5)]], on_error="skip", timeout=0.05)
    assert run(node, emit=events.append) == {"fast": 1}
    assert [event.data for event in events if event.type == "limit"] == [
        {"reason": "timeout", "branches": ["1"]}
    ]


def test_a_timeout_with_fail_names_what_was_not_ready() -> None:
    with pytest.raises(TimeoutError, match="'p' took longer than 0.05 seconds.*'1'"):
        run(Parallel([gives(a=1), waits(5)], timeout=0.05))


def test_a_timeout_of_a_branch_is_not_taken_for_that_of_the_group() -> None:
    with pytest.raises(TimeoutError, match="its own"):
        run(Parallel([fails(TimeoutError("its own")), waits(5)], timeout=10))


def test_a_question_beside_a_timeout_is_asked() -> None:
    for on_error in ("fail", "skip", "collect"):
        node = Parallel([Interrupt(key="a"), waits(5)], timeout=0.02, on_error=on_error)
        assert [q.key for q in paused(alone(node), MemoryCheckpointer(), {}).interrupts] == ["a"]


def test_the_time_of_the_run_for_a_node_is_that_of_each_child() -> None:
    quick = [waits(0.03)] * 4
    node = Parallel([quick, Loop(waits(5), key="a", until=1)], on_error="collect")
    (failure,) = run(node, node_timeout=0.1)["errors"]
    assert failure["message"] == "node '1' took longer than 0.1 seconds"
    with pytest.raises(TimeoutError, match="of its own"):
        run(Parallel([fails(TimeoutError("of its own"))]), node_timeout=5)


def test_rty_04_a_cancellation_beside_the_timeout_stays_a_cancellation() -> None:
    async def main() -> None:
        for trial in range(60):
            node = Parallel([waits(5)], on_error="skip", timeout=0.005)
            task = asyncio.ensure_future(alone(node).run({}))
            await asyncio.sleep(0.004 + trial % 10 * 0.0003)
            cancelled = task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                assert cancelled
            else:
                assert not cancelled

    asyncio.run(main())


# Pauses, limits, resuming.


def paused(graph: Graph, store: Any, state: Any = None, **options: Any) -> GraphInterrupt:
    with pytest.raises(GraphInterrupt) as caught:
        asyncio.run(graph.run(state, checkpointer=store, checkpoint_id="r", **options))
    return caught.value


@pytest.mark.parametrize("on_error", ["fail", "skip", "collect"])
def test_int_01_several_branches_ask_at_once_and_each_gets_its_answer(on_error: Any) -> None:
    done: list[str] = []

    async def count(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.005)
        done.append("counted")
        return {"counted": True}

    node = Parallel(
        [Interrupt(key="colour"), [count, Interrupt(key="size")], count], on_error=on_error
    )
    graph, store = alone(node), MemoryCheckpointer()
    asked = {question.key: question.id for question in paused(graph, store, {}).interrupts}
    assert sorted(asked) == ["colour", "size"]
    assert done == ["counted", "counted"]
    with pytest.raises(ConfigError) as caught:
        asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume="blue"))
    assert all(name in str(caught.value) for name in asked.values())
    answers = {asked["colour"]: "blue", asked["size"]: "L"}
    result = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume=answers))
    assert (result["colour"], result["size"], result["counted"]) == ("blue", "L", True)
    assert done == ["counted", "counted"], "what was finished is not done again"


def test_a_failure_beside_a_pause_comes_back_after_the_answer() -> None:
    async def fail_later(ctx: Any, state: dict[str, Any]) -> None:
        await asyncio.sleep(0.005)
        raise ValueError("still wrong")

    graph, store = alone(Parallel([Interrupt(key="a"), fail_later])), MemoryCheckpointer()
    assert [q.key for q in paused(graph, store, {}).interrupts] == ["a"]
    with pytest.raises(ValueError, match="still wrong"):
        asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume={"a": 1}))


def test_a_pause_in_a_context_made_by_hand_is_no_failure_to_collect() -> None:
    node = Parallel([Interrupt(key="a"), gives(b=1)], on_error="collect")
    with pytest.raises(GraphInterrupt):
        asyncio.run(node.execute(ExecContext(), {}))


def test_a_failed_run_that_is_started_again_repeats_nothing_that_finished() -> None:
    done: list[str] = []
    broken = True

    async def first(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        done.append("first")
        return {"a": 1}

    async def second(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        if broken:
            raise OSError("down")
        return {"b": 2}

    graph, store = alone(Parallel([first, [first, second]])), MemoryCheckpointer()
    stored: Any = {"checkpointer": store, "checkpoint_id": "r"}
    with pytest.raises(OSError, match="down"):
        asyncio.run(graph.run({}, **stored))
    broken = False
    assert asyncio.run(graph.run(**stored)) == {"a": 1, "b": 2}
    assert done == ["first", "first"]


def test_what_was_recorded_of_a_whole_state_does_not_double_on_resume() -> None:
    async def everything(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "x": 1}

    node = Parallel([everything, Interrupt(key="a")])
    graph, store = alone(node, reducers={"log": "append"}), MemoryCheckpointer()
    paused(graph, store, {"log": ["0"]})
    result = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume="y"))
    assert result == {"log": ["0"], "x": 1, "a": "y"}


@pytest.mark.parametrize("on_error", ["fail", "skip", "collect"])
def test_a_limit_keeps_what_the_branches_changed_so_far(on_error: Any) -> None:
    inner = Flow().step(gives(deep=1)).step(waits(0.01, deep=2)).step(gives(deep=3))
    node = Parallel(
        [gives(a=1), [gives(b=1), waits(0.05, b=2), gives(b=3)], inner], on_error=on_error
    )
    result = run(node, limits=Limits(max_steps=7))
    assert (result.status, result.stop_reason) == ("stopped", "max_steps")
    assert result == {"a": 1, "b": 1, "deep": 2}


def test_a_deadline_keeps_what_the_branches_changed_so_far() -> None:
    node = Parallel([gives(a=1), [gives(b=1), waits(5, b=2)]], on_error="collect")
    result = run(node, limits=Limits(deadline=0.1))
    assert (result.stop_reason, dict(result)) == ("deadline", {"a": 1, "b": 1})


def test_a_changed_branch_is_another_graph() -> None:
    give = gives(a=1)
    assert Parallel([give]).signature() == Parallel([[give]]).signature()
    assert Parallel([give]).signature() != Parallel([[give, give]]).signature()
    assert Parallel({"x": gives(a=1)}).signature() != Parallel({"y": gives(a=1)}).signature()


# Events, and what the node says of itself.


def test_events_name_the_branches_and_their_paths() -> None:
    events: list[StreamEvent] = []
    named = make_function_node(gives(a=1), id="named")
    node = Parallel([named, gives(b=1), [named, gives(c=1)], Parallel([named])])
    run(node, emit=events.append)
    started = {event.path: event.node_id for event in events if event.type == "node_start"}
    assert started == {
        "p/1": "p",
        "p/1/named": "named",
        "p/1/1": "1",
        "p/1/2/0": "named",
        "p/1/2/1": "2-1",
        "p/1/3": "3",
        "p/1/3/named": "named",
    }


def test_d25_d71_children_ask_the_models_of_the_run_and_their_calls_are_told() -> None:
    provider = ScriptedProvider(["a", "b", "c"])
    ask = LLM(prompt="{x}?")
    node = Parallel(
        [ask, Loop(ask, key="output", until="b"), Map(ask, input_keys="x", output_key="output")],
        max_concurrency=1,
    )
    graph = alone(node, providers={"p": provider}, default_provider="p", default_model="m")
    events: list[StreamEvent] = []
    result = asyncio.run(graph.run({"x": ["q"]}, emit=events.append))
    assert result["output"] == ["c"]
    assert result.usage.model_calls == 3
    told = [event for event in events if event.type == "llm"]
    assert [(event.path, event.data["model"]) for event in told] == [
        ("p/1/0", "m"),
        ("p/1/1/1", "m"),
        ("p/1/2/0", "m"),
    ]


def test_two_branches_of_one_id_are_told_apart() -> None:
    twin = make_function_node(gives(log="x"), id="twin")
    result = run(Parallel([twin, twin, twin]), {"log": []}, reducers={"log": "append"})
    assert result["log"] == ["x"] * 3


def test_what_is_known_of_keys_and_children() -> None:
    ask = Interrupt(key="a", prompt="{x}?")
    node = Parallel([ask, [Interrupt(key="b"), Interrupt(key="c", prompt="{b}{y}")]])
    assert set(node.reads()) == {"x", "y"}
    assert set(node.writes() or ()) == {"a", "b", "c"}
    assert [child.type for child in node.children()] == ["interrupt"] * 3
    assert Parallel([gives(a=1)]).writes() is None
    assert set(Parallel([ask], on_error="collect").writes() or ()) == {"a", "errors"}


def test_map_in_parallel_in_map() -> None:
    async def double(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"ys": state["xs"] * 2}

    inner = Map(double, input_keys="xs", output_key="ys")
    both = Parallel([inner, lambda ctx, state: {"n": len(state["xs"])}])
    outer = Map(both, input_keys="xs", output_key="ys")
    assert run(outer, {"xs": [[1, 2], [3]]})["ys"] == [[2, 4], [6]]


@pytest.mark.parametrize("killed_after", [None, 1, 2, 3])
def test_flows_side_by_side_add_up_where_a_reducer_adds(killed_after: int | None) -> None:
    def add(amount: int) -> Any:
        async def step(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            return {"n": amount, "log": [f"{amount}"], "first": amount}

        return step

    branches = [Flow().step(add(1), "a").step(add(2), "b"), Flow().step(add(10), "c")]
    graph = Graph(
        {"fan": Parallel(branches, max_concurrency=1)},
        [],
        "fan",
        reducers={"n": operator.add, "log": "append", "first": "keep"},
    )
    state = {"n": 100, "log": ["0"]}
    store: Any = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    if killed_after is not None:
        limited = asyncio.run(graph.run(state, **store, limits=Limits(max_steps=killed_after)))
        assert limited.status == "stopped"
        state = None
    result = asyncio.run(graph.run(state, **store, limits=Limits(max_steps=99)))
    assert dict(result) == {"n": 113, "log": ["0", "1", "2", "10"], "first": 1}


def test_no_branch_is_lost_because_its_made_up_name_is_taken() -> None:
    def branch(id: str, amount: int) -> Node:
        node = make_function_node(gives(n=amount))
        node.id = id
        return node

    node = Parallel([branch("a-2", 1), branch("a", 10), branch("a", 100), branch("a", 1000)])
    assert run(node, {"n": 0}, reducers={"n": operator.add})["n"] == 1111
