"""What holds for every text: nothing raises, only offered tools are called, streams show the prose."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teff.harness import ToolCallScreen, decode_reply, decode_tool_calls
from teff.harness.decode import DECODERS, read_action
from teff.harness.decode.place import CLOSINGS, RESULTS
from teff.harness.decode.table import OPENINGS
from teff.harness.thinking import THINKING_MARKS, without_thinking
from teff.harness.turn_marks import OTHER_TURNS

NAMES = ("add", "list_files", "a")
CALL = '{"name": "add", "arguments": {"a": 1}}'
BITS = (
    *OTHER_TURNS,
    *("~~~", "~~~\n", "<!--", "-->", "\n> ", "\n    ", "[INST]", "\nUser:", "\n```\n"),
    *OPENINGS,
    *CLOSINGS,
    *RESULTS,
    *THINKING_MARKS,
    *("```", "```json\n", "```tool_code\n", "`", "\n", " ", "\\", "'", '"', "{", "}", "[", "]"),
    *("(", ")", ",", ":", "=", "-", "1", "add", "functions.add", "a", "nobody", "all", "\u273fARGS\u273f"),
    *("\nAction: ", "\nAction Input: ", "\nObservation: ", "\nFinal Answer: ", "Thought: "),
    *("[ARGS]", "[CALL_ID]x", "<|message|>", "<|constrain|>json", "<|content|>", "json", "to=add"),
    *("<parameter=a>", "</parameter>", "<arg_key>a</arg_key>", "<arg_value>", "</arg_value>"),
    *('"add">', '<parameter name="a">', "add>", "<escape>", '<|"|>', "call:add{", "print(", "add(a=1)"),
    *("\uff5c", "\u2581", "<\uff5ctool\u2581sep\uff5c>", "<|tool_call_argument_begin|>", ":0"),
    *(CALL, f"<tool_call>{CALL}</tool_call>", '{"a": 1}', "true", "NaN", "1e999", "It is 3.", "é北☂"),
)  # fmt: skip

marked = st.lists(st.sampled_from(BITS), max_size=14).map("".join)
any_text = st.text(max_size=60) | marked | st.lists(marked | st.text(max_size=9), max_size=6).map("".join)  # fmt: skip
cuts = st.lists(st.integers(1, 40), min_size=1, max_size=8)
schemas_of_any_kind = st.none() | st.dictionaries(
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["string", "integer", "array"])),
)


def calls(text: str, schemas: Any = None) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in decode_tool_calls(text, NAMES, schemas)]


def pieces(text: str, sizes: list[int]) -> list[str]:
    found: list[str] = []
    start = 0
    while start < len(text):
        size = sizes[len(found) % len(sizes)]
        found.append(text[start : start + size])
        start += size
    return found


def shown_of(text: str, sizes: list[int]) -> str:
    screen = ToolCallScreen(NAMES)
    return "".join(map(screen.feed, pieces(text, sizes))) + screen.close()


@settings(max_examples=400, deadline=None)
@given(any_text, schemas_of_any_kind)
def test_any_text_gives_calls_of_offered_tools_with_json_arguments(text: str, schemas: Any) -> None:
    found = decode_tool_calls(text, NAMES, schemas)
    assert all(call.name in NAMES and type(call.arguments) is dict for call in found)
    json.dumps([call.arguments for call in found], allow_nan=False)
    assert len({call.id for call in found}) == len(found)


@settings(deadline=None)
@given(any_text)
def test_decoding_is_deterministic(text: str) -> None:
    assert calls(text) == calls(text)
    assert decode_reply(text, NAMES).text == decode_reply(text, NAMES).text


@settings(max_examples=400, deadline=None)
@given(any_text)
def test_what_remains_is_text_of_the_reply_in_its_order(text: str) -> None:
    rest = iter(text)
    assert all(character in rest for character in decode_reply(text, NAMES).text)


@settings(max_examples=600, deadline=None)
@given(any_text, cuts)
def test_a_stream_shows_the_same_however_it_is_cut(text: str, sizes: list[int]) -> None:
    shown, prose = shown_of(text, sizes), decode_reply(text, NAMES).text
    # A closing of thinking that was opened in the prompt comes too late for what was shown.
    assert shown.strip().endswith(prose.strip())
    if not any(mark in text.lower() for mark in THINKING_MARKS):
        assert shown.strip() == prose.strip()


@settings(deadline=None)
@given(st.text(st.characters(blacklist_characters="<[{`>\u25c1\u273f"), max_size=200), cuts)
def test_text_without_any_mark_is_shown_whole(text: str, sizes: list[int]) -> None:
    marks = ("to=functions.", "functools", "Action", "(", "\n")
    if not any(mark.lower() in text.lower() for mark in marks):
        assert shown_of(text, sizes) == text
        assert decode_reply(text, NAMES).text == text


@settings(max_examples=300, deadline=None)
@given(marked, marked, cuts)
def test_markup_of_a_call_is_never_shown(before: str, after: str, sizes: list[int]) -> None:
    secret = '{"name": "add", "arguments": {"secret": 42}}'
    text = f"{before}\n<tool_call>{secret}</tool_call>\n{after}"
    if any(call.arguments.get("secret") == 42 for call in decode_tool_calls(text, NAMES)):
        assert secret not in decode_reply(text, NAMES).text
        assert secret not in shown_of(text, sizes)


@settings(deadline=None)
@given(any_text)
def test_without_tools_a_text_stays_as_it_is(text: str) -> None:
    assert decode_reply(text, ()).text == text
    assert not decode_tool_calls(text, ())


@settings(deadline=None)
@given(st.text(max_size=200), st.sampled_from(["tool_call", "function=add", "|python_tag|"]))
def test_a_call_in_thinking_is_none_whatever_it_says(text: str, mark: str) -> None:
    thought = without_thinking(text)
    assert calls(f"<think>{thought.replace('<', '')}<{mark}>{CALL}</think>") == []
    assert calls(f"<think>{thought.replace('<', '')}<{mark}>{CALL}") == []


@settings(max_examples=300, deadline=None)
@given(any_text)
def test_any_text_may_be_read_as_the_text_protocol(text: str) -> None:
    position = 0
    while (action := read_action(text, position)) is not None:
        assert position < action.end <= len(text)
        position = action.end


def test_no_mark_is_the_beginning_of_another() -> None:
    marks = sorted({*OPENINGS, *CLOSINGS, *RESULTS, *THINKING_MARKS})
    for mark, following in zip(marks, marks[1:], strict=False):
        assert not following.startswith(mark)
    assert len(OPENINGS) == len(set(OPENINGS))
    assert not set(OPENINGS) & {*CLOSINGS, *RESULTS, *THINKING_MARKS}
    assert {opening for decoder in DECODERS for opening in decoder.openings} <= set(OPENINGS)


def test_every_mark_is_noticed_from_its_first_sign_on() -> None:
    for mark in (
        *OPENINGS,
        *CLOSINGS,
        *RESULTS,
        *THINKING_MARKS,
        "```",
        '{"name',
        "[add(",
        "\nAction:",
    ):
        screen = ToolCallScreen(NAMES)
        assert screen.feed("It is, ") == "It is, "
        for end in range(1, len(mark)):
            assert screen.feed(mark[end - 1]) == "", mark
