"""``teff check``: what can be known of a workflow without running it."""

from __future__ import annotations

import click

from teff.cli.exit_codes import FINISHED, WRONG_USE
from teff.cli.files import one_file, takes_file
from teff.cli.messages import show_error, show_warning
from teff.workflow import load

__all__ = ["command"]


@click.command("check")
@takes_file
def command(argument: str | None, option: str | None) -> int:
    """Say what is wrong with the workflow in FILE. Nothing in it is run.

    Ends with 0 where nothing keeps it from running, else with 2.
    """
    file = one_file(argument, option)
    findings = load(file).check()
    for finding in findings:
        (show_error if finding.severity == "error" else show_warning)(str(finding))
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        return WRONG_USE
    warnings = len(findings)
    click.echo(f"{file}: {f'no errors, warnings: {warnings}' if warnings else 'no problems'}")
    return FINISHED
