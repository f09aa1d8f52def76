"""The argument that every command about a workflow takes: its file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["one_file", "takes_file"]


def takes_file(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take its file as an argument or with ``-f``."""
    option = click.option("--file", "-f", "option", metavar="FILE", help="The workflow file.")
    return click.argument("argument", metavar="[FILE]", required=False)(option(function))


def one_file(argument: str | None, option: str | None) -> str:
    """Return the file that was given in one of the two ways.

    Raises:
        click.UsageError: it was given in none of them or in both.
    """
    if argument is not None and option is not None:
        raise click.UsageError("give the file as an argument or with -f, not both.")
    file = argument if argument is not None else option
    if file is None:
        raise click.UsageError("the workflow file is missing.")
    return file
