"""Limits of parts wherever they stand: in calls, containers, retries, and over a resume."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, ProviderError
from teff.flow import AgentTool, Flow, SubFlow
from teff.graph import Edge, Graph
from teff.node import LLM, Loop, Map, Node, Parallel, Retry
from teff.node.delegation import replace
from teff.provider import ProviderRegistry
from teff.runtime import ExecContext, Limits, Price, StreamEvent
from teff.testing import ScriptedProvider, call_tool
from teff.tool import tool

PRICES = {"m": Price(prompt=1_000_000, completion=1_000_000)}


def flow_on(*replies: Any) -> Flow:
    provider = ScriptedProvider(list(replies))
    return Flow(providers={"p": provider}, default_provider="p", default_model="m")


def asking(times: int, *, before: str = "out") -> Flow:
    flow = Flow()
    for number in range(times):
        flow.llm(prompt="hi", output_key=f"{before}-{number}")
    return flow


def bounded(times: int, *, before: str = "out", **limits: Any) -> SubFlow:
    return SubFlow(asking(times, before=before), limits=limits)


def run(flow: Flow, heard: list[StreamEvent] | None = None, **options: Any) -> Any:
    emit = None if heard is None else heard.append
    return asyncio.run(flow.compile().run({"input": "hi"}, emit=emit, **options))


def told(heard: list[StreamEvent]) -> list[Mapping[str, Any]]:
    return [event.data for event in heard if event.type == "limit"]


# --- Every bound, within a part


@tool
def look(word: str) -> str:
    """Look a word up."""
    return f"{word}!"


def test_max_tool_calls_of_a_part_end_it_alone() -> None:
    agent = Flow().llm(prompt="x", use_tools=["look"], output_key="a").llm(prompt="y")
    flow = flow_on(call_tool("look", {"word": "a"}), call_tool("look", {"word": "b"}), "end")
    heard: list[StreamEvent] = []
    flow.add_flow(agent, "part", limits={"max_tool_calls": 1}).step(lambda c, s: {"after": 1})
    result = run(flow, heard, tools=[look])
    assert (result.status, result["after"], result.usage.tool_calls) == ("finished", 1, 1)
    assert told(heard) == [{"reason": "max_tool_calls", "scope": "part/1"}]


def test_no_tool_call_at_all_may_be_allowed() -> None:
    agent = Flow().llm(prompt="x", use_tools=["look"], output_key="a")
    flow = flow_on(call_tool("look", {"word": "a"}), "end")
    flow.add_flow(agent, "part", limits={"max_tool_calls": 0})
    assert run(flow, tools=[look]).usage.tool_calls == 0


def test_the_call_that_crosses_max_cost_of_a_part_is_the_last_one_in_it() -> None:
    flow = flow_on("one", "two", "three", "four")
    flow.add_flow(asking(3), "part", limits=Limits(max_cost=3.0)).llm(prompt="x")
    heard: list[StreamEvent] = []
    result = run(flow, heard, prices=PRICES)
    each = next(event.data["cost"] for event in heard if event.type == "llm")
    made = -(-3 // each)  # as many as it takes to reach it
    assert result.usage.model_calls == min(3, made) + 1
    assert told(heard) == [{"reason": "max_cost", "scope": "part/1"}]


def test_a_model_without_a_price_is_not_called_in_a_part_with_a_cost() -> None:
    flow = flow_on("one").add_flow(asking(1), limits={"max_cost": 1})
    with pytest.raises(ConfigError, match="/m' has no price"):
        run(flow)


def test_retried_calls_count_in_a_part() -> None:
    busy = ProviderError("busy", provider="p", status=503, retry_after=0.001)
    flow = flow_on(busy, busy, "yes", "never")
    heard: list[StreamEvent] = []
    flow.add_flow(asking(2), "part", limits={"max_model_calls": 2}).step(lambda c, s: {"z": 1})
    result = run(flow, heard)
    assert ("out-0" in result, result["z"], result.usage.model_calls) == (False, 1, 2)
    assert told(heard) == [{"reason": "max_model_calls", "scope": "part/1"}]


def test_retried_calls_count_in_a_run() -> None:
    busy = ProviderError("busy", provider="p", status=503, retry_after=0.001)
    result = run(flow_on(busy, busy, "yes").llm(prompt="x"), limits=Limits(max_model_calls=2))
    assert (result.stop_reason, result.usage.model_calls) == ("max_model_calls", 2)


def test_the_limits_of_a_flow_hold_where_it_is_a_step() -> None:
    inner = Flow(limits=Limits(max_model_calls=1))
    inner.llm(prompt="x", output_key="a").llm(prompt="y", output_key="b")
    result = run(flow_on("one", "two").add_flow(inner).step(lambda c, s: {"z": 1}))
    assert (result["a"], "b" in result, result["z"]) == ("one", False, 1)
    wider = SubFlow(inner, limits={"max_model_calls": 2})
    assert run(flow_on("one", "two").step(wider))["b"] == "two"


# --- Within containers


def test_each_branch_has_its_own_bound() -> None:
    branches = [
        bounded(3, before=name, max_model_calls=most) for name, most in (("a", 1), ("b", 2))
    ]
    heard: list[StreamEvent] = []
    result = run(flow_on(*["yes"] * 9).step(Parallel(branches), "par"), heard)
    assert sorted(key for key in result if "-" in key) == ["a-0", "b-0", "b-1"]
    assert result.usage.model_calls == 3
    assert [limit["reason"] for limit in told(heard)] == ["max_model_calls"] * 2


def test_each_item_has_its_own_bound() -> None:
    flow = flow_on(*["yes"] * 9).step(
        Map(
            bounded(3, max_model_calls=1),
            input_keys="items",
            output_key="done",
            result_key="out-0",
        ),
        "map",
    )
    graph = flow.compile()
    result = asyncio.run(graph.run({"items": [1, 2, 3]}))
    assert (result.status, result.usage.model_calls, len(result["done"])) == ("finished", 3, 3)


def test_each_round_of_a_loop_has_its_own_bound() -> None:
    body = bounded(3, max_model_calls=1)
    loop = Loop(body, key="never", until="yes", max_rounds=3)
    assert run(flow_on(*["yes"] * 9).step(loop)).usage.model_calls == 3


def test_a_bound_around_a_container_counts_all_of_it() -> None:
    inner = Flow().step(Parallel([asking(2, before=name) for name in "abc"]))
    heard: list[StreamEvent] = []
    flow = flow_on(*["yes"] * 9).add_flow(inner, "part", limits={"max_model_calls": 4})
    result = run(flow.step(lambda c, s: {"z": 1}), heard)
    assert (result.usage.model_calls, result["z"], result.status) == (4, 1, "finished")
    assert told(heard) == [{"reason": "max_model_calls", "scope": "part/1"}]


def test_each_attempt_of_a_retry_has_its_own_bound() -> None:
    def fails(ctx: ExecContext, state: Mapping[str, Any]) -> None:
        raise ConnectionError("no")

    inner = asking(1).step(fails)
    retried = Retry(SubFlow(inner, limits={"max_model_calls": 1}), max_retries=3, delay=0)
    flow = flow_on(*["yes"] * 9).step(retried)
    with pytest.raises(ConnectionError):
        run(flow)


# --- Within calls


class Calls(Node):
    """Calls nodes one after the other, each with its limits."""

    type = "calls"

    def __init__(self, *calls: tuple[Node, Any], catches: bool = False) -> None:
        super().__init__()
        self.calls = calls
        self.catches = catches

    def children(self) -> list[Node]:
        return [node for node, _ in self.calls]

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        done: dict[str, Any] = {}
        for number, (node, limits) in enumerate(self.calls):
            done |= await ctx.call(f"call-{number}", node, state, limits=limits)
        return {**done, "called": len(self.calls)}


class Asks(Node):
    """Asks a model so many times, and says what it has."""

    type = "asks"

    def __init__(self, times: int, key: str = "said") -> None:
        super().__init__()
        self.times, self.key = times, key

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        said: list[str] = []
        for _ in range(self.times):
            said.append((await ctx.llm("m", [{"role": "user", "content": "hi"}])).text)
            ctx.keep({self.key: said})
        return {self.key: said}


def test_a_call_with_limits_gives_what_was_kept_and_its_caller_goes_on() -> None:
    heard: list[StreamEvent] = []
    calls = Calls((Asks(3, "x"), Limits(max_model_calls=2)), (Asks(1, "y"), None))
    result = run(flow_on("a", "b", "c").step(calls, "lead"), heard)
    assert (result["x"], result["y"], result["called"]) == (["a", "b"], ["c"], 2)
    assert (result.status, result.usage.model_calls) == ("finished", 3)
    assert told(heard) == [{"reason": "max_model_calls", "scope": "lead/1/call-0"}]


def test_a_flow_that_is_called_gives_what_it_has() -> None:
    calls = Calls((SubFlow(asking(3)), {"max_model_calls": 2}))
    result = run(flow_on("a", "b", "c").step(calls))
    assert (result["out-0"], result["out-1"], "out-2" in result) == ("a", "b", False)


def test_a_bound_around_wins_over_that_of_a_call() -> None:
    calls = Calls((Asks(3), Limits(max_model_calls=2)))
    result = run(flow_on("a", "b").step(calls), limits=Limits(max_model_calls=1))
    assert (result.status, result.stop_reason) == ("stopped", "max_model_calls")
    wide = Calls((Calls((Asks(3), {"max_model_calls": 9})), {"max_model_calls": 1}))
    assert run(flow_on("a", "b").step(wide))["called"] == 1


def test_the_deadline_of_a_call_ends_it() -> None:
    async def sleeps(ctx: ExecContext, state: Any) -> None:
        ctx.keep({"began": True})
        await asyncio.sleep(60)

    slow = Flow().step(sleeps).compile().nodes["sleeps_1"]
    heard: list[StreamEvent] = []
    result = run(Flow().step(Calls((slow, Limits(deadline=0.02))), "lead"), heard)
    assert (result["began"], result["called"]) == (True, 1)
    assert told(heard) == [{"reason": "deadline", "scope": "lead/1/call-0"}]


def test_steps_inside_of_a_call_count() -> None:
    inner = SubFlow(Flow().step(lambda c, s: {"a": 1}).step(lambda c, s: {"b": 1}))
    result = run(Flow().step(Calls((inner, {"max_steps": 1}))))
    assert (result["a"], "b" in result, result["called"]) == (1, False, 1)


def test_tools_called_within_a_call_count() -> None:
    llm = LLM(prompt="x", use_tools=["look"])
    flow = flow_on(call_tool("look", {"word": "a"}), call_tool("look", {"word": "b"}))
    result = run(flow.step(Calls((llm, {"max_tool_calls": 1}))), tools=[look])
    assert (result["called"], result.usage.tool_calls) == (1, 1)


def test_limits_of_a_call_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError, match="max_steps"):
        run(Flow().step(Calls((Asks(1), {"max_steps": -1}))))


def test_a_context_made_by_hand_has_limits_for_calls_too() -> None:
    registry = ProviderRegistry.of({"p": ScriptedProvider(["a", "b"])})
    ctx = ExecContext(providers=registry, default_provider="p")
    update = asyncio.run(ctx.call("x", Asks(2), {}, limits={"max_model_calls": 1}))
    assert update == {"said": ["a"]}


# --- Over a resume


def pausing(key: str) -> Any:
    def ask(ctx: ExecContext, state: dict[str, Any]) -> Any:
        raise GraphInterrupt(key)

    return ask


def paused_then_resumed(graph: Graph, answers: Mapping[str, Any], **options: Any) -> Any:
    where: dict[str, Any] = {
        "checkpointer": MemoryCheckpointer(),
        "checkpoint_id": "r",
        **options,
    }
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run({"input": "hi", "items": [1, 2]}, **where))
    return asyncio.run(graph.run(resume=answers, **where))


@pytest.mark.parametrize(
    ("limits", "calls"),
    [
        ({"max_model_calls": 2}, 2),
        ({"max_tokens": 1}, 1),
        ({"max_cost": 0.5}, 1),
        ({"max_steps": 3}, 2),
    ],
)
def test_a_call_goes_on_counting_after_a_resume(limits: Any, calls: int) -> None:
    inner = Flow().llm(prompt="1", output_key="a").step(pausing("go"))
    inner.llm(prompt="2", output_key="b").llm(prompt="3", output_key="c")
    graph = flow_on("a", "b", "c").step(Calls((SubFlow(inner), limits))).compile()
    result = paused_then_resumed(graph, {"go": 1}, prices=PRICES)
    assert (result.usage.model_calls, result["called"], result["a"]) == (calls, 1, "a")


def test_tool_calls_of_a_part_are_kept_over_a_resume() -> None:
    llm: dict[str, Any] = {"prompt": "x", "use_tools": ["look"]}
    inner = Flow().llm(**llm, output_key="a").step(pausing("go")).llm(**llm, output_key="b")
    replies = [call_tool("look", {"word": "a"}), "A", call_tool("look", {"word": "b"}), "B"]
    graph = flow_on(*replies).add_flow(inner, limits={"max_tool_calls": 1}).compile()
    result = paused_then_resumed(graph, {"go": 1}, tools=[look])
    assert (result["a"], "b" in result, result.usage.tool_calls) == ("A", False, 1)


def test_the_deadline_of_a_part_counts_what_ran_before_a_resume() -> None:
    left: list[float] = []

    async def works(ctx: ExecContext, state: Any) -> None:
        assert ctx.budget is not None
        await asyncio.sleep(0.02)
        left.append(ctx.budget.remaining or 0.0)

    inner = Flow().step(works, "one").step(pausing("go")).step(works, "two")
    graph = Flow().add_flow(inner, limits={"deadline": 60}).compile()
    assert paused_then_resumed(graph, {"go": 1}).status == "finished"
    assert left[0] <= 60 - 0.02
    assert left[1] <= 60 - 0.04


def test_a_deadline_that_is_used_up_before_a_resume_ends_the_part() -> None:
    async def works(ctx: ExecContext, state: Any) -> dict[str, Any]:
        ctx.budget._elapsed_before += 60  # type: ignore[union-attr]  # as if it had taken long
        return {"worked": state.get("worked", 0) + 1}

    async def sleeps(ctx: ExecContext, state: Any) -> None:
        await asyncio.sleep(60)

    inner = Flow().step(works).step(pausing("go")).step(sleeps)
    graph = Flow().add_flow(inner, limits={"deadline": 60}).step(lambda c, s: {"z": 1}).compile()
    result = paused_then_resumed(graph, {"go": 1})
    assert (result["worked"], result["z"], result.status) == (1, 1, "finished")


def test_items_that_pause_together_keep_their_counts_apart() -> None:
    inner = Flow().llm(prompt="1", output_key="a").step(pausing("go")).llm(prompt="2")
    inner.llm(prompt="3", output_key="c")
    each = Map(
        SubFlow(inner, limits={"max_model_calls": 2}),
        input_keys="items",
        output_key="done",
        result_key="a",
    )
    graph = flow_on(*["yes"] * 9).step(each, "map").compile()
    where: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt) as paused:
        asyncio.run(graph.run({"items": [1, 2]}, **where))
    answers = {question.id: 1 for question in paused.value.interrupts}
    result = asyncio.run(graph.run(resume=answers, **where))
    assert (result.status, result.usage.model_calls) == ("finished", 4)


def test_what_is_over_is_no_longer_carried_along() -> None:
    each = Map(
        bounded(1, max_model_calls=2), input_keys="items", output_key="done", result_key="out-0"
    )
    graph = flow_on(*["yes"] * 9).step(each).step(pausing("go")).compile()
    store = MemoryCheckpointer()
    where: dict[str, Any] = {"checkpointer": store, "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run({"items": list(range(9))}, **where))
    *_, last = asyncio.run(store.load("r"))
    assert last.data["totals"].get("parts", {}) == {}
    assert asyncio.run(graph.run(resume={"go": 1}, **where)).usage.model_calls == 9


def test_parts_within_a_step_that_is_over_are_not_carried_along() -> None:
    def count(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state["n"] + 1}

    part = SubFlow(Flow().step(count), limits={"max_steps": 9})
    around = SubFlow(Flow().step(part))
    graph = Graph({"around": around}, [Edge("around", "around", "n < 5")], "around")
    store = MemoryCheckpointer()
    asyncio.run(graph.run({"n": 0}, checkpointer=store, checkpoint_id="r"))
    records = asyncio.run(store.load("r"))
    carried = [len(record.data["totals"].get("parts", {})) for record in records]
    assert max(carried) == 1


# --- Of each delegation


def delegating(*replies: Any, agent: Any, **options: Any) -> Flow:
    agents = {"a": {"description": "A.", **agent}}
    return flow_on(*replies).delegate("Lead.", agents=agents, id="lead", **options)


def task(message: str = "do it") -> Any:
    return call_tool("delegate_to_a", {"message": message})


AGENTS = {
    "flow": {"flow": asking(3), "output_key": "out-0"},
    "node": {"node": Asks(3), "output_key": "said"},
}


@pytest.mark.parametrize(("kind", "output"), [("flow", "one"), ("node", ["one"])])
def test_a_task_that_its_limit_stops_is_a_result_that_is_no_answer(kind: str, output: Any) -> None:
    flow = delegating(
        task(), "one", "So far.", agent={**AGENTS[kind], "limits": {"max_model_calls": 1}}
    )
    heard: list[StreamEvent] = []
    result = run(flow, heard)
    (call,) = result["output_steps"]["tool_calls"]
    assert (call["result"], result["output"], result.status) == ("", "So far.", "finished")
    assert json.loads(call["error"]) == {
        "agent": "a",
        "status": "stopped",
        "error": "it was stopped by its limit max_model_calls",
        "output": output,
    }
    assert result["output_steps"]["steps"][0]["status"] == "stopped"
    assert [limit["reason"] for limit in told(heard)] == ["max_model_calls"]
    assert result["output_steps"]["tokens"]["model_calls"] == 3


def test_each_task_has_the_whole_bound() -> None:
    agent = {"node": Asks(1), "output_key": "said", "limits": {"max_model_calls": 1}}
    result = run(delegating(task(), "one", task(), "two", "end", agent=agent))
    assert [step["status"] for step in result["output_steps"]["steps"]] == ["ok", "ok", "finished"]


def test_a_task_that_was_stopped_with_nothing_has_no_output() -> None:
    agent = {"flow": asking(2), "output_key": "out-1", "limits": {"max_model_calls": 1}}
    result = run(delegating(task(), "one", "end", agent=agent))
    assert "output" not in json.loads(result["output_steps"]["tool_calls"][0]["error"])


def test_the_limits_of_a_role_are_those_of_its_tasks() -> None:
    agent = {"system": "x", "use_tools": ["look"], "limits": {"max_model_calls": 1}}
    flow = delegating(task(), call_tool("look", {"word": "a"}), "end", agent=agent)
    result = run(flow, tools=[look])
    assert result["output_steps"]["steps"][0]["status"] == "stopped"


def test_what_a_stopped_task_has_passes_the_guards() -> None:
    agent = {**AGENTS["node"], "limits": {"max_model_calls": 1}}
    guards = {"agent_result": lambda value: replace("[removed]")}
    result = run(delegating(task(), "secret", "end", agent=agent, guards=guards))
    assert "[removed]" in result["output_steps"]["tool_calls"][0]["error"]
    assert "secret" not in json.dumps(result["output_steps"])


def test_what_a_stopped_task_has_may_be_the_last_output() -> None:
    agent = {**AGENTS["flow"], "limits": {"max_model_calls": 1}}
    result = run(delegating(task(), "one", "", agent=agent, max_delegations=1))
    assert (result["output"], result.stop_reason) == ("one", "max_delegations")


def test_the_bound_of_a_task_is_kept_over_a_resume() -> None:
    inner = Flow().llm(prompt="1", output_key="x").step(pausing("go")).llm(prompt="2")
    agent = {"flow": inner, "output_key": "x", "limits": {"max_model_calls": 1}}
    graph = delegating(task(), "one", "end", agent=agent).compile()
    result = paused_then_resumed(graph, {"go": 1})
    assert result["output_steps"]["steps"][0]["status"] == "stopped"
    assert result.usage.model_calls == 3


def test_an_agent_that_holds_the_signal_back_is_stopped_all_the_same() -> None:
    async def stubborn(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        for _ in range(3):
            with contextlib.suppress(BaseException):
                await ctx.llm("m", [{"role": "user", "content": "hi"}])
        return {"output": "all"}

    agent = {"node": stubborn, "limits": {"max_model_calls": 1}}
    result = run(delegating(task(), "one", "end", agent=agent))
    assert result["output_steps"]["steps"][0]["status"] == "stopped"
    assert result.usage.model_calls == 3


def test_a_tool_that_is_an_agent_fails_at_its_limit() -> None:
    look_up = AgentTool(
        Asks(3), name="look_up", description="Looks up.", limits={"max_model_calls": 1}
    )
    flow = flow_on(call_tool("look_up", {"message": "x"}), "one", "end")
    heard: list[StreamEvent] = []
    result = run(flow.llm(prompt="x", use_tools=["look_up"]), heard, tools=[look_up])
    (said,) = [event.data["text"] for event in heard if event.type == "tool_result"]
    assert "it was stopped by its limit max_model_calls" in said
    assert (result["output"], result.usage.model_calls) == ("end", 3)


@pytest.mark.parametrize("limits", [{"max_step": 1}, {"max_steps": 0}, 3])
def test_limits_of_an_agent_that_make_no_sense_are_refused(limits: Any) -> None:
    with pytest.raises(ConfigError, match="agent 'a': .*limit"):
        delegating(agent={"node": Asks(1), "limits": limits})


# --- Of each run of an agent of a team


@pytest.mark.parametrize("own", [None, {"max_model_calls": 2}])
def test_the_limits_of_a_team_bound_each_run_of_an_agent_without_its_own(own: Any) -> None:
    role: dict[str, Any] = {"system": "x", "use_tools": ["look"], "output_key": "answer"}
    if own is not None:
        role["limits"] = own
    look_again = call_tool("look", {"word": "a"})
    flow = flow_on("a", look_again, "done" if own else "finish")
    flow.team("Lead.", roles={"a": role}, limits={"max_model_calls": 1}, done_keys="answer")
    heard: list[StreamEvent] = []
    result = asyncio.run(
        flow.compile().run(
            {"messages": [{"role": "user", "content": "hi"}]}, tools=[look], emit=heard.append
        )
    )
    if own:
        assert (result["answer"], result.stop_reason, told(heard)) == ("done", "done_keys", [])
    else:
        assert told(heard)[0] == {"reason": "max_model_calls", "scope": "a/1"}
        assert result["answer"] == ""
