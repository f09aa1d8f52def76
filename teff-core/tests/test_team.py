"""Whole teams on a scripted model: routing, bounds, stop reasons."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.flow import AgentRole, Flow
from teff.graph import Graph
from teff.messages import assistant, message_text, user
from teff.runtime import Limits, StreamEvent
from teff.state import Append
from teff.testing import ScriptedProvider
from teff.tool import tool


def models(provider: ScriptedProvider) -> dict[str, Any]:
    return {"providers": {"p": provider}, "default_provider": "p", "default_model": "m"}


def run(graph: Graph, state: Any = None, **options: Any) -> Any:
    given = {"messages": [user("help")]} if state is None else state
    return asyncio.run(graph.run(given, **options))


def writes(key: str, value: Any = "done") -> Any:
    async def work(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {key: value, "ran": Append([key])}

    return work


DESK = {
    "billing": AgentRole("You do bills.", output_key="answer"),
    "technical": AgentRole("You do machines.", output_key="answer"),
}


def desk(provider: ScriptedProvider, **team: Any) -> Graph:
    options = {"roles": DESK, "done_keys": ["answer"], "max_rounds": 4, "id": "lead", **team}
    return Flow("desk", **models(provider)).team("Route.", **options).compile()


def test_the_agent_that_the_model_chose_answers_and_the_run_is_done() -> None:
    provider = ScriptedProvider(["billing", "Your refund is on its way."])
    result = run(desk(provider))
    assert result["answer"] == "Your refund is on its way."
    assert (result.status, result.stop_reason) == ("finished", "done_keys")
    assert result["messages"] == [user("help"), assistant("Your refund is on its way.")]
    assert result.usage.model_calls == 2
    assert provider.requests[0].choices == ("billing", "technical", "finish")


def test_a_round_of_a_team_is_few_steps() -> None:
    provider = ScriptedProvider(["billing", "Done."])
    events: list[StreamEvent] = []
    run(desk(provider), emit=events.append)
    outer = [e for e in events if e.type == "node_start" and e.path.count("/") == 1]
    assert [event.node_id for event in outer] == ["lead", "billing", "lead"]


def test_every_decision_is_an_event_that_says_who_decided() -> None:
    events: list[StreamEvent] = []
    run(desk(ScriptedProvider(["it is for billing", "Done."])), emit=events.append)
    routes = [event.data for event in events if event.type == "route"]
    assert [(route["route"], route["decided_by"], route["round"]) for route in routes] == [
        ("billing", "model", 1),
        ("finish", "done_keys", 2),
    ]
    assert routes[0]["reply"] == "it is for billing"


def test_sup_01_a_model_that_never_stops_is_stopped_with_what_was_gathered() -> None:
    async def dig(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"hits": state.get("hits", 0) + 1}

    provider = ScriptedProvider(["digger"] * 3)
    flow = Flow(**models(provider)).supervisor(agents=["digger"], max_rounds=4)
    result = run(flow.route("next_agent", digger=dig).compile())
    assert (result["hits"], result.status, result.stop_reason) == (3, "stopped", "max_rounds")
    provider.assert_done()


def test_sup_02_the_end_of_a_bounded_and_of_a_finished_run_differ() -> None:
    async def last(graph: Graph) -> dict[str, Any]:
        events = [event async for event in graph.stream({"messages": [user("hi")]})]
        assert sum(event.type == "run_end" for event in events) == 1
        return dict(events[-1].data)

    done = asyncio.run(last(desk(ScriptedProvider(["billing", "Done."]))))
    bounded = asyncio.run(last(desk(ScriptedProvider(), max_rounds=1)))
    assert (done["status"], done["stop_reason"]) == ("finished", "done_keys")
    assert (bounded["status"], bounded["stop_reason"]) == ("stopped", "max_rounds")


def test_sup_05_a_reply_that_names_nobody_is_asked_again_then_the_fallback_answers() -> None:
    provider = ScriptedProvider(["", "no idea", "I fix machines."])
    result = run(desk(provider, fallback="technical"))
    assert message_text(provider.requests[2].messages[0]) == "You do machines."
    assert result.stop_reason == "done_keys"


def test_sup_07_a_router_that_repeats_itself_cannot_run_a_worker_twice() -> None:
    flow = Flow(**models(ScriptedProvider(["writer"] * 5)))
    flow.supervisor(agents=["writer"], done_keys=["draft"])
    result = run(flow.route("next_agent", writer=writes("draft")).compile())
    assert result["ran"] == ["draft"]


def test_sup_11_garbage_from_the_router_still_runs_the_pipeline_in_order() -> None:
    provider = ScriptedProvider(["%%%"] * 10)
    flow = Flow(**models(provider)).supervisor(
        agents=["a", "b"], fill_order=[("a", "facts"), ("b", "text")], done_keys=["facts", "text"]
    )
    result = run(flow.route("next_agent", a=writes("facts"), b=writes("text")).compile())
    assert result["ran"] == ["facts", "text"]
    assert result.status == "finished"


@pytest.mark.parametrize("wrong", [0, -1, 2.5, None, True, "x", ""])
def test_sup_12_a_round_bound_that_makes_no_sense_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="max_rounds"):
        desk(ScriptedProvider(), max_rounds=wrong)


def test_a_standstill_ends_the_run_with_what_there_is() -> None:
    async def idle(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {"ran": Append(["idle"])}

    flow = Flow(**models(ScriptedProvider(["a"] * 9)))
    flow.supervisor(agents=["a"], done_keys=["never"], max_rounds=9, stall_after=3)
    result = run(flow.route("next_agent", a=idle).compile())
    assert (len(result["ran"]), result.status, result.stop_reason) == (3, "stopped", "no_progress")


def test_a_role_of_its_own_model_and_provider_wins_over_the_team() -> None:
    team, own = ScriptedProvider(["billing"], name="t"), ScriptedProvider(["Done."], name="o")
    roles: dict[str, Any] = {
        "billing": {
            "system": "x",
            "output_key": "answer",
            "provider": "o",
            "model": "big",
            "temperature": 0.1,
        },
        "technical": {"system": "y", "output_key": "answer"},
    }
    graph = (
        Flow(providers={"t": team, "o": own})
        .team("Route.", roles=roles, provider="t", model="small", done_keys="answer")
        .compile()
    )
    run(graph)
    assert [request.model for request in team.requests] == ["small"]
    assert [(request.model, request.temperature) for request in own.requests] == [("big", 0.1)]


def test_what_a_role_says_of_its_model_and_tools_is_its_own() -> None:
    @tool(register=False)
    def look(word: str) -> str:
        """Look a word up."""
        return word

    provider = ScriptedProvider(["a", "one", "b", "two", "finish"])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    roles: dict[str, AgentRole] = {
        "a": AgentRole("A.", output_key="x", temperature=0.1, use_tools=["look"]),
        "b": AgentRole("B.", output_key="y"),
    }
    graph = flow.team("Who?", roles=roles, temperature=0.9, max_tokens=5).compile()
    asyncio.run(graph.run({"messages": [user("hi")]}, tools=[look]))
    lead, one, _, two, _ = provider.requests
    assert [request.temperature for request in (lead, one, two)] == [0.9, 0.1, None]
    assert [request.max_tokens for request in (lead, one, two)] == [5, None, None]
    offered = [[spec.name for spec in request.tools] for request in (lead, one, two)]
    assert offered == [[], ["look"], []]


def test_a_finish_token_of_its_own_reaches_the_finish_chain() -> None:
    provider = ScriptedProvider(["billing", "Done."])
    graph = (
        Flow(**models(provider))
        .team("Route.", roles=DESK, done_keys=["answer"], finish=writes("closed"))
        .compile()
    )
    result = run(graph)
    assert (result["closed"], result.stop_reason) == ("done", "done_keys")
    lead = Flow(**models(ScriptedProvider(["<end>"]))).supervisor(agents=["a"], finish="<end>")
    result = run(lead.route("next_agent", a=writes("x"), finish=writes("closed")).compile())
    assert (result["closed"], result.stop_reason) == ("done", "finish")


def test_the_reason_of_a_nested_team_is_that_of_the_run() -> None:
    inner = Flow().team("Route.", roles=DESK, done_keys=["answer"], max_rounds=1)
    provider = ScriptedProvider()
    result = run(Flow(**models(provider)).add_flow(inner, id="team").step(writes("end")).compile())
    assert (result["end"], result.status, result.stop_reason) == ("done", "stopped", "max_rounds")


def test_a_team_is_a_role_of_another_team() -> None:
    inner = Flow().team("Inner.", roles=DESK, done_keys=["answer"], id="inner")
    provider = ScriptedProvider(["support", "billing", "Done."])
    outer = Flow(**models(provider)).team(
        "Outer.", roles={"support": inner}, route_keys={"support": "answer"}, done_keys=["answer"]
    )
    result = run(outer.compile())
    assert (result["answer"], result.stop_reason) == ("Done.", "done_keys")
    provider.assert_done()


def test_a_limit_inside_an_agent_keeps_what_earlier_agents_did() -> None:
    provider = ScriptedProvider(["a", "First.", "b"])
    roles = {
        "a": AgentRole("A", output_key="one"),
        "b": AgentRole("B", output_key="two"),
    }
    graph = Flow(**models(provider)).team("Route.", roles=roles, done_keys=["one", "two"]).compile()
    result = run(graph, limits=Limits(max_model_calls=3))
    assert (result["one"], result.status, result.stop_reason) == (
        "First.",
        "stopped",
        "max_model_calls",
    )
    assert [message_text(m) for m in result["messages"]] == ["help", "First."]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"roles": {}}, "at least one role"),
        ({"fallback": "tecnical"}, "tecnical.*Did you mean 'technical'"),
        ({"max_round": 3}, "max_round.*Did you mean 'max_rounds'"),
        ({"roles": {"a": {"sytem": "x"}}}, "sytem.*Did you mean 'system'"),
        ({"roles": {"a": {"tools": ["x"], "use_tools": ["x"]}}}, "not both"),
        ({"fallback": "billing", "fallback_agent": "billing"}, "not both"),
    ],
)
def test_a_team_that_makes_no_sense_is_refused_by_name(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        desk(ScriptedProvider(), **options)
