"""Snapshots: a long run goes on without reading every step again, and comes to the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.checkpoint import FileCheckpointer, MemoryCheckpointer, Record, SQLiteCheckpointer
from teff.errors import GraphInterrupt
from teff.graph import Edge, Graph
from teff.node import Interrupt, make_function_node
from teff.runtime import RunResult
from teff.state import Append
from teff.testing import ScriptedProvider


class Shortening(MemoryCheckpointer):
    """Leaves out what may be left out, as stores of files do."""

    async def load(self, run_id: str, *, owner: str = "default") -> Sequence[Record]:
        records = list(await super().load(run_id, owner=owner))
        places = [place for place, record in enumerate(records) if record.kind == "snapshot"]
        return [*records[:1], *records[max(places[-1], 1) :]] if places else records


def loop(steps: int, *, ask_at: Sequence[int] = (), grows: bool = True) -> Graph:
    """Return a graph that counts up to ``steps``, and asks a person at some numbers."""

    async def count(ctx: Any, state: Any) -> dict[str, Any]:
        number = state.get("n", 0) + 1
        return {"n": number, "log": Append([number])} if grows else {"n": number}

    nodes: dict[str, Any] = {"count": make_function_node(count)}
    edges = []
    for number in ask_at:
        nodes[f"ask{number}"] = Interrupt(key=f"go{number}", prompt="Go on?")
        edges.append(Edge("count", f"ask{number}", condition=f"n == {number}"))
        edges.append(Edge(f"ask{number}", "count"))
    edges.append(Edge("count", "count", condition=f"n < {steps}"))
    return Graph(nodes, edges, "count")


def run_to_the_end(graph: Graph, store: MemoryCheckpointer, questions: int) -> RunResult:
    async def main() -> RunResult:
        options: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r"}
        for _ in range(questions):
            with pytest.raises(GraphInterrupt):
                await graph.run(None if _ else {}, **options)
            options["resume"] = "yes"
        return await graph.run(None if questions else {}, **options)

    return asyncio.run(main())


def kinds(store: MemoryCheckpointer) -> list[str]:
    records = asyncio.run(MemoryCheckpointer.load(store, "r"))
    return [record.kind for record in records]


def test_a_long_run_has_snapshots_and_a_short_one_has_none() -> None:
    long, short = MemoryCheckpointer(), MemoryCheckpointer()
    run_to_the_end(loop(650, grows=False), long, 0)
    run_to_the_end(loop(150), short, 0)
    assert kinds(long).count("snapshot") == 3
    assert "snapshot" not in kinds(short)


def test_a_run_that_goes_on_from_a_snapshot_comes_to_what_an_unbroken_one_comes_to() -> None:
    store = Shortening()
    broken = run_to_the_end(loop(700, ask_at=[333, 444]), store, 2)
    whole = run_to_the_end(loop(700), MemoryCheckpointer(), 0)
    assert broken["log"] == whole["log"] == list(range(1, 701))
    assert (broken["go333"], broken["go444"]) == ("yes", "yes")
    assert (broken.steps, whole.steps) == (702, 700)
    assert len(asyncio.run(store.load("r"))) < 400


def test_visits_go_on_where_they_were() -> None:
    """The path of a step names its visit, so that what it records is found again."""
    seen: list[str] = []

    async def note(ctx: Any, state: Any) -> dict[str, Any]:
        seen.append(ctx.path)
        return {"n": state.get("n", 0) + 1}

    graph = Graph(
        {"note": make_function_node(note), "ask": Interrupt(key="go")},
        [
            Edge("note", "ask", condition="n == 300"),
            Edge("ask", "note"),
            Edge("note", "note", condition="n < 310"),
        ],
        "note",
    )
    run_to_the_end(graph, Shortening(), 1)
    assert seen == [f"note/{number}" for number in range(1, 311)]


def test_an_answer_before_a_snapshot_is_still_known() -> None:
    graph, store = loop(600, ask_at=[10, 500]), Shortening()

    async def main() -> RunResult:
        options: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r"}
        with pytest.raises(GraphInterrupt):
            await graph.run({}, **options)
        with pytest.raises(GraphInterrupt):
            await graph.run(resume={"go10": "yes"}, **options)
        return await graph.run(resume={"go10": "yes", "go500": "on"}, **options)

    result = asyncio.run(main())
    assert (result["go10"], result["go500"]) == ("yes", "on")


def test_a_finished_run_gives_its_result_and_usage_again() -> None:
    store = Shortening()
    graph = loop(450)
    first = run_to_the_end(graph, store, 0)
    again = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r"))
    assert (dict(again), again.steps, again.usage) == (dict(first), first.steps, first.usage)


def test_snapshots_of_a_large_state_are_rare() -> None:
    """They take no more room than the steps do."""

    async def begin(ctx: Any, state: Any) -> dict[str, Any]:
        return {"book": "x" * 1_000_000, "n": 0}

    async def count(ctx: Any, state: Any) -> dict[str, Any]:
        return {"n": state["n"] + 1}

    graph = Graph(
        {"begin": make_function_node(begin), "count": make_function_node(count)},
        [Edge("begin", "count"), Edge("count", "count", condition="n < 1300")],
        "begin",
    )
    store = MemoryCheckpointer()
    run_to_the_end(graph, store, 0)
    assert kinds(store).count("snapshot") == 2


def test_a_chat_reads_two_records_of_its_earlier_turns_however_many_there_were() -> None:
    from teff.flow import Flow

    flow = Flow(providers={"p": ScriptedProvider(["hi"] * 9)}, default_provider="p")
    flow.llm(model="m", messages_key="messages", append_reply=True)
    graph, store = flow.compile(), Shortening()

    async def main() -> None:
        for _ in range(9):
            await graph.turn("hello", checkpointer=store, checkpoint_id="c")

    asyncio.run(main())
    assert len(asyncio.run(store.load("c#session"))) <= 2
    state = asyncio.run(graph.get_state("c", checkpointer=store))
    assert len(state["messages"]) == 18


def test_500_steps_that_grow_a_list_to_100_kb_take_less_than_a_megabyte_and_a_half() -> None:
    async def grow(ctx: Any, state: Any) -> dict[str, Any]:
        return {"n": state.get("n", 0) + 1, "log": Append(["x" * 200])}

    graph = Graph(
        {"grow": make_function_node(grow)}, [Edge("grow", "grow", condition="n < 500")], "grow"
    )
    store = MemoryCheckpointer()
    run_to_the_end(graph, store, 0)
    records = asyncio.run(store.load("r"))
    size = sum(len(json.dumps([record.kind, record.path, dict(record.data)])) for record in records)
    assert size < 1_500_000


@settings(max_examples=15, deadline=None)
@given(
    steps=st.integers(1, 900),
    asks=st.lists(st.integers(1, 800), max_size=4, unique=True),
)
def test_where_it_is_broken_off_makes_no_difference(steps: int, asks: list[int]) -> None:
    asked = sorted(number for number in asks if number < steps)
    broken = run_to_the_end(loop(steps, ask_at=asked), Shortening(), len(asked))
    assert broken["log"] == list(range(1, steps + 1))
    assert broken.steps == steps + len(asked)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
def test_stores_of_files_read_a_long_run_from_its_last_snapshot(kind: str, tmp_path: Path) -> None:
    async def main() -> tuple[list[str], list[str], int]:
        store: Any
        if kind == "sqlite":
            store = SQLiteCheckpointer(tmp_path / "runs.db", durability="process")
        else:
            store = FileCheckpointer(tmp_path / "runs")
        options: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r"}
        with pytest.raises(GraphInterrupt):
            await loop(500, ask_at=[430], grows=False).run({}, **options)
        loaded = [record.kind for record in await store.load("r")]
        history = [stored.record.kind for stored in await store.history("r")]
        result = await loop(500, ask_at=[430], grows=False).run(resume="yes", **options)
        if kind == "sqlite":
            await store.aclose()
        return loaded, history, result["n"]

    loaded, history, reached = asyncio.run(main())
    assert reached == 500
    assert loaded[:2] == ["start", "snapshot"]
    assert len(loaded) < 100
    assert (history[0], history.count("snapshot")) == ("start", 2)
    assert len(history) > 430
