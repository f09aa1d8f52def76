"""What programs of this kind get wrong, as a user would notice it; most have their test beside the code."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt
from teff.flow import AgentRole, Case, Flow, SubFlow
from teff.graph import Edge, Graph
from teff.messages import assistant, user
from teff.node import (
    LLM,
    Ask,
    CommandNode,
    Interrupt,
    Loop,
    Map,
    Node,
    Parallel,
    Supervisor,
    ToolExec,
    Transform,
    make_function_node,
)
from teff.state import Append
from teff.testing import ScriptedProvider


def add(name: str) -> Any:
    async def step(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"seen": Append([name])}

    return step


def models(provider: ScriptedProvider) -> dict[str, Any]:
    return {"providers": {"p": provider}, "default_provider": "p", "default_model": "m"}


def run(flow: Flow | Graph, state: Any = None, **options: Any) -> Any:
    return asyncio.run(flow.compile().run(state, **options))


def alone(node: Node, state: Any = None, **settings: Any) -> Any:
    return run(Graph({"n": node}, [], "n", **settings), state)


def test_d9_a_team_keeps_the_question_without_any_reducer() -> None:
    provider = ScriptedProvider(["billing", "It is paid.", "technical", "Restart it."])
    roles = {
        "billing": AgentRole("Bills.", output_key="bill"),
        "technical": AgentRole("Machines.", output_key="advice"),
    }
    flow = Flow(**models(provider)).team("Route.", roles=roles, done_keys=["bill", "advice"])
    result = run(flow, {"messages": [user("Help!")]})
    assert result["messages"] == [user("Help!"), assistant("It is paid."), assistant("Restart it.")]


def test_d13_a_name_is_read_in_whatever_it_is_wrapped_and_nonsense_is_asked_again() -> None:
    for reply in ("`coder`", "(coder)", "coder!", "[coder]", '{"next_agent": "coder"}', "coder;"):
        provider = ScriptedProvider([reply])
        lead = Supervisor(agents=["planner", "coder"])
        result = alone(lead, {"messages": [user("Go.")]}, **models(provider))
        assert result["next_agent"] == "coder", reply
    provider = ScriptedProvider(["Well, who knows.", "planner"])
    lead = Supervisor(agents=["planner", "coder"])
    result = alone(lead, {"messages": [user("Go.")]}, **models(provider))
    assert (result["next_agent"], len(provider.requests)) == ("planner", 2)


@pytest.mark.parametrize(
    "around",
    [
        lambda node: Parallel([node]),
        lambda node: Map([node, lambda ctx, state: {"y": state["answer"]}], input_keys="x"),
        lambda node: Loop(node, key="answer", until="yes"),
        lambda node: SubFlow(Graph({"inner": node}, [], "inner")),
    ],
    ids=["parallel", "map", "loop", "subflow"],
)
def test_d25_a_question_inside_a_container_is_answered_where_it_stands(around: Any) -> None:
    begun: list[str] = []

    def start(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        begun.append("start")
        return {}

    inner = Flow().step(start).step(Interrupt(key="answer"))
    graph = Graph({"n": around(SubFlow(inner))}, [], "n")
    stored: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        run(graph, {"x": [1]}, **stored)
    assert run(graph, resume={"answer": "yes"}, **stored).status == "finished"
    assert begun == ["start"]


def test_d56_a_misspelt_option_is_refused_by_every_node_type() -> None:
    with pytest.raises(ConfigError, match=r"temprature.*temperature"):
        Flow().llm(prompt="x", temprature=0.1)
    with pytest.raises(ConfigError, match=r"max_concurency.*max_concurrency"):
        Flow().map(add("x"), input_keys="x", max_concurency=2)
    with pytest.raises(ConfigError, match=r"max_tool_round.*max_tool_rounds"):
        Flow().harness("m", max_tool_round=2)


@pytest.mark.parametrize(
    ("edges", "word"),
    [
        ([Edge("a", "nowhere")], "nowhere"),
        ([Edge("nowhere", "a")], "nowhere"),
        ([Edge("a", "b", "x=1 and")], "x=1 and"),
        ([Edge("a", "b", "not")], "not"),
        ([Edge("a", "b", "(x=1")], r"\(x=1"),
    ],
)
def test_d57_a_graph_that_cannot_run_is_refused_when_it_is_made(edges: Any, word: str) -> None:
    nodes = {"a": Transform(action="now"), "b": Transform(action="now")}
    with pytest.raises(ConfigError, match=word):
        Graph(nodes, edges, "a")
    with pytest.raises(ConfigError, match="nowhere"):
        Graph(nodes, [], "nowhere")


def test_d57_a_target_of_a_command_is_looked_for_before_the_first_step() -> None:
    nodes = {"a": make_function_node(add("a"), id="a"), "go": CommandNode(goto="nowhere")}
    with pytest.raises(ConfigError, match="nowhere"):
        Graph(nodes, [Edge("a", "go")], "a")


def test_d57_a_provider_is_looked_for_at_any_depth_before_the_first_step() -> None:
    called: list[int] = []
    inner = Flow().step(Parallel([LLM(prompt="x", provider="nowhere", model="m")]))
    flow = Flow(**models(ScriptedProvider())).step(lambda ctx, state: called.append(1)).step(inner)
    with pytest.raises(ConfigError, match="nowhere"):
        run(flow)
    assert called == []


def test_d67_two_questions_that_are_judged_need_no_ids() -> None:
    flow = Flow()
    for key in ("plan", "text"):
        flow.interrupt(key, accept=Ask.equals("yes"))
    assert len(flow.compile().nodes) == 4


def test_d68_the_next_step_joins_every_branch() -> None:
    flow = Flow().step(add("start"))
    flow.branch("k", Case("x").add(add("x")), Case("y").add(add("y")), default=add("else"))
    flow.step(add("end"))
    for value in ("x", "y", "else"):
        assert run(flow, {"k": value})["seen"] == ["start", value, "end"]
    with pytest.raises(ConfigError, match="branch"):
        Flow().branch("k", Case("x").add(add("x")))


def test_d69_a_bound_of_the_run_bounds_what_is_inside() -> None:
    inner = Graph({"a": make_function_node(add("a"))}, [Edge("a", "a")], "a")
    flow = Flow().step(SubFlow(inner))
    result = run(flow, max_iterations=10)
    assert (result.status, result.stop_reason, result.steps) == ("stopped", "max_steps", 10)


def test_d69_a_cycle_that_never_waits_does_not_starve_who_waits_for_it() -> None:
    nodes = {"a": make_function_node(add("a"))}

    async def main() -> None:
        graph = Graph(nodes, [Edge("a", "a")], "a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(graph.run({}), 0.02)

    asyncio.run(main())


def test_d70_the_tools_of_one_reply_are_not_all_run_at_once() -> None:
    active, peak = 0, 0

    async def work(n: int) -> str:
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        await asyncio.sleep(0)
        active -= 1
        return str(n)

    calls = [{"id": str(n), "name": "work", "args": json.dumps({"n": n})} for n in range(50)]
    graph = Graph({"tools": ToolExec()}, [], "tools")
    result = run(graph, {"_tool_calls": calls, "messages": []}, tools=[work])
    assert [message["content"] for message in result["messages"]] == [str(n) for n in range(50)]
    assert 1 < peak <= 8


class Counted(str):
    """A node id that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_d75_a_step_looks_at_the_edges_of_its_node_and_no_others() -> None:
    def compared(length: int) -> int:
        ids = [Counted(f"n{number}") for number in range(length)]
        edges = [Edge(one, two) for one, two in zip(ids, ids[1:], strict=False)]
        graph = Graph(dict.fromkeys(ids, Transform(action="now")), edges, ids[0])
        Counted.compared = 0
        assert run(graph).steps == length
        return Counted.compared

    assert compared(400) <= 4 * compared(100) + 100
