"""Calls in code fences: JSON (Hammer, Qwen 2.5, Gemma), ``tool_code`` (Gemma), or any of the marks.

A fence counts where nothing but a lead-in stands before it and nothing follows: else it is an example.
Source: https://ai.google.dev/gemma/docs/capabilities/function-calling.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from teff.harness.decode.bare import is_example
from teff.harness.decode.place import LEAD_IN, Place, Reading
from teff.harness.decode.python_calls import read_python
from teff.harness.decode.react import LABEL
from teff.messages import ToolCall

__all__ = ["read_fence"]

_LABEL = re.compile(r"[ \t]*+(?P<label>[\w+-]{0,32}+)[ \t\r]*+(?:\n\s*+|(?=[\[{<]))")
_FENCE_END = re.compile(r"\s*+`{3,}+")
_FENCE = re.compile(r"\s*+`{3,}+")
#: What says by itself that a fence holds a call.
_OF_CALLS: Final = frozenset({"tool_code", "tool_call", "tool_calls", "function_call"})


def read_fence(place: Place, read_marked: Callable[[Place], Reading | None]) -> Reading | None:
    """Read what stands behind the opening of a fence; None where it holds no calls.

    Args:
        place: behind the signs of the fence.
        read_marked: reads what stands behind a mark.
    """
    calls: list[ToolCall] = []
    is_of_calls = True
    while True:
        if (opening := place.match(_LABEL, longest=60)) is None:
            return None
        is_of_calls = is_of_calls and opening["label"].lower() in _OF_CALLS
        if place.looks_at(LABEL, longest=60):
            return Reading(place.position, is_markup=True)  # the text protocol, in a fence
        reading = _content(place, opening["label"].lower(), read_marked)
        if reading is None:
            return None
        calls += reading.calls
        place.position = reading.end
        place.skip(_FENCE_END)
        end = place.position
        place.skip()
        if not calls or place.is_at_end or place.match(_FENCE, longest=3) is None:
            break
    place.position = end
    if not calls or is_example(place.before):
        return Reading(end)
    if is_of_calls or (len(place.before.strip()) < LEAD_IN and place.ends_reply()):
        return Reading(end, tuple(calls))
    return Reading(end)


def _content(
    place: Place, label: str, read_marked: Callable[[Place], Reading | None]
) -> Reading | None:
    start = place.position
    if (marked := read_marked(place)) is not None:
        return marked
    place.position = start
    if (values := place.objects()) is not None:
        strictly = label not in _OF_CALLS
        return place.reading(*(place.offered.calls_in(v, strictly=strictly) for v in values))
    place.position = start
    return read_python(place) if label in _OF_CALLS else None
