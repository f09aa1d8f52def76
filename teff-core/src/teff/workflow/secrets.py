"""Secrets that stand in a workflow file, where a reference such as ``${NAME}`` belongs.

A value is taken for a secret where it has the form that a provider gives its keys, or where it
stands under a key such as ``password`` or ``api_token`` and looks made up by a machine. What a
reference brings is none of the file's.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

from teff.workflow.part import Part

__all__ = ["find_secrets", "looks_secret"]

#: What the keys of well-known services look like, by what they are called.
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(rf"(?<![\w-])(?:{form})"))
    for name, form in (
        ("an API key", r"sk-(?:[A-Za-z0-9]{1,8}-){0,3}(?=[\w-]*\d)[A-Za-z0-9_]{16,}"),
        ("an API key", r"(?:gsk|hf|pplx|xai|tvly|r8)[_-](?=\w*\d)[A-Za-z0-9]{20,}"),
        ("an API key", r"AIza[\w-]{30,}"),
        ("an access token", r"gh[oprsu]_(?=\w*\d)[A-Za-z0-9]{20,}"),
        ("an access token", r"github_pat_\w{20,}"),
        ("an access token", r"glpat-[\w-]{16,}"),
        ("an access token", r"xox[abeprs]-[A-Za-z0-9-]{10,}"),
        ("an access key", r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![\w-])"),
        ("a payment key", r"[rs]k_(?:live|test)_\w{16,}"),
        ("a bot token", r"[0-9]{8,10}:[\w-]{35}(?![\w-])"),
        ("a signed token", r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
        ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
        ("a bearer token", r"(?i:bearer)\s+(?=[\w.~+/=-]*\d)[\w.~+/=-]{16,}"),
    )
)
#: A password in an address: ``postgres://user:password@host``.
_IN_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:(?P<password>[^@\s/]+)@", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_PLACEHOLDER = re.compile(r"[<{\[$*].*|x+|\.+|pass(?:word|wd)?|secret|change-?me", re.IGNORECASE)

_NAME = r"(?:^|.*[_-])"
_PASSWORD_NAME = re.compile(rf"{_NAME}(?:password|passwd|passphrase|secret)", re.IGNORECASE)
_TOKEN_NAME = re.compile(
    rf"{_NAME}(?:api[_-]?key|(?:access|private|secret|auth)[_-]?key|apikey|token|authorization)",
    re.IGNORECASE,
)
#: Shorter values, and those with fewer bits a character, are words that somebody chose.
_SHORTEST_TOKEN, _SHORTEST_PASSWORD, _FEWEST_BITS = 16, 6, 3.0


def find_secrets(whole: Part) -> Iterator[tuple[Part, str]]:
    """Give the values of a file that look like secrets, each with what it looks like."""
    seen: set[tuple[str, int, int]] = set()
    for key, part in _scalars(whole):
        text = part.value if isinstance(part.value, str) else part.written.text or ""
        found = looks_secret(part.environment.hide(text), key=key)
        place = (part.file, part.place.line, part.place.column)
        if found and place not in seen:  # an alias stands in several places
            seen.add(place)
            yield part, found


def looks_secret(text: str, *, key: str = "") -> str:
    """Return what a text looks like, such as ``a password``, or "" where it is no secret.

    >>> looks_secret("Bearer abcdef0123456789abcdef"), looks_secret("Bearer ${TOKEN}")
    ('a bearer token', '')
    >>> looks_secret("hunter2", key="db_password"), looks_secret("hunter2", key="output_key")
    ('a password', '')

    Args:
        text: a value of a file; references to environment variables stand as they are written.
        key: what it stands under.
    """
    text = _REFERENCE.sub("", text).strip()
    for name, form in _FORMS:
        if form.search(text):
            return name
    for address in _IN_ADDRESS.finditer(text):
        if not _PLACEHOLDER.fullmatch(address["password"]):
            return "an address with a password"
    if _PLACEHOLDER.fullmatch(text) or any(sign.isspace() for sign in text):
        return ""
    if _PASSWORD_NAME.fullmatch(key):
        return "a password" if _is_password(text) else ""
    return "a token" if _TOKEN_NAME.fullmatch(key) and _is_token(text) else ""


def _is_password(text: str) -> bool:
    """Say whether a text is no mere name, such as that of a state key."""
    has_digit = any(sign.isdigit() for sign in text)
    is_name = re.fullmatch(r"[a-z_.]+|[A-Z_]+", text) is not None
    return len(text) >= _SHORTEST_PASSWORD and has_digit and not is_name


def _is_token(text: str) -> bool:
    has_digit = any(sign.isdigit() for sign in text)
    has_letter = any(sign.isalpha() for sign in text)
    return len(text) >= _SHORTEST_TOKEN and has_digit and has_letter and _bits(text) > _FEWEST_BITS


def _bits(text: str) -> float:
    """Return how many bits each character carries (C. E. Shannon, 1948)."""
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares)


def _scalars(part: Part, key: str = "") -> Iterator[tuple[str, Part]]:
    """Give the texts and numbers of a file, each with the key that it stands under."""
    if isinstance(part.value, dict):
        for name, entry in part.entries().items():
            yield from _scalars(entry, name)
    elif isinstance(part.value, list):
        for element in part.elements():
            yield from _scalars(element, key)
    elif part.value is not None and not isinstance(part.value, bool):
        yield key, part
