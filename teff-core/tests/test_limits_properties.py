"""Limits of parts, for any nesting of them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teff.checkpoint import MemoryCheckpointer
from teff.flow import Flow, SubFlow
from teff.graph import Graph
from teff.runtime import Limits, Price
from teff.testing import ScriptedProvider

#: A part is a bound of model calls with what is inside; a number is so many calls.
trees = st.recursive(
    st.integers(1, 3),
    lambda inner: st.tuples(st.integers(1, 5), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=6,
)


def built(tree: Any, flow: Flow, names: Any) -> Flow:
    """Add a tree to a flow."""
    if isinstance(tree, int):
        for _ in range(tree):
            flow.llm(input_key="input", output_key=f"out-{next(names)}")
        return flow
    bound, parts = tree
    inner = Flow()
    for part in parts:
        built(part, inner, names)
    return flow.step(SubFlow(inner, limits=Limits(max_model_calls=bound)))


def expected(tree: Any, left: float) -> tuple[int, bool]:
    """Return how many calls a tree makes where ``left`` may be made, and whether it came through."""
    if isinstance(tree, int):
        return (tree, True) if tree <= left else (int(left), False)
    bound, parts = tree
    made = 0
    for part in parts:
        here = min(bound, left) - made
        count, through = expected(part, here)
        made += count
        if not through:
            return made, left > bound
    return made, True


def graph_of(tree: Any, provider: ScriptedProvider) -> Graph:
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    return built(tree, flow, itertools.count()).compile()


@settings(max_examples=60, deadline=None)
@given(trees, st.integers(1, 8))
def test_no_bound_is_exceeded_and_models_add_up(tree: Any, most: int) -> None:
    graph = graph_of(tree, ScriptedProvider(["yes"] * 100))
    prices = {"m": Price(prompt=1_000_000, completion=1_000_000)}
    result = asyncio.run(
        graph.run({"input": "hi"}, limits=Limits(max_model_calls=most), prices=prices)
    )
    assert result.usage.model_calls == expected(tree, most)[0] <= most
    for name in ("total_tokens", "cost"):
        assert getattr(result.usage, name) == sum(
            model[name] for model in result.usage.by_model.values()
        )


@settings(max_examples=40, deadline=None)
@given(trees, st.integers(1, 8))
def test_a_run_that_is_killed_and_goes_on_makes_the_same_calls(tree: Any, killed: int) -> None:
    whole = asyncio.run(graph_of(tree, ScriptedProvider(["yes"] * 100)).run({"input": "hi"}))
    store = MemoryCheckpointer()
    replies: list[Any] = ["yes"] * 100
    provider = ScriptedProvider(replies)
    graph = graph_of(tree, provider)
    where: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r"}

    async def interrupted() -> Any:
        steps = 0

        def kill(event: Any) -> None:
            nonlocal steps
            steps += event.type == "node_end"
            if steps >= killed:
                raise _Killed

        try:
            return await graph.run({"input": "hi"}, emit=kill, **where)
        except _Killed:
            return await graph.run(**where)

    result = asyncio.run(interrupted())
    assert dict(result) == dict(whole)
    assert result.usage.model_calls == whole.usage.model_calls == len(provider.requests)


class _Killed(BaseException):
    """The process died."""
