"""Reading what a supervisor said: native tool calls, or a text protocol, into the same values.

What is to be called is read by the decoder of tool calls, `teff.harness.decode`. The labels around it
are read here, and names with more tolerance: agents are often called by their bare names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from teff.harness.decode import WrittenAction, decode_tool_calls, read_action
from teff.harness.decode.offered import Offered
from teff.harness.thinking import without_thinking
from teff.messages import ToolCall
from teff.node.routing import folded_name
from teff.provider import ChatReply, ToolSpec

__all__ = ["STOP", "Said", "protocol", "read_final", "read_reply", "read_text"]

#: So many calls of one reply are looked at, and so many labels.
_MOST_CALLS = 64
_MOST_LABELS = 256
#: So many actions that cannot be read.
_MOST_FAILURES = 8

#: What ends a reply in the text protocol: what follows is the runtime's to say.
STOP: Final = ("\nOBSERVATION:",)

_PREFIX: Final = "delegate_to_"
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
#: An action that names somebody and says no more on its line.
_NAMED = re.compile(
    r"^(?P<label>[ \t>#*_`-]{0,8}ACTION[ \t*_`]{0,4}[:\uff1a][ \t*]{0,4})(?P<name>[^\n(:]{1,200})$",
    re.MULTILINE | re.IGNORECASE,
)
#: What an action may look like; a sentence behind the label is none.
_MAY_BE_ACTION = re.compile(r"\s*+(?:[{\[`]|[^\s(]++(?:\(|[ \t\r]*+(?:\n|\Z)|[ \t]++ACTION_INPUT))")
_AROUND_NAMES: Final = "`'\"*[]<>. \t\r"
#: Words in the place of an action that ask for none; behind some of them stands the answer.
_ANSWERS = frozenset({"finalanswer", "finish", "answer"})
_NO_ACTION = frozenset({"none", "no", "n/a", *_ANSWERS})


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


@attrs.frozen
class _Section:
    """What stands behind one label: its kind in capitals, the text, and the action where it is one."""

    kind: str
    text: str
    action: WrittenAction | None = None


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
    text = without_thinking(reply.text).strip()
    if text:
        return Said(thought=said.thought, answer=text)
    return Said(problem="the reply is empty")


def read_text(text: str, tools: Sequence[ToolSpec], *, number: int = 1) -> Said:
    r"""Read the text protocol, leniently: labels in any case, with mark-up, on one line or several.

    What follows an observation that the model has made up does not count. Whichever comes first
    decides, an action or an answer. Without labels, a call that is written in another way counts.

    >>> tool = ToolSpec(name="delegate_to_billing", schema={"required": ["message"]})
    >>> said = read_text('THOUGHT: ask\nACTION: billing\nACTION_INPUT: {"message": "Paid?"}', [tool])
    >>> said.thought, said.calls[0].name, said.calls[0].arguments
    ('ask', 'delegate_to_billing', {'message': 'Paid?'})
    """
    visible = _with_offered_names(without_thinking(text), tools)
    thought = before = ""
    calls: list[ToolCall] = []
    for section in _sections(visible):
        is_answer = section.kind == "FINALANSWER" or (
            section.kind == "ACTIONINPUT" and before in _ANSWERS
        )
        if section.kind == "OBSERVATION" or len(calls) >= _MOST_CALLS or (is_answer and calls):
            break
        if is_answer:
            if section.text:
                return Said(thought=thought, answer=section.text)
            return Said(thought=thought, problem="FINAL_ANSWER has no text")
        before = folded_name(section.text) if section.kind == "ACTION" else ""
        if section.kind == "THOUGHT":
            thought = thought or section.text
        elif section.kind == "ACTION" and before not in _NO_ACTION:
            calls += _calls_of(section, tools)
    calls = calls or decode_tool_calls(visible, *_names_and_schemas(tools))
    if calls:
        return Said(thought=thought, calls=_numbered(calls, tools, number))
    return Said(
        thought=thought,
        problem="the reply has neither ACTION nor FINAL_ANSWER"
        if text.strip()
        else "the reply is empty",
    )


def read_final(reply: ChatReply) -> str:
    """Return the answer in a reply to a question that offers nothing more to do; "" for none."""
    said = read_text(reply.text, ())
    if said.answer is not None:
        return said.answer
    if said.calls:
        return ""
    text = without_thinking(reply.text)
    sections = list(_sections(text))
    return sections[-1].text if sections else text.strip()


# The labels.


def _sections(text: str) -> Iterator[_Section]:
    """Give the labelled parts of a reply in their order."""
    position = failures = 0
    for _ in range(_MOST_LABELS):
        if (label := _LABEL.search(text, position)) is None:
            return
        kind = re.sub("[ _]", "", label["line"] or label["word"]).upper()
        ends = _AFTER_ANSWER if kind == "FINALANSWER" else _LABEL
        following = ends.search(text, label.end())
        position = following.start() if following is not None else len(text)
        written = text[label.end() : position].strip()
        action = None
        if kind == "ACTION" and failures < _MOST_FAILURES and _may_be_action(text, label, written):
            action = _action_at(text, label)
            failures += action is None
        if action is not None:
            position = max(position, action.end)
        yield _Section(kind, written, action)


def _may_be_action(text: str, label: re.Match[str], written: str) -> bool:
    found = _MAY_BE_ACTION.match(text, label.end())
    return found is not None and folded_name(written) not in _NO_ACTION


def _action_at(text: str, label: re.Match[str]) -> WrittenAction | None:
    """Return the action behind a label; None where it stands behind a later one, or nowhere."""
    action = read_action(text, label.start())
    later = read_action(text, label.end())
    return None if action is None or (later and later.end == action.end) else action


def _with_offered_names(text: str, tools: Sequence[ToolSpec]) -> str:
    """Return a text in which actions have the names that were offered, where it is clear which."""

    def named(action: re.Match[str]) -> str:
        tool = _named(action["name"].strip(_AROUND_NAMES), tools)
        return action.group() if tool is None else f"{action['label']}{tool.name}"

    return _NAMED.sub(named, text, count=_MOST_LABELS)


# The calls.


def _calls_of(section: _Section, tools: Sequence[ToolSpec]) -> list[ToolCall]:
    """Return what an action calls; more than one where it is written as a list."""
    action = section.action
    if action is None:
        line = section.text.split("\n", 1)[0].strip(_AROUND_NAMES)
        return [ToolCall(id="", name=line)]
    offered = Offered(*_names_and_schemas(tools))
    if action.blob is not None:
        return list(offered.calls_in(action.blob)) or [ToolCall(id="", name=action.name)]
    tool = _named(action.name.strip(_AROUND_NAMES), tools)
    if tool is None:
        return [ToolCall(id="", name=action.name)]
    call = action.call
    if call is not None and (call.keywords or len(call.positional) != 1):
        written = attrs.evolve(call, name=tool.name)
        return list(offered.python_call(written)) or [_broken(tool, action)]
    given = action.value if isinstance(action.value, Mapping) else action.raw
    arguments = None if action.problem else offered.arguments(tool.name, given)
    if arguments is None:
        return [_broken(tool, action)]
    return [ToolCall(id="", name=tool.name, arguments=arguments)]


def _broken(tool: ToolSpec, action: WrittenAction) -> ToolCall:
    reason = f" ({action.problem})" if action.problem else ""
    return ToolCall(id="", name=tool.name, error=f"the input is no JSON object{reason}")


def _numbered(
    calls: Sequence[ToolCall], tools: Sequence[ToolSpec], number: int
) -> tuple[ToolCall, ...]:
    """Return calls with ids that are the same whenever the reply is read."""
    return tuple(
        _checked(attrs.evolve(call, id=f"call_{number}_{place}"), tools)
        for place, call in enumerate(calls[:_MOST_CALLS], 1)
    )


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
        if folded and folded in (folded_name(tool.name), folded_name(_bare(tool)))
    ]
    return matching[0] if len(matching) == 1 else None


def _bare(tool: ToolSpec) -> str:
    return tool.name.removeprefix(_PREFIX)


def _names_and_schemas(
    tools: Sequence[ToolSpec],
) -> tuple[list[str], dict[str, Mapping[str, Any]]]:
    """Return the names that a call may have, the bare ones of agents too, with their schemas."""
    schemas = {_bare(tool): tool.schema for tool in tools} | {
        tool.name: tool.schema for tool in tools
    }
    return list(schemas), schemas


# What the model is told.


def _input(tool: ToolSpec) -> str:
    return json.dumps(tool.schema.get("properties") or {}, ensure_ascii=False)


def _example(tool: ToolSpec) -> str:
    properties: Mapping[str, Any] = tool.schema.get("properties") or {}
    return json.dumps(dict.fromkeys(properties, "…"), ensure_ascii=False)
