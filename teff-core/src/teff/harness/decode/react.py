"""ReAct: ``Action:`` and ``Action Input:``, in any case and mark-up; LangChain's blob, Command R's list.

Source: https://arxiv.org/abs/2210.03629, the prompts of LangChain, the template of Command R.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from teff.harness.decode.place import Place, Reading, beginning_of
from teff.harness.decode.values import (
    Broken,
    PythonCall,
    Unfinished,
    read_python_call,
    read_value,
    whole_value,
)

__all__ = [
    "ACTION",
    "ANSWER",
    "LABEL",
    "MAY_BE_LABEL",
    "OBSERVATION",
    "WrittenAction",
    "read_action",
    "read_lone_action",
    "read_react",
]

_DECORATION: Final = r"(?:[ \t>#*_-]|`(?!``)){0,8}+"
_COLON: Final = r"[ \t*_`]{0,4}+[:\uff1a][ \t*]{0,4}+"

ACTION: Final = rf"{_DECORATION}(?i:Action){_COLON}"
ANSWER: Final = rf"{_DECORATION}(?i:Final[ _]?Answer){_COLON}"
OBSERVATION: Final = rf"{_DECORATION}(?i:Observation){_COLON}"

_INPUT = re.compile(rf"\s{{0,20}}+{_DECORATION}(?i:Action[ _]?Input){_COLON}")
_INPUT_IN_LINE = re.compile(r"[ \t]*+ACTION_INPUT[ \t]{0,4}+:[ \t]{0,4}+")
LABEL = re.compile(
    rf"^{_DECORATION}(?i:Thought|Action(?:[ _]?Input)?|Observation|Final[ _]?Answer){_COLON}",
    re.MULTILINE,
)
_WORDS: Final = ("thought", "action", "action input", "action_input", "observation", "final answer")
#: What may become one.
MAY_BE_LABEL = re.compile(
    rf"{_DECORATION}(?i:{'|'.join(map(beginning_of, _WORDS))})?[ \t*_`]{{0,4}}+\Z"
)
_NAME = re.compile(
    r"[`'\"*\[<]{0,3}+(?P<name>[\w.:/-]{1,128}+(?: (?!ACTION_INPUT)[\w./-]{1,64}+){0,4}+)[`'\"*\]>.]{0,4}+"
)
_PYTHON = re.compile(r"[`'\"*]{0,3}+(?=[^\W\d][\w.-]{0,127}+\()")
_LIKE_ARGUMENTS = re.compile(r"[\[{]|\w{1,64}+\s{0,8}+=")
_LINE_END = re.compile(r"[ \t\r`*]{0,20}+(?:\n|\Z)")
_FENCE = re.compile(r"`{3,}+[\w+-]{0,32}+\s{0,20}+")
_FENCE_END = re.compile(r"\s*+`{3,}+")


@attrs.frozen(kw_only=True)
class WrittenAction:
    """An action of the text protocol, as it was written.

    Attributes:
        name: what is to be called; whether it was offered has not been asked.
        raw: the input as it stands there, without white space around it; None where there is none.
        value: the input where it is an object or a list in JSON, a text in quotes, or the named
            arguments, or the only one, of a call in Python; else None.
        problem: why an input that begins like JSON is none, or "".
        end: where it ends in the text.
        blob: the JSON that holds name and input both, where it was written so.
        call: the call in Python, where it was written so.
    """

    name: str
    raw: str | None
    value: Any = None
    problem: str = ""
    end: int = 0
    blob: Any = None
    call: PythonCall | None = None


def read_action(text: str, start: int = 0) -> WrittenAction | None:
    r"""Read the first action of the text protocol that stands in a text at or behind ``start``.

    >>> action = read_action('Thought: look\nAction: search\nAction Input: {"query": "cats"}')
    >>> action.name, action.value
    ('search', {'query': 'cats'})
    >>> read_action('ACTION: search\nACTION_INPUT: {"query": "ca').problem
    'the input ends before its JSON is whole'

    Args:
        text: any text, without thinking parts.
        start: where to look from.

    Returns:
        The action, or None where there is none. One whose input is missing has ``raw`` None; one
        whose input begins like JSON and is none has a ``problem``.
    """
    for label in _ACTION_LINE.finditer(text, start):
        if (action := _action_at(text, label.end())) is not None:
            return action
    return None


def read_react(place: Place) -> Reading | None:
    """Read what stands behind ``Action:``, where that was offered and its input is whole."""
    action = _action_at(place.text, place.position)
    if not place.final and _may_go_on(place, action):
        raise Unfinished
    if action is None:
        return None
    place.position = action.end
    if action.problem:
        raise Broken(action.end)
    if action.blob is not None:
        return place.reading(place.offered.calls_in(action.blob))
    if action.call is not None:
        return place.reading(place.offered.python_call(action.call))
    if (known := place.offered.known(action.name)) is None:
        return None if action.raw is None else place.reading()
    if not action.raw and not place.offered.takes_nothing(known):
        # Where nothing follows, the input may have been cut off.
        if LABEL.match(place.text, _after_space(place.text, action.end)) is None:
            return None
        return place.reading(place.offered.call(known, {} if action.raw == "" else None))
    given = action.value if isinstance(action.value, Mapping) else action.raw
    return place.reading(place.offered.call(known, given))


def read_lone_action(place: Place) -> Reading | None:
    """Read an action in one line, which counts where nothing follows it."""
    start = place.position
    reading = read_react(place)
    if reading is None or not reading.calls or "\n" in place.text[start : reading.end]:
        return None
    return reading if place.at(reading.end).ends_reply() else None


def _may_go_on(place: Place, action: WrittenAction | None) -> bool:
    """Say whether more of the text could make another action of it."""
    if action is not None:
        return action.end + _LONGEST_LABEL > len(place.text)
    inner = _after_space(place.text, place.position)
    return place.text.find("\n", inner) < 0 and len(place.text) - inner < _LONGEST_NAME


def _action_at(text: str, position: int) -> WrittenAction | None:
    """Read the action whose label ends at ``position``."""
    inner = _after_space(text, position)
    if (fence := _FENCE.match(text, inner)) is not None or text[inner : inner + 1] in ("{", "["):
        return _blob(text, fence.end() if fence is not None else inner)
    if (python := _PYTHON.match(text, position)) is not None:
        return _python_call(text, python.end())
    if (named := _NAME.match(text, position)) is None:
        return None
    name, behind = named["name"].rstrip(".:"), named.end()
    label = _INPUT_IN_LINE.match(text, behind)
    if label is None:
        if (line := _LINE_END.match(text, behind)) is None:
            return None
        behind = line.end()
        label = _INPUT.match(text, behind)
    if label is not None:
        return _with_input(text, name, label.end())
    if text.startswith("{", inner := _after_space(text, behind)):
        return _with_input(text, name, inner)
    return WrittenAction(name=name, raw=None, end=behind)


def _blob(text: str, start: int) -> WrittenAction | None:
    try:
        value, end = read_value(text, start)
    except Unfinished:
        return WrittenAction(name="", raw=text[start:].strip(), problem=_CUT, end=len(text))
    except Broken as broken:
        raw = text[start : broken.end].strip()
        return WrittenAction(name="", raw=raw, problem=_BROKEN, end=broken.end)
    closing = _FENCE_END.match(text, end)
    first = value[0] if isinstance(value, list) and value else value
    name = first.get("action", first.get("tool_name", "")) if isinstance(first, dict) else ""
    return WrittenAction(
        name=name if isinstance(name, str) else "",
        raw=text[start:end],
        end=closing.end() if closing is not None else end,
        blob=value,
    )


def _python_call(text: str, start: int) -> WrittenAction:
    name = text[start : text.index("(", start)]
    inner = start + len(name) + 1
    try:
        call, end = read_python_call(text, start)
    except Unfinished:
        return WrittenAction(name=name, raw=text[inner:].strip(), problem=_CUT, end=len(text))
    except Broken:
        return _in_brackets(text, name, inner)
    raw = text[inner : end - 1].strip()
    value: Any = call.keywords
    if len(call.positional) == 1 and not call.keywords:
        value = call.positional[0]
        if isinstance(value, dict):
            return WrittenAction(name=name, raw=raw, value=value, end=end)
    return WrittenAction(name=name, raw=raw, value=value, end=end, call=call)


def _in_brackets(text: str, name: str, inner: int) -> WrittenAction:
    """Read an input in brackets that is written in no language."""
    label = LABEL.search(text, inner)
    end = label.start() if label is not None else len(text)
    closing = text.rfind(")", inner, end)
    if closing < 0:
        return WrittenAction(name=name, raw=text[inner:end].strip(), problem=_CUT, end=end)
    raw = text[inner:closing].strip()
    problem = _BROKEN if _LIKE_ARGUMENTS.match(raw) is not None else ""
    return WrittenAction(name=name, raw=raw, problem=problem, end=closing + 1)


def _with_input(text: str, name: str, start: int) -> WrittenAction:
    inner = _after_space(text, start)
    fence = _FENCE.match(text, inner)
    if fence is not None:
        inner = fence.end()
    if text[inner : inner + 1] in ("{", "["):
        try:
            value, end = read_value(text, inner)
        except Unfinished:
            return WrittenAction(name=name, raw=text[inner:].strip(), problem=_CUT, end=len(text))
        except Broken as broken:
            label = LABEL.search(text, inner)
            end = max(broken.end, label.start() if label is not None else len(text))
            return WrittenAction(name=name, raw=text[inner:end].strip(), problem=_BROKEN, end=end)
        closing = _FENCE_END.match(text, end)
        raw = text[inner:end]
        end = closing.end() if closing is not None else end
        return WrittenAction(name=name, raw=raw, value=value, end=end)
    label = LABEL.search(text, start)
    end = label.start() if label is not None else len(text)
    raw = _FENCE_END.sub("", text[inner:end]).strip() if fence else text[start:end].strip()
    raw = raw.strip("`").strip()
    return WrittenAction(name=name, raw=raw, value=_quoted(raw), end=end)


def _quoted(raw: str) -> str | None:
    if not raw.startswith('"'):
        return None
    try:
        value = whole_value(raw)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found is not None else position


_SPACE = re.compile(r"\s*+")
_ACTION_LINE = re.compile(rf"^{ACTION}", re.MULTILINE)
_LONGEST_LABEL: Final = 32
_LONGEST_NAME: Final = 160
_CUT: Final = "the input ends before its JSON is whole"
_BROKEN: Final = "the input begins like JSON and is none"
