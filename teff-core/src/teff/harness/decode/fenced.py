"""Calls in code fences, of backticks or tildes: JSON (Hammer, Qwen 2.5, Gemma), ``tool_code`` (Gemma), or any of the marks.

A fence counts where nothing but a lead-in stands before it and nothing follows: else it is an example.
Source: https://ai.google.dev/gemma/docs/capabilities/function-calling.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from teff.harness.decode.bare import BARE_JSON, MAY_BE_BARE_JSON, is_example
from teff.harness.decode.offered import MOST_CALLS
from teff.harness.decode.place import LEAD_IN, Place, Reading
from teff.harness.decode.python_calls import read_python
from teff.harness.decode.react import LABEL, MAY_BE_LABEL
from teff.harness.decode.values import Broken, Unfinished
from teff.messages import ToolCall

__all__ = ["read_fence"]

_LABEL = re.compile(r"[ \t]*+(?P<label>[\w+-]{0,32}+)[ \t\r]*+(?:\n\s*+|(?=[\[{<]))")
_BARE_JSON = re.compile(BARE_JSON)
_MAY_BE_BARE_JSON = re.compile(MAY_BE_BARE_JSON)
_SIGNS = re.compile(r"`*+|~*+")
#: What says by itself that a fence holds a call.
_OF_CALLS: Final = frozenset({"tool_code", "tool_call", "tool_calls", "function_call"})


def read_fence(
    place: Place, read_marked: Callable[[Place], Reading | None], *, signs: str = "```"
) -> Reading | None:
    """Read what stands behind the opening of a fence; None where it holds no calls.

    Args:
        place: behind the signs of the fence.
        read_marked: reads what stands behind a mark.
        signs: of the fence.

    Raises:
        Broken: something else than calls stands in the fence, too.
    """
    calls: list[ToolCall] = []
    is_of_calls = True
    while True:
        if (opening := place.match(_LABEL, longest=60)) is None:
            return None
        label = opening["label"].lower()
        is_of_calls = is_of_calls and label in _OF_CALLS
        if not place.final and MAY_BE_LABEL.match(place.text, place.position):
            raise Unfinished
        if LABEL.match(place.text, place.position) is not None:
            return _of_actions(place, signs)
        if (found := _inside(place, label, read_marked, signs)) is None:
            return None
        calls += found
        if len(calls) > MOST_CALLS:
            raise Broken(len(place.text))
        end = place.position
        place.skip()
        if not found or place.is_at_end or not place.take(signs):
            break
        place.skip(_SIGNS)
    if not calls or is_example(place.before):
        return Reading(end)
    place.position = end
    if is_of_calls or (len(place.before.strip()) < LEAD_IN and place.ends_reply()):
        return Reading(end, tuple(calls))
    return Reading(end)


def _of_actions(place: Place, signs: str) -> Reading | None:
    """Pass the opening of a fence that holds the text protocol, unless it is an example."""
    start = place.position
    if (line := place.text.find(f"\n{signs}", start)) < 0:
        if not place.final:
            raise Unfinished
        return Reading(start, is_markup=True)
    place.position = line + 1
    is_lead_in = len(place.before.strip()) < LEAD_IN and not is_example(place.before)
    return Reading(start, is_markup=True) if is_lead_in and place.ends_reply() else None


def _inside(
    place: Place, label: str, read_marked: Callable[[Place], Reading | None], signs: str
) -> list[ToolCall] | None:
    """Pass what stands in a fence, and its end; return the calls, None where it holds none.

    Raises:
        Broken: something else stands behind them.
    """
    calls: list[ToolCall] = []
    start = place.position
    while (reading := _content(place.at(place.position), label, read_marked)) is not None:
        calls += reading.calls
        place.position = reading.end
        place.skip_closings()
        if place.is_at_end:
            return calls
        if place.take(signs):
            place.skip(_SIGNS)
            return calls
        if len(calls) > MOST_CALLS:
            break
    if place.position == start:
        return None
    raise Broken(place.position)


def _content(
    place: Place, label: str, read_marked: Callable[[Place], Reading | None]
) -> Reading | None:
    start = place.position
    if (marked := read_marked(place)) is not None:
        return marked
    is_of_calls = label in _OF_CALLS
    if not place.final and _MAY_BE_BARE_JSON.match(place.text, start):
        raise Unfinished
    if is_of_calls or _BARE_JSON.match(place.text, start) is not None:
        place.position = start
        if (values := place.objects()) is not None:
            found = (place.offered.calls_in(one, strictly=not is_of_calls) for one in values)
            return place.reading(*found)
    return read_python(place.at(start)) if is_of_calls else None
