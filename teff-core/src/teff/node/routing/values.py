"""Answers with a form: JSON values and tags."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from teff.node.routing.clauses import is_decision_label, is_remark_label
from teff.node.routing.names import RouteNames, fold

__all__ = ["read_json", "read_tags"]

_DECODER = json.JSONDecoder()
_MOST_STARTS = 20
_DEEPEST = 8

_TAG = re.compile(
    r"<([^\W\d][\w.\-]{0,40})(?:\s[^<>]{0,200})?>([^<>]{0,2000})</\1\s?>|\\boxed\{([^{}]{0,200})\}"
)


def read_json(text: str, names: RouteNames, read_text: Callable[[str], str]) -> str | None:
    """Return the name that the JSON values in ``text`` choose.

    Args:
        text: the reply.
        names: what may be chosen.
        read_text: reads a sentence that stands as a value.

    Returns:
        "" where they choose none or several and the reply is nothing but JSON, or where they choose
        several; None where they say nothing.
    """
    chosen: set[str] = set()
    rest = text
    for value, whole in _json_values(text):
        rest = rest.replace(whole, "", 1)
        chosen |= _choices(value, names, read_text, depth=0)
    if len(chosen) == 1:
        return chosen.pop()
    if chosen or (rest is not text and not rest.strip(" \t\r\n,")):
        return ""
    return None


def _json_values(text: str) -> Iterator[tuple[Any, str]]:
    position = 0
    for _ in range(_MOST_STARTS):
        starts = [
            start for start in (text.find(bracket, position) for bracket in "{[") if start >= 0
        ]
        if not starts:
            return
        start = min(starts)
        try:
            value, position = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = start + 1
        else:
            yield value, text[start:position]


def _choices(
    value: object, names: RouteNames, read_text: Callable[[str], str], *, depth: int
) -> set[str]:
    """Return the names that a value chooses; those under a key that announces the answer win."""
    if isinstance(value, str):
        return {names.whole(value)} - {""}
    if depth > _DEEPEST or not isinstance(value, dict | list):
        return set()
    if isinstance(value, list):
        parts = [_choices(item, names, read_text, depth=depth + 1) for item in value]
        return set().union(*parts)
    announced: set[str] = set()
    others: set[str] = set()
    flags = {names.whole(key) for key, flag in value.items() if flag is True} - {""}
    for key, item in value.items():
        label = fold(_spaced(key))
        if is_decision_label(label):
            found = _choices(item, names, read_text, depth=depth + 1)
            if not found and isinstance(item, str):
                found = {read_text(item)} - {""}
            announced |= found
        elif not is_remark_label(label):
            others |= _choices(item, names, read_text, depth=depth + 1)
    return announced or others or flags


def _spaced(key: str) -> str:
    """Take ``nextAgent`` apart."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key)


def read_tags(text: str, names: RouteNames, read_text: Callable[[str], str]) -> str | None:
    """Return the name between tags such as ``<answer>`` or in ``\\boxed{}``.

    Returns:
        "" where they choose several; None where they choose none.
    """
    announced: set[str] = set()
    others: set[str] = set()
    for tag in _TAG.finditer(text):
        label, inner = (fold(tag[1]), tag[2]) if tag[1] else ("answer", tag[3])
        if is_decision_label(label):
            announced.add(names.whole(inner) or read_text(inner))
        elif not is_remark_label(label):
            others.add(names.whole(inner))
    chosen = (announced - {""}) or (others - {""})
    if not chosen:
        return None
    return chosen.pop() if len(chosen) == 1 else ""
