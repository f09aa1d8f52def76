"""Calls that nothing marks: JSON (Llama 3, Qwen 2.5, xLAM, Hammer), Python lists (Llama 4, ToolACE).

They count where they end the reply and nothing before them says that they are an example; a reply may
also be a name and its JSON (GLM-4), or one call in Python. Source: the models' chat templates.
"""

from __future__ import annotations

import re

from teff.harness.decode.place import LEAD_IN, NAME, Place, Reading
from teff.harness.decode.python_calls import read_python, read_python_list
from teff.harness.decode.tagged_json import read_named_json
from teff.harness.decode.values import Unfinished

__all__ = [
    "BARE_JSON",
    "MAY_BE_BARE_JSON",
    "is_example",
    "read_bare_json",
    "read_bare_list",
    "read_whole_reply",
]

#: How an object begins that may be a call: with one of the keys of calls.
BARE_JSON = (
    r"(?:\[\s{0,20}+)?+\{\s{0,20}+[\"'](?:name|type|function|id|tool|tool_name|tool_call_id|call_id|"
    r"function_name|action|arguments|parameters|args|input|tool_input|action_input|params|index|"
    r"tool_calls?|function_call)[\"']"
)
#: What may become one.
MAY_BE_BARE_JSON = r"(?:\[\s{0,20}+)?+\{\s{0,20}+(?:[\"']\w{0,20}+)?+\Z|\[\s{0,20}+\Z"

_EXAMPLE = re.compile(
    r"\b(?:(?:for|an) example|example of|for instance|in this format|the following format|the format"
    r"|the syntax|looks? like (?:this|the following)|(?:such as|looks? like|e\.g\.)\s*:?\Z)",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(rf"(?P<name>{NAME})")


def is_example(lead_in: str) -> bool:
    """Say whether words before a call, those of the last line, make it an example of one."""
    line = lead_in.rstrip().rpartition("\n")[2]
    return _EXAMPLE.search(line[-LEAD_IN:]) is not None


def read_bare_json(place: Place) -> Reading | None:
    """Read objects or lists that end the reply; with a key that calls do not have they are none."""
    if (values := place.objects()) is None:
        return None
    end = place.position
    found = [list(place.offered.calls_in(value, strictly=True)) for value in values]
    if not any(found) or is_example(place.before) or not place.ends_reply():
        return Reading(end)
    return place.at(end).reading(*found)


def read_bare_list(place: Place) -> Reading | None:
    """Read a Python list of calls that ends the reply."""
    if (reading := read_python_list(place)) is None or not reading.calls:
        return reading
    is_call = not is_example(place.before) and place.ends_reply()
    return reading if is_call else Reading(reading.end)


def read_whole_reply(place: Place) -> Reading | None:
    """Read a reply that is nothing but a name and its arguments, in JSON or in Python."""
    place.skip()
    start = place.position
    if (named := _FIRST_WORD.match(place.text, start)) is None:
        return None
    if named.end() == len(place.text) and not place.final:
        begins = any(name.startswith(named["name"]) for name in place.offered.names)
        if begins or "functions.".startswith(named["name"]):
            raise Unfinished
        return None
    if place.offered.known(named["name"].removeprefix("default_api.")) is None:
        return None
    place.position = named.end()
    read = read_python if place.take("(") else read_named_json
    reading = read(place.at(start))
    if reading is None or not reading.calls:
        return None
    return reading if place.at(reading.end).ends_reply() else None
