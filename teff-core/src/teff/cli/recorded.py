"""A run that is recorded, as `teff run` and `teff resume` see it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import attrs

from teff.checkpoint import Record, RunStore
from teff.cli.answers import answer_options
from teff.cli.live import Live
from teff.cli.stores import OpenStore
from teff.errors import ConfigError, GraphInterrupt, TeffError
from teff.graph.history import read_history
from teff.runtime import Limits

__all__ = ["SESSION", "TURN", "Recorded", "find_run", "recall", "require_no_chat", "require_run"]

#: What the ids of the runs of a chat have behind its own id: the list of turns, and each turn.
SESSION, TURN = "#session", "#turn-"

#: How a run can end that is not over.
_LEFT = ("cancelled", "failed", "paused")


@attrs.frozen(kw_only=True)
class Recorded:
    """Where a run is recorded, and under which id."""

    run_id: str
    opened: OpenStore

    def go_on(self, live: Live, error: BaseException | None) -> str:
        """Return the command that goes on with the run, or "" where there is nothing to go on with."""
        status, reason = live.end.get("status"), live.end.get("stop_reason")
        answers = answer_options(error.interrupts) if isinstance(error, GraphInterrupt) else []
        if status == "stopped" and reason in Limits.names():
            answers = [f"--{str(reason).replace('_', '-')}", "…"]  # its bounds are recorded, too
        elif status not in _LEFT:
            return ""
        return self.opened.command("resume", self.run_id, *answers)


def find_run(opened: OpenStore, run_id: str, runner: asyncio.Runner) -> Sequence[Record]:
    """Return the records of a run; empty where there is none.

    Raises:
        ConfigError: the id cannot be one.
    """
    return runner.run(_load(opened, run_id))


async def _load(opened: OpenStore, run_id: str) -> Sequence[Record]:
    return await opened.store.load(run_id)


def require_no_chat(opened: OpenStore, run_id: str, runner: asyncio.Runner) -> None:
    """Refuse the id of a chat, or of a turn of one, which goes on with the next message.

    Raises:
        ConfigError: it is one.
    """
    chat = run_id.partition(TURN)[0]
    if find_run(opened, f"{chat}{SESSION}", runner):
        raise ConfigError(f"{chat!r} is a chat: go on with teff chat FILE --checkpoint-id {chat}.")


async def require_run(opened: OpenStore, run_id: str) -> None:
    """Refuse an id that no run has.

    Raises:
        ConfigError: there is no such run; where it is a chat, saying which runs that has.
    """
    if await opened.store.load(run_id):
        return
    if await opened.store.load(f"{run_id}{SESSION}"):
        raise ConfigError(
            f"{run_id!r} is a chat. Each turn is a run: {run_id}{TURN}1, {run_id}{TURN}2, …"
        )
    raise ConfigError(
        f"there is no run {run_id!r} in {opened.place}.",
        hint=f"{opened.command('runs')} lists what is there.",
    )


def recall(live: Live, recorded: Recorded, runner: asyncio.Runner) -> None:
    """Tell ``live`` what a run wrote before, so that its answer is found when it has ended."""
    store = recorded.opened.store
    if not isinstance(store, RunStore):
        return

    async def look() -> None:
        try:
            history = read_history(await store.history(recorded.run_id))
        except TeffError:
            return  # running it says what is wrong
        live.recall([step.wrote for step in history.steps])

    runner.run(look())
