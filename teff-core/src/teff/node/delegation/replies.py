"""Reading what a supervisor said: native tool calls, or a text protocol, into the same values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from teff.harness.json_reply import find_json
from teff.messages import ToolCall
from teff.node.routing import folded_name
from teff.provider import ChatReply, ToolSpec

__all__ = ["STOP", "Said", "protocol", "read_final", "read_reply", "read_text"]

_T = TypeVar("_T")

#: So many calls of one reply are looked at.
_MOST_CALLS = 64

#: What ends a reply in the text protocol: what follows is the runtime's to say.
STOP: Final = ("\nOBSERVATION:",)

_LABEL = re.compile(
    r"^[ \t>#*_`-]{0,8}(?P<line>THOUGHT|ACTION[ _]?INPUT|ACTION|OBSERVATION|FINAL[ _]?ANSWER)"
    r"[ \t*_`]{0,4}[:\uff1a][ \t*]{0,4}"
    r"|(?<!\w)(?P<word>ACTION_INPUT|FINAL_ANSWER)[ \t]{0,4}:",
    re.MULTILINE | re.IGNORECASE,
)
#: Within an answer only labels in capitals end it: an answer may speak of an action.
_AFTER_ANSWER = re.compile(
    r"^(?:THOUGHT|ACTION|ACTION_INPUT|OBSERVATION|FINAL_ANSWER):", re.MULTILINE
)
_THINKING = re.compile(
    r"<(?P<tag>think|thinking|thought|reasoning)>.*?(?:</(?P=tag)>|\Z)", re.DOTALL | re.IGNORECASE
)
_THINKING_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_CALLED = re.compile(r"(?P<name>[\w.-]{1,64})\s*\((?P<input>.*)\)\s*", re.DOTALL)
_NO_ACTION = frozenset({"none", "no", "n/a", "finalanswer", "finish", "answer"})


@attrs.frozen(kw_only=True)
class Said:
    """What a reply says.

    Attributes:
        thought: why.
        calls: what is to be done, in order; each has an error where it cannot be.
        answer: the answer, or None where it is none yet.
        problem: what is wrong with a reply that has neither calls nor an answer.
    """

    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    problem: str = ""


def protocol(tools: Sequence[ToolSpec]) -> str:
    """Return what a model is told that cannot call tools itself."""
    if not tools:
        return "Write your answer after the word FINAL_ANSWER: and nothing else."
    listed = "\n".join(f"- {tool.name}: {tool.description} Input: {_input(tool)}" for tool in tools)
    return (
        "You work in steps. Each of your replies has one of these two forms.\n\n"
        "To have something done:\n"
        "THOUGHT: why it is needed\n"
        f"ACTION: {tools[0].name}\n"
        f"ACTION_INPUT: {_example(tools[0])}\n\n"
        "To answer the user:\n"
        "THOUGHT: why nothing more is needed\n"
        "FINAL_ANSWER: the answer\n\n"
        "After an action you are told its OBSERVATION; never write one yourself. "
        f"The actions are:\n{listed}"
    )


def read_reply(reply: ChatReply, tools: Sequence[ToolSpec], *, native: bool, number: int) -> Said:
    """Return what a reply says.

    Args:
        reply: what the model sent.
        tools: what was offered.
        native: whether the provider was told the tools; then text without labels is the answer.
        number: of the round, for the ids of calls that have none.
    """
    if reply.tool_calls:
        calls = [_checked(call, tools) for call in reply.tool_calls[:_MOST_CALLS]]
        return Said(thought=(reply.text or reply.thinking).strip(), calls=tuple(calls))
    said = read_text(reply.text, tools, number=number)
    if not native or said.calls or said.answer is not None:
        return said
    text = _without_thinking(reply.text).strip()
    if text:
        return Said(thought=said.thought, answer=text)
    return Said(problem="the reply is empty")


def read_text(text: str, tools: Sequence[ToolSpec], *, number: int = 1) -> Said:
    r"""Read the text protocol, leniently: labels in any case, with mark-up, on one line or several.

    What follows an observation that the model has made up does not count. Whichever comes first
    decides, an action or an answer. Without labels, JSON that names something offered is a call.

    >>> tool = ToolSpec(name="delegate_to_billing", schema={"required": ["message"]})
    >>> said = read_text('THOUGHT: ask\nACTION: billing\nACTION_INPUT: {"message": "Paid?"}', [tool])
    >>> said.thought, said.calls[0].name, said.calls[0].arguments
    ('ask', 'delegate_to_billing', {'message': 'Paid?'})
    """
    sections = _sections(_without_thinking(text))
    thoughts = [body for label, body in sections if label == "THOUGHT"]
    thought = thoughts[0] if thoughts else ""
    calls: list[ToolCall] = []
    for place, (label, body) in enumerate(sections):
        is_over = label == "OBSERVATION" or len(calls) == _MOST_CALLS
        if is_over or (label == "FINALANSWER" and calls):
            break
        if label == "FINALANSWER":
            if body:
                return Said(thought=thought, answer=body)
            return Said(thought=thought, problem="FINAL_ANSWER has no text")
        if label == "ACTION" and folded_name(body) not in _NO_ACTION:
            following = sections[place + 1] if place + 1 < len(sections) else ("", "")
            given = following[1] if following[0] == "ACTIONINPUT" else None
            name, given = _called(body, given)
            call = _call(f"call_{number}_{len(calls) + 1}", name, given, tools)
            calls.append(_checked(call, tools))
    calls = calls or _calls_in_json(text, tools, number=number)
    if calls:
        return Said(thought=thought, calls=tuple(calls))
    return Said(
        thought=thought,
        problem="the reply has neither ACTION nor FINAL_ANSWER"
        if text.strip()
        else "the reply is empty",
    )


def _calls_in_json(text: str, tools: Sequence[ToolSpec], *, number: int) -> list[ToolCall]:
    """Return the calls that a reply writes as JSON, as many models do; only of what was offered."""
    calls: list[ToolCall] = []
    for candidate in find_json(text).candidates:
        values = candidate.value if isinstance(candidate.value, list) else [candidate.value]
        for value in values[:_MOST_CALLS]:
            named = _first(value, ("name", "action", "tool"), str)
            if named is None or (tool := _named(named, tools)) is None:
                continue
            given = _first(
                value, ("arguments", "parameters", "action_input", "input", "args"), dict
            )
            text_given = _first(value, ("action_input", "input"), str)
            if given is None and text_given is not None and (only := _only_text(tool)):
                given = {only: text_given}
            call_id = f"call_{number}_{len(calls) + 1}"
            calls.append(ToolCall(id=call_id, name=tool.name, arguments=given or {}))
    return calls[:_MOST_CALLS]


def _first(value: Any, keys: Sequence[str], kind: type[_T]) -> _T | None:
    """Return the first of the values under ``keys`` that is of a kind."""
    found = [value.get(key) for key in keys] if isinstance(value, dict) else []
    return next((one for one in found if isinstance(one, kind)), None)


def read_final(reply: ChatReply) -> str:
    """Return the answer in a reply to a question that offers nothing more to do; "" for none."""
    said = read_text(reply.text, ())
    if said.answer is not None:
        return said.answer
    if said.calls:
        return ""
    text = _without_thinking(reply.text)
    sections = _sections(text)
    return sections[-1][1] if sections else text.strip()


def _sections(text: str) -> list[tuple[str, str]]:
    """Return the labelled parts of a reply in their order, labels in capitals without marks."""
    found: list[tuple[str, str]] = []
    position = 0
    while (label := _LABEL.search(text, position)) is not None:
        name = re.sub("[ _]", "", label["line"] or label["word"]).upper()
        ends = _AFTER_ANSWER if name == "FINALANSWER" else _LABEL
        following = ends.search(text, label.end())
        end = following.start() if following is not None else len(text)
        found.append((name, text[label.end() : end].strip()))
        position = end
    return found


def _called(body: str, given: str | None) -> tuple[str, str | None]:
    """Return the name in an action, and its input where it is written like a function's."""
    line = body.strip().strip("`'\"*[]<>").strip()
    called = _CALLED.fullmatch(line)
    if called is not None:
        return called["name"], called["input"] if given is None else given
    lines = line.split("\n", 1)
    rest = lines[1].strip() if len(lines) > 1 else None
    return lines[0].strip().strip("`'\"*[]<>."), rest if given is None else given


