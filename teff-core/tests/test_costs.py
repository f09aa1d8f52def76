"""What model calls cost, by a price table, and the bound on it."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt
from teff.flow import Flow
from teff.graph import Graph
from teff.messages import ModelUsage
from teff.provider import ChatReply
from teff.runtime import ExecContext, Limits, Price
from teff.testing import ScriptedProvider, call_tool

TEN = Price(prompt=1_000_000, completion=2_000_000)  # 1 for a prompt token, 2 for one answered


def graph_of(replies: list[Any], **options: Any) -> tuple[Graph, ScriptedProvider]:
    provider = ScriptedProvider(replies)
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m", **options)
    for number in range(len(replies)):
        flow.llm(input_key="input", output_key=f"out-{number}")
    return flow.compile(), provider


def run(graph: Graph, **options: Any) -> Any:
    return asyncio.run(graph.run({"input": "hi"}, **options))


@pytest.mark.parametrize("name", ["m", "p/m"])
def test_a_call_costs_what_the_table_says(name: str) -> None:
    graph, _ = graph_of(["one two"])
    usage = run(graph, prices={name: TEN}).usage
    cost = usage.prompt_tokens + 2 * usage.completion_tokens
    assert usage.cost == cost > 0
    assert usage.by_model["p/m"]["cost"] == cost


def test_the_price_of_a_provider_wins_over_that_of_the_model_alone() -> None:
    graph, _ = graph_of(["one"])
    free = Price(prompt=0, completion=0)
    assert run(graph, prices={"m": TEN, "p/m": free}).usage.cost == 0


def test_prices_of_a_run_are_laid_over_those_of_the_graph() -> None:
    graph, _ = graph_of(["one"], prices={"m": {"prompt": 0, "completion": 0}})
    assert run(graph).usage.by_model["p/m"]["cost"] == 0
    assert run(graph_of(["one"], prices={"m": TEN})[0]).usage.cost > 0
    graph, _ = graph_of(["one"], prices={"m": TEN})
    assert run(graph, prices={"m": Price(prompt=0, completion=0)}).usage.cost == 0


def test_without_a_price_nothing_costs_anything() -> None:
    usage = run(graph_of(["one"])[0]).usage
    assert usage.cost == 0
    assert "cost" not in usage.by_model["p/m"]


def test_the_call_that_crosses_the_bound_is_the_last_one() -> None:
    graph, provider = graph_of(["one", "two", "three"])
    result = run(graph, prices={"m": TEN}, limits=Limits(max_cost=1))
    assert (result.status, result.stop_reason) == ("stopped", "max_cost")
    assert len(provider.requests) == 1
    assert result["out-0"] == "one"


def test_a_model_without_a_price_is_not_called_under_a_bound() -> None:
    graph, provider = graph_of(["one"])
    with pytest.raises(ConfigError, match=r"'p/m' has no price"):
        run(graph, prices={"other": TEN}, limits=Limits(max_cost=1))
    assert provider.requests == []


def test_the_cost_is_kept_over_a_resume() -> None:
    def ask(ctx: ExecContext, state: dict[str, Any]) -> Any:
        raise GraphInterrupt("go")

    provider = ScriptedProvider(["one", "two"])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = flow.llm(input_key="input").step(ask).llm(input_key="input").compile()
    where: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "a"}
    bound: dict[str, Any] = {"prices": {"m": TEN}, "limits": Limits(max_cost=1)}
    with pytest.raises(GraphInterrupt) as paused:
        run(graph, **where, **bound)
    before = paused.value.result.usage.cost
    result = asyncio.run(graph.run(resume={"go": "yes"}, **where, **bound))
    assert (result.stop_reason, result.usage.cost) == ("max_cost", before)
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        (["m"], "prices must be a dict"),
        ({"m": 3}, "price of 'm' must be a Price"),
        ({"m": {"prompt": 1}}, "price of 'm' needs completion"),
        ({"m": {"prompt": 1, "completion": 1, "promt": 2}}, "has no 'promt'"),
        ({"m": {"prompt": -1, "completion": 1}}, "price prompt must be a number"),
    ],
)
def test_a_table_that_is_none_is_refused(prices: Any, message: str) -> None:
    graph, provider = graph_of(["one"])
    with pytest.raises(ConfigError, match=message):
        run(graph, prices=prices)
    with pytest.raises(ConfigError, match=message):
        graph_of(["one"], prices=prices)
    assert provider.requests == []


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf"), True, "1", None])
def test_an_amount_is_a_finite_number_of_at_least_zero(amount: Any) -> None:
    with pytest.raises(ConfigError, match="price prompt"):
        Price(prompt=amount, completion=0)


counts = st.none() | st.integers(0, 10**9)


@given(counts, counts, counts)
def test_no_counted_token_is_free(prompt: Any, completion: Any, total: Any) -> None:
    used = ModelUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=total)
    cost = Price(prompt=1_000_000, completion=1_000_000).cost(used)
    assert cost == max(used.total, (prompt or 0) + (completion or 0))


@given(
    st.lists(st.sampled_from(["a", "one two", "x y z"]), min_size=1, max_size=6), st.integers(1, 90)
)
def test_models_add_up_and_only_the_last_call_crosses_the_bound(
    replies: list[str], most: int
) -> None:
    graph, _ = graph_of(replies)
    usage = run(graph, prices={"m": TEN}, limits=Limits(max_cost=most)).usage
    for name in ("prompt_tokens", "completion_tokens", "total_tokens", "cost"):
        assert getattr(usage, name) == sum(model[name] for model in usage.by_model.values())
    dearest = 11 + 2 * 3
    assert usage.cost < most + dearest + 10


def test_the_record_of_a_delegation_has_the_costs_of_its_agents() -> None:
    task = call_tool("delegate_to_clerk", {"message": "?"})
    model = ScriptedProvider(
        [
            attrs.evolve(task, usage=ModelUsage(prompt_tokens=1, completion_tokens=1)),
            ChatReply(text="3", usage=ModelUsage(prompt_tokens=2, completion_tokens=0)),
            ChatReply(text="It is 3.", usage=ModelUsage(prompt_tokens=1, completion_tokens=1)),
        ]
    )
    flow = Flow(
        providers={"scripted": model},
        default_provider="scripted",
        default_model="m",
        prices={"m": Price(prompt=1_000_000, completion=2_000_000)},
    ).delegate("Ask the clerk.", agents={"clerk": {"description": "Counts.", "system": "Count."}})
    result = asyncio.run(flow.compile().run({"input": "How many?"}))
    assert result.usage.cost == 8.0
    assert result["output_steps"]["tokens"]["by_model"] == result.usage.by_model


@pytest.mark.parametrize("count", [10**400, -(10**400), 10**13])
def test_absurd_counts_cost_no_more_than_the_most_that_is_believed(count: int) -> None:
    for used in (
        ModelUsage(prompt_tokens=count),
        ModelUsage(completion_tokens=count),
        ModelUsage(total_tokens=count),
    ):
        assert 0 <= TEN.cost(used) <= 4 * 10**12
