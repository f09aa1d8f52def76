"""Runs that pause, die and go on: nothing that was finished is done twice."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import (
    CheckpointError,
    ConfigError,
    GraphChanged,
    GraphInterrupt,
    RunFinished,
    RunLocked,
    StateError,
)
from teff.flow import Flow, SubFlow
from teff.graph import Edge, Graph
from teff.graph.history import read_history
from teff.node import Node, make_function_node
from teff.runtime import ExecContext, Limits
from teff.state import DELETE, Append, Overwrite


class Effects:
    """Counts what really happened, outside the state."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def node(self, name: str, update: dict[str, Any] | None = None) -> Any:
        async def do(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
            self.done.append(name)
            return update or {}

        return do


async def ask_name(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
    return {"name": await ctx.interrupt("name", "Who are you?")}


def run(graph: Graph, store: MemoryCheckpointer, state: Any = None, **options: Any) -> Any:
    return asyncio.run(graph.run(state, checkpointer=store, checkpoint_id="r1", **options))


def paused(graph: Graph, store: MemoryCheckpointer, state: Any = None, **options: Any) -> Any:
    with pytest.raises(GraphInterrupt) as caught:
        run(graph, store, state, **options)
    return caught.value


def test_a_pause_is_raised_with_its_question_and_goes_on_with_the_answer() -> None:
    effects, store = Effects(), MemoryCheckpointer()
    graph = (
        Flow()
        .step(effects.node("before", {"a": 1}))
        .step(ask_name, id="ask")
        .step(effects.node("after", {"b": 2}))
        .compile()
    )
    interrupt = paused(graph, store, {"x": 0})
    assert (interrupt.key, interrupt.prompt, interrupt.node_id) == ("name", "Who are you?", "ask")
    assert interrupt.checkpoint_id == "r1"
    assert interrupt.result.status == "paused"
    assert interrupt.result["a"] == 1
    assert paused(graph, store).result == {"x": 0, "a": 1}, "asked again, the state is the same"
    result = run(graph, store, resume={"name": "Ada"})
    assert result == {"x": 0, "a": 1, "name": "Ada", "b": 2}
    assert effects.done == ["before", "after"]


@pytest.mark.parametrize("answer", ["", 0, 0.0, False, [], None])
def test_int_09_falsy_answers_are_answers(answer: object) -> None:
    store, graph = MemoryCheckpointer(), Flow().step(ask_name).compile()
    paused(graph, store)
    result = run(graph, store, resume=answer)
    assert result["name"] == answer
    assert type(result["name"]) is type(answer)


def test_int_03_an_answer_nobody_asked_for_is_refused_and_changes_nothing() -> None:
    store, graph = MemoryCheckpointer(), Flow().step(ask_name).compile()
    paused(graph, store)
    with pytest.raises(ConfigError, match="'zzz'.*name"):
        run(graph, store, resume={"zzz": 1})
    assert run(graph, store, resume={"name": "Ada"})["name"] == "Ada"


def test_int_07_going_on_without_an_answer_is_still_paused() -> None:
    async def two(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"log": [await ctx.interrupt("i1"), await ctx.interrupt("i2")]}

    store, graph = MemoryCheckpointer(), Flow().step(two).compile()
    assert paused(graph, store).key == "i1"
    assert paused(graph, store, resume="one").key == "i2"
    assert paused(graph, store).key == "i2"
    assert run(graph, store, resume="two")["log"] == ["one", "two"]


def test_a_question_takes_only_its_choices() -> None:
    async def choose(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"colour": await ctx.interrupt("colour", choices=["red", "blue"])}

    store, graph = MemoryCheckpointer(), Flow().step(choose).compile()
    paused(graph, store)
    with pytest.raises(ConfigError, match="red, blue"):
        run(graph, store, resume="green")
    assert run(graph, store, resume="blue")["colour"] == "blue"


def test_the_same_question_asked_twice_is_two_questions() -> None:
    async def twice(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"a": await ctx.interrupt("q"), "b": await ctx.interrupt("q")}

    store, graph = MemoryCheckpointer(), Flow().step(twice).compile()
    paused(graph, store)
    assert len(paused(graph, store, resume="one").interrupts) == 1
    assert run(graph, store, resume="two") == {"a": "one", "b": "two"}


def test_a_node_that_raises_the_interrupt_itself_gets_its_answer_in_the_state() -> None:
    async def raising(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        raise GraphInterrupt("name", "Who?")

    effects, store = Effects(), MemoryCheckpointer()
    graph = Flow().step(raising).step(effects.node("after")).compile()
    assert paused(graph, store).prompt == "Who?"
    assert run(graph, store, resume={"name": "Ada"}) == {"name": "Ada"}
    assert effects.done == ["after"]


def test_int_05_a_pause_in_nested_flows_goes_on_inside_them() -> None:
    effects, store = Effects(), MemoryCheckpointer()
    inner = Flow().step(effects.node("p")).step(ask_name).step(effects.node("q")).compile()
    middle = Flow().step(effects.node("m")).step(SubFlow(inner, id="inner")).compile()
    graph = Flow().step(SubFlow(middle, id="middle")).step(effects.node("end")).compile()
    interrupt = paused(graph, store)
    assert interrupt.interrupts[0].path.startswith("middle/1/inner/1/")
    assert interrupt.checkpoint_id == "r1"
    assert run(graph, store, resume="Ada")["name"] == "Ada"
    assert effects.done == ["m", "p", "q", "end"]


def test_int_01_two_questions_at_once_are_answered_by_id_or_key() -> None:
    asked: list[str] = []

    async def one(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        asked.append("one")
        return {"colour": await ctx.interrupt("colour")}

    async def other(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        asked.append("other")
        return {"size": await ctx.interrupt("size")}

    async def both(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        nodes = {"one": make_function_node(one), "other": make_function_node(other)}
        parts = await asyncio.gather(
            *(ctx.call(name, node, state) for name, node in nodes.items()),
            return_exceptions=True,
        )
        return {key: value for part in parts for key, value in part.items()}

    store, graph = MemoryCheckpointer(), Flow().step(both).compile()
    interrupt = paused(graph, store)
    assert [question.key for question in interrupt.interrupts] == ["colour", "size"]
    with pytest.raises(ConfigError, match="2 questions"):
        run(graph, store, resume="blue")
    size_id = interrupt.interrupts[1].id
    assert paused(graph, store, resume={size_id: "L"}).key == "colour"
    assert run(graph, store, resume={"colour": "blue"}) == {"colour": "blue", "size": "L"}
    assert asked.count("other") == 2, (
        "its answered branch is finished once and not run a third time"
    )


def test_a_pause_survives_a_node_that_catches_every_exception() -> None:
    async def stubborn(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await ctx.interrupt("name")
        except BaseException:
            answer = "nobody"
        return {"name": answer}

    store, graph = MemoryCheckpointer(), Flow().step(stubborn).compile()
    assert paused(graph, store).key == "name"
    assert run(graph, store, resume="Ada")["name"] == "Ada"


def test_int_13_a_pause_is_no_failure() -> None:
    async def handler(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"handled": True}

    nodes = {"ask": make_function_node(ask_name), "handler": make_function_node(handler)}
    graph = Graph(nodes, [Edge("ask", "handler", "__error__")], "ask")
    heard: list[str] = []
    store = MemoryCheckpointer()
    paused(graph, store, emit=lambda event: heard.append(event.type))
    assert "node_error" not in heard
    assert heard[-2:] == ["interrupt", "run_end"]
    assert "handled" not in run(graph, store, resume="Ada")


def test_a_pause_without_a_checkpointer_raises_too() -> None:
    with pytest.raises(GraphInterrupt) as caught:
        asyncio.run(Flow().step(ask_name).compile().run({"kept": 1}))
    assert caught.value.checkpoint_id is None
    assert caught.value.result["kept"] == 1


def test_a_failed_run_goes_on_at_the_node_that_failed() -> None:
    effects, store = Effects(), MemoryCheckpointer()
    broken = [True]

    async def fragile(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        await ctx.once("charge", lambda: effects.done.append("charged"))
        if broken:
            raise OSError("connection lost")
        return {"ok": True}

    graph = Flow().step(effects.node("before")).step(fragile).step(effects.node("after")).compile()
    with pytest.raises(OSError, match="lost"):
        run(graph, store, {"x": 1})
    broken.clear()
    assert run(graph, store)["ok"] is True
    assert effects.done == ["before", "charged", "after"]


def test_a_run_that_hit_a_limit_goes_on_with_a_higher_one() -> None:
    effects, store = Effects(), MemoryCheckpointer()
    graph = Flow().step(effects.node("a")).step(effects.node("b")).step(effects.node("c")).compile()
    assert run(graph, store, limits=Limits(max_steps=2)).stop_reason == "max_steps"
    still = run(graph, store, limits=Limits(max_steps=2))
    assert still.stop_reason == "max_steps", "limits survive a resume"
    assert run(graph, store).stop_reason == "max_steps", "also where they are not given again"
    result = run(graph, store, limits=Limits(max_steps=10))
    assert (result.status, effects.done, result.steps) == ("finished", ["a", "b", "c"], 3)


def test_a_finished_run_gives_its_recorded_result_and_runs_nothing() -> None:
    effects, store = Effects(), MemoryCheckpointer()
    graph = Flow().step(effects.node("a", {"n": [1]})).compile()
    first = run(graph, store, {"x": 1})
    for again in (run(graph, store, {"x": 1}), run(graph, store)):
        assert again == first
        assert (again.status, again.stop_reason, again.steps) == ("finished", "end", 1)
    assert effects.done == ["a"]
    with pytest.raises(RunFinished, match="another input"):
        run(graph, store, {"x": 2})
    with pytest.raises(RunFinished, match="nothing to resume"):
        run(graph, store, resume="x")


def test_int_11_new_input_on_a_paused_run_is_refused() -> None:
    store, graph = MemoryCheckpointer(), Flow().step(ask_name).compile()
    paused(graph, store, {"x": 1})
    with pytest.raises(RunFinished, match="under way with another input"):
        run(graph, store, {"x": 2})


def test_a_run_is_worked_on_by_one_at_a_time() -> None:
    async def scenario() -> None:
        store = MemoryCheckpointer()
        started, go = asyncio.Event(), asyncio.Event()

        async def wait(ctx: Any, state: dict[str, Any]) -> None:
            started.set()
            await go.wait()

        graph = Flow().step(wait).compile()
        first = asyncio.create_task(graph.run({}, checkpointer=store, checkpoint_id="r1"))
        await started.wait()
        with pytest.raises(RunLocked, match="r1"):
            await graph.run({}, checkpointer=store, checkpoint_id="r1")
        other = await graph_done().run({}, checkpointer=store, checkpoint_id="r1", owner="eve")
        assert other.status == "finished"
        go.set()
        await first

    def graph_done() -> Graph:
        return Flow().step(Effects().node("x")).compile()

    asyncio.run(scenario())


def test_a_changed_graph_is_refused_with_what_differs() -> None:
    store = MemoryCheckpointer()
    paused(Flow().step(ask_name, id="ask").compile(), store)
    changed = Flow().step(ask_name, id="ask").step(Effects().node("x"), id="more").compile()
    with pytest.raises(GraphChanged, match="added more"):
        run(changed, store, resume="Ada")


def test_a_cancelled_run_goes_on() -> None:
    effects, store = Effects(), MemoryCheckpointer()
    waits = [True]

    async def slow(ctx: Any, state: dict[str, Any]) -> None:
        if waits:
            await asyncio.sleep(60)

    graph = Flow().step(effects.node("a")).step(slow).step(effects.node("b")).compile()

    async def cancel() -> None:
        task = asyncio.create_task(graph.run({}, checkpointer=store, checkpoint_id="r1"))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    waits.clear()
    run(graph, store)
    assert effects.done == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"checkpointer": MemoryCheckpointer()}, "checkpoint_id"),
        ({"checkpoint_id": "r1"}, "checkpointer"),
        ({"resume": "x"}, "checkpointer"),
    ],
)
def test_half_of_what_a_stored_run_needs_is_refused(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        asyncio.run(Flow().step(ask_name).compile().run({}, **options))


def test_a_key_names_one_effect_of_a_step() -> None:
    async def twice(ctx: Any, state: dict[str, Any]) -> None:
        await ctx.once("now", lambda: 1)
        await ctx.once("now", lambda: 2)

    with pytest.raises(RuntimeError, match="'now' twice"):
        asyncio.run(Flow().step(twice).compile().run())


def test_usage_and_steps_are_kept_over_a_resume() -> None:
    effects, store = Effects(), MemoryCheckpointer()
    graph = Flow().step(effects.node("a")).step(ask_name).step(effects.node("b")).compile()
    assert paused(graph, store).result.steps == 1, "the step that waits is not done"
    assert run(graph, store, resume="Ada").steps == 3


def test_operators_of_a_recorded_call_keep_their_meaning_over_a_resume() -> None:
    async def child(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"log": Append(["child"]), "kept": Overwrite([1]), "old": DELETE}

    async def parent(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        updates = await ctx.call("child", make_function_node(child), state)
        await ctx.interrupt("go")
        return dict(updates)

    store = MemoryCheckpointer()
    graph = Flow(reducers={"kept": "append"}).step(parent).compile()
    paused(graph, store, {"log": ["start"], "kept": [0], "old": 1})
    assert run(graph, store, resume="yes") == {"log": ["start", "child"], "kept": [1]}


def test_why_a_recorded_call_ended_the_run_is_kept_over_a_resume() -> None:
    class Bounded(Node):
        type = "bounded"

        async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            ctx.set_stop_reason("max_rounds")
            return {"done": True}

    graph = Flow().parallel(Bounded(), ask_name).compile()
    store = MemoryCheckpointer()
    paused(graph, store, {})
    result = run(graph, store, resume="Ada")
    assert (result.status, result.stop_reason) == ("stopped", "max_rounds")


def test_a_question_that_cannot_be_stored_is_refused_where_it_is_asked() -> None:
    async def ask(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"colour": await ctx.interrupt("colour", choices=[object()])}

    nodes = {"ask": make_function_node(ask), "handle": make_function_node(Effects().node("handle"))}
    graph = Graph(nodes, [Edge("ask", "handle", "__error__")], "ask")
    result = run(graph, MemoryCheckpointer(), {})
    assert result["error"]["type"] == "StateError"
    assert "question 'colour'.choices[0] is of the type object" in result["error"]["message"]


def test_a_question_that_its_step_did_without_is_not_open_any_more() -> None:
    async def ask(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        if "asked" not in effects.done:
            effects.done.append("asked")
            await asyncio.gather(ctx.interrupt("one"), ctx.interrupt("two"))
        return {"one": await ctx.interrupt("one")}

    effects, store = Effects(), MemoryCheckpointer()
    graph = Flow().step(ask).compile()
    paused(graph, store, {})
    assert run(graph, store, resume={"one": 1})["one"] == 1
    assert asyncio.run(graph.pending("r1", checkpointer=store)) is None
    assert read_history(asyncio.run(store.history("r1"))).questions == []


def test_a_run_that_is_refused_before_it_begins_can_be_pruned() -> None:
    store = MemoryCheckpointer()
    with pytest.raises(StateError, match="cannot be stored"):
        run(Flow().step(ask_name).compile(), store, {"x": object()})
    assert [stored.state for stored in asyncio.run(store.list())] == ["failed"]
    assert asyncio.run(store.prune(older_than=0)) == 1


def test_what_a_run_failed_with_is_raised_also_where_its_end_cannot_be_recorded() -> None:
    class Full(MemoryCheckpointer):
        async def append(self, lease: Any, records: Any) -> None:
            if records[0].kind == "end":
                raise CheckpointError("the disk is full")
            await super().append(lease, records)

    def fail(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("the cause")

    with pytest.raises(ValueError, match="the cause") as caught:
        run(Flow().step(fail).compile(), Full(), {})
    assert any("the disk is full" in note for note in caught.value.__notes__)
    with pytest.raises(CheckpointError, match="the disk is full"):
        run(Flow().step(Effects().node("a")).compile(), Full(), {})


def test_a_question_that_is_answered_by_its_key_and_its_id_is_refused() -> None:
    store = MemoryCheckpointer()
    graph = Flow().step(ask_name, id="ask").compile()
    asked = paused(graph, store).interrupts[0]
    with pytest.raises(ConfigError, match="'name' is answered twice"):
        run(graph, store, resume={asked.id: "Ada", "name": "Bob"})
    assert run(graph, store, resume="Ada")["name"] == "Ada"


def test_a_finished_run_that_cannot_be_read_stays_finished() -> None:
    class Older(MemoryCheckpointer):
        async def load(self, run_id: str, *, owner: str = "default") -> Any:
            records = await super().load(run_id, owner=owner)
            state = {"order": {"!object": ["a type that is gone", {}]}}
            return [
                attrs.evolve(each, data={**each.data, "state": state})
                if each.kind == "start"
                else each
                for each in records
            ]

    store, graph = Older(), Flow().step(Effects().node("a")).compile()
    run(graph, store)
    with pytest.raises(CheckpointError, match="a type that is gone"):
        run(graph, store)
    assert [stored.state for stored in asyncio.run(store.list())] == ["finished"]
