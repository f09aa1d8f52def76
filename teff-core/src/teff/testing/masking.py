"""What looks like a key, and its removal from what is written to a cassette.

A cassette holds no headers at all. This is for keys that stand where they do not belong: echoed by a
server, pasted into a message, or among the options of a request.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from teff.provider.keys import MASK, mask, names_a_secret, secret_values, split_credentials

__all__ = ["masked", "secrets_of_environment", "secrets_of_provider"]

#: A path or a word is no secret, whatever the name of its variable.
_SHORTEST_SECRET = 8

#: Texts that are keys whatever stands around them; the group is the secret. A digit has to be in
#: it, or "bearer responsibilities" would be one.
_FORMS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:bearer|basic)\s+((?=[^\s\"']*\d)[\w.~+/=-]{12,})",
        r"\b(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?!bearer\b|basic\b)"
        r"((?=[^\s\"']*\d)[^\s\"',;)}]{8,})",
        r"(?<![a-z0-9])api[-_]?key[\"']?\s*[:=]\s*[\"']?((?=[^\s\"']*\d)[^\s\"',;)}]{8,})",
        r"\b((?:sk|gsk|xai|hf|gh[opsu]|github_pat|glpat|xox[abp]|nvapi|r8)[-_]"
        r"(?=[\w-]*\d)[\w-]{16,})",
        r"\b(AKIA[0-9A-Z]{16}|AIza[\w-]{30,})",
        r"\b(eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*)",
    )
]


def secrets_of_environment() -> set[str]:
    """Return the values of the environment variables whose names are those of keys."""
    found = {value.strip() for name, value in os.environ.items() if names_a_secret(name)}
    return {value for value in found if _is_secret(value)}


def secrets_of_provider(provider: object) -> set[str]:
    """Return what a provider would send as a key, as far as its attributes say so.

    They are ``api_key_env`` and ``api_key``, ``headers`` and ``base_url``, which the providers of
    Teff have.
    """
    found: set[str] = set()
    variable = getattr(provider, "api_key_env", None)
    if isinstance(variable, str) and variable:
        found.add(os.environ.get(variable, "").strip())
    function = getattr(provider, "api_key", None)
    key = function() if callable(function) else function
    if isinstance(key, str):
        found.add(key.strip())
    headers = getattr(provider, "headers", None)
    if isinstance(headers, Mapping):
        named = {name: str(value) for name, value in headers.items() if names_a_secret(str(name))}
        found |= secret_values(named)
    base_url = getattr(provider, "base_url", None)
    if isinstance(base_url, str):
        found |= split_credentials(base_url)[2]
    return {value for value in found if _is_secret(value)}


def _is_secret(value: str) -> bool:
    return len(value) >= _SHORTEST_SECRET and not os.path.isabs(value)  # noqa: PTH117  # a text


def masked(value: Any, secrets: Iterable[str]) -> Any:
    """Return a JSON value with ``***`` for each secret, and for each text that looks like a key.

    >>> masked({"say": ["Authorization: Bearer abc123def456ghi7", "hush-hush"]}, ["hush-hush"])
    {'say': ['Authorization: Bearer ***', '***']}
    """
    if isinstance(value, str):
        text = mask(value, secrets)
        for form in _FORMS:
            text = form.sub(_without_group, text)
        return text
    if isinstance(value, Mapping):
        return {masked(str(key), secrets): masked(value[key], secrets) for key in value}
    if isinstance(value, list | tuple):
        return [masked(item, secrets) for item in value]
    return value


def _without_group(found: re.Match[str]) -> str:
    start, end = found.start(1) - found.start(), found.end(1) - found.start()
    return f"{found[0][:start]}{MASK}{found[0][end:]}"
