"""What holds for every supervisor, every state, every reply and every agent."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.checkpoint import MemoryCheckpointer
from teff.flow import Flow
from teff.graph import Graph
from teff.node import Supervisor
from teff.node.routing import read_route
from teff.runtime import Limits, RunResult, StreamEvent
from teff.testing import ScriptedProvider
from teff.testing.strategies import (
    AGENTS,
    SLOTS,
    ScriptedAgent,
    json_states,
    reply_texts,
    scripted_agents,
    slots_of,
    supervisor_options,
)

ASKED = {"messages": [{"role": "user", "content": "please"}]}
REASONS = {
    *("finish", "done_keys", "fill_order", "route_keys", "no_message"),
    *("max_rounds", "no_decision", "no_progress"),
}
configurations = supervisor_options()
states = json_states()
replies = reply_texts()
proposals = st.sampled_from([*AGENTS, "finish", "", "nobody"]) | st.text(max_size=6)


def for_ever(lines: Sequence[str]) -> Iterator[str]:
    """Give the lines, then the last one again and again."""
    return chain(lines, repeat(lines[-1] if lines else ""))


class Team:
    """A whole team on a model that says its lines; keeps what it did."""

    def __init__(
        self, options: Mapping[str, Any], lines: Sequence[str], agents: Mapping[str, ScriptedAgent]
    ) -> None:
        script = for_ever(lines)
        self.options = options
        self.provider = ScriptedProvider([lambda request: next(script)] * 500)
        self.agents = agents
        self.ran: list[str] = []
        self.events: list[StreamEvent] = []
        self.crash_at: int | None = None
        self.graph: Graph = (
            Flow(providers={"p": self.provider}, default_provider="p", default_model="m")
            .supervisor(id="lead", **options)
            .route("next_agent", agents={name: self.agent(name) for name in agents})
            .compile()
        )

    def agent(self, name: str) -> Callable[[Any, dict[str, Any]], dict[str, Any]]:
        def act(ctx: Any, state: dict[str, Any]) -> dict[str, Any]:
            if self.crash_at == len(self.ran):
                self.crash_at = None
                raise ConnectionError("once")
            self.ran.append(name)
            return self.agents[name](ctx, state)

        return act

    def run(self, state: Mapping[str, Any] | None = None, **options: Any) -> RunResult | None:
        """Run to the end; None where an agent crashed."""
        try:
            return asyncio.run(self.graph.run(state, emit=self.events.append, **options))
        except (RuntimeError, ConnectionError):
            return None

    @property
    def decisions(self) -> list[Mapping[str, Any]]:
        return [event.data for event in self.events if event.type == "route"]

    @property
    def routes(self) -> list[str]:
        return [str(data["route"]) for data in self.decisions]


@st.composite
def teams(draw: st.DrawFn, *, crash: bool = True) -> Team:
    options = draw(configurations)
    lines = draw(st.lists(replies, max_size=6))
    return Team(options, lines, draw(scripted_agents(options, crash=crash)))


def filled(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def decide_one_round(
    options: Mapping[str, Any], state: Mapping[str, Any], lines: Sequence[str]
) -> tuple[Mapping[str, Any], str | None, int]:
    """Return the event of the next decision, the stop reason, and the number of model calls."""
    team = Team(options, lines, {name: ScriptedAgent(name, "crash") for name in AGENTS})
    result = team.run(state)
    reason = result.stop_reason if result else None
    return team.decisions[0], reason, len(team.provider.requests)


@given(team=teams(), state=states)
def test_1_bounded(team: Team, state: dict[str, Any]) -> None:
    options = team.options
    result = team.run({**state, "supervisor_rounds": 0})
    assert len(team.ran) <= options["max_rounds"] - 1
    assert len(team.provider.requests) <= (options["max_rounds"] - 1) * (1 + options["max_reasks"])
    assert result is None or result.stop_reason in REASONS
    assert result is None or result.steps <= 2 * options["max_rounds"] - 1


@given(options=configurations, lines=st.lists(replies, max_size=3), state=states)
def test_2_done_keys_end_the_loop_without_a_model_call(
    options: dict[str, Any], lines: list[str], state: dict[str, Any]
) -> None:
    options["done_keys"] = options["done_keys"] or ["facts"]
    state |= dict.fromkeys(options["done_keys"], 0)
    event, reason, calls = decide_one_round(options, state, lines)
    assert (event["route"], event["decided_by"], reason, calls) == (
        *("finish", "done_keys", "done_keys"),
        0,
    )


@given(
    pipeline=st.lists(st.sampled_from(AGENTS), min_size=1, unique=True),
    entry=st.sampled_from(AGENTS),
    already=st.sets(st.sampled_from(SLOTS[1:])),
)
def test_3_a_pipeline_runs_exactly_in_order(
    pipeline: list[str], entry: str, already: set[str]
) -> None:
    slot_of = dict(zip(AGENTS, SLOTS, strict=True))
    order = [(agent, slot_of[agent]) for agent in pipeline]
    options = {"agents": AGENTS, "fill_order": order, "max_rounds": 20}
    agents = {name: ScriptedAgent(name, "fill", slot_of[name]) for name in AGENTS}

    team = Team(options, [entry, "finish"], agents)
    result = team.run(ASKED)
    assert result is not None
    if entry == pipeline[0]:
        assert (team.ran, result.stop_reason) == (pipeline, "fill_order")
    elif entry in pipeline:
        assert (team.ran, result.stop_reason) == ([entry], "fill_order")
    # With the first slot filled, each missing one follows once, whatever the others hold.
    start: dict[str, Any] = dict.fromkeys(already, False) | {slot_of[pipeline[0]]: 0}
    begun = Team(options, [], agents)
    begun.run(start)
    assert begun.ran == [agent for agent in pipeline if slot_of[agent] not in start]
    assert not begun.provider.requests


@given(options=configurations, state=states, proposal=proposals)
def test_4_the_route_is_in_the_vocabulary(
    options: dict[str, Any], state: dict[str, Any], proposal: str
) -> None:
    node = Supervisor(**options)
    assert node.decide(state, proposal) in node.vocabulary


@given(team=teams(), state=states)
def test_5_an_agent_whose_slot_is_full_is_not_routed_to(team: Team, state: dict[str, Any]) -> None:
    slots = slots_of(team.options)
    given_to: list[tuple[str, Any]] = []

    def watched(name: str, agent: ScriptedAgent) -> Any:
        def act(ctx: Any, state: Mapping[str, Any]) -> dict[str, Any]:
            given_to.append((name, copy.deepcopy(state.get(slots.get(name, "")))))
            return agent(ctx, state)

        return act

    team.agents = {name: watched(name, agent) for name, agent in team.agents.items()}
    team.run(state)
    assert not [name for name, value in given_to if name in slots and filled(value)]


@given(options=configurations, state=states)
def test_6_a_premature_finish_goes_to_the_fallback(
    options: dict[str, Any], state: dict[str, Any]
) -> None:
    for slot in (*SLOTS, "supervisor_rounds"):
        state.pop(slot, None)
    assert Supervisor(**options).decide(state, "finish") == (options["fallback_agent"] or "finish")


PROGRAM = """
import json
from teff.node import Supervisor
from teff.node.supervisor import read_route

