"""The headers that a user has sent along: what they may be, and how the key joins them.

What cannot be sent is refused before httpx sees it, whose errors and log lines show whole values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from teff.errors import ConfigError

__all__ = ["check_headers", "check_key_header", "merge_headers", "unsendable_header"]

#: https://www.rfc-editor.org/rfc/rfc9110#name-tokens
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

#: Visible characters of ASCII, with spaces and tabs between them only.
_VALUE = re.compile(r"([!-~]([ \t!-~]*[!-~])?)?")

#: What belongs to the request as it is sent, and not to who asks.
_OWN = {
    "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host",
    "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip


def unsendable_header(headers: Mapping[str, str]) -> str:
    """Say what is wrong with the first header that cannot be sent, without its value, or ``""``.

    >>> unsendable_header({"X-Team": "red"}), unsendable_header({"X-Team": "red\\n"})
    ('', "the value of header 'X-Team' has a line break, or another character that no header can \
carry")
    """
    seen: set[str] = set()
    for place, (name, value) in enumerate(headers.items(), start=1):
        if not (isinstance(name, str) and _NAME.fullmatch(name)):
            return f"the name of header {place} has characters that no name of a header has"
        if name.lower() in _OWN:
            return f"header {name!r} is written by the client itself"
        if name.lower() in seen:
            return f"header {name!r} is there twice"
        seen.add(name.lower())
        if problem := _problem_of(value):
            return f"the value of header {name!r} {problem}"
    return ""


def _problem_of(value: object) -> str:
    if not isinstance(value, str):
        return f"must be a text, not {type(value).__name__}"
    if _VALUE.fullmatch(value):
        return ""
    if not value.isascii():
        return "has letters beyond ASCII, which no header can carry"
    if value.strip(" \t") != value and _VALUE.fullmatch(value.strip(" \t")):
        return "has spaces around it"
    return "has a line break, or another character that no header can carry"


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
    name: str, prefix: str, headers: Mapping[str, str], *, provider: str, sends_key: bool
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
    if not isinstance(name, str) or unsendable_header({name: ""}):
        problem, path = f"auth_header {name!r} is no header that can carry a key", "auth_header"
    elif not isinstance(prefix, str) or unsendable_header({name: f"{prefix}key"}):
        problem, path = "auth_prefix has characters that no header can carry", "auth_prefix"
    del prefix
    if problem:
        raise ConfigError(f"provider {provider!r}: {problem}.", path=path)
    if sends_key and name.lower() in {given.lower() for given in headers}:
        raise ConfigError(
            f"provider {provider!r}: headers have {name!r}, which carries the key.",
            hint='Leave it out there, or send no key of its own: api_key_env: "".',
            path="headers",
        )


def merge_headers(under: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """Return both, with those of ``over`` where both have one of the same name in any case.

    >>> merge_headers({"Authorization": "Basic a"}, {"authorization": "Bearer b"})
    {'authorization': 'Bearer b'}
    """
    taken = {name.lower() for name in over}
    return {**{name: under[name] for name in under if name.lower() not in taken}, **over}
