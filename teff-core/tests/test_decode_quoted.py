"""A call that a reply quotes is carried out in no family; the same call unquoted is."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.harness import ToolCallScreen, decode_reply, decode_tool_calls
from teff.harness.turn_marks import OTHER_TURNS

Quote: TypeAlias = Callable[[str], str]

# The renderers of all families stand beside the tests of the families.
_spec = importlib.util.spec_from_file_location(
    "renderers_of_families", Path(__file__).with_name("test_decode_families.py")
)
assert _spec is not None
assert _spec.loader is not None
families: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(families)

NAMES = families.NAMES
CALL = '<tool_call>{"name": "list_files", "arguments": {}}</tool_call>'
#: A closing of thinking makes thinking of all before it, the opening of a quotation too.
THINKS = {"hermes-think", "xlam-think", "harmony-think", "command-r7b"}


def fenced(sign: str) -> Quote:
    def quote(text: str) -> str:
        longest = max([2, *map(len, re.findall(f"{re.escape(sign)}+", text))])
        signs = sign * (longest + 1)
        return f"This is how it looks:\n{signs}\n{text}\n{signs}\nI did not call it."

    return quote


def each_line(mark: str, before: str = "The page says:\n\n") -> Quote:
    def quote(text: str) -> str:
        lines = "\n".join(mark + line for line in text.split("\n"))
        return f"{before}{lines}\n\nThe page wants me to call a tool. I did not."

    return quote


def between(before: str, after: str = "") -> Quote:
    return lambda text: f"{before}{text.rstrip() if after[:1] == ' ' else text}{after}"


BLOCKS: dict[str, Quote] = {
    "fence of backticks": fenced("`"),
    "fence of tildes": fenced("~"),
    "quotation": each_line("> "),
    "quotation first": each_line("> ", ""),
    "quotation without a space": each_line(">"),
    "four spaces": each_line("    "),
    "tab": each_line("\t"),
    "comment": between("Look:\n<!-- ", " -->\nThat is all."),
    "comment of lines": between("Look:\n<!--\n", "\n-->\nThat is all."),
}
TURNS: dict[str, Quote] = {
    "chatml": between("Done.<|im_end|>\n<|im_start|>user\n"),
    "llama": between("Done.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"),
    "mistral": between("Done.</s>[INST] "),
    "mistral with a space": between("Done.</s> [INST]"),
    "gemma": between("Done.<end_of_turn>\n<start_of_turn>user\n"),
    "phi": between("Done.<|end|><|user|>"),
    "user": between("Done.<|im_end|>\nUser: "),
    "human": between("Done.</s>\n\nHuman:\n"),
}
IN_QUOTES: dict[str, Quote] = {
    "double": between('The page says: "', '"'),
    "curly": between("The page says: \u201c", "\u201d Hm."),
    "single": between("The page says '", "' and more."),
    "never closed": between('The page says: "'),
}
IN_SENTENCES: dict[str, Quote] = {
    "format": between("The format is ", " as documented."),
    "format of": between("The Mistral format is ", " as documented."),
    "middle": between("You write ", " to call it."),
}

each_family = pytest.mark.parametrize("family", families.FAMILIES)


def assert_quoted(family: str, scenario: str, quote: Quote, *, is_shown: bool = True) -> str:
    """Return what remains of the reply, where streams show the same."""
    calls = families.SCENARIOS[scenario]
    schemas = families.schemas_of(calls)
    text = quote(families.FAMILIES[family](calls))
    reply = decode_reply(text, NAMES, schemas)
    assert reply.calls == (), text
    if family in THINKS:
        return reply.text
    if is_shown:
        assert reply.text == text
    for size in (1, 7, 64):
        screen = ToolCallScreen(NAMES, schemas)
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        shown = "".join(map(screen.feed, pieces)) + screen.close()
        assert shown.strip() == reply.text.strip()
    return reply.text


@each_family
@pytest.mark.parametrize("way", BLOCKS)
@pytest.mark.parametrize("scenario", ["one call", "several calls", "code", "marks in a text"])
def test_a_call_in_a_block_is_quoted(family: str, way: str, scenario: str) -> None:
    assert_quoted(family, scenario, BLOCKS[way])


@each_family
@pytest.mark.parametrize("way", TURNS)
@pytest.mark.parametrize("scenario", ["one call", "several calls", "code"])
def test_a_call_in_the_turn_of_somebody_else_is_nobodys(
    family: str, way: str, scenario: str
) -> None:
    shown = assert_quoted(family, scenario, TURNS[way], is_shown=False)
    assert re.fullmatch(r"Done\.(<[^<>]+>)?\s*", shown)


@each_family
@pytest.mark.parametrize("way", IN_QUOTES)
@pytest.mark.parametrize("scenario", ["one call", "several calls", "code"])
def test_a_call_in_quotes_is_quoted(family: str, way: str, scenario: str) -> None:
    if family == "xlam-think":
        pytest.skip("the quotation mark is thinking")
    if scenario == "several calls" and (family.startswith("react") or family == "fenced-json"):
        scenario = "no arguments"
    assert_quoted(family, scenario, IN_QUOTES[way])


@each_family
@pytest.mark.parametrize("way", IN_SENTENCES)
@pytest.mark.parametrize("scenario", ["one call", "code"])
def test_a_call_in_a_sentence_is_quoted(family: str, way: str, scenario: str) -> None:
    if family == "hermes-think":
        pytest.skip("no sentence goes on behind thinking")
    assert_quoted(family, scenario, IN_SENTENCES[way])


@settings(max_examples=200, deadline=None)
@given(
    family=st.sampled_from(sorted({*families.JSON_FAMILIES, *families.PYTHON_FAMILIES})),
    way=st.sampled_from(sorted({**BLOCKS, **TURNS})),
    calls=families.calls_of(families.values),
)
def test_any_calls_that_are_quoted_are_none(family: str, way: str, calls: Any) -> None:
    rendered = families.FAMILIES[family](calls)
    assert families.decoded(rendered) == calls
    assert families.decoded({**BLOCKS, **TURNS}[way](rendered)) == []


@each_family
@pytest.mark.parametrize(
    "before",
    [
        '"Oslo" it is, and "now".\n',
        "> What is the weather?\n\nI look.\n",
        "    x = 1\n\nI look.\n",
        "~~~\nx = 1\n~~~\nI look:\n",
        "<!-- no -->\nI look:\n",
        "The 6\" one, and it's 'new'.\n",
    ],
)
def test_a_call_behind_a_quotation_is_one(family: str, before: str) -> None:
    calls = families.SCENARIOS["several calls"]
    text = before + families.FAMILIES[family](calls)
    assert families.decoded(text, families.schemas_of(calls)) == calls


@pytest.mark.parametrize("turn", OTHER_TURNS)
def test_every_turn_of_somebody_else_ends_the_reply(turn: str) -> None:
    text = f"Done.\n{CALL}<|im_end|>\n{turn}\n{CALL}</think>{CALL}"
    reply = decode_reply(text, NAMES)
    assert len(reply.calls) == 1
    assert reply.text == "Done."


def test_a_bare_call_before_the_turn_of_somebody_else_counts() -> None:
    bare = '{"name": "list_files", "arguments": {}}'
    for turn in (
        "<|im_end|>\n<|im_start|>user\nThanks",
        "</s>[INST] Thanks",
        "<|eot_id|>\nUser: x",
    ):
        assert len(decode_tool_calls(bare + turn, NAMES)) == 1


@pytest.mark.parametrize(
    "text",
    [
        f"````\n```\n{CALL}\n```\n````\nSo.",
        f"```xml\n{CALL}\nThen:\n{CALL}\n```\nSo.",
        f"```\nx ``` {CALL}\n```\nSo.",
        f"~~~\n```\n{CALL}\n```\n~~~\nSo.",
        f"`<tools>{CALL}</tools>`",
        f'"{CALL}\n{CALL}" is what it says.',
        f"An example:\n{CALL}",
    ],
    ids=["longer", "prose within", "within a line", "of both", "two marks", "two calls", "example"],
)
def test_a_quotation_ends_where_it_ends(text: str) -> None:
    assert decode_reply(text, NAMES) == decode_reply(text, ["nobody"])


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "nobody", "arguments": {}},
        {"name": "list_files", "description": "Lists.", "parameters": {}},
        {"name": "list_files", "parameters": {"type": "object", "properties": {}}},
        {"name": "list_files", "parameters": {"properties": {"path": {"type": "string"}}}},
        {"name": "list_files", "parameters": {"path": {"type": "string", "description": "?"}}},
        {"path": "a"},
        "list_files",
        [],
    ],
)
@pytest.mark.parametrize("form", ["{}", "```json\n{}\n```", "[TOOL_CALLS]{}", "<tool_call>{}"])
def test_with_another_entry_nothing_of_a_list_runs(entry: object, form: str) -> None:
    call = {"name": "list_files", "arguments": {}}
    for entries in ([call, entry], [entry, call]):
        assert decode_tool_calls(form.replace("{}", json.dumps(entries), 1), NAMES) == []
    assert len(decode_tool_calls(form.replace("{}", json.dumps([call, call]), 1), NAMES)) == 2


def test_arguments_that_are_called_like_keywords_of_schemas_are_arguments() -> None:
    text = '{"name": "list_files", "parameters": {"type": "object", "properties": {"a": 1}}}'
    schema = {"type": "object", "properties": {"type": {}, "properties": {}}}
    assert len(decode_tool_calls(text, NAMES, {"list_files": schema})) == 1
    names_of_types = '{"name": "get_weather", "parameters": {"city": "string"}}'
    assert len(decode_tool_calls(names_of_types, NAMES)) == 1


HOSTILE = ["> ", "> <tool_call>", "\n    <tool_call>{", "<!--", "<!-- -->", "~~~", "\n~~~\n", "\n```\nx ``` ",
           '"<tool_call>', ' "x', "</s>", "</s>\nUser", "\n```\nThought: ", "[TOOL_CALLS]x[ARGS]{} so "]  # fmt: skip


@pytest.mark.parametrize("seed", HOSTILE)
def test_the_work_on_quotations_grows_with_their_length(seed: str) -> None:
    def calls_made(length: int) -> int:
        count = 0

        def counted(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        text = seed * (length // len(seed))
        screen, before = ToolCallScreen(NAMES), sys.getprofile()
        sys.setprofile(counted)
        try:
            decode_reply(text, NAMES)
            for start in range(0, len(text), 50):
                screen.feed(text[start : start + 50])
            screen.close()
        finally:
            sys.setprofile(before)
        return count

    assert calls_made(32_000) <= 12 * calls_made(4_000) + 100_000
