"""Limits of a part of a run: what they count, what they end, what they keep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt
from teff.flow import AgentRole, Flow, SubFlow
from teff.graph import Graph
from teff.runtime import ExecContext, Limits
from teff.testing import ScriptedProvider


def outer(provider: ScriptedProvider, *nodes: Any) -> Graph:
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    for node in nodes:
        flow.step(node)
    return flow.step(lambda ctx, state: {"after": True}, id="after").compile()


def asking(times: int) -> Flow:
    flow = Flow()
    for number in range(times):
        flow.llm(input_key="input", output_key=f"out-{number}")
    return flow


def run(graph: Graph, **options: Any) -> Any:
    return asyncio.run(graph.run({"input": "hi"}, **options))


@pytest.mark.parametrize("name", ["max_steps", "max_model_calls", "max_tokens"])
def test_a_bound_of_a_part_ends_that_part_and_keeps_what_it_has(name: str) -> None:
    heard: list[Any] = []
    part = SubFlow(asking(3), limits={name: 1}, id="part")
    result = run(outer(ScriptedProvider(["one", "two"]), part), emit=heard.append)
    assert (result.status, result["after"], result["out-0"]) == ("finished", True, "one")
    assert "out-1" not in result
    told = [event.data for event in heard if event.type == "limit"]
    assert told == [{"reason": name, "scope": "part/1"}]


def test_a_part_counts_what_is_nested_in_it_and_each_visit_anew() -> None:
    inner = SubFlow(asking(3), id="inner")
    part = SubFlow(
        Flow().step(inner).step(lambda c, s: {"late": 1}), limits=Limits(max_model_calls=2)
    )
    provider = ScriptedProvider(["a", "b", "c", "d"])
    result = run(outer(provider, part, SubFlow(asking(2), limits=Limits(max_model_calls=2))))
    assert result.usage.model_calls == 4
    assert "late" not in result


def test_a_bound_around_wins_over_a_wider_one_inside() -> None:
    part = SubFlow(asking(3), limits=Limits(max_model_calls=3))
    provider = ScriptedProvider(["a", "b", "c"])
    result = run(outer(provider, part), limits=Limits(max_model_calls=2))
    assert (result.status, result.stop_reason, result["out-1"]) == (
        "stopped",
        "max_model_calls",
        "b",
    )
    wide = SubFlow(Flow().step(part), limits=Limits(max_model_calls=1))
    assert run(outer(ScriptedProvider(["a"]), wide))["after"] is True


def test_a_deadline_of_a_part_ends_it_alone() -> None:
    async def slow(ctx: ExecContext, state: Any) -> None:
        await asyncio.sleep(60)

    part = SubFlow(Flow().step(lambda c, s: {"first": 1}).step(slow), limits={"deadline": 0.05})
    result = run(outer(ScriptedProvider([]), part))
    assert (result.status, result["first"], result["after"]) == ("finished", 1, True)


def test_a_role_has_limits_of_its_own_also_from_a_mapping() -> None:
    made = AgentRole.from_mapping(
        {"system": "x", "limits": {"max_model_calls": 3}}, name="a"
    ).build()
    assert made.limits == Limits(max_model_calls=3)
    assert made.to_config()["limits"] == {"max_model_calls": 3}


def test_counts_of_a_part_are_kept_over_a_resume() -> None:
    def ask(ctx: ExecContext, state: dict[str, Any]) -> Any:
        raise GraphInterrupt("go")

    inner = Flow().llm(input_key="input", output_key="a").step(ask).llm(output_key="b")
    graph = outer(ScriptedProvider(["one", "two"]), SubFlow(inner, limits={"max_model_calls": 1}))
    where: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        run(graph, **where)
    result = asyncio.run(graph.run(resume={"go": 1}, **where))
    assert (result.usage.model_calls, result["a"], result["after"]) == (1, "one", True)
    assert "b" not in result


@pytest.mark.parametrize("limits", [{"max_model_cals": 1}, {"max_steps": -1}, 3])
def test_limits_that_make_no_sense_are_refused(limits: Any) -> None:
    with pytest.raises(ConfigError, match="limit"):
        SubFlow(asking(1), limits=limits)
