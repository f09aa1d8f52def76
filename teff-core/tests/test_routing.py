"""Reading a model's reply: `read_route`, and the rule of the last known word.

What replies look like is in two files of ``tests/data``, a JSON object a line with the names, the
reply, what people read in it, and why: replies as they were recorded, and further ones by kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.node.routing import folded_name, last_known_word, read_route
from teff.node.supervisor import read_route as read_route_of_supervisor

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
NAMES = ["billing", "technical", "finish"]
BUILDERS = ["planner", "coder", "finish"]


def cases(file: str) -> list[Any]:
    lines = (DATA / file).read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [pytest.param(case, id=f"{case['id']} {case['why']}") for case in found]


@pytest.mark.parametrize("case", cases("route_replies.jsonl"))
def test_recorded_replies_are_read_as_people_read_them(case: dict[str, Any]) -> None:
    assert read_route(case["reply"], [*case["agents"], case["finish"]]) == case["expected"]


@pytest.mark.parametrize("case", cases("route_reply_kinds.jsonl"))
def test_further_replies_of_each_kind_are_read_alike(case: dict[str, Any]) -> None:
    assert read_route(case["reply"], [*case["agents"], case["finish"]]) == case["expected"]


def test_the_supervisor_offers_the_reader_too() -> None:
    assert read_route_of_supervisor is read_route


def test_the_order_and_the_kind_of_collection_of_the_names_play_no_part() -> None:
    assert read_route("qa", ["QA", "qa"]) == read_route("qa", ["qa", "QA"]) == "qa"
    assert read_route("Qa", ["QA", "qa"]) == read_route("Qa", {"qa", "QA"})
    assert read_route("billing", ("technical", "billing")) == "billing"
    assert read_route("billing", []) == ""


def test_names_that_read_the_same_fold_to_the_same_form() -> None:
    assert (
        folded_name("Code Reviewer")
        == folded_name("codeReviewer")
        == folded_name("CODE-reviewer")
        == "codereviewer"
    )
    assert folded_name("qa1") == folded_name("QA 1") != folded_name("QA 2")
    assert folded_name("c++") != folded_name("c")
    assert folded_name("--") == folded_name("") == ""


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("planner", "planner"),
        ("**Planner**.", "planner"),
        ("<planner>", "planner"),
        ("planner -> go", "planner"),
        ("coder, not planner", "planner"),
        ("planner: coder, then", "coder"),
        ("\u201ccoder\u201d", "coder"),
        ("we are not ready to finish", "finish"),
        ("FINISH: planner has finished", "planner"),
        ("planner/coder", ""),
        ("planners", ""),
        ("", ""),
    ],
)
def test_the_last_known_word_counts_whatever_is_said_of_it(reply: str, expected: str) -> None:
    assert last_known_word(reply, BUILDERS) == expected


def test_the_last_known_word_may_be_a_name_of_several_words() -> None:
    assert last_known_word("ask the Code Reviewer!", ["code_reviewer", "writer"]) == "code_reviewer"
    assert last_known_word("c++ or c", ["c++", "c"]) == "c"


# --- Properties

PIECES = """
billing|technical|finish|billings|not |no|never|, |. |:|=|->|(|)|[|]|{|}|"|'|`|```|~~|<think>|</think>
<answer>|</answer>|<|im_end|>|final|</s>|User:|Assistant:|{"agent": "billing"}|{"a":|null|agent|reason
because |but |then |or |route to | should |first |- [ ] |- [x] |\\boxed{| - |?|!|\\
""".replace("\n", "|").split("|")
REPLIES = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.lists(
        st.sampled_from(
            [
                *PIECES,
                *(
                    "|",
                    "\n",
                    "<|channel|>",
                    "<|message|>",
                    "\u4e0d\u662f",
                    "\u3002",
                    "\u6280\u672f",
                ),
                *("\u200b", "\u0301", "\ud800", "\ue000", "\x00", "\U0001f642"),
            ]
        ),
        max_size=30,
    ).map("".join),
)
VOCABULARIES = st.lists(
    st.one_of(
        st.sampled_from([*NAMES, "c++", "\u6280\u672f", "a b", "<end>", "\xdcn\xef", ""]),
        st.text(max_size=8),
    ),
    max_size=5,
)


@given(reply=REPLIES, names=VOCABULARIES)
def test_any_reply_gives_a_registered_name_or_nothing(reply: str, names: list[str]) -> None:
    assert read_route(reply, names) in {"", *names}
    assert last_known_word(reply, names) in {"", *names}


@given(reply=REPLIES, names=VOCABULARIES)
def test_the_order_of_the_names_changes_nothing(reply: str, names: list[str]) -> None:
    assert read_route(reply, names) == read_route(reply, names[::-1])


@given(
    name=st.sampled_from(NAMES),
    frame=st.sampled_from(
        ["{}", "**{}**", "Next: {}.", '{{"agent": "{}"}}', "<next>{}</next>", "- {}\n", "Now {}!"]
    ),
    style=st.sampled_from([str, str.upper, str.title]),
    thinking=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>")),
)
def test_a_clear_answer_is_read_whatever_was_thought_before(
    name: str, frame: str, style: Callable[[str], str], thinking: str
) -> None:
    assert read_route(f"<think>{thinking}</think>{frame.format(style(name))}", NAMES) == name


@given(
    names=st.lists(st.sampled_from(NAMES), min_size=2, unique=True),
    separator=st.sampled_from([" or ", " and ", ", ", ", then ", "/", " | ", "\n", "; "]),
)
def test_an_enumeration_is_no_decision(names: list[str], separator: str) -> None:
    assert read_route(separator.join(names), NAMES) == ""


@given(
    chosen=st.sampled_from(NAMES),
    denied=st.sampled_from(NAMES),
    form=st.sampled_from(
        ["{0}, not {1}", "not {1} but {0}", "{0} instead of {1}", "{0} (not {1})"]
    ),
)
def test_what_is_denied_is_never_chosen(chosen: str, denied: str, form: str) -> None:
    if chosen != denied:
        assert read_route(form.format(chosen, denied), NAMES) == chosen


LONG_RUNS = [
    *("a", "billing ", "<", "<think>", "</think>", "{", '{"a":', "[", "(", "```", "~~a", "</s>"),
    *("<|im_end|>", "<|channel|>", "User:\n", " - ", "code_", "code ", "to ", "not ", "\\boxed{"),
    *("<a>", "- [ ] ", "thinking...", "\u0316\u0301", "\ufdfa", "\ud800", "\u6280"),
]


@pytest.mark.parametrize("piece", LONG_RUNS)
def test_a_megabyte_of_anything_is_read(piece: str) -> None:
    names = [*NAMES, "code_reviewer"]
    reply = piece * (1_000_000 // len(piece))
    assert read_route(reply, names) in {"", *names}
    assert last_known_word(reply, names) in {"", *names}
    assert read_route(f"{reply}\n\nFinal answer: technical", names) in {"", "technical"}


def test_an_answer_before_or_after_a_megabyte_is_found() -> None:
    long = "The customer wrote about an invoice and a crash. " * 20_000
    assert read_route(f"{long}\n\ntechnical", NAMES) == "technical"
    assert read_route(f"technical\n\n{long}", NAMES) == "technical"
    assert read_route(f"<think>{long} billing</think>technical", NAMES) == "technical"
    assert read_route(json.dumps({"reason": long, "agent": "technical"}), NAMES) == "technical"
    assert read_route(json.dumps({long: 1, "agent": "technical"}), NAMES) == "technical"
