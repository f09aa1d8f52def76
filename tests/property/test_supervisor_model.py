"""Whole teams against a second, naive model of the guards, written for these tests alone."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from teff.checkpoint import MemoryCheckpointer
from teff.flow import Flow
from teff.graph import Graph
from teff.node import Supervisor
from teff.node.routing import last_known_word, read_route
from teff.runtime import Limits, RunResult, StreamEvent
from teff.testing import ScriptedProvider
from teff.testing.strategies import (
    AGENTS,
    ScriptedAgent,
    json_states,
    reply_texts,
    scripted_agents,
    slots_of,
    supervisor_options,
)

TOKEN = "finish"


def filled(value: Any) -> bool:
    return value is not None and value not in ("", [], {})


def rounds_in(state: Mapping[str, Any]) -> int:
    stored = state.get("supervisor_rounds")
    return stored if type(stored) is int and stored >= 0 else 0


def names_in(options: Mapping[str, Any]) -> list[str]:
    named = options.get("agents") or [*slots_of(options), options["fallback_agent"]]
    return [name for name in named if name]


def slots_in(options: Mapping[str, Any]) -> list[str]:
    return sorted({*slots_of(options).values(), *options["done_keys"]})


def is_done(options: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    count = sum(filled(state.get(key)) for key in options["done_keys"])
    return count >= (1 if options["done_mode"] == "any" else max(1, len(options["done_keys"])))


def asks(state: Mapping[str, Any]) -> bool:
    messages = state.get("messages")
    return isinstance(messages, list) and any(
        isinstance(m, dict) and m.get("role") == "user" and m.get("content") for m in messages
    )


def decision(options: Mapping[str, Any], state: Mapping[str, Any], proposal: str) -> str:
    """Return the route that the guards must come to."""
    if is_done(options, state):
        return TOKEN
    order = options["fill_order"]
    missing = [agent for agent, slot in order if not filled(state.get(slot))]
    if len(missing) < len(order):
        begun = order[0][0] not in missing
        return missing[0] if begun and missing else TOKEN
    slots = slots_in(options)
    produced = any(filled(state.get(slot)) for slot in slots)
    if not slots:
        produced = rounds_in(state) > 0 and state.get("next_agent") in names_in(options)
    fallback = "" if produced else options["fallback_agent"]
    if proposal == TOKEN:
        return fallback or TOKEN
    if proposal in names_in(options):
        slot = options["route_keys"].get(proposal)
        return TOKEN if slot and filled(state.get(slot)) else proposal
    return (order[0][0] if order else "") or fallback or TOKEN


def state_decides(options: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Say whether any proposal comes to the same route, for the state says it all."""
    begun = any(filled(state.get(slot)) for _, slot in options["fill_order"])
    return is_done(options, state) or begun


class Expected(NamedTuple):
    """One round: the route, why the loop ends here or "", and how many replies it took."""

    route: str
    reason: str
    replies: int


def expected_rounds(
    options: Mapping[str, Any],
    agents: Mapping[str, ScriptedAgent],
    start: Mapping[str, Any],
    replies: Iterator[str],
) -> Iterator[Expected]:
    """Play the whole loop; an agent that crashes ends it without a reason."""
    state = copy.deepcopy(dict(start))
    names = [*names_in(options), TOKEN]
    chosen: list[tuple[str, list[Any]]] = []
    while True:
        number = rounds_in(state) + 1
        order = options["fill_order"]
        missing = [agent for agent, slot in order if not filled(state.get(slot))]
        part = 0 < len(missing) < len(order) and order[0][0] not in missing
        complete = "done_keys" if is_done(options, state) else ""
        if not complete and state_decides(options, state) and not part:
            complete = "fill_order"
        proposal, taken, reason = "", 0, complete
        if number >= options["max_rounds"]:
            yield Expected(TOKEN, complete or "max_rounds", 0)
            return
        if not complete and not part and asks(state):
            for _ in range(1 + options["max_reasks"]):
                text = next(replies)
                taken += 1
                if proposal := read_route(text, names):
                    break
            proposal = proposal or last_known_word(text, names)
        route = decision(options, state, proposal)
        here = (route, [copy.deepcopy(state.get(slot)) for slot in slots_in(options)])
        recent = chosen[-options["stall_after"] :]
        stands = all(repr(one) == repr(here) for one in recent)
        long = len(recent) == options["stall_after"]
        if stands and long and slots_in(options) and route != TOKEN:
            route, reason = TOKEN, "no_progress"
        if route == TOKEN:
            unasked = "no_decision" if asks(state) else "no_message"
            picked = "finish" if proposal == TOKEN else "route_keys"
            yield Expected(TOKEN, reason or (picked if proposal else unasked), taken)
            return
        yield Expected(route, "", taken)
        chosen.append(here)
        state |= {"next_agent": route, "supervisor_rounds": number}
        agent = agents[route]
        if agent.does == "crash":
            return
        state |= agent(None, state)  # type: ignore[arg-type]  # it looks at no context


