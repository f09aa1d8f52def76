"""Saying how a run ended: to people, or to a program, and by the exit code."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import click

from teff.cli.ending import exit_code, show_end
from teff.cli.live import Live, outermost
from teff.cli.messages import say
from teff.cli.recorded import Recorded
from teff.cli.report import Place, json_report
from teff.workflow import Workflow

__all__ = ["report_run"]


def report_run(
    workflow: Workflow | None,
    live: Live,
    error: BaseException | None,
    given: Mapping[str, Any],
    *,
    recorded: Recorded | None,
) -> int:
    """Say how a run ended, and return the exit code.

    A workflow that could not be read says for itself where.

    Args:
        workflow: the workflow, or None where it could not be read.
        live: what was heard of the run.
        error: what it raised, or None.
        given: the options of the command.
        recorded: where the run is recorded, or None.

    Raises:
        OSError: standard output cannot be written.
    """
    if live.output_error is not None:
        raise live.output_error

    def hide(message: str) -> str:
        return message if workflow is None else workflow.hide(message)

    place: Place = ("", None, None)
    if workflow is not None and live.failed_path:
        place = workflow.place_of(outermost(live.failed_path))
    show_end(
        live,
        error,
        place=":".join(str(part) for part in place if part),
        hide=hide,
        show_answer=not given["as_json"],
        go_on="" if recorded is None else recorded.go_on(live, error),
    )
    if given["as_json"]:
        click.echo(json_report(live, error, place=place, hide=hide))
    if given["show_traceback"] and error is not None:
        say(hide("".join(traceback.format_exception(error))))
    if live.output_error is not None:
        raise live.output_error
    return exit_code(live, error, is_recorded=recorded is not None)
