"""The flow builder: loops, questions to a person, containers, labels and limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt
from teff.flow import Case, Flow
from teff.graph import Graph
from teff.node import Ask, Extract, Gate
from teff.runtime import Limits
from teff.state import Append
from teff.testing import ScriptedProvider


def note(name: str, **updates: Any) -> Any:
    async def step(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"seen": Append([name]), **updates}

    return step


def count(key: str = "n") -> Any:
    async def step(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        number = state.get(key, 0) + 1
        return {"seen": Append([f"{key}{number}"]), key: number}

    return step


def run(flow: Flow | Graph, state: Any = None, **options: Any) -> Any:
    return asyncio.run(flow.compile().run(state, **options))


def test_a_step_after_parallel_sees_what_every_branch_did() -> None:
    flow = (
        Flow()
        .parallel(note("a", a=1), [note("b1"), note("b2", b=2)], Flow().step(note("c", c=3)))
        .step(lambda ctx, state: {"sum": state["a"] + state["b"] + state["c"]})
    )
    result = run(flow)
    assert result["sum"] == 6
    assert result["seen"] == ["a", "b1", "b2", "c"]


def test_map_runs_a_step_for_each_item_in_order() -> None:
    async def square(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"squares": state["numbers"] ** 2}

    flow = Flow().map(square, input_keys="numbers", output_key="squares", max_concurrency=2)
    assert run(flow, {"numbers": [3, 1, 2]})["squares"] == [9, 1, 4]


def test_an_unbounded_loop_asks_its_decider_again_after_each_round() -> None:
    async def judge(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"ok": "yes" if state.get("n", 0) >= 2 else "no"}

    flow = Flow().step(judge, "judge").loop("ok", "yes", note("done"), [note("fix"), count()])
    result = run(flow.step(note("end")))
    assert result["seen"] == ["fix", "n1", "fix", "n2", "done", "end"]
    assert run(flow, {"n": 5})["seen"] == ["done", "end"]


def test_a_bounded_loop_runs_its_body_at_least_once_and_no_more_than_the_bound() -> None:
    flow = Flow().loop("ok", "yes", note("done"), count(), max_rounds=3, id="again")
    assert next(iter(flow.nodes)) == "again"
    assert run(flow)["seen"] == ["n1", "n2", "n3", "done"]
    assert run(flow, {"ok": "yes"})["seen"] == ["n1", "done"]


@pytest.mark.parametrize("rounds", [0, -1, True, "many"])
def test_a_bound_that_makes_no_sense_is_refused(rounds: Any) -> None:
    with pytest.raises(ConfigError, match="max_rounds"):
        Flow().loop("ok", "yes", note("done"), note("body"), max_rounds=rounds)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Flow().loop("ok", "yes", note("done"), note("body")),
        lambda: Flow().step(note("a")).loop("ok", "yes", [], note("body")),
        lambda: Flow().step(note("a")).loop("ok", "yes", note("done"), []),
        lambda: Flow().step(note("a")).loop("ok", "yes", note("d"), note("b"), id="loop"),
        lambda: Flow().ask("a", "?"),
        lambda: Flow().ask("a", "?", accept=Ask(equals="yes"), equals="yes"),
        lambda: Flow().label("a"),
        lambda: Flow().step(note("a"), "a").label("a"),
        lambda: Flow().step(note("a"), "a").label("b").label("b"),
        lambda: Flow().step(note("a"), "a").label("b").step(note("b"), "b"),
    ],
    ids=[
        "loop first",
        "no done",
        "no body",
        "id without node",
        "ask without how",
        "ask with both",
        "label first",
        "label is id",
        "label twice",
        "id is label",
    ],
)
def test_what_cannot_be_wired_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        wrong()


def test_a_gate_sends_back_until_the_verdict_is_good_or_the_budget_is_used() -> None:
    flow = (
        Flow()
        .step(note("draft"), "draft")
        .step(note("review", verdict={"ok": False, "message": "longer"}), "review")
        .gate(max_rounds=3, message_key="remark", id="gate")
        .branch("decision", Case("yes").add(note("publish")), Case("fix").add(note("fix")))
    )
    result = run(flow)
    assert (result["decision"], result["remark"]) == ("fix", "longer")
    gated = Flow().gate(Gate(max_rounds=1))
    assert run(gated, {"verdict": {"ok": False}})["decision_forced"] is True


def test_an_answer_is_judged_and_the_next_steps_see_the_decision() -> None:
    flow = (
        Flow()
        .interrupt("ship", "Ship it?", accept=Ask(equals="yes", pass_value="go", fail_value="no"))
        .interrupt("sure", "Sure?", accept=Ask(any_of=["yes", "ja"]))
    )
    assert list(flow.nodes) == [
        "interrupt_1",
        "interrupt_1-validate",
        "interrupt_3",
        "interrupt_3-validate",
    ]
    store = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    graph = flow.compile()
    with pytest.raises(GraphInterrupt):
        run(graph, {}, **store)
    with pytest.raises(GraphInterrupt, match="Sure"):
        run(graph, resume={"ship": "Yes."}, **store)
    assert run(graph, resume={"sure": "ja"}, **store)["ship"] == "Yes."


def test_ask_takes_the_options_of_an_ask() -> None:
    flow = Flow().ask("ship", "Ship it?", equals="yes", pass_value="go", fail_value="no", id="q")
    assert list(flow.nodes) == ["q", "q-validate"]


def test_an_interrupt_loop_asks_again_after_the_body_until_the_answer_passes() -> None:
    flow = (
        Flow()
        .step(note("draft"), "draft")
        .interrupt_loop(
            "verdict",
            prompt="Good?",
            accept=Ask(equals="yes", pass_value="go", fail_value="no"),
            body=count("fix"),
            done=note("done"),
            id="review",
        )
        .step(note("end"))
    )
    assert {"review-interrupt", "review-validate"} <= set(flow.nodes)
    graph = flow.compile()
    store = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        run(graph, {}, **store)
    with pytest.raises(GraphInterrupt):
        run(graph, resume={"verdict": "no"}, **store)
    result = run(graph, resume={"verdict": "yes"}, **store)
    assert result["seen"] == ["draft", "fix1", "done", "end"]


def test_two_interrupt_loops_need_no_ids_of_their_own() -> None:
    flow = Flow()
    for key in ("plan", "text"):
        flow.interrupt_loop(key, accept=Ask(equals="yes"), body=note("body"), done=note("done"))
    assert {"plan-interrupt", "text-validate"} <= set(flow.nodes)


def test_a_retried_step_is_tried_again() -> None:
    tries = []

    async def flaky(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("not yet")
        return {"done": len(tries)}

    assert run(Flow().retry(flaky, max_retries=3, id="call"))["done"] == 3


def test_an_extract_adds_its_nodes_in_a_row() -> None:
    recipe = Extract.model(
        system="Extract.", schema={"city": "string"}, input_key="text", output_key="found"
    ).fallback("city", lambda state: "Paris")
    flow = Flow(default_model="m", default_provider="p").extract(recipe)
    assert len(flow.nodes) == 2


def test_a_label_names_the_last_step_or_the_decider_of_a_loop() -> None:
    flow = (
        Flow()
        .step(count(), "count")
        .label("again")
        .command(routes=[{"when": "n<3", "goto": "again"}], goto="STOP")
    )
    assert run(flow)["seen"] == ["n1", "n2", "n3"]

    looped = (
        Flow()
        .step(note("judge", ok="yes"), "judge")
        .loop("ok", "yes", count("done"), note("body"))
        .label("judge again")
        .command(routes=[{"when": "done<2", "goto": "judge again"}], goto="STOP")
    )
    assert run(looped)["seen"] == ["judge", "done1", "judge", "done2"]


def test_limits_can_be_set_step_by_step() -> None:
    flow = Flow(limits=Limits(max_steps=9)).step(count()).step(count()).limits(max_steps=1)
    assert run(flow).stop_reason == "max_steps"
    assert run(flow.limits(Limits(max_model_calls=1)))["n"] == 2
    with pytest.raises(ConfigError, match="max_steps"):
        flow.limits(max_steps=-1)
    with pytest.raises(TypeError, match="max_stepz"):
        flow.limits(max_stepz=1)


def test_react_is_harness_by_its_other_name() -> None:
    one = Flow().react("m", "You help.", id="a").compile()
    other = Flow().harness("m", "You help.", id="a").compile()
    assert one.plan.signature == other.plan.signature


def test_any_name_is_possible_for_an_agent() -> None:
    names = ["key", "self", "finish it", "a,b", "c++", "agents", "x > y", "finish="]
    for name in names:
        flow = Flow().step(first_then_finish(name), "lead")
        flow.route("next", agents={name: note(name), "other": note("wrong")}, finish=note("end"))
        assert run(flow)["seen"] == [name, "end"], name


def first_then_finish(name: str) -> Any:
    async def lead(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"next": "finish" if state.get("seen") else name}

    return lead


def test_a_model_judges_the_answer_that_was_asked_for() -> None:
    model = ScriptedProvider(['{"ok": false}', '{"ok": true}'])
    flow = Flow(
        providers={"scripted": model}, default_provider="scripted", default_model="m"
    ).interrupt_loop(
        "verdict",
        prompt="Good?",
        accept=Ask.llm(system="Did they agree?"),
        body=count("fix"),
        done=note("done"),
    )
    graph = flow.compile()
    store = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        run(graph, {}, **store)
    with pytest.raises(GraphInterrupt):
        run(graph, resume={"verdict": "rather not"}, **store)
    assert run(graph, resume={"verdict": "fine by me"}, **store)["seen"] == ["fix1", "done"]
    assert "rather not" in str(model.requests[0].messages)