names = {"QA", "qa", "dev", "Dev Ops", "dev-ops", "finish"}
replies = ["Qa", "dev ops", "DevOps!", "ask dev", "qa or dev", "{'agent': 'qa'}", "not dev but qa"]
lead = Supervisor(
    agents={"qa", "dev", "ops"},
    done_keys={"x", "y", "z"},
    done_mode="any",
    route_keys={"qa": "q", "dev": "d"},
    fallback_agent="ops",
)
slots = ({}, {"q": 1}, {"x": 0}, {"d": "", "q": []})
decisions = [lead.decide(state, name) for state in slots for name in ("qa", "dev", "finish", "")]
print(json.dumps([[read_route(reply, names) for reply in replies], lead.vocabulary, decisions]))
"""


def test_7_the_same_state_and_reply_give_the_same_route_for_every_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2", "42")
    }
    assert len(outputs) == 1


@given(options=configurations, state=states, proposal=proposals)
def test_8_decide_never_raises_and_never_changes_its_arguments(
    options: dict[str, Any], state: dict[str, Any], proposal: str
) -> None:
    node, before = Supervisor(**options), copy.deepcopy(state)
    configuration = copy.deepcopy(dict(node.config))
    assert node.decide(state, proposal) == node.decide(copy.deepcopy(state), proposal)
    assert state == before
    assert dict(node.config) == configuration


@given(team=teams(), state=states)
def test_9_counters_never_go_down_within_a_turn(team: Team, state: dict[str, Any]) -> None:
    team.run(state)
    counts = [data["round"] for data in team.decisions]
    stored = state.get("supervisor_rounds")
    first = stored + 1 if type(stored) is int and stored >= 0 else 1
    assert counts == list(range(first, first + len(counts)))


@given(team=teams(crash=False), state=states, data=st.data(), crashes=st.booleans())
def test_10_kill_and_resume_at_any_step_gives_the_same_routes(
    team: Team, state: dict[str, Any], data: st.DataObject, crashes: bool
) -> None:
    options, lines = team.options, data.draw(st.lists(replies, max_size=6))
    start = {**state, **ASKED}
    unbroken, killed = Team(options, lines, team.agents), Team(options, lines, team.agents)
    expected = unbroken.run(start)
    assert expected is not None
    stored: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    at = data.draw(st.integers(1, max(1, expected.steps - 1)), label="killed at step")
    if crashes:
        killed.crash_at = at // 2
        killed.run(start, **stored)
    else:
        killed.run(start, limits=Limits(max_steps=at), **stored)
    result = killed.run(limits=Limits(max_steps=1000), **stored)
    assert result is not None
    assert (killed.routes, killed.ran) == (unbroken.routes, unbroken.ran)
    assert len(killed.provider.requests) == len(unbroken.provider.requests)
    assert json.dumps(result, default=repr) == json.dumps(expected, default=repr)
    assert result.stop_reason == expected.stop_reason


@settings(max_examples=10)
@given(reply=reply_texts(largest=1_000_000))
def test_a_reply_of_any_length_is_read(reply: str) -> None:
    assert read_route(reply, [*AGENTS, "finish"]) in {"", *AGENTS, "finish"}


@given(options=configurations)
def test_what_the_strategies_give_fits(options: dict[str, Any]) -> None:
    assert set(slots_of(options)) <= set(Supervisor(**options).vocabulary)
    assert len(set(slots_of(options).values())) == len(slots_of(options))


def test_the_strategies_say_what_they_need(tmp_path: Path) -> None:
    (tmp_path / "hypothesis.py").write_text("raise ImportError('none')\n", encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-c", "import teff.testing; import teff.testing.strategies"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 1
    assert "needs hypothesis: pip install 'teff-core[testing]'" in found.stderr


@pytest.mark.parametrize("does", ["fill", "misplace", "nothing", "crash"])
def test_an_agent_that_is_a_script_is_a_step(does: Any) -> None:
    agent = ScriptedAgent("ann", does, "facts" if does in ("fill", "misplace") else None)
    flow = Flow().step(agent)
    if does == "crash":
        with pytest.raises(RuntimeError, match="ann crashed"):
            asyncio.run(flow.compile().run({}))
    else:
        written = {"facts": "by ann"} if agent.slot else {}
        assert asyncio.run(flow.compile().run({})) == written
