"""Answers with a form: JSON values and tags."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from teff.node.routing.clauses import is_decision_label, is_remark_label
from teff.node.routing.cleaning import plain_prose
from teff.node.routing.names import RouteNames, fold

__all__ = ["read_json", "read_tags"]

_DECODER = json.JSONDecoder()
_MOST_STARTS = 20
_DEEPEST = 8
_LONGEST_KEY = 80

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
    values, outside = _json_values(text)
    if not values:
        return None
    choices = [_choices(value, names, read_text, depth=0) for value in values]
    chosen = set().union(*(announced for announced, _ in choices))
    nothing_else = not outside.strip(" \t\r\n,")
    if not chosen and (nothing_else or not names.found_in(plain_prose(outside))):
        chosen = set().union(*(others for _, others in choices))
    if len(chosen) == 1:
        return chosen.pop()
    return "" if chosen or nothing_else else None


def _json_values(text: str) -> tuple[list[Any], str]:
    """Return the objects and lists in a text, and the text around them."""
    values: list[Any] = []
    outside: list[str] = []
    position = taken = 0
    for _ in range(_MOST_STARTS):
        starts = [text.find(bracket, position) for bracket in "{["]
        start = min((start for start in starts if start >= 0), default=-1)
        if start < 0:
            break
        try:
            value, position = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            position = start + 1
        else:
            values.append(value)
            outside.append(text[taken:start])
            taken = position
    return values, "".join([*outside, text[taken:]])


def _choices(
    value: object, names: RouteNames, read_text: Callable[[str], str], *, depth: int
) -> tuple[set[str], set[str]]:
    """Return the names under keys that announce the answer, and those that stand elsewhere."""
    announced: set[str] = set()
    others: set[str] = set()
    if isinstance(value, str):
        others = {names.whole(value)}
    elif isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            below, beside = _choices(item, names, read_text, depth=depth + 1)
            announced |= below
            others |= beside
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, item in value.items():
            label = fold(_spaced(key[:_LONGEST_KEY]))
            if is_remark_label(label):
                continue
            below, beside = _choices(item, names, read_text, depth=depth + 1)
            announced |= below
            if not is_decision_label(label):
                others |= beside
            elif beside or not isinstance(item, str):
                announced |= beside
            else:
                announced.add(read_text(item))
        if not announced and not others:
            others = {names.whole(key) for key, flag in value.items() if flag is True}
    return announced - {""}, others - {""}


def _spaced(key: str) -> str:
    """Take ``nextAgent`` apart."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key)


def read_tags(text: str, names: RouteNames, read_text: Callable[[str], str]) -> str | None:
    r"""Return the name between tags such as ``<answer>`` or in ``\boxed{}``.

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
