"""``teff fork``: begin a run with what another one had come to."""

from __future__ import annotations

import asyncio

import click

from teff.checkpoint import RunStore
from teff.cli.messages import say
from teff.cli.recorded import require_run
from teff.cli.stores import OpenStore, open_runs, takes_store
from teff.errors import ConfigError
from teff.graph.history import read_history

__all__ = ["command"]


@click.command("fork")
@click.argument("run_id", metavar="ID")
@click.option(
    "--at",
    "step",
    type=int,
    required=True,
    metavar="STEP",
    help="After which step, as `teff show ID` counts them; 0 is the beginning.",
)
@click.option("--id", "new_id", metavar="NEW", help="The id of the new run; made up by default.")
@click.option("--file", "-f", metavar="FILE", help="A workflow that says where its runs are.")
@takes_store
def command(
    run_id: str, step: int, new_id: str | None, file: str | None, checkpoint: str | None
) -> None:
    """Begin a run with the state that the recorded run ID had after a step.

    ID stays as it is. The id of the new run goes to standard output; `teff resume` goes on with it.
    """
    with (
        asyncio.Runner() as runner,
        open_runs(file, checkpoint, runner=runner) as (opened, store),
    ):
        new_id = runner.run(_fork(opened, store, run_id, step, new_id))
        click.echo(new_id)
        say(f"go on with: {opened.command('resume', new_id)}")


async def _fork(
    opened: OpenStore, store: RunStore, run_id: str, step: int, new_id: str | None
) -> str:
    """Fork a run, and return the id of the new one.

    Raises:
        ConfigError: there is no such run or step, or the id is taken.
    """
    await require_run(opened, run_id)
    history = read_history(await store.history(run_id))
    record = history.record_after(step)
    if record is None:
        raise ConfigError(
            f"--at takes 0 to {len(history.steps)}, the steps of {run_id!r}, not {step}."
        )
    if new_id is None:
        new_id = await _free_id(store, f"{run_id}-at-{step}")
    elif await store.get(new_id) is not None:
        raise ConfigError(f"there is a run {new_id!r} already: give another --id.")
    await store.fork(run_id, record, new_id)
    return new_id


async def _free_id(store: RunStore, wanted: str) -> str:
    """Return an id that no run has."""
    number, free = 1, wanted
    while await store.get(free) is not None:
        number += 1
        free = f"{wanted}-{number}"
    return free
