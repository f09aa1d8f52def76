"""``teff runs``: list what is recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import attrs
import click

from teff.checkpoint import RunStore, RunSummary
from teff.cli.messages import say
from teff.cli.recorded import SESSION, TURN
from teff.cli.stores import open_runs, takes_store
from teff.cli.tables import table, time_in_words
from teff.errors import CheckpointError
from teff.graph.history import read_history
from teff.workflow.default_store import DEFAULT_PATH

__all__ = ["command"]

#: Without ``--all``; each one that is shown has to be read.
_SHOWN = 20


@attrs.frozen(kw_only=True)
class _Row:
    """A run, or a chat with all of its turns."""

    summary: RunSummary
    turns: int | None = None


@click.command("runs")
@click.option("--file", "-f", metavar="FILE", help="A workflow that says where its runs are.")
@takes_store
@click.option("--all", "show_all", is_flag=True, help=f"Show more than the last {_SHOWN}.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(file: str | None, checkpoint: str | None, *, show_all: bool, as_json: bool) -> None:
    """List recorded runs and chats, the one that was written last first.

    States: running, paused (a question is open), finished, stopped, failed, cancelled, and
    unfinished: its process died, it is a fork, or it was answered and waits to go on.
    """
    rows: list[dict[str, Any]]
    more = 0
    most = None if show_all else _SHOWN
    if file is None and checkpoint is None and not DEFAULT_PATH.exists():
        place, rows = str(DEFAULT_PATH), []  # nothing was recorded here yet
    else:
        with (
            asyncio.Runner() as runner,
            open_runs(file, checkpoint, runner=runner) as (opened, store),
        ):
            place = opened.place
            rows, more = runner.run(_rows(store, most))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        say(f"no runs in {place}.")
        return
    cells = [
        (row["run_id"], _state(row), _steps(row), time_in_words(row["updated"])) for row in rows
    ]
    for line in table([("id", "state", "steps", "updated"), *cells]):
        click.echo(line)
    if more:
        say(f"{more} more: --all shows them.")


async def _rows(store: RunStore, most: int | None) -> tuple[list[dict[str, Any]], int]:
    """Return what is shown of each run, and how many are left out."""
    found = _with_chats(await store.list())
    shown = found if most is None else found[:most]
    return [await _described(store, row) for row in shown], len(found) - len(shown)


def _with_chats(summaries: Sequence[RunSummary]) -> list[_Row]:
    """Put the runs of a chat into one row: it is what the last of its turns is."""
    ids = {summary.run_id for summary in summaries}
    chats: dict[str, list[RunSummary]] = {}
    rows: list[_Row | str] = []
    for summary in summaries:
        name, mark, _ = summary.run_id.rpartition("#")
        kind = summary.run_id[len(name) :]
        is_of_chat = kind == SESSION or kind.startswith(TURN)
        if not (mark and is_of_chat and f"{name}{SESSION}" in ids):
            rows.append(_Row(summary=summary))
            continue
        if name not in chats:
            rows.append(name)
        chats.setdefault(name, []).append(summary)
    return [row if isinstance(row, _Row) else _chat(row, chats[row]) for row in rows]


def _chat(name: str, parts: Sequence[RunSummary]) -> _Row:
    session = next(part for part in parts if part.run_id == f"{name}{SESSION}")
    turns = [part for part in parts if part is not session]
    last = max(turns, key=lambda turn: int(turn.run_id.rpartition("-")[2]), default=session)
    whole = attrs.evolve(
        last,
        run_id=name,
        held=session.held,
        created=min(part.created for part in parts),
        updated=max(part.updated for part in parts),
        records=sum(part.records for part in parts),
    )
    return _Row(summary=whole, turns=len(turns))


async def _described(store: RunStore, row: _Row) -> dict[str, Any]:
    summary = row.summary
    described: dict[str, Any] = {"run_id": summary.run_id, "state": summary.state}
    described |= {"held": summary.held, "steps": None, "turns": row.turns, "error": None}
    described |= {"created": summary.created, "updated": summary.updated}
    if row.turns is None:
        try:
            history = read_history(await store.history(summary.run_id))
            described["steps"] = len(history.steps)
        except CheckpointError as error:  # the other runs are whole
            described["error"] = str(error)
    return described


def _state(row: dict[str, Any]) -> str:
    if row["error"] is not None:
        return "damaged"
    if row["state"] == "running" and not row["held"]:
        return "unfinished"
    return str(row["state"])


def _steps(row: dict[str, Any]) -> str:
    if row["turns"] is not None:
        return f"chat, {row['turns']} turn{'' if row['turns'] == 1 else 's'}"
    return "" if row["steps"] is None else str(row["steps"])
