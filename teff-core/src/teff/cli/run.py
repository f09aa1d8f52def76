"""``teff run``: run a workflow, show it live, and say how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import ExitStack
from typing import Any

import click

from teff.cli.check_run import require_message, require_no_errors
from teff.cli.execute import Begin, Executor
from teff.cli.files import one_file, takes_file
from teff.cli.inputs import read_input, read_state
from teff.cli.live import Live
from teff.cli.recorded import Recorded, find_run, recall, require_no_chat
from teff.cli.reporting import report_run
from teff.cli.run_options import read_run_options, takes_json, takes_run_options, takes_state
from teff.cli.stores import open_store, takes_store
from teff.errors import TeffError
from teff.graph import RunOptions
from teff.runtime import Listener
from teff.workflow import Workflow, load

__all__ = ["command"]


@click.command("run")
@takes_file
@click.option("--message", "-m", metavar="TEXT", help="What you say to the workflow.")
@takes_state
@takes_run_options
@click.option(
    "--checkpoint-id",
    metavar="ID",
    help="Record the run under this id, so that it can go on later.",
)
@takes_store
@takes_json
@click.pass_context
def command(ctx: click.Context, /, argument: str | None, option: str | None, **given: Any) -> int:
    """Run the workflow in FILE.

    The answer goes to standard output, everything else to standard error. Ends with 0 when the run
    has finished, 1 when it failed, 2 for wrong use or a bad workflow, 3 when it waits to go on, 4
    when a bound stopped it, 130 when it was interrupted.

    With --checkpoint-id every step is recorded. A run that paused, failed or was killed then goes on
    with `teff resume ID`, or with the same command again, and does nothing twice.
    """
    file = one_file(argument, option)
    if given["checkpoint"] is not None and given["checkpoint_id"] is None:
        raise click.UsageError("--checkpoint needs --checkpoint-id, the id of the run.")
    live = Live(show_answer=not given["as_json"])
    workflow: Workflow | None = None
    recorded: Recorded | None = None
    error: BaseException | None
    with Executor(wait_for_threads=not ctx.find_root().obj) as executor, ExitStack() as stack:
        try:
            workflow = load(file)
            state = {**read_state(given["state_file"]), **dict(map(read_input, given["inputs"]))}
            options = read_run_options(workflow, given)
            is_begun = False
            if given["checkpoint_id"] is not None:
                opened = stack.enter_context(
                    open_store(workflow, given["checkpoint"], create=True, runner=executor.runner)
                )
                recorded = Recorded(run_id=given["checkpoint_id"], opened=opened)
                is_begun = _look_up(recorded, live, options, executor)
            _check(workflow, state, given, is_begun=is_begun)
        except TeffError as wrong:
            error = wrong
        else:
            begin = _beginning(workflow, given["message"], state, options)
            error = executor.execute(begin, live, is_recorded=recorded is not None)
        return report_run(workflow, live, error, given, recorded=recorded)


def _look_up(recorded: Recorded, live: Live, options: RunOptions, executor: Executor) -> bool:
    """Put the store into the options; say whether the run has begun before."""
    options["checkpointer"] = recorded.opened.store
    options["checkpoint_id"] = recorded.run_id
    require_no_chat(recorded.opened, recorded.run_id, executor.runner)
    if not find_run(recorded.opened, recorded.run_id, executor.runner):
        return False
    recall(live, recorded, executor.runner)
    return True


def _check(
    workflow: Workflow, state: Mapping[str, Any], given: Mapping[str, Any], *, is_begun: bool
) -> None:
    """Show warnings, and refuse a workflow that has errors, or that nobody said anything to."""
    require_no_errors(
        workflow,
        state,
        provider=given["provider"],
        model=given["model"],
        show_warnings=not is_begun,
    )
    if given["message"] is None and not is_begun:
        require_message(workflow, state)


def _beginning(
    workflow: Workflow, message: str | None, state: Mapping[str, Any], options: RunOptions
) -> Begin:
    def begin(hear: Listener) -> Awaitable[object]:
        heard: RunOptions = {**options, "emit": hear}
        return workflow.run(message, state, **heard)

    return begin
