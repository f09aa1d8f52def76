"""``teff schema``: the JSON Schema of workflow files."""

from __future__ import annotations

import json

import click

from teff.cli.exit_codes import FINISHED
from teff.workflow.schema import workflow_schema

__all__ = ["command"]


@click.command("schema")
def command() -> int:
    """Print the JSON Schema of workflow files, for editors.

    It is made from the options that this version of Teff reads.
    """
    click.echo(json.dumps(workflow_schema(), indent=2, ensure_ascii=False))
    return FINISHED
