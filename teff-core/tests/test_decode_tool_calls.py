"""Tool calls that models write as text: the recorded cases, what counts, and what is shown of a stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from teff.harness import ToolCallScreen, decode_reply, decode_tool_calls
from teff.harness.decode import DECODERS, read_action, walk
from teff.harness.thinking import without_thinking

CASES_FILE = Path(__file__).resolve().parents[2] / "tests" / "data" / "text_tool_calls.jsonl"
CASES = [json.loads(line) for line in CASES_FILE.read_text(encoding="utf-8").splitlines() if line]
NAMES = ["get_weather", "get_time", "search", "write_file", "list_files"]
OSLO = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'

each_case = pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])


def calls(text: str, schemas: Any = None, names: Any = NAMES) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in decode_tool_calls(text, names, schemas)]


def streamed(text: str, names: Any = NAMES, *, size: int = 1) -> list[str]:
    screen = ToolCallScreen(names)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return [*(screen.feed(piece) for piece in pieces), screen.close()]


@each_case
def test_a_recorded_reply_gives_its_calls(case: dict[str, Any]) -> None:
    found = decode_tool_calls(case["text"], case["tools"], case.get("schemas"))
    assert [{"name": c.name, "arguments": c.arguments} for c in found] == case["expected"]
    assert all(isinstance(call.arguments, dict) and not call.error for call in found)


@each_case
def test_a_stream_shows_what_is_left_of_the_whole_reply(case: dict[str, Any]) -> None:
    whole = decode_reply(case["text"], case["tools"]).text
    for size in (1, 3, 17, 1000):
        shown = "".join(streamed(case["text"], case["tools"], size=size))
        assert shown.strip() == whole.strip()


def test_calls_have_ids_of_their_own() -> None:
    found = [*decode_tool_calls(OSLO * 3, NAMES), *decode_tool_calls(OSLO, NAMES)]
    assert len({call.id for call in found}) == 4


def test_prose_around_calls_remains() -> None:
    decoded = decode_reply(f"<think>Hm.</think>\nI look.\n\n{OSLO}\nOne moment.", NAMES)
    assert len(decoded.calls) == 1
    assert decoded.text == "I look.\n\n\nOne moment."


def test_text_without_calls_stays_as_it_is() -> None:
    text = "  Use `list`:\n```python\nprint([1])\n```\n{a}  "
    assert decode_reply(text, NAMES).text == text
    assert "".join(streamed(text)) == text


def test_without_tools_nothing_is_decoded_or_held_back() -> None:
    assert decode_reply(OSLO, []).text == OSLO
    assert decode_tool_calls(OSLO, ()) == []
    assert ToolCallScreen([]).feed("<tool_call>{") == "<tool_call>{"


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "get_weather", "arguments": {"a": NaN}}</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": {"a": Infinity}}</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": {"a": 1e999}}</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": {"a": nan,}}</tool_call>',
        f'<tool_call>{{"name": "get_weather", "arguments": {{"a": {"9" * 5000}}}}}</tool_call>',
        f'<tool_call>{{"name": "get_weather", "arguments": {"[" * 80}{"]" * 80}}}</tool_call>',
        f'<tool_call>{{"name": "get_weather", "arguments": {{"a": {"[" * 80}{"]" * 80}}}}}</tool_call>',
        f'<tool_call>{{"name": "get_weather", "arguments": {{"a": {"[" * 9000}</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": "no object"}</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Os"}</tool_call>',
        '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}</tool_call>',
        '<tool_call>{"name": "Get_Weather", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "weather", "arguments": {}}</tool_call>',
        '<tool_call>{"name": 3, "arguments": {}}</tool_call>',
        "[get_weather(city=open('x'))]",
        "[get_weather(city=__import__('os'))]",
        "[get_weather(city=1+1)]",
        "[get_weather(city=f'{x}')]",
        "[get_weather(*x)]",
        "[get_weather('Oslo')]",
        "[get_weather(city='a', city='b')]",
        '{"name": "get_weather", "parameters": {"type": "object", "properties": {}}}',
        '{"name": "get_weather", "arguments": {}, "note": "?"}',
        '{"name": "get_weather", "arguments": {}} is what I would send.',
        'For example: {"name": "get_weather", "arguments": {}}',
        'This is an example of the format:\n```json\n{"name": "get_weather", "arguments": {}}\n```',
        f"Write `{OSLO}` to call.",
        f"The tag:\n```xml\n{OSLO}\n```\nThat is all.",
        f"<think>{OSLO}</think>Warm.",
        f"Perhaps {OSLO}</think>Warm.",
        f"<think>{OSLO}",
        f"<tool_response>{OSLO}</tool_response> Warm.",
    ],
)
def test_what_is_no_call_is_none(text: str) -> None:
    assert calls(text) == []


@pytest.mark.parametrize(
    "arguments",
    [
        "{'city': 'Oslo', 'warm': True, 'at': None}",
        '{"city": "Oslo", "warm": true, "at": null,}',
        '{"city": "Oslo", "warm": True, "at": None}',
        '"{\\"city\\": \\"Oslo\\", \\"warm\\": true, \\"at\\": null}"',
        "{\n  'city': \"Oslo\",\n  'warm': true,\n  'at': null\n}",
    ],
)
def test_slips_of_json_are_read(arguments: str) -> None:
    text = f'<tool_call>{{"name": "get_weather", "arguments": {arguments}}}</tool_call>'
    assert calls(text) == [("get_weather", {"city": "Oslo", "warm": True, "at": None})]


@pytest.mark.parametrize(
    ("lead_in", "is_call"),
    [
        ("It looks like you want the weather, such as it is. I look:\n", True),
        ("For example, I could guess.\nBut I will look:\n", True),
        ("A call looks like this:\n", False),
        ("A call looks like:\n", False),
        ("The model writes, for instance,\n\n", False),
        ("word " * 100, False),
    ],
)
def test_a_fence_is_a_call_where_only_a_lead_in_stands_before_it(
    lead_in: str, is_call: bool
) -> None:
    text = '```json\n{"name": "get_weather", "arguments": {}}\n```'
    assert calls(lead_in + text) == [("get_weather", {})] * is_call


def test_a_broken_call_does_not_take_the_next_one_with_it() -> None:
    broken = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}</tool_call>'
    assert calls(f"{broken}\n{OSLO}") == [("get_weather", {"city": "Oslo"})]


def test_nothing_within_a_cut_call_is_a_call() -> None:
    inner = json.dumps(OSLO)[:-1]
    text = f'<tool_call>{{"name": "write_file", "arguments": {{"body": {inner}'
    assert calls(text) == []
    assert calls(f"<function=write_file>\n<parameter=body>\n{OSLO}\n") == []


def test_what_follows_a_made_up_result_is_dropped() -> None:
    text = f"I look.\n{OSLO}\n<tool_response>3</tool_response>\nIt is 3. {OSLO}"
    decoded = decode_reply(text, NAMES)
    assert (len(decoded.calls), decoded.text) == (1, "I look.")


def test_types_come_from_schemas_of_both_forms() -> None:
    text = (
        "<function=search>\n<parameter=query>\n42\n</parameter>\n<parameter=limit>\n42\n</parameter>\n"
        "<parameter=deep>\nTrue\n</parameter>\n<parameter=tags>\n['a', \"b\"]\n</parameter>\n"
        "<parameter=after>\nnull\n</parameter>\n<parameter=code>\nnull\n</parameter>\n</function>"
    )
    types = {"query": "string", "limit": "integer", "deep": "boolean", "tags": "array"}
    properties: dict[str, Any] = {key: {"type": kind} for key, kind in types.items()}
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    full = {"type": "object", "properties": {**properties, "after": nullable, "code": "string"}}
    expected = {
        "query": "42",
        "limit": 42,
        "deep": True,
        "tags": ["a", "b"],
        "after": None,
        "code": "null",
    }
    assert calls(text, {"search": full}) == [("search", expected)]
    assert calls(text, {"search": {**types, "after": nullable, "code": "string"}}) == [
        ("search", expected)
    ]


def test_without_schemas_what_is_json_is_a_value() -> None:
    text = (
        "<function=search><parameter=a>4.5</parameter><parameter=b>[1]</parameter>"
        "<parameter=c>true</parameter><parameter=d>so it is</parameter><parameter=e>007</parameter>"
        "</function>"
    )
    expected = {"a": 4.5, "b": [1], "c": True, "d": "so it is", "e": "007"}
    assert calls(text) == [("search", expected)]


def test_positional_arguments_are_bound_in_the_order_of_the_schema() -> None:
    schemas = {"search": {"query": "string", "limit": "integer"}}
    assert calls("[search('cats', 3)]", schemas) == [("search", {"query": "cats", "limit": 3})]
    assert calls("[search('cats', limit=3)]", schemas) == [
        ("search", {"query": "cats", "limit": 3})
    ]
    assert calls("[search('cats', query='dogs')]", schemas) == []
    assert calls("[search(1, 2, 3)]", schemas) == []


def test_the_number_of_calls_is_limited() -> None:
    assert len(calls(OSLO * 100)) == 64
    many = json.dumps([{"name": "list_files", "arguments": {}}] * 200)
    assert len(calls(f"<tool_call>{many}</tool_call>")) == 64


def test_every_mark_has_a_decoder_and_every_decoder_a_family() -> None:
    assert all(decoder.families and decoder.openings for decoder in DECODERS)


# The text protocol, as other readers use it.


@pytest.mark.parametrize(
    ("text", "name", "raw", "value"),
    [
        ('Action: add\nAction Input: {"a": 1}', "add", '{"a": 1}', {"a": 1}),
        ('THOUGHT: x\nACTION: add\nACTION_INPUT: {"a": 1}\nOBSERVATION: 2', "add", '{"a": 1}', {"a": 1}),
        ('**Action:** `add`\n**Action Input:** ```json\n{"a": 1}\n```', "add", '{"a": 1}', {"a": 1}),
        ('ACTION: add ACTION_INPUT: {"a": 1}', "add", '{"a": 1}', {"a": 1}),
        ('ACTION: add({"a": 1})', "add", '{"a": 1}', {"a": 1}),
        ('ACTION: add\n{"a": 1}', "add", '{"a": 1}', {"a": 1}),
        ("Action: search\nAction Input: cats and\ndogs\nObservation: none", "search", "cats and\ndogs", None),
        ("Action: search\nAction Input:\nObservation: none", "search", "", None),
        ("Action: search", "search", None, None),
        ('Action: search\nAction Input: "cats"', "search", '"cats"', "cats"),
        ("Action: search(cats?)", "search", "cats?", None),
        ("Action: search('cats')", "search", "'cats'", "cats"),
        ("Action: search(query='cats', n=2)", "search", "query='cats', n=2", {"query": "cats", "n": 2}),
        ("Action: Web-Search.\nAction Input: cats", "Web-Search", "cats", None),
        ("Action: code reviewer\nAction Input: cats", "code reviewer", "cats", None),
        ('Action\uff1aadd\nAction Input\uff1a{"a": 1}', "add", '{"a": 1}', {"a": 1}),
    ],
)  # fmt: skip
def test_an_action_is_read_as_it_was_written(text: str, name: str, raw: Any, value: Any) -> None:
    action = read_action(text)
    assert action is not None
    assert (action.name, action.raw, action.value, action.problem) == (name, raw, value, "")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ('{"a": ', "before its JSON is whole"),
        ('{"a" 1}', "is none"),
        ("{a: b}\nThought: x", "is none"),
    ],
)
def test_an_input_that_is_no_json_says_so(given: str, problem: str) -> None:
    action = read_action(f"Action: add\nAction Input: {given}")
    assert action is not None
    assert problem in action.problem
    assert action.raw is not None
    assert action.raw.startswith(("{", "["))
    assert action.value is None


def test_actions_are_read_one_after_the_other() -> None:
    text = "Action: a\nAction Input: {}\nThought: on\nAction: b\nAction Input: x"
    first = read_action(text)
    assert first is not None
    second = read_action(text, first.end)
    assert second is not None
    assert (first.name, second.name, second.raw) == ("a", "b", "x")
    assert read_action(text, second.end) is None
    assert read_action("You could take action: no.") is None


def test_an_action_whose_input_may_have_been_cut_off_is_no_call() -> None:
    for text in (
        "Action: get_weather",
        "Action: get_weather\n",
        "Action: get_weather\nAction Input:",
    ):
        assert calls(text) == []
    assert calls("Action: list_files\nObservation: x") == [("list_files", {})]
    assert calls("Action: list_files\nAction Input:\nObservation: x") == [("list_files", {})]
    assert calls("Action: list_files\n", {"list_files": {}}) == [("list_files", {})]


# Streams.


def test_prose_is_shown_as_it_comes() -> None:
    text = "It is 3 degrees in Oslo, and (as [1] says) it will be warmer < 10 later."
    shown = streamed(text)
    assert "".join(shown) == text
    late = 0
    for place in range(len(text)):
        late = max(late, place + 1 - len("".join(shown[: place + 1])))
    assert late <= 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I look.\n<tool_", "I look.\n"),
        ("I look.\n<tool_call>{", "I look.\n"),
        ("<table> and <tool", "<table> and "),
        ("See [1] and [", "See [1] and "),
        ("<think>I wonder", ""),
        ("<think>I wonder</think>Yes", "Yes"),
        ('{"city": "Oslo"', '{"city": "Oslo"'),
        ('{"name": "get_weather"', ""),
        ('Sure:\n{"name": "Bob"} is', 'Sure:\n{"name": "Bob"} is'),
        ("```python\nx = [", "```python\nx = ["),
        ("```json\n", ""),
        ('```json\n{"a": 1}', '```json\n{"a": 1}'),
        ("Done.\nAct", "Done."),
        ("Done.\nActually", "Done.\nActually"),
        ("get_wea", ""),
        ("get_well", "get_well"),
    ],
)
def test_what_may_become_a_call_is_held_back_and_no_more(text: str, shown: str) -> None:
    screen = ToolCallScreen(NAMES)
    assert screen.feed(text) == shown


def test_a_call_is_never_shown_and_the_text_behind_it_is() -> None:
    shown = streamed(f"I look. {OSLO} One moment.")
    assert "".join(shown) == "I look.  One moment."
    assert "".join(shown[:-1]) == "I look.  One moment."


def test_a_call_that_was_cut_off_is_shown_at_the_end() -> None:
    cut = OSLO[:40]
    shown = streamed(f"I look. {cut}")
    assert (shown[-1], "".join(shown)) == (cut, f"I look. {cut}")


def test_thinking_needs_no_memory() -> None:
    screen = ToolCallScreen(NAMES)
    assert screen.feed("<think>") == ""
    for _ in range(200):
        assert screen.feed("so it goes " * 100) == ""
    assert screen._walk is not None
    assert screen._walk.waits_for < 200
    assert screen.feed("</think>Yes") == "Yes"


def test_what_is_too_long_for_a_call_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "LONGEST", 1000)
    screen = ToolCallScreen(NAMES)
    shown = screen.feed('<tool_call>{"name": "write_file", "arguments": {"body": "')
    for _ in range(100):
        shown += screen.feed("x" * 50)
    assert screen._walk is not None
    assert screen._walk.waits_for < 3000
    assert len(shown + screen.close()) > 5000


# Work grows with the length of a reply: calls are counted, not seconds.

HOSTILE = [
    "<tool_call>",
    "<tool_call>{",
    '<tool_call>{"name": "search", "arguments": {"a": [1,',
    '{"name": "search"}',
    '{"name":',
    "[search(",
    "[",
    "```",
    "``` ",
    '```json\n{"name": "search"}\n```\n',
    "\\",
    '"',
    '"\\',
    "<function=search><parameter=a>",
    "</parameter>",
    "<think>",
    "</think>",
    "\nAction: search\nAction Input: {",
    "\nAction: search\nAction Input: x",
    "[TOOL_CALLS]search[ARGS]{",
    "<tool_call>search\n<arg_key>a</arg_key><arg_value>",
    "<start_function_call>call:search{a:<escape>",
    "<|channel|>analysis<|message|>",
]


def calls_made(work: Callable[[], object]) -> int:
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("seed", HOSTILE)
def test_the_work_on_hostile_text_grows_with_its_length(seed: str) -> None:
    small = calls_made(lambda: decode_reply(seed * (10_000 // len(seed)), NAMES))
    great = calls_made(lambda: decode_reply(seed * (80_000 // len(seed)), NAMES))
    assert great <= 12 * small + 100_000


@pytest.mark.parametrize("seed", HOSTILE)
def test_the_work_on_a_hostile_stream_grows_with_its_length(seed: str) -> None:
    small = calls_made(lambda: streamed(seed * (4_000 // len(seed)), size=50))
    great = calls_made(lambda: streamed(seed * (32_000 // len(seed)), size=50))
    assert great <= 12 * small + 100_000


def pieces_read(text: str) -> Iterator[int]:
    screen = ToolCallScreen(NAMES)
    for start in range(0, len(text), 10):
        screen.feed(text[start : start + 10])
        assert screen._walk is not None
        yield len(screen._walk.text)


def test_a_long_call_is_read_a_bounded_number_of_times_while_it_comes() -> None:
    body = "x" * 50_000
    text = f'<tool_call>{{"name": "write_file", "arguments": {{"body": "{body}"}}}}</tool_call>'
    sizes = list(pieces_read(text))
    looked = [size for before, size in zip(sizes, sizes[1:], strict=False) if size != before]
    assert sum(looked) < 20 * len(text)


def test_tags_that_a_sentence_speaks_of_are_no_thinking() -> None:
    text = "Write <analysis> first, `<think>` never.\nThen close it: </analysis>. Done."
    assert decode_reply(text, NAMES).text == text
    assert "".join(streamed(text)) == text
    assert (
        decode_reply("<analysis>So.</analysis>\n<thought>\nSo.</thought>Done.", NAMES).text
        == "Done."
    )


def test_thinking_is_taken_out_of_a_text() -> None:
    assert without_thinking("<think>a<think>b</think></think>It is 3.") == "It is 3."
    assert without_thinking("so</THINK>It is 3. <think>more") == "It is 3. "
    assert without_thinking("[THINK]a[/THINK]It is 3.") == "It is 3."
