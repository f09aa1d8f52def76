"""``teff version``."""

from __future__ import annotations

import platform

import click

from teff import __version__

__all__ = ["command"]


@click.command("version")
def command() -> None:
    """Print the version of Teff and of Python."""
    click.echo(f"teff {__version__} (Python {platform.python_version()})")
