"""Running a workflow to its end, where a person may end it sooner."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from teff.cli.live import Live
from teff.cli.threads import threads_to_wait_for
from teff.graph import RunOptions
from teff.workflow import Workflow

__all__ = ["execute"]


def execute(
    workflow: Workflow,
    live: Live,
    *,
    message: str | None,
    state: Mapping[str, Any],
    options: RunOptions,
    wait_for_threads: bool,
) -> BaseException | None:
    """Run a workflow and show it; return what it raised, or None.

    Ctrl-C cancels the run, and so does a closed standard output.

    Args:
        workflow, message, state, options: see `Workflow.run`.
        live: hears the events.
        wait_for_threads: whether an interrupted run waits for threads that cannot be stopped;
            otherwise the process has to be ended with them.
    """

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # this is one
        live.on_closed_output = task.cancel
        given: RunOptions = {**options, "emit": live.hear}
        await workflow.run(message, state, **given)

    runner = asyncio.Runner()
    raised: BaseException | None = None
    try:
        runner.run(run())
    except asyncio.CancelledError:
        raised = live.output_error or KeyboardInterrupt()
    except (Exception, KeyboardInterrupt) as error:
        raised = error
    if wait_for_threads or not isinstance(raised, KeyboardInterrupt) or not threads_to_wait_for():
        runner.close()
    return raised
