"""``teff check``: what can be known of a workflow without running it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs
import click

from teff.cli.exit_codes import FINISHED, WRONG_USE
from teff.cli.files import one_file, takes_file
from teff.cli.messages import show_error, show_warning
from teff.errors import ConfigError, TeffError
from teff.workflow import Finding, load

__all__ = ["command"]


@click.command("check")
@takes_file
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the findings.")
def command(argument: str | None, option: str | None, as_json: bool) -> int:
    """Say what is wrong with the workflow in FILE. Nothing in it is run.

    Ends with 0 where nothing keeps it from running, else with 2.
    """
    file = one_file(argument, option)
    findings = _findings(file)
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = len(findings) - errors
    if as_json:
        click.echo(_report(file, findings, errors, warnings))
        return WRONG_USE if errors else FINISHED
    for finding in findings:
        (show_error if finding.severity == "error" else show_warning)(str(finding))
    if errors:
        return WRONG_USE
    click.echo(f"{file}: {f'no errors, warnings: {warnings}' if warnings else 'no problems'}")
    return FINISHED


def _findings(file: str) -> Sequence[Finding]:
    """Return what is wrong; what keeps the file from being read is one finding."""
    try:
        return load(file).check()
    except ConfigError as error:
        return [Finding.of(error, "error", "invalid-file")]
    except TeffError as error:  # a plugin that it names cannot be loaded
        return [Finding(severity="error", code="invalid-file", message=str(error))]


def _report(file: str, findings: Sequence[Finding], errors: int, warnings: int) -> str:
    return json.dumps(
        {
            "file": file,
            "errors": errors,
            "warnings": warnings,
            "findings": [attrs.asdict(finding) for finding in findings],
        },
        indent=2,
    )
