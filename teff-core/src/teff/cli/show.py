"""``teff show``: what a recorded run did, step by step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import click

from teff.checkpoint import RunSummary
from teff.cli.messages import harmless
from teff.cli.recorded import require_run
from teff.cli.stores import OpenStore, open_runs, takes_store
from teff.cli.tables import seconds_in_words, shortened, table, time_in_words
from teff.graph.history import RunHistory, StoredStep, read_history

__all__ = ["command"]


@click.command("show")
@click.argument("run_id", metavar="ID")
@click.option("--file", "-f", metavar="FILE", help="A workflow that says where its runs are.")
@takes_store
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with whole values.")
def command(run_id: str, file: str | None, checkpoint: str | None, *, as_json: bool) -> None:
    """Show what the recorded run ID did: its steps, what is asked, and how it ended.

    Steps of the workflow have numbers, those that `teff fork --at` takes; what ran inside of a step
    stands below it. A turn of a chat is the run `ID#turn-1`, and so on.
    """
    with (
        asyncio.Runner() as runner,
        open_runs(file, checkpoint, runner=runner) as (opened, store),
    ):

        async def look() -> tuple[RunSummary, RunHistory]:
            await require_run(opened, run_id)
            summary = await store.get(run_id)
            assert summary is not None  # noqa: S101  # it has records
            return summary, read_history(await store.history(run_id))

        summary, history = runner.run(look())
    if as_json:
        click.echo(json.dumps(_report(summary, history), indent=2, ensure_ascii=False))
        return
    for line in _lines(summary, history, opened):
        click.echo(harmless(line))


def _report(summary: RunSummary, history: RunHistory) -> dict[str, Any]:
    end = history.end or {}
    return {
        "run_id": summary.run_id,
        "state": summary.state,
        "stop_reason": end.get("stop_reason"),
        "held": summary.held,
        "created": summary.created,
        "updated": summary.updated,
        "about": history.about,
        "input": history.input,
        "steps": [_step(step) for step in history.steps],
        "unfinished": [_step(step) for step in history.unfinished],
        "interrupts": history.questions,
        "usage": history.usage,
        "result": end.get("state"),
    }


def _step(step: StoredStep) -> dict[str, Any]:
    inside = [_step(part) for part in step.steps]
    return {**attrs.asdict(step, recurse=False), "steps": inside}


def _lines(summary: RunSummary, history: RunHistory, opened: OpenStore) -> Iterator[str]:
    end = history.end or {}
    state = summary.state
    if state == "running" and not summary.held:
        state_in_words = "unfinished"
    else:
        state_in_words = f"{state}: {end['stop_reason']}" if "stop_reason" in end else state
    yield f"{summary.run_id}: {state_in_words}"
    yield f"begun {time_in_words(summary.created)}, written {time_in_words(summary.updated)}"
    if path := history.about.get("workflow", {}).get("path"):
        yield f"workflow {path}"
    rows = [row for number, step in enumerate(history.steps, 1) for row in _rows(step, str(number))]
    rows += [row for step in history.unfinished for row in _rows(step, "")]
    if rows:
        yield ""
        yield from table([("", "step", "time", "calls", "wrote"), *rows])
    for asked in history.questions:
        yield ""
        choices = f" ({', '.join(map(str, asked['choices']))})" if asked.get("choices") else ""
        yield f"? {asked['key']}: {asked['prompt']}{choices}  [{asked['id']}]"
    if history.is_over:
        yield ""
        yield from _result(end["state"])
    elif not summary.held:
        yield ""
        yield f"go on with: {opened.command('resume', summary.run_id)}"


def _rows(step: StoredStep, number: str, depth: int = 0) -> Iterator[Sequence[str]]:
    calls = str(step.model_calls) if step.model_calls else ""
    name = f"{'  ' * depth}{step.path}"
    yield (number, name, seconds_in_words(step.seconds), calls, _wrote(step.wrote))
    for part in step.steps:
        yield from _rows(part, "", depth + 1)


def _wrote(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={shortened(value, 40)}" for key, value in values.items())


def _result(state: Mapping[str, Any]) -> Iterator[str]:
    for key, value in state.items():
        yield f"{key} = {shortened(value, 200)}"
