"""What holds for all containers, whatever their branches do."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teff.checkpoint import MemoryCheckpointer
from teff.errors import GraphInterrupt
from teff.graph import Graph
from teff.node import Loop, Map, Node, Parallel, make_function_node
from teff.node.workers import run_jobs
from teff.state import (
    DELETE,
    Append,
    Overwrite,
    combined,
    compile_reducers,
    freeze,
    merge_into,
    plain_update,
    read_update,
)


def join(old: Any, new: Any) -> Any:
    """Reduce whatever there is, and not associatively where there are numbers."""
    if isinstance(old, int) and isinstance(new, int):
        return old * 2 - new
    return f"{old}|{new}"


REDUCERS: Any = [None, "append", "keep", join, lambda old, new: [old, new], max]
KEYS = ["a", "b", "c"]

values = st.integers(-3, 3)
lists = st.lists(values, max_size=3)
plain = st.one_of(values, lists, st.none(), st.text("xy", max_size=2))
changes = st.one_of(plain, lists.map(Append), plain.map(Overwrite), st.just(DELETE))
updates = st.dictionaries(st.sampled_from(KEYS), changes, max_size=3)
states = st.dictionaries(st.sampled_from([*KEYS, "other"]), plain, max_size=4)
reducers_by_key = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(REDUCERS[1:]))


def folded(state: Mapping[str, Any], steps: list[Any], reducers: Any) -> Any:
    """Return the state after each update in turn; None where one is refused."""
    own = {key: freeze(value) for key, value in state.items()}
    try:
        for update in steps:
            merge_into(own, update, compile_reducers(reducers))
    except (TypeError, ValueError):
        return None
    return own


def branch(updates: list[Any], delay: int) -> list[Any]:
    """Return steps that make ``updates``, each after some turns of the event loop."""

    def step(update: Any) -> Any:
        async def make(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
            for _ in range(delay):
                await asyncio.sleep(0)
            return dict(update)

        return make

    return [step(update) for update in updates]


def run(node: Node, state: Any, reducers: Any = None, **options: Any) -> Any:
    graph = Graph({"n": node}, [], "n", reducers=reducers)
    return dict(asyncio.run(graph.run(state, **options)))


branches = st.lists(
    st.tuples(st.lists(updates, min_size=1, max_size=3), st.integers(0, 3)), min_size=1, max_size=4
)


@settings(max_examples=200)
@given(states, st.lists(updates, max_size=6), reducers_by_key)
def test_one_combined_update_does_what_all_do_in_turn(
    state: Any, steps: Any, reducers: Any
) -> None:
    expected = folded(state, steps, reducers)
    if expected is None:
        return
    frozen = {key: freeze(value) for key, value in state.items()}
    update = combined(frozen, steps, compile_reducers(reducers))
    assert folded(state, [update], reducers) == expected
    assert folded(state, [read_update(plain_update(update))], reducers) == expected


@settings(max_examples=100)
@given(
    states,
    st.lists(updates, max_size=4),
    st.lists(updates, max_size=4),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["append", "keep", max])),
)
def test_combining_in_groups_is_combining_at_once(
    state: Any, first: Any, second: Any, reducers: Any
) -> None:
    compiled = compile_reducers(reducers)
    if folded(state, [*first, *second], reducers) is None:
        return
    frozen = {key: freeze(value) for key, value in state.items()}
    try:
        groups = [combined(frozen, group, compiled) for group in (first, second)]
    except (TypeError, ValueError):
        return  # the second group alone, without what the first one repairs
    nothing_replaced = not any(
        type(value) is Overwrite or value is DELETE
        for update in [*first, *second, *groups]
        for value in update.values()
    )
    if nothing_replaced:
        assert folded(state, groups, reducers) == folded(state, [*first, *second], reducers)


@settings(max_examples=60)
@given(states, branches, reducers_by_key, st.sampled_from([None, 1, 2]))
def test_parallel_is_its_branches_in_their_order(
    state: Any, given: Any, reducers: Any, limit: int | None
) -> None:
    for steps, _ in given:
        if folded(state, steps, reducers) is None:
            return
    expected = folded(state, [update for steps, _ in given for update in steps], reducers)
    if expected is None:
        return
    node = Parallel([branch(steps, delay) for steps, delay in given], max_concurrency=limit)
    assert run(node, state, reducers) == expected


@settings(max_examples=60)
@given(states, branches, reducers_by_key)
def test_branches_start_from_the_state_and_see_only_themselves(
    state: Any, given: Any, reducers: Any
) -> None:
    if any(folded(state, steps, reducers) is None for steps, _ in given):
        return
    seen: dict[int, Any] = {}

    def look(number: int) -> Any:
        async def see(ctx: Any, own: dict[str, Any]) -> None:
            seen[number] = dict(own)

        return see

    steps = [[*branch(steps, delay), look(place)] for place, (steps, delay) in enumerate(given)]
    node = Parallel(steps, on_error="skip")
    if folded(state, [update for steps, _ in given for update in steps], reducers) is None:
        return
    run(node, state, reducers)
    for place, (own_steps, _) in enumerate(given):
        assert seen[place] == folded(state, own_steps, reducers)


@settings(max_examples=60)
@given(
    st.lists(values, max_size=25),
    st.integers(1, 5),
    st.sampled_from([None, 1, 2, 7]),
    st.lists(st.integers(0, 3), min_size=1, max_size=5),
    st.sampled_from(["fail", "skip", "collect"]),
)
def test_map_is_a_sequential_map(
    items: list[int], size: int, limit: int | None, delays: list[int], on_error: Any
) -> None:
    async def work(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        given = state["x"]
        numbers = given if size > 1 else [given]
        for _ in range(delays[sum(numbers) % len(delays)]):
            await asyncio.sleep(0)
        if sum(numbers) < 0:
            raise ValueError("negative")
        return {"y": sum(numbers) * state["factor"]}

    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    expected = [None if sum(chunk) < 0 else sum(chunk) * 10 for chunk in chunks]
    wrong = [place for place, result in enumerate(expected) if result is None]
    node = Map(
        work,
        input_keys="x",
        output_key="y",
        chunk_size=size,
        max_concurrency=limit,
        on_error=on_error,
    )
    try:
        result = run(node, {"x": items, "factor": 10})
    except ValueError:
        assert on_error == "fail"
        assert wrong
        return
    if on_error == "fail":
        assert not wrong
    if on_error == "skip":
        expected = [result for result in expected if result is not None]
    assert result["y"] == expected
    if on_error == "collect":
        assert [failure["index"] for failure in result["y_errors"]] == wrong


@settings(max_examples=40)
@given(st.lists(st.booleans(), min_size=1, max_size=12), st.sampled_from([None, 1, 3]))
def test_a_map_that_pauses_any_number_of_times_works_on_each_item_once(
    asks: list[bool], limit: int | None
) -> None:
    done: list[int] = []

    async def maybe_ask(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        number = state["x"]
        answer = await ctx.interrupt(f"q{number}") if asks[number] else number
        return {"answer": answer}

    async def finish(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        done.append(state["x"])
        return {"y": state["answer"]}

    node = Map([maybe_ask, finish], input_keys="x", output_key="y", max_concurrency=limit)
    graph, store = Graph({"n": node}, [], "n"), MemoryCheckpointer()
    options: Any = {"checkpointer": store, "checkpoint_id": "r"}
    state: Any = {"x": list(range(len(asks)))}
    while True:
        try:
            result = asyncio.run(graph.run(state, **options))
            break
        except GraphInterrupt as pause:
            first, open_questions = pause.interrupts[0], len(pause.interrupts)
        assert open_questions == sum(asks) - sum(asks[number] for number in done)
        options["resume"], state = {first.key: int(first.key[1:])}, None
    assert result["y"] == list(range(len(asks)))
    assert sorted(done) == list(range(len(asks)))


@settings(max_examples=40)
@given(states, st.lists(updates, min_size=1, max_size=4), reducers_by_key)
def test_a_loop_is_its_rounds_in_turn(state: Any, steps: Any, reducers: Any) -> None:
    expected = folded(state, steps, reducers)
    if expected is None:
        return
    rounds = iter(steps)

    async def next_round(ctx: Any, own: dict[str, Any]) -> dict[str, Any]:
        return dict(next(rounds))

    node = Loop(next_round, key="never", until="yes", max_rounds=len(steps))
    assert run(node, state, reducers) == expected


@settings(max_examples=30)
@given(
    st.recursive(
        st.lists(st.integers(-5, 5), min_size=1, max_size=3),
        lambda inner: st.lists(inner, min_size=1, max_size=3),
        max_leaves=8,
    )
)
def test_appends_and_sums_come_once_however_containers_are_nested(tree: Any) -> None:
    def node(part: Any) -> Node:
        if isinstance(part, int):
            return make_function_node(gives(part))
        return Parallel([[node(inner)] for inner in part])

    def gives(number: int) -> Any:
        async def give(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
            return {"log": number, "sum": number}

        return give

    def leaves(part: Any) -> list[int]:
        return (
            [part] if isinstance(part, int) else [leaf for inner in part for leaf in leaves(inner)]
        )

    result = run(node(tree), {"log": ["start"]}, {"log": "append", "sum": operator.add})
    assert result == {"log": ["start", *leaves(tree)], "sum": sum(leaves(tree))}


@settings(max_examples=100)
@given(
    st.lists(st.integers(0, 3), max_size=20),
    st.sampled_from([None, 1, 2, 5]),
    st.one_of(st.none(), st.integers(0, 19)),
)
def test_jobs_are_each_done_once_and_nothing_is_left(
    waits: list[int], limit: int | None, broken: int | None
) -> None:
    async def main() -> None:
        active, peak, done = 0, 0, []

        async def work(number: int) -> None:
            nonlocal active, peak
            active += 1
            peak = max(peak, active)
            try:
                for _ in range(waits[number]):
                    await asyncio.sleep(0)
                if number == broken:
                    raise KeyError(number)
                done.append(number)
            finally:
                active -= 1

        try:
            await run_jobs(len(waits), work, limit=limit)
        except KeyError:
            assert broken is not None
        else:
            assert sorted(done) == list(range(len(waits)))
        assert active == 0
        assert limit is None or peak <= limit
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
