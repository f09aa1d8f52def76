"""``teff graph``: a workflow as a drawing."""

from __future__ import annotations

import click

from teff.cli.files import one_file, takes_file
from teff.workflow import load

__all__ = ["command"]


@click.command("graph")
@takes_file
def command(argument: str | None, option: str | None) -> None:
    """Draw the workflow in FILE as a Mermaid flowchart, for https://mermaid.live."""
    click.echo(load(one_file(argument, option)).graph.to_mermaid(), nl=False)
