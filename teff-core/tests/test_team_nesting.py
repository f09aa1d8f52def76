"""Teams inside teams, teams one after the other, and names that are data."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError
from teff.flow import AgentRole, Flow
from teff.graph import Graph
from teff.messages import assistant, message_text, user
from teff.node import Supervisor
from teff.runtime import Limits, StreamEvent
from teff.state import Append
from teff.testing import ScriptedProvider


def models(*lines: str) -> dict[str, Any]:
    provider = ScriptedProvider(lines)
    return {"providers": {"p": provider}, "default_provider": "p", "default_model": "m"}


def writes(key: str) -> Any:
    def work(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
        return {key: "done", "ran": Append([key])}

    return work


def run(flow: Flow, **options: Any) -> Any:
    return asyncio.run(flow.compile().run({"messages": [user("help")]}, **options))


def rounds(events: list[StreamEvent], node_id: str) -> list[int]:
    return [e.data["round"] for e in events if e.type == "route" and e.node_id == node_id]


PIPELINE: dict[str, Any] = {
    "roles": {name: writes(name) for name in ("x", "y", "z")},
    "fill_order": [("x", "x"), ("y", "y"), ("z", "z")],
}


def test_a_nested_team_counts_for_itself() -> None:
    inner = Flow().team("In.", id="inner", **PIPELINE)
    outer = Flow(**models("sub", "x", "other")).team(
        "Out.",
        roles={"sub": inner, "other": writes("o")},
        route_keys={"sub": "z", "other": "o"},
        done_keys=["z", "o"],
        max_rounds=4,
        id="outer",
    )
    events: list[StreamEvent] = []
    result = run(outer, emit=events.append)
    assert result["ran"] == ["x", "y", "z", "o"]
    assert (result.stop_reason, result["supervisor_rounds"]) == ("done_keys", 3)
    assert (rounds(events, "outer"), rounds(events, "inner")) == ([1, 2, 3], [1, 2, 3, 4])


def test_a_nested_team_begins_again_in_each_visit() -> None:
    inner = Flow().team("In.", roles={"a": writes("a")}, route_keys={}, max_rounds=2, id="inner")
    outer = Flow(**models("sub", "a", "sub", "a", "finish"))
    result = run(outer.team("Out.", roles={"sub": inner}, route_keys={}, id="outer"))
    assert (result["ran"], result["supervisor_rounds"]) == (["a", "a"], 3)


def test_a_nested_team_that_is_killed_goes_on_where_it_was() -> None:
    def team() -> Graph:
        inner = Flow().team("In.", id="inner", **PIPELINE)
        return (
            Flow(**models("sub", "x")).team("Out.", roles={"sub": inner}, done_keys="z").compile()
        )

    expected = asyncio.run(team().run({"messages": [user("help")]}))
    for step in range(1, expected.steps):
        graph = team()
        stored: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
        start = {"messages": [user("help")]}
        asyncio.run(graph.run(start, limits=Limits(max_steps=step), **stored))
        assert asyncio.run(graph.run(limits=Limits(max_steps=99), **stored)) == expected


def test_a_supervisor_inside_whose_loop_is_outside_counts_outside() -> None:
    decider = Flow().supervisor(agents=["a"], max_rounds=3, id="lead")
    flow = Flow(**models("a", "a")).add_flow(decider, id="decide")
    result = run(flow.route("next_agent", agents={"a": writes("a")}))
    assert (result["ran"], result["supervisor_rounds"]) == (["a", "a"], 3)


def test_a_team_after_a_team_counts_for_itself() -> None:
    flow = Flow(**models("a", "b", "c"))
    for name in "abc":
        flow.team(f"Team {name}.", roles={name: writes(name)}, done_keys=name, max_rounds=2)
    result = run(flow)
    assert result["ran"] == ["a", "b", "c"]
    assert [result[f"supervisor_rounds{number}"] for number in ("", "_2", "_3")] == [2, 2, 2]
    assert [result[f"next_agent{number}"] for number in ("", "_2", "_3")] == ["finish"] * 3


def test_the_keys_of_a_later_team_can_be_named() -> None:
    flow = Flow(**models("a", "b")).team("A.", roles={"a": writes("a")}, done_keys="a")
    flow.team("B.", roles={"b": writes("b")}, done_keys="b", output_key="who", rounds_key="n")
    result = run(flow)
    assert (result["who"], result["n"]) == ("finish", 2)


@pytest.mark.parametrize(
    "options",
    [{"finish": "<end>"}, {"finish_token": "<end>"}, {"finish_token": "<end>", "finish": "chain"}],
)
def test_a_finish_token_of_a_team_is_shared_by_all_its_parts(options: Any) -> None:
    chain = options.get("finish") == "chain"
    options = {**options, **({"finish": writes("closed")} if chain else {})}
    flow = Flow(**models("a", "<end>")).team("T.", roles={"a": writes("a")}, **options)
    if not chain:
        flow.step(writes("closed"))
    result = run(flow)
    assert (result["next_agent"], result["ran"]) == ("<end>", ["a", "closed"])


@pytest.mark.parametrize(
    "names",
    [
        *(["key", "self", "id"], ["a>b", "c"], ["a,b", "c=d"], ["x y", "\xe9"], ["true", "null"]),
        *(
            ["billing", "billing."],
            ["Billing!", "billing"],
            ["QA", "qa"],
            ["a/b", "a"],
            ["1", "1.0"],
        ),
        *(["finish.", "b"], ["Finish", "b"], ["", "b"]),
    ],
)
def test_route_names_are_data(names: list[str]) -> None:
    for chosen in names:

        def choose(ctx: Any, state: dict[str, Any], chosen: str = chosen) -> dict[str, Any]:
            return {"next_agent": "finish" if "ran" in state else chosen}

        flow = Flow().step(choose, id="decide")
        agents = {name: writes(f"by {name}") for name in names if name}
        result = run(flow.route("next_agent", agents=agents, finish=writes("end")))
        assert result.get("ran", []) == ([f"by {chosen}", "end"] if chosen else [])


def test_an_agent_is_not_called_as_the_word_that_ends_the_loop() -> None:
    for name, flow in (
        ("finish", Flow().step(writes("x"))),
        ("stop", Flow().supervisor(agents=["a"], finish="stop")),
    ):
        with pytest.raises(ConfigError, match=f"an agent called '{name}', which is the word"):
            flow.route("next_agent", agents={name: writes("y")})


def test_a_team_adds_no_more_than_four_steps_per_round() -> None:
    roles = {name: AgentRole(f"You are {name}.", output_key=name) for name in ("a", "b", "c")}
    flow = Flow(**models("a", "A.", "B.", "C."))
    flow.team("Lead.", roles=roles, fill_order=[(name, name) for name in roles], id="lead")
    events: list[StreamEvent] = []
    result = run(flow, emit=events.append)
    own = len(rounds(events, "lead"))
    # Of every step, an agent's own call of its model is not the team's.
    asked = sum(e.type == "node_start" and e.node_type == "react_agent" for e in events)
    assert (own, asked) == (4, 3)
    assert result.steps - asked <= 4 * own


# --- Faults that people reported


class Typo(Supervisor):
    def _needs_model(self, state: Any) -> bool:
        return False

    def decide(self, state: Any, proposal: str) -> str:
        return "end" if "ran" in state else "wrok"


def test_sup_04_a_label_that_leads_nowhere_is_an_error_that_says_what_there_is() -> None:
    def flow(**options: Any) -> Flow:
        lead = Typo(agents=["work"], finish="end", id="pick", **options)
        return Flow().step(lead).route("next_agent", agents={"work": writes("w")})

    with pytest.raises(ConfigError) as caught:
        run(flow())
    for word in ("pick", "wrok", "work", "end"):
        assert word in str(caught.value)
    assert run(flow(fallback_agent="work"))["ran"] == ["w"]


def test_sup_08_the_answer_is_what_was_said_last_not_a_note_of_the_machinery() -> None:
    roles = {"counter": AgentRole("You count.", output_key="count")}

    def team() -> Graph:
        flow = Flow(**models("counter", "12 chairs"))
        return flow.team("Lead.", roles=roles, done_keys="count").compile()

    result = asyncio.run(team().run({"messages": [user("How many?")]}))
    assert result["messages"] == [user("How many?"), assistant("12 chairs")]
    assert message_text(result["messages"][-1]) == "12 chairs"
    turn = asyncio.run(
        team().turn("How many?", checkpointer=MemoryCheckpointer(), checkpoint_id="c")
    )
    assert turn.reply == "12 chairs"
