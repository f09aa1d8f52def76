"""Whatever a node does, the attempts are those of the simplest loop that could be written."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from teff.checkpoint import MemoryCheckpointer
from teff.errors import GraphInterrupt
from teff.graph import Graph
from teff.node import ExecContext, Retry

OUTCOMES = st.lists(st.sampled_from(["ok", "passing", "other", "ask"]), max_size=12)


def model(outcomes: list[str], most: int) -> tuple[int, str]:
    """Return how many attempts there are, and how they end."""
    tried = 0
    for tried, outcome in enumerate(outcomes[:most], 1):
        if outcome in ("ok", "ask"):
            return tried, "ok"
        if outcome == "other":
            return tried, "other"
    return tried, "passing"


class Scripted:
    """Does for each attempt what the script says; asks again for what it was answered."""

    def __init__(self, outcomes: list[str]) -> None:
        self.outcomes = outcomes
        self.paths: list[str] = []

    async def __call__(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        if ctx.path not in self.paths:
            self.paths.append(ctx.path)
        outcome = self.outcomes[self.paths.index(ctx.path)]
        if outcome == "passing":
            raise ConnectionError("passing")
        if outcome == "other":
            raise ValueError("other")
        answer = await ctx.interrupt("answer") if outcome == "ask" else "none"
        return {"attempt": len(self.paths), "answer": answer}


@given(outcomes=OUTCOMES, most=st.integers(1, 6), stored=st.booleans())
def test_attempts_and_result_are_those_of_a_plain_loop(
    outcomes: list[str], most: int, stored: bool
) -> None:
    outcomes = [*outcomes, *["passing"] * most]
    if not stored:
        outcomes = ["ok" if outcome == "ask" else outcome for outcome in outcomes]
    step = Scripted(outcomes)
    graph = Graph({"it": Retry(step, max_retries=most, retry_on=[OSError])}, [], "it")
    options: dict[str, Any] = {}
    if stored:
        options = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    tried, end = model(outcomes, most)
    result: dict[str, Any] = {}
    try:
        try:
            result = dict(asyncio.run(graph.run({}, **options)))
        except GraphInterrupt:
            result = dict(asyncio.run(graph.run(**options, resume={"answer": "given"})))
        found = "ok"
    except (ConnectionError, ValueError) as error:
        found = str(error)

    assert found == end
    assert len(step.paths) == tried
    if end == "ok":
        answer = "given" if outcomes[tried - 1] == "ask" else "none"
        assert result == {"attempt": tried, "answer": answer}


@given(
    delay=st.floats(0, 1e6),
    backoff=st.floats(0.01, 1e6),
    jitter=st.floats(0, 1),
    cap=st.none() | st.floats(0, 1e6),
    attempt=st.integers(1, 500),
)
def test_a_wait_is_never_below_nothing_nor_above_its_cap_and_jitter(
    delay: float, backoff: float, jitter: float, cap: float | None, attempt: int
) -> None:
    node = Retry(Scripted([]), delay=delay, backoff=backoff, jitter=jitter, max_delay=cap)
    wait = node._wait_after(attempt)
    assert wait >= 0
    if cap is not None:
        assert wait <= cap * (1 + jitter)
    if attempt == 1 and cap is None:
        assert delay <= wait <= delay * (1 + jitter)
