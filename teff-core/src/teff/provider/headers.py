"""Headers: which of them can be sent, and how those of two sources become one.

What cannot be sent is refused before httpx sees it, whose errors and log lines show whole values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["merge_headers", "unsendable_header"]

#: https://www.rfc-editor.org/rfc/rfc9110#name-tokens
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

#: Visible characters of ASCII, with spaces and tabs between them only.
_VALUE = re.compile(r"([!-~]([ \t!-~]*[!-~])?)?")

#: What belongs to the request as it is sent, and not to who asks.
_OWN = {
    "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host",
    "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip


def unsendable_header(headers: Mapping[Any, Any]) -> str:
    """Say what is wrong with the first header that cannot be sent, without its value, or ``""``.

    >>> unsendable_header({"X-Team": "red"}), unsendable_header({"X-Team": "röd"})
    ('', "the value of header 'X-Team' has letters beyond ASCII, which no header can carry")
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


def merge_headers(under: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """Return both, with those of ``over`` where both have one of the same name in any case.

    >>> merge_headers({"Authorization": "Basic a"}, {"authorization": "Bearer b"})
    {'authorization': 'Bearer b'}
    """
    taken = {name.lower() for name in over}
    return {**{name: under[name] for name in under if name.lower() not in taken}, **over}
