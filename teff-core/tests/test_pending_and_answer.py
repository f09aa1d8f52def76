"""`Graph.pending` and `Graph.answer`: looking at the questions of a stored run, and answering them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff import Flow, Graph, GraphInterrupt
from teff.checkpoint import FileCheckpointer, MemoryCheckpointer, SQLiteCheckpointer
from teff.errors import CheckpointError, ConfigError, GraphChanged, RunFinished, RunLocked
from teff.node import Parallel

STORES = ["memory", "sqlite", "file"]


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    if request.param == "memory":
        yield MemoryCheckpointer()
    elif request.param == "file":
        yield FileCheckpointer(tmp_path / "runs")
    else:
        with SQLiteCheckpointer(tmp_path / "runs.db", durability="process") as opened:
            yield opened


def asking(**questions: dict[str, Any]) -> Graph:
    """Return a graph that asks all questions at once, and counts how often each branch goes on."""

    def branch(key: str, options: dict[str, Any]):
        async def ask(ctx, state):
            answer = await ctx.interrupt(key, f"{key}?", **options)
            return {key: answer}

        return ask

    branches = {key: branch(key, options) for key, options in questions.items()}
    return Flow().step(Parallel(branches), id="ask").compile()


def paused(graph: Graph, store: Any, run_id: str = "r", **options: Any) -> GraphInterrupt:
    with pytest.raises(GraphInterrupt) as caught:
        asyncio.run(graph.run(checkpointer=store, checkpoint_id=run_id, **options))
    return caught.value


def answer(graph: Graph, store: Any, name: str, value: Any, run_id: str = "r", **options: Any):
    return asyncio.run(graph.answer(run_id, name, value, checkpointer=store, **options))


def records(store: Any, run_id: str = "r"):
    return [(record.kind, record.path) for record in asyncio.run(store.load(run_id))]


def test_an_answer_is_recorded_and_the_next_run_goes_on_with_it(store):
    graph = asking(colour={})
    paused(graph, store)
    assert asyncio.run(graph.pending("r", checkpointer=store)).key == "colour"
    assert answer(graph, store, "colour", "blue") == ()
    assert asyncio.run(graph.pending("r", checkpointer=store)) is None
    result = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r"))
    assert (result["colour"], result.status) == ("blue", "finished")


def test_nothing_runs_when_an_answer_is_recorded(store):
    ran = []

    async def ask(ctx, state):
        ran.append(1)
        return {"x": await ctx.interrupt("x")}

    graph = Flow().step(ask).compile()
    paused(graph, store)
    answer(graph, store, "x", 1)
    assert ran == [1]


@pytest.mark.parametrize("value", ["", 0, 0.0, False, [], {}, None])
def test_int_09_falsy_answers_are_answers(store, value):
    graph = asking(x={})
    paused(graph, store)
    answer(graph, store, "x", value)
    found = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r"))["x"]
    assert found == value
    assert type(found) is type(value)


def test_one_of_two_questions_may_be_answered_by_its_key_or_its_id(store):
    graph = asking(colour={}, size={})
    pause = paused(graph, store)
    (colour, size) = sorted(pause.interrupts, key=lambda asked: asked.key)
    (still_open,) = answer(graph, store, colour.id, "blue")
    assert still_open.key == "size"
    # The branch that was answered goes on; the other one still asks.
    again = paused(graph, store)
    assert [asked.id for asked in again.interrupts] == [size.id]
    assert answer(graph, store, "size", "L") == ()
    result = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r"))
    assert (result["colour"], result["size"]) == ("blue", "L")


def test_a_branch_goes_on_after_a_crash_that_came_when_its_answer_was_recorded(store):
    done = []

    async def first(ctx, state):
        answer = await ctx.interrupt("a")
        done.append(answer)
        return {"a": answer}

    async def second(ctx, state):
        return {"b": await ctx.interrupt("b")}

    graph = Flow().step(Parallel({"first": first, "second": second}), id="ask").compile()
    paused(graph, store)
    answer(graph, store, "a", 1)
    paused(graph, store)
    assert done == [1]


def test_int_07_going_on_without_an_answer_asks_again(store):
    graph = asking(x={})
    paused(graph, store)
    assert paused(graph, store).key == "x"


def test_the_same_answer_again_changes_nothing(store):
    graph = asking(x={})
    paused(graph, store)
    answer(graph, store, "x", {"n": 1})
    before = records(store)
    assert answer(graph, store, "x", {"n": 1}) == ()
    assert records(store) == before


def test_a_different_answer_is_refused(store):
    graph = asking(x={})
    paused(graph, store)
    answer(graph, store, "x", 1)
    before = records(store)
    with pytest.raises(ConfigError, match="answered already, with something else"):
        answer(graph, store, "x", 2)
    assert records(store) == before


@pytest.mark.parametrize(
    ("options", "wrong", "words"),
    [
        ({"choices": ["yes", "no"]}, "maybe", "choose one of: yes, no"),
        ({"choices": [1, 2]}, "1", "choose one of"),
        ({"schema": {"type": "integer", "minimum": 1}}, 0, "is no answer to 'x'"),
        ({"schema": {"type": "object", "required": ["n"]}}, {}, "is no answer to 'x'"),
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing(store, options, wrong, words):
    graph = asking(x=options)
    paused(graph, store)
    before = records(store)
    with pytest.raises(ConfigError, match=words):
        answer(graph, store, "x", wrong)
    with pytest.raises(ConfigError, match=words):
        asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume={"x": wrong}))
    assert records(store) == before
    assert asyncio.run(graph.pending("r", checkpointer=store)).key == "x"


def test_int_03_a_question_that_nobody_asked_is_named_with_those_that_are_open(store):
    graph = asking(a={})
    paused(graph, store)
    before = records(store)
    with pytest.raises(ConfigError, match=r"nobody asked for 'zzz'\. Open questions: a"):
        answer(graph, store, "zzz", 1)
    assert records(store) == before


def test_an_unknown_run_is_refused_and_none_is_begun(store):
    with pytest.raises(CheckpointError, match="no run 'nope'"):
        answer(asking(a={}), store, "a", 1, run_id="nope")
    if hasattr(store, "get"):
        assert asyncio.run(store.get("nope")) is None


def test_runs_of_another_owner_are_not_found(store):
    graph = asking(a={})
    paused(graph, store, owner="ada")
    with pytest.raises(CheckpointError, match="no run 'r'"):
        answer(graph, store, "a", 1)
    assert answer(graph, store, "a", 1, owner="ada") == ()


def test_a_run_that_has_ended_takes_no_answer_but_the_one_it_had(store):
    graph = asking(a={})
    paused(graph, store)
    asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume=1))
    assert answer(graph, store, "a", 1) == ()
    with pytest.raises(ConfigError, match="something else"):
        answer(graph, store, "a", 2)
    with pytest.raises(RunFinished, match="nobody asks any more"):
        answer(graph, store, "b", 1)
    assert asyncio.run(graph.run(checkpointer=store, checkpoint_id="r"))["a"] == 1


def test_another_graph_cannot_answer(store):
    paused(asking(a={}), store)
    with pytest.raises(GraphChanged):
        answer(Flow().interrupt("a").compile(), store, "a", 1)


def test_a_run_that_is_worked_on_cannot_be_answered(store):
    graph = asking(a={})
    paused(graph, store)

    async def meanwhile() -> None:
        lease = await store.claim("r")
        try:
            await graph.answer("r", "a", 1, checkpointer=store)
        finally:
            await store.release(lease, "paused")

    with pytest.raises(RunLocked):
        asyncio.run(meanwhile())


def test_a_chat_is_answered_by_its_next_message(store):
    graph = Flow().interrupt("seats", "How many?").compile()
    asyncio.run(graph.turn("the opera", checkpointer=store, checkpoint_id="ada"))
    with pytest.raises(ConfigError, match=r"'ada' is a chat: .*turn\(\)"):
        answer(graph, store, "seats", 2, run_id="ada")


def test_what_cannot_be_stored_is_no_answer(store):
    graph = asking(a={})
    paused(graph, store)
    before = records(store)
    with pytest.raises(Exception, match="answer"):
        answer(graph, store, "a", object())
    assert records(store) == before


@pytest.mark.parametrize("wrong", [None, 3])
def test_wrong_arguments_are_refused(store, wrong):
    with pytest.raises(ConfigError, match="run_id must be a text"):
        answer(asking(a={}), store, "a", 1, run_id=wrong)
    with pytest.raises(ConfigError, match="key_or_id must be a text"):
        answer(asking(a={}), store, wrong, 1)
    with pytest.raises(ConfigError, match="is no checkpointer"):
        answer(asking(a={}), "runs.db", "a", 1)
