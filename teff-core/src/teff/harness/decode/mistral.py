"""Mistral: ``[TOOL_CALLS]`` with a JSON list, or a name, perhaps ``[CALL_ID]``, ``[ARGS]`` and JSON.

Source: https://github.com/mistralai/mistral-common, the tokenizers from v3 to v13.
"""

from __future__ import annotations

import re

from teff.harness.decode.offered import MOST_CALLS
from teff.harness.decode.place import NAME, Place, Reading
from teff.harness.decode.tagged_json import read_json
from teff.messages import ToolCall

__all__ = ["read_mistral"]

_HEAD = re.compile(
    rf"\s{{0,20}}+(?P<name>{NAME})\s{{0,20}}+(?:\[CALL_ID\]\s*+\w{{0,64}}+\s*+)?+(?:\[ARGS\]|(?=\{{))"
)
_NEXT = re.compile(rf"[\s,;]{{0,20}}+(?={NAME}(?:\[CALL_ID\]\w{{0,64}}+)?\[ARGS\])")


def read_mistral(place: Place) -> Reading | None:
    """Read what stands behind ``[TOOL_CALLS]``."""
    place.skip()
    if place.is_at_end:
        return None
    if place.text[place.position] in "[{":
        return read_json(place)
    calls: list[ToolCall] = []
    while True:
        if (head := place.match(_HEAD, longest=300)) is None or not place.is_at_object():
            return place.reading(calls) if calls else None
        calls += place.offered.call(head["name"], place.value())
        if len(calls) > MOST_CALLS or place.match(_NEXT, longest=300) is None:
            return place.reading(calls)
