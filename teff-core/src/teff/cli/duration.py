"""Times on the command line."""

from __future__ import annotations

import re
from typing import Final

import click

__all__ = ["read_duration"]

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_WRITTEN = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>ms|s|min|m|h)")


def read_duration(
    ctx: click.Context | None, param: click.Parameter | None, value: str | None
) -> float | None:
    """Return the seconds of a time: ``90``, ``90s``, ``1.5m``, ``2h``, ``500ms``.

    The callback of an option; None where the option is not given.

    Raises:
        click.BadParameter: it is no time.
    """
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        written = _WRITTEN.fullmatch(value.strip().lower())
    if written is None:
        raise click.BadParameter(
            f"{value!r} is no time: write 90, 90s, 1.5m or 2h.", ctx=ctx, param=param
        )
    return float(written["number"]) * _SECONDS[written["unit"]]
