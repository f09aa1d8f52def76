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

__all__ = ["Recorded", "find_run", "recall", "require_no_chat"]

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
    """Refuse the id of a chat, which goes on with the next message.

    Raises:
        ConfigError: it is one.
    """
    if find_run(opened, f"{run_id}#session", runner):
        raise ConfigError(
            f"{run_id!r} is a chat: go on with teff chat FILE --checkpoint-id {run_id}."
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
