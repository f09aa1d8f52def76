"""Answering a question of a stored run without running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from teff.checkpoint import Checkpointer
from teff.errors import CheckpointError, ConfigError, RunFinished
from teff.graph.options import check_text
from teff.runtime import Journal, Question, open_journal, uninterrupted

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["record_answer"]


async def record_answer(
    graph: Graph, run_id: str, name: str, value: Any, *, checkpointer: Checkpointer, owner: str
) -> Sequence[Question]:
    """Record one answer; see `Graph.answer`."""
    store: object = checkpointer
    if not isinstance(store, Checkpointer):
        raise ConfigError(f"a {type(store).__name__} is no checkpointer.")
    check_text("run_id", run_id, optional=False)
    check_text("key_or_id", name, optional=False)
    await _require_run(checkpointer, run_id, owner=owner)
    journal = await open_journal(
        checkpointer,
        run_id,
        owner=owner,
        signature=graph.plan.signature,
        types=graph.stored_types,
    )
    try:
        answers = _checked(journal, run_id, {name: value})
        if answers:
            await uninterrupted(_write(journal, answers))
        return tuple(journal.questions)
    finally:
        # Somebody has to go on with a run whose questions are all answered.
        await uninterrupted(journal.close(journal.state))


async def _require_run(store: Checkpointer, run_id: str, *, owner: str) -> None:
    """Refuse what is no run, before it is claimed: claiming would begin one.

    Raises:
        ConfigError: it is a chat.
        CheckpointError: there is nothing of that id.
    """
    if await store.load(run_id, owner=owner):
        return
    if await store.load(f"{run_id}#session", owner=owner):
        raise ConfigError(
            f"{run_id!r} is a chat: its next message answers the question; call turn()."
        )
    raise CheckpointError(f"there is no run {run_id!r} that could be answered", run_id=run_id)


def _checked(journal: Journal, run_id: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is new among the answers.

    Raises:
        RunFinished: the run has ended, and nobody asks any more.
        ConfigError: an answer that its question does not take.
    """
    ended = journal.end is not None and bool(journal.end["final"])
    known = {name for asked in journal.answered for name in (asked.id, asked.key)}
    if ended and not given.keys() <= known:
        raise RunFinished(f"run {run_id!r} has ended; nobody asks any more", run_id=run_id)
    return journal.new_answers(given)


async def _write(journal: Journal, answers: Mapping[str, Any]) -> None:
    # The counters stay as they are: nothing was run.
    totals = dict(journal.totals)
    journal.count = lambda: totals
    await journal.record_answers(answers)
