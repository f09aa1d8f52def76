"""What holds for every supervisor, every state, every reply and every agent."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from teff.node import ExecContext, Supervisor
from teff.provider import ChatReply

AGENTS = ("ann", "bob", "cat", "dan")
SLOTS = ("facts", "text", "review", "extra")
KEYS = (*SLOTS, "next_agent", "supervisor_rounds", "messages", "_next_agent_progress")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
ASKED = {"messages": [{"role": "user", "content": "please"}]}
any_states = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), json_values, max_size=8)
states = any_states | any_states.map(lambda state: {**state, **ASKED})
proposals = st.sampled_from([*AGENTS, "finish", "", "nobody"]) | st.text(max_size=6)
replies = st.one_of(
    st.sampled_from([*AGENTS, "finish", "ann or bob", "not ann", "", "<think>bob", '{"a": "cat"}']),
    st.text(st.characters(exclude_categories=()), max_size=20),
)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Options in which each agent has one slot at most."""
    slot_of = dict(zip(AGENTS, draw(st.permutations(SLOTS)), strict=True))
    some = st.lists(st.sampled_from(AGENTS), unique=True)
    pipeline = draw(some)
    options: dict[str, Any] = {
        "route_keys": {agent: slot_of[agent] for agent in draw(some)},
        "fill_order": [(agent, slot_of[agent]) for agent in pipeline],
        "done_keys": draw(st.lists(st.sampled_from(SLOTS), unique=True)),
        "done_mode": draw(st.sampled_from(["all", "any"])),
        "fallback_agent": draw(st.sampled_from(["", *AGENTS])),
        "max_rounds": draw(st.integers(1, 8)),
        "max_reasks": draw(st.integers(0, 2)),
        "stall_after": draw(st.integers(1, 4)),
    }
    if draw(st.booleans()) or not (slots_of(options) or options["fallback_agent"]):
        options["agents"] = list(AGENTS)
    return options


