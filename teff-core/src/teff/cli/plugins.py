"""``teff plugins``: what is installed, and what state it is in."""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs
import click

from teff.plugins import catalogue
from teff.plugins.entry import GROUPS, PluginEntry

__all__ = ["command"]


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(as_json: bool) -> None:
    """List what the installed distributions offer. Nothing of it is loaded."""
    entries = catalogue().entries()
    if as_json:
        click.echo(json.dumps([attrs.asdict(entry) for entry in entries], indent=2))
    elif entries:
        for line in _table([_row(entry) for entry in entries]):
            click.echo(line)
    else:
        click.echo("No plugins are installed. For example: pip install teff-providers-ollama")


def _row(entry: PluginEntry) -> Sequence[str]:
    state = f"{entry.state}: {entry.error}" if entry.error else entry.state
    kind = GROUPS.get(entry.group, entry.group)
    return (kind, entry.name, f"{entry.distribution} {entry.version}".strip(), state)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
