"""How a run ended, for programs: one JSON object."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from teff.cli.live import Live
from teff.errors import ConfigError, GraphInterrupt

__all__ = ["Place", "json_report", "wrong_use_report"]


#: A file, a line and a column; "" and None where they are not known.
Place: TypeAlias = tuple[str, int | None, int | None]


def json_report(
    live: Live,
    error: BaseException | None,
    *,
    place: Place = ("", None, None),
    hide: Callable[[str], str],
) -> str:
    """Return the one JSON object that ``--json`` prints.

    Args:
        live: what was heard of the run.
        error: what it raised, or None.
        place: where the step stands that failed.
        hide: takes out of a message what nobody may see.
    """
    end = live.end
    usage = end.get("usage")
    is_failure = not isinstance(error, GraphInterrupt | KeyboardInterrupt | None)
    status = "cancelled" if isinstance(error, KeyboardInterrupt) else "failed"
    return json.dumps(
        {
            "run_id": live.run_id or None,
            "status": end.get("status", status),
            "stop_reason": end.get("stop_reason", "error" if is_failure else "cancelled"),
            "state": _plain(end["state"]) if "state" in end else None,
            "usage": usage.to_json() if usage is not None else None,
            "interrupts": [
                _plain(question.to_json()) for question in getattr(error, "interrupts", ())
            ],
            "error": _error(error, live, place, hide) if error is not None and is_failure else None,
        }
    )


def wrong_use_report(message: str) -> str:
    """Return the object for arguments that could not be read."""
    return json_report(Live(show_answer=False), ConfigError(message), hide=str)


def _error(
    error: BaseException, live: Live, place: Place, hide: Callable[[str], str]
) -> dict[str, Any]:
    if isinstance(error, ConfigError) and (error.file or error.line is not None):
        place = (error.file, error.line, error.column)
    file, line, column = place
    return {
        "type": type(error).__name__,
        "message": hide(str(error)),
        "file": file or None,
        "line": line,
        "column": column,
        "node": live.failed_node or None,
    }


def _plain(value: Any) -> Any:
    """Return a value of the state as JSON has it; what JSON has no form for, as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