def slots_of(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the slot of every agent that has one."""
    return {**options["route_keys"], **dict(options["fill_order"])}


def is_filled(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def is_done(options: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    filled = [is_filled(state.get(key)) for key in options["done_keys"]]
    return bool(filled) and (any(filled) if options["done_mode"] == "any" else all(filled))


class Script:
    """A model that says its lines one after the other, then the last one for ever."""

    can_choose = False

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = list(lines) or [""]
        self.calls = 0

    async def call(self, messages: Any, *, choices: Any = None) -> ChatReply:
        line = self.lines[min(self.calls, len(self.lines) - 1)]
        self.calls += 1
        return ChatReply(text=line)


class Lead(Supervisor):
    script: Any

    def harness(self, ctx: ExecContext) -> Any:
        return self.script


def lead(options: Mapping[str, Any], script: Script) -> Lead:
    node = Lead(**options)
    node.script = script
    return node


def decide_one_round(node: Lead, state: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    ctx = ExecContext(state, node_id="lead")
    updates = asyncio.run(node.execute(ctx, dict(state)))
    return dict(updates), ctx.stop_reason or None


Agent = Callable[[Mapping[str, Any]], dict[str, Any]]


def drive(
    node: Lead,
    state: Mapping[str, Any],
    agent: Callable[[str], Agent],
    *,
    between: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> tuple[list[str], dict[str, Any], str | None]:
    """Run the loop; ``between`` is done to the state after every step."""
    current, routes = dict(state), []
    for _ in range(50):
        updates, reason = decide_one_round(node, current)
        current = between({**current, **updates})
        routes.append(str(updates["next_agent"]))
        if routes[-1] == node.finish:
            return routes, current, reason
        current = between({**current, **agent(routes[-1])(current)})
    raise AssertionError("the loop does not end")


def behaviour(options: Mapping[str, Any], kinds: Mapping[str, str]) -> Callable[[str], Agent]:
    """Make agents that fill their own slot, or another one, or nothing."""
    slots = slots_of(options)

    def agent(name: str) -> Agent:
        target = {"own": slots.get(name), "other": SLOTS[0], "none": None}[kinds[name]]
        return lambda state: {} if target is None else {target: f"by {name}"}

    return agent


kinds_of_agents = st.fixed_dictionaries(
    {name: st.sampled_from(["own", "other", "none"]) for name in AGENTS}
)


@given(options=configurations(), lines=st.lists(replies), kinds=kinds_of_agents, state=states)
def test_1_the_loop_is_bounded(
    options: dict[str, Any], lines: list[str], kinds: dict[str, str], state: dict[str, Any]
) -> None:
    script = Script(lines)
    start = {**state, "supervisor_rounds": 0}
    routes, _, reason = drive(lead(options, script), start, behaviour(options, kinds))
    assert len(routes) - 1 <= options["max_rounds"] - 1
    assert script.calls <= (options["max_rounds"] - 1) * (1 + options["max_reasks"])
    assert reason in {
        *("finish", "done_keys", "fill_order", "route_keys", "no_message"),
        *("max_rounds", "no_decision", "no_progress"),
    }


@given(options=configurations(), lines=st.lists(replies), state=states)
def test_2_done_keys_end_the_loop_without_a_model_call(
    options: dict[str, Any], lines: list[str], state: dict[str, Any]
) -> None:
    options["done_keys"] = options["done_keys"] or ["facts"]
    state |= dict.fromkeys(options["done_keys"], 0)
    script = Script(lines)
    updates, reason = decide_one_round(lead(options, script), state)
    assert (updates["next_agent"], reason, script.calls) == ("finish", "done_keys", 0)


@given(
    pipeline=st.lists(st.sampled_from(AGENTS), min_size=1, unique=True),
    entry=st.sampled_from(AGENTS),
    filled=st.sets(st.sampled_from(SLOTS[1:])),
)
def test_3_a_pipeline_runs_exactly_in_order(
    pipeline: list[str], entry: str, filled: set[str]
) -> None:
    slot_of = dict(zip(AGENTS, SLOTS, strict=True))
    options = {
        "agents": AGENTS,
        "fill_order": [(agent, slot_of[agent]) for agent in pipeline],
        "route_keys": {},
        "max_rounds": 20,
    }
    node = lead(options, Script([entry, "finish"]))
    agent = behaviour(options, dict.fromkeys(AGENTS, "own"))
    routes, _, reason = drive(node, ASKED, agent)
    if entry == pipeline[0]:
        assert (routes, reason) == ([*pipeline, "finish"], "fill_order")
    elif entry in pipeline:
        assert (routes, reason) == ([entry, "finish"], "fill_order")
    # With the first slot filled, each missing one follows once, whatever the others hold.
    start: dict[str, Any] = dict.fromkeys(filled, False) | {slot_of[pipeline[0]]: 0}
    routes, _, _ = drive(node, start, agent)
    assert routes == [*(a for a in pipeline if slot_of[a] not in start), "finish"]


@given(options=configurations(), state=states, proposal=proposals)
def test_4_the_route_is_in_the_vocabulary(
    options: dict[str, Any], state: dict[str, Any], proposal: str
) -> None:
    node = Supervisor(**options)
    assert node.decide(state, proposal) in node.vocabulary


@given(options=configurations(), state=states, proposal=proposals)
def test_5_an_agent_whose_slot_is_full_is_not_routed_to(
    options: dict[str, Any], state: dict[str, Any], proposal: str
) -> None:
    slot = slots_of(options).get(Supervisor(**options).decide(state, proposal))
    assert slot is None or not is_filled(state.get(slot))


@given(options=configurations(), state=states)
def test_6_a_premature_finish_goes_to_the_fallback(
    options: dict[str, Any], state: dict[str, Any]
) -> None:
    for slot in (*SLOTS, "supervisor_rounds"):
        state.pop(slot, None)
    route = Supervisor(**options).decide(state, "finish")
    assert route == (options["fallback_agent"] or "finish")


@given(options=configurations(), state=states, proposal=proposals)
def test_8_decide_never_raises_and_changes_nothing(
    options: dict[str, Any], state: dict[str, Any], proposal: str
) -> None:
    node, before = Supervisor(**options), copy.deepcopy(state)
    configuration = dict(node.config)
    assert node.decide(state, proposal) == node.decide(copy.deepcopy(state), proposal)
    assert state == before
    assert dict(node.config) == configuration


@given(options=configurations(), state=states, lines=st.lists(replies), kinds=kinds_of_agents)
def test_9_the_counter_goes_up_by_one_and_junk_counts_as_none(
    options: dict[str, Any], state: dict[str, Any], lines: list[str], kinds: dict[str, str]
) -> None:
    stored = state.get("supervisor_rounds")
    known = type(stored) is int and stored >= 0
    counts: list[Any] = [stored if known else 0]

    def count(current: dict[str, Any]) -> dict[str, Any]:
        counts.append(current["supervisor_rounds"])
        return current

    drive(lead(options, Script(lines)), state, behaviour(options, kinds), between=count)
    assert all(after - before in (0, 1) for before, after in zip(counts, counts[1:], strict=False))
    assert counts[1] == counts[0] + 1


@given(
    options=configurations(),
    state=states,
    lines=st.lists(replies),
    kinds=kinds_of_agents,
)
def test_10_a_state_that_was_stored_and_read_again_gives_the_same_routes(
    options: dict[str, Any],
    state: dict[str, Any],
    lines: list[str],
    kinds: dict[str, str],
) -> None:
    start = {**state, **ASKED}
    agents = behaviour(options, kinds)
    unbroken = drive(lead(options, Script(lines)), start, agents)
    resumed = drive(
        lead(options, Script(lines)),
        start,
        agents,
        between=lambda current: dict(json.loads(json.dumps(current))),
    )
    assert resumed[0] == unbroken[0]
    assert resumed[2] == unbroken[2]


# --- A second, naive model of the guards, for the test alone


def naive_decision(options: Mapping[str, Any], state: Mapping[str, Any], proposal: str) -> str:
    if is_done(options, state):
        return "finish"
    pipeline = options["fill_order"]
    missing = [agent for agent, slot in pipeline if not is_filled(state.get(slot))]
    if pipeline and len(missing) < len(pipeline):
        begun = pipeline[0][0] not in missing
        return missing[0] if begun and missing else "finish"
    slots = {*options["route_keys"].values(), *options["done_keys"], *dict(pipeline).values()}
    produced = any(is_filled(state.get(slot)) for slot in slots)
    agents = options.get("agents") or [*slots_of(options), options["fallback_agent"]]
    if not slots:
        rounds = state.get("supervisor_rounds")
        counted = type(rounds) is int and rounds > 0
        produced = counted and state.get("next_agent") in [name for name in agents if name]
    fallback = "" if produced else options["fallback_agent"]
    if proposal == "finish":
        return fallback or "finish"
    if proposal in agents and proposal:
        slot = options["route_keys"].get(proposal)
        return "finish" if slot and is_filled(state.get(slot)) else proposal
    return (pipeline[0][0] if pipeline else "") or fallback or "finish"


@given(options=configurations(), state=states, proposal=proposals)
def test_the_guards_agree_with_a_naive_model_of_them(
    options: dict[str, Any], state: dict[str, Any], proposal: str
) -> None:
    decision = Supervisor(**options).decide(state, proposal)
    assert decision == naive_decision(options, state, proposal)


# --- Across processes

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
