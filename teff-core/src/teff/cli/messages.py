"""Messages for people, on standard error."""

from __future__ import annotations

import contextlib
import os
import re
from typing import Any

import click

__all__ = ["harmless", "in_color", "say", "show_error", "show_warning"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def in_color(text: str, **style: Any) -> str:
    """Return ``text`` with a style that `say` and ``click.echo`` take off where there is none.

    ``NO_COLOR`` (https://no-color.org) takes off every style, also in a terminal, and so does
    ``TERM=dumb``.
    """
    plain = harmless(text)
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return plain if is_plain else click.style(plain, **style)


def harmless(text: str) -> str:
    """Return ``text`` without control characters other than line ends and tabs.

    What a model or a server says must not reach the terminal as an escape sequence.
    """
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def say(text: str = "", *, newline: bool = True) -> None:
    """Write a line of progress to standard error; without effect where it cannot be written."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True, nl=newline)


def show_error(message: str) -> None:
    """Say why a command cannot go on."""
    say(f"{in_color('error:', fg='red', bold=True)} {harmless(message)}")


def show_warning(message: str) -> None:
    """Say what looks wrong, and does not keep a command from going on."""
    say(f"{in_color('warning:', fg='yellow', bold=True)} {harmless(message)}")
