"""Whatever is said in a chat: every turn is a fresh run over the same history."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teff.checkpoint import Lease, MemoryCheckpointer, Record
from teff.flow import AgentRole, Flow
from teff.graph import Graph, TurnResult
from teff.graph.turn_keys import is_turn_key, turn_keys
from teff.messages import assistant, user
from teff.provider import ChatRequest
from teff.runtime import ExecContext, StreamEvent
from teff.state import Append
from teff.testing import ScriptedProvider

AGENTS = ("plan", "write", "check")
PROPOSALS = st.sampled_from([*AGENTS, "finish", "nobody at all"])
#: What is said, and what the model proposes in that turn, round by round.
TURNS = st.lists(
    st.tuples(st.text(min_size=1, max_size=8), st.lists(PROPOSALS, max_size=4)),
    min_size=1,
    max_size=5,
)
TEAMS = st.fixed_dictionaries(
    {
        "max_rounds": st.integers(1, 4),
        "stall_after": st.integers(1, 2),
        "max_reasks": st.just(0),
    },
    optional={
        "done_keys": st.sampled_from([["text"], ["plan", "text"]]),
        "fill_order": st.just([("plan", "plan"), ("write", "text")]),
        "fallback_agent": st.sampled_from(AGENTS),
    },
)


class Script:
    """A model whose words depend on what it is asked, so that it may be asked again."""

    def __init__(self) -> None:
        #: By round, whom the model proposes in this turn.
        self.proposals: Sequence[str] = ()

    def __call__(self, request: ChatRequest) -> str:
        role, asked = (str(message["content"]) for message in request.messages[:2])
        if role != "Route.":
            return f"{role} on {asked}"
        found = re.search(r"Round: (\d+)/", asked)
        assert found is not None
        number = int(found[1]) - 1
        return self.proposals[number] if number < len(self.proposals) else "finish"


def team(script: Script, options: dict[str, Any]) -> Graph:
    slots = {"plan": "plan", "write": "text", "check": "verdict"}
    roles = {name: AgentRole(name, output_key=slot) for name, slot in slots.items()}
    provider = ScriptedProvider([script] * 1_000)
    return (
        Flow("team", providers={"p": provider}, default_provider="p", default_model="m")
        .team("Route.", roles=roles, id="lead", **options)
        .compile()
    )


def routes(events: list[StreamEvent]) -> list[tuple[str, str, int]]:
    return [
        (event.data["route"], event.data["decided_by"], event.data["round"])
        for event in events
        if event.type == "route"
    ]


@given(turns=TURNS, options=TEAMS)
@settings(max_examples=60, deadline=None)
def test_every_turn_is_a_fresh_run_over_the_same_history(
    turns: list[tuple[str, list[str]]], options: dict[str, Any]
) -> None:
    script = Script()
    graph = team(script, options)
    where: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "c"}
    history: list[Any] = []
    for message, proposals in turns:
        chat_events: list[StreamEvent] = []
        script.proposals = proposals
        turn = asyncio.run(graph.turn(message, emit=chat_events.append, **where))
        run_events: list[StreamEvent] = []
        begun = {"messages": [*history, user(message)], "input": message}
        fresh = asyncio.run(graph.run(begun, emit=run_events.append))

        assert routes(chat_events) == routes(run_events)
        assert turn.state == fresh
        assert (turn.stop_reason, turn.usage) == (fresh.stop_reason, fresh.usage)

        said = turn.state["messages"][len(history) :]
        assert turn.state["messages"][: len(history)] == history
        assert said[0] == user(message)
        agents = [route for route, _, _ in routes(chat_events) if route != "finish"]
        assert [text["role"] for text in said[1:]] == ["assistant"] * len(agents)
        assert turn.reply == (said[-1]["content"] if agents else "")
        history = turn.state["messages"]


@given(turns=TURNS, options=TEAMS)
@settings(max_examples=30, deadline=None)
def test_no_key_of_a_turn_reaches_the_next(
    turns: list[tuple[str, list[str]]], options: dict[str, Any]
) -> None:
    script = Script()
    graph = team(script, options)
    keys = turn_keys(graph.nodes.values())
    where: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "c"}
    begun: list[dict[str, Any]] = []

    def first(id: str, node: Any, state: dict[str, Any]) -> None:
        if id == "lead" and "supervisor_rounds" not in state:
            begun.append(state)

    for message, proposals in turns:
        script.proposals = proposals
        asyncio.run(graph.turn(message, hooks={"on_node_start": first}, **where))
    assert len(begun) == len(turns)
    for state in begun:
        assert not [key for key in state if is_turn_key(key, keys)]
        assert set(state) == {"messages", "input"}


class Death(BaseException):
    """The process dies."""


class MortalStore(MemoryCheckpointer):
    """A store whose process dies at some of its writes, and is started again."""

    def __init__(self, deaths: list[int]) -> None:
        super().__init__()
        self.deaths = list(deaths)
        self.writes = 0

    async def append(self, lease: Lease, records: Sequence[Record]) -> None:
        self.writes += 1
        if self.deaths and self.writes > self.deaths[0]:
            self.deaths.pop(0)
            self.writes = 0
            raise Death
        await super().append(lease, records)


@given(turns=TURNS, options=TEAMS, deaths=st.lists(st.integers(0, 9), max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_chat_whose_messages_are_repeated_after_every_death_is_one_that_never_died(
    turns: list[tuple[str, list[str]]], options: dict[str, Any], deaths: list[int]
) -> None:
    def talk(store: MemoryCheckpointer) -> list[Any]:
        script = Script()
        graph = team(script, options)
        results = []
        for message, script.proposals in turns:
            while True:
                try:
                    turn = graph.turn(message, checkpointer=store, checkpoint_id="c")
                    result = asyncio.run(turn)
                except Death:
                    continue
                results.append((result.reply, result.state, result.stop_reason))
                break
        return results

    assert talk(MortalStore(deaths)) == talk(MemoryCheckpointer())


async def cancelled_until_told(
    graph: Graph, message: str, cancellations: list[int], chat: dict[str, Any]
) -> TurnResult:
    """Take a turn, and repeat its message for as long as it is cancelled."""
    while True:
        turn = asyncio.create_task(graph.turn(message, **chat))
        if cancellations:
            for _ in range(cancellations.pop()):
                await asyncio.sleep(0)
            turn.cancel()
        try:
            return await turn
        except asyncio.CancelledError:
            continue


@given(
    messages=st.lists(st.sampled_from(["hi", "ask", "yes", ""]), min_size=1, max_size=4),
    cancellations=st.lists(st.integers(0, 60), max_size=12),
)
@settings(max_examples=150, deadline=None)
def test_a_chat_whose_messages_are_repeated_after_every_cancellation_is_one_that_had_none(
    messages: list[str], cancellations: list[int]
) -> None:
    def talk(cancellations: list[int]) -> Any:
        effects: list[Any] = []

        async def listen(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            said = state["input"]
            await ctx.once("heard", lambda: effects.append((len(state["messages"]), said)))
            sure = await ctx.interrupt("sure", "Sure?") if said == "ask" else None
            return {"heard": [said, sure], "turns": state.get("turns", 0) + 1}

        async def answer(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"messages": Append([assistant(str(state["heard"]))])}

        graph = Flow().parallel([listen]).step(answer).compile()
        chat = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "c"}

        async def main() -> list[TurnResult]:
            return [
                await cancelled_until_told(graph, message, cancellations, chat)
                for message in messages
            ]

        told = [(turn.reply, turn.prompt, turn.state) for turn in asyncio.run(main())]
        return told, effects

    assert talk(list(cancellations)) == talk([])
