"""``teff resume``: go on with a run that is recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from teff.checkpoint import Record
from teff.cli.answers import read_answers
from teff.cli.execute import Begin, Executor
from teff.cli.live import Live
from teff.cli.messages import show_warning
from teff.cli.recorded import Recorded, find_run, recall, require_no_chat, require_run
from teff.cli.reporting import report_run
from teff.cli.run_options import read_run_options, takes_json, takes_run_options
from teff.cli.stores import OpenStore, open_store, takes_store
from teff.errors import ConfigError, GraphChanged, TeffError
from teff.graph import RunOptions
from teff.graph.session import stored_run
from teff.runtime import Listener
from teff.workflow import Workflow, load

__all__ = ["command"]


@click.command("resume")
@click.argument("run_id", metavar="ID")
@click.option(
    "--answer",
    "answers",
    metavar="KEY=VALUE",
    multiple=True,
    help="An answer, by the key or the id of its question; the value alone where one is open. "
    "JSON, or else text. May be given several times.",
)
@click.option(
    "--file", "-f", metavar="FILE", help="The workflow, in place of the file it was started from."
)
@takes_store
@takes_run_options
@takes_json
@click.pass_context
def command(ctx: click.Context, /, run_id: str, file: str | None, **given: Any) -> int:
    """Go on with the recorded run ID: one that paused, failed, was stopped or was killed.

    Nothing that it has finished is done again. It goes on with the workflow file, the provider and
    the model that it was started with. Some of its questions may be answered, or all. Output and
    exit codes are those of `teff run`.
    """
    live = Live(show_answer=not given["as_json"])
    workflow: Workflow | None = None
    recorded: Recorded | None = None
    error: BaseException | None
    with Executor(wait_for_threads=not ctx.find_root().obj) as executor, ExitStack() as stack:
        try:
            workflow = None if file is None else load(file)
            opened = stack.enter_context(
                open_store(workflow, given["checkpoint"], create=False, runner=executor.runner)
            )
            about = _about(opened, run_id, executor)
            if workflow is None:
                workflow = load(_file(run_id, about))
            options = read_run_options(workflow, {**given, **_remembered(given, about)})
            recorded = Recorded(run_id=run_id, opened=opened)
            options["checkpointer"], options["checkpoint_id"] = opened.store, run_id
            if given["answers"]:
                options["resume"] = _read_answers(workflow, recorded, given["answers"], executor)
            recall(live, recorded, executor.runner)
            if _has_changed(workflow, about):
                show_warning(f"{workflow.path} is not what it was when run {run_id!r} began.")
        except TeffError as wrong:
            error = wrong
        else:
            begin = _beginning(workflow, options)
            error = executor.execute(begin, live, is_recorded=True)
            if isinstance(error, GraphChanged):
                error = _explained(error, workflow, about)
        return report_run(workflow, live, error, given, recorded=recorded)


def _about(opened: OpenStore, run_id: str, executor: Executor) -> Mapping[str, Any]:
    """Return what a run remembers of its start.

    Raises:
        ConfigError: there is no such run.
    """
    records: Sequence[Record] = find_run(opened, run_id, executor.runner)
    require_no_chat(opened, run_id, executor.runner)
    executor.runner.run(require_run(opened, run_id))
    about: Mapping[str, Any] = records[0].data.get("about", {})
    return about


def _file(run_id: str, about: Mapping[str, Any]) -> str:
    """Return the workflow file that a run was started from.

    Raises:
        ConfigError: there was none, or it is not there any more.
    """
    path = about.get("workflow", {}).get("path")
    if path is None:
        raise ConfigError(
            f"run {run_id!r} was not started from a workflow file: give the file with -f."
        )
    file = Path(path)
    if not file.is_file():
        raise ConfigError(
            f"run {run_id!r} was started from {file}, which is not there any more: "
            "give the file with -f."
        )
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


def _remembered(given: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models that a run was started with, where no others are given."""
    if given["provider"] and given["provider"] != about.get("provider"):
        about = {}  # a model and an address belong to their provider
    return {name: given[name] or about.get(name) for name in ("provider", "model", "base_url")}


def _read_answers(
    workflow: Workflow, recorded: Recorded, answers: Sequence[str], executor: Executor
) -> Any:
    store, types = recorded.opened.store, workflow.graph.stored_types
    stored = executor.runner.run(stored_run(store, recorded.run_id, owner="default", types=types))
    return read_answers(answers, stored.questions, stored.answered)


def _beginning(workflow: Workflow, options: RunOptions) -> Begin:
    def begin(hear: Listener) -> Awaitable[object]:
        heard: RunOptions = {**options, "emit": hear}
        return workflow.run(**heard)

    return begin


def _has_changed(workflow: Workflow, about: Mapping[str, Any]) -> bool:
    now = workflow.origin["digest"]
    return bool(about.get("workflow", {}).get("digest", now) != now)


def _explained(error: GraphChanged, workflow: Workflow, about: Mapping[str, Any]) -> GraphChanged:
    """Say also what it is that has changed, where it is not the file."""
    if "workflow" not in about or _has_changed(workflow, about):
        return error
    why = "is the same: it is a file that it includes, a plugin, or Teff itself"
    return GraphChanged(f"{error}. ({workflow.path} {why}.)", run_id=error.run_id)
