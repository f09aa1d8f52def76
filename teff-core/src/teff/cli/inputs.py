"""What a run starts from, as it is written on the command line and in files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from teff.errors import ConfigError

__all__ = ["read_input", "read_state", "read_value"]


def read_input(text: str) -> tuple[str, Any]:
    """Read ``KEY=VALUE``; the value is JSON, or else text.

    >>> read_input("n=3"), read_input("code=0123"), read_input('words=["a", "b"]')
    (('n', 3), ('code', '0123'), ('words', ['a', 'b']))

    Raises:
        ConfigError: there is no ``=``, or nothing before it.
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ConfigError(f"--input {text!r} is not KEY=VALUE.")
    return key, read_value(value)


def read_value(text: str) -> Any:
    """Return what a text says as JSON, or else the text."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large")
    return number


def read_state(path: str | None) -> dict[str, Any]:
    """Read a file that holds a JSON object; {} for None.

    Raises:
        ConfigError: the file cannot be read, or holds something else.
    """
    if path is None:
        return {}
    try:
        state = json.loads(Path(path).read_text(encoding="utf-8-sig"), parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"not JSON: {error.msg}.", file=path, line=error.lineno, column=error.colno
        ) from None
    except OSError as error:
        raise ConfigError(f"--state: {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not JSON: {error}.", file=path) from None
    if not isinstance(state, dict):
        raise ConfigError(
            "the state must be a JSON object.", file=path, hint='Write {"key": value, …}.'
        )
    return state


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")
