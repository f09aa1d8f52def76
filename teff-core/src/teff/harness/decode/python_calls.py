"""Calls written in Python: Llama 3.2 and 4, Gemma, LFM2, Olmo 3, MiniCPM, ToolACE, NexusRaven.

Source: https://www.llama.com/docs/model-cards-and-prompt-formats, the chat templates of the others.
"""

from __future__ import annotations

import re

from teff.harness.decode.offered import MOST_CALLS
from teff.harness.decode.place import Place, Reading
from teff.harness.decode.values import PythonCall, read_python_call

__all__ = ["PYTHON_CALL", "read_python", "read_python_list"]

#: How a call begins, whatever it is called.
PYTHON_CALL = re.compile(r"[^\W\d][\w.-]{0,127}+\(")
_LIST = re.compile(r"\[\s{0,20}+(?=[^\W\d][\w.-]{0,127}+\()")
_PRINT = re.compile(r"print\(\s{0,8}+(?=[^\W\d][\w.-]{0,127}+\()")
_ASSIGNMENT = re.compile(r"[^\W\d]\w{0,63}+ {0,2}= {0,2}(?=[^\W\d][\w.-]{0,127}+\()")
_PRINTED_NAME = re.compile(r"print\([^\W\d]\w{0,63}+\)")

_BETWEEN = re.compile(r"[\s,;]*+")
_ANY_STATEMENT = re.compile(rf"(?:{_ASSIGNMENT.pattern})?{PYTHON_CALL.pattern}")


def read_python(place: Place) -> Reading | None:
    """Read a list of calls, or calls one after the other, in a fence or not.

    A call may be the argument of ``print`` or be given a name.
    """
    place.skip_fence()
    if place.looks_at(_LIST):
        reading = read_python_list(place)
        place.end_fence()
        return reading
    calls: list[PythonCall] = []
    while len(calls) < MOST_CALLS:
        if place.match(_PRINTED_NAME) is None and not _read_statement(place, calls):
            break
        end = place.position
        place.skip(_BETWEEN)
        if place.is_at_end or not place.looks_at(_ANY_STATEMENT):
            place.position = end
            break
    if not calls:
        return None
    place.end_fence()
    return place.reading(*(place.offered.python_call(call) for call in calls))


def _read_statement(place: Place, calls: list[PythonCall]) -> bool:
    start = place.position
    place.match(_ASSIGNMENT)
    is_printed = place.match(_PRINT) is not None
    if not place.looks_at(PYTHON_CALL):
        place.position = start
        return False
    call, place.position = read_python_call(place.text, place.position)
    if is_printed:
        place.skip()
        if not place.take(")"):
            raise place.missing()
    calls.append(call)
    return True


def read_python_list(place: Place) -> Reading | None:
    """Read a list of calls, ``[one(), two(key="text")]``: all of them run, or none does."""
    if place.match(_LIST) is None:
        return None
    calls: list[PythonCall] = []
    while True:
        place.skip()
        call, place.position = read_python_call(place.text, place.position)
        calls.append(call)
        place.skip()
        separator = place.take(",", "]")
        if not separator:
            raise place.missing()
        place.skip()
        if separator == "]" or place.take("]"):
            break
    found = [list(place.offered.python_call(call)) for call in calls]
    return place.reading(*found) if all(found) else place.reading()