def for_ever(lines: Sequence[str]) -> Iterator[str]:
    """Give the lines, then the last one again and again."""
    return chain(lines, repeat(lines[-1] if lines else ""))


def team(
    options: Mapping[str, Any], agents: Mapping[str, ScriptedAgent], replies: Iterator[str]
) -> tuple[Graph, ScriptedProvider]:
    provider = ScriptedProvider([lambda request: next(replies)] * 1000)
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    flow.supervisor(id="lead", **options)
    return flow.route("next_agent", agents=agents).compile(), provider


@given(
    options=supervisor_options(),
    state=json_states(),
    proposal=st.sampled_from([*AGENTS, TOKEN, "", "nobody"]) | st.text(max_size=6),
)
def test_the_guards_agree_with_the_model(
    options: dict[str, Any], state: dict[str, Any], proposal: str
) -> None:
    assert Supervisor(**options).decide(state, proposal) == decision(options, state, proposal)


@given(
    options=supervisor_options(),
    state=json_states(),
    lines=st.lists(reply_texts(), max_size=6),
    data=st.data(),
)
def test_whole_runs_agree_with_the_model(
    options: dict[str, Any], state: dict[str, Any], lines: list[str], data: st.DataObject
) -> None:
    agents = data.draw(scripted_agents(options))
    graph, provider = team(options, agents, for_ever(lines))
    events: list[StreamEvent] = []
    try:
        reason = asyncio.run(graph.run(state, emit=events.append)).stop_reason
    except RuntimeError:
        reason = ""
    expected = list(expected_rounds(options, agents, state, for_ever(lines)))
    routes = [event.data["route"] for event in events if event.type == "route"]
    assert routes == [one.route for one in expected]
    assert len(provider.requests) == sum(one.replies for one in expected)
    assert reason == expected[-1].reason


class Chat(RuleBasedStateMachine):
    """A chat with a team: turns that are killed, crash and go on, and what the model says in them."""

    @initialize(options=supervisor_options(), data=st.data())
    def begin(self, options: dict[str, Any], data: st.DataObject) -> None:
        self.options = options
        self.agents = data.draw(scripted_agents(options))
        self.lines: list[str] = []
        self.said: list[str] = []
        self.graph, _ = team(options, self.agents, self.speak())
        self.checkpointer = MemoryCheckpointer()
        self.turns = 0
        self.new_turn()

    def new_turn(self) -> None:
        self.turns += 1
        self.said.clear()
        self.routes: list[str] = []
        self.counts: list[int] = []
        self.result: RunResult | None = None
        self.crashed = False
        self.start: dict[str, Any] | None = {"messages": [{"role": "user", "content": "help"}]}

    def speak(self) -> Iterator[str]:
        while True:
            self.said.append(self.lines.pop(0) if self.lines else "")
            yield self.said[-1]

    def hear(self, event: StreamEvent) -> None:
        if event.type == "route":
            self.routes.append(str(event.data["route"]))
            self.counts.append(int(event.data["round"]))

    @property
    def over(self) -> bool:
        return self.result is not None and self.result.stop_reason != "max_steps"

    @rule(text=reply_texts(largest=300))
    def the_model_will_say(self, text: str) -> None:
        self.lines.append(text)

    @precondition(lambda self: not self.over and not self.crashed)
    @rule(steps=st.integers(1, 5))
    def the_team_works_until_it_is_killed(self, steps: int) -> None:
        done = self.result.steps if self.result else 0
        try:
            self.result = asyncio.run(
                self.graph.run(
                    self.start,
                    limits=Limits(max_steps=done + steps),
                    checkpointer=self.checkpointer,
                    checkpoint_id=f"turn-{self.turns}",
                    emit=self.hear,
                )
            )
        except RuntimeError:
            self.crashed = True
        self.start = None

    @precondition(lambda self: self.over or self.crashed)
    @rule()
    def the_user_says_more(self) -> None:
        self.new_turn()

    @invariant()
    def it_does_what_the_model_of_it_does(self) -> None:
        if not hasattr(self, "options"):
            return
        start = {"messages": [{"role": "user", "content": "help"}]}
        replies = chain(self.said, repeat(""))
        expected = list(expected_rounds(self.options, self.agents, start, replies))
        routes = [one.route for one in expected]
        assert self.routes == routes[: len(self.routes)]
        assert self.counts == list(range(1, len(self.counts) + 1))
        if self.over and self.result is not None:
            assert self.routes == routes
            assert self.result.stop_reason == expected[-1].reason
            assert len(self.said) == sum(one.replies for one in expected)


TestChat = Chat.TestCase
TestChat.settings = settings(max_examples=60, stateful_step_count=25)
