"""Checks of the options that all providers have which ask over HTTP."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

from teff.errors import ConfigError
from teff.provider.headers import unsendable_header

__all__ = ["check_headers", "check_key_header", "check_timeout"]


def check_timeout(seconds: object, *, provider: str) -> None:
    """Raise `ConfigError` where the option ``timeout`` is no number of seconds above 0."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if is_number and 0 < cast("float", seconds) < math.inf:
        return
    raise ConfigError(
        f"provider {provider!r}: timeout is a number of seconds above 0, not {seconds!r}.",
        path="timeout",
    )


def check_headers(headers: object, *, provider: str) -> None:
    """Raise `ConfigError` where the option ``headers`` holds what cannot be sent; it shows no value."""
    if not isinstance(headers, Mapping):
        raise ConfigError(
            f"provider {provider!r}: headers are a mapping from names to texts, not "
            f"{type(headers).__name__}.",
            path="headers",
        )
    problem = unsendable_header(headers)
    del headers  # tracebacks may be shown with the variables of their frames
    if problem:
        raise ConfigError(
            f"provider {provider!r}: {problem}.", hint=_way_out(problem), path="headers"
        )


def _way_out(problem: str) -> str:
    if "line break" in problem:
        return 'In YAML, "|" keeps the line break at the end of a text, and "|-" does not.'
    return "Leave it out." if "itself" in problem else ""


def check_key_header(
    name: object, prefix: object, headers: Mapping[str, str], *, provider: str, sends_key: bool
) -> None:
    """Look at ``auth_header`` and ``auth_prefix``, which carry the key beside ``headers``.

    Args:
        name: of the header with the key.
        prefix: what stands before the key in it.
        headers: the others, known to be sendable.
        provider: the provider's name, for messages.
        sends_key: there is a key to send.

    Raises:
        ConfigError: no header can be so, or ``headers`` has the one that carries the key.
    """
    problem = path = ""
    if unsendable_header({name: ""}):
        problem, path = f"auth_header {name!r} is no header that can carry a key", "auth_header"
    elif not isinstance(prefix, str) or unsendable_header({name: f"{prefix}key"}):
        problem, path = "auth_prefix has characters that no header can carry", "auth_prefix"
    del prefix
    if problem:
        raise ConfigError(f"provider {provider!r}: {problem}.", path=path)
    if sends_key and str(name).lower() in {given.lower() for given in headers}:
        raise ConfigError(
            f"provider {provider!r}: headers have {name!r}, which carries the key.",
            hint='Leave it out there, or send no key of its own: api_key_env: "".',
            path="headers",
        )