def _call(id: str, name: str, given: str | None, tools: Sequence[ToolSpec]) -> ToolCall:
    written = (given or "").strip()
    if not written:
        return ToolCall(id=id, name=name)
    found = find_json(written)
    for candidate in found.candidates:
        if isinstance(candidate.value, dict):
            return ToolCall(id=id, name=name, arguments=candidate.value)
    tool = _named(name, tools)
    only = _only_text(tool) if tool is not None else ""
    if only and not written.startswith("{"):
        first = found.candidates[0].value if found.candidates else None
        text = first if isinstance(first, str) else written.strip("`").strip()
        return ToolCall(id=id, name=name, arguments={only: text})
    reason = f" ({found.reason})" if found.reason else ""
    return ToolCall(id=id, name=name, error=f"the input is no JSON object{reason}")


def _checked(call: ToolCall, tools: Sequence[ToolSpec]) -> ToolCall:
    """Return a call with the name as it was offered; where there is none, with what is wrong."""
    tool = _named(call.name, tools)
    if tool is None:
        names = ", ".join(offered.name for offered in tools) or "none"
        return attrs.evolve(call, error=f"there is no {call.name!r}; there are: {names}")
    return attrs.evolve(call, name=tool.name)


def _named(name: str, tools: Sequence[ToolSpec]) -> ToolSpec | None:
    folded = folded_name(name)
    for tool in tools:
        if tool.name == name:
            return tool
    matching = [
        tool
        for tool in tools
        if folded
        and folded in (folded_name(tool.name), folded_name(tool.name.removeprefix("delegate_to_")))
    ]
    return matching[0] if len(matching) == 1 else None


def _only_text(tool: ToolSpec) -> str:
    """Return the one argument of a tool that takes one, or ""."""
    properties: Mapping[str, Any] = tool.schema.get("properties") or {}
    required = list(tool.schema.get("required") or properties)
    return str(required[0]) if len(required) == 1 else ""


def _input(tool: ToolSpec) -> str:
    return json.dumps(tool.schema.get("properties") or {}, ensure_ascii=False)


def _example(tool: ToolSpec) -> str:
    properties: Mapping[str, Any] = tool.schema.get("properties") or {}
    return json.dumps(dict.fromkeys(properties, "…"), ensure_ascii=False)


def _without_thinking(text: str) -> str:
    text = _THINKING.sub("\n", text)
    ends = list(_THINKING_END.finditer(text))
    return text[ends[-1].end() :] if ends else text
