"""The parts of the reply reader, each by itself: labels, asides, JSON, tags, names, cleaning."""

from __future__ import annotations

import json

import pytest

from teff.node.routing import folded_name, last_known_word, read_route
from teff.node.routing.clauses import clauses_of, is_decision_label, is_remark_label
from teff.node.routing.cleaning import answer_text, plain_prose
from teff.node.routing.names import route_names, strip_enclosing
from teff.node.routing.values import read_json, read_tags
from teff.node.routing.words import _any_word, _words, words_of

NAMES = ["billing", "technical", "finish"]
KNOWN = route_names(NAMES)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        # What a label announces counts, whatever stands around it.
        ("Next agent: technical. I know billing", "technical"),
        ("Agent: technical\nIt seems to me that billing", "technical"),
        ("agent = technical\nIt seems to me that billing", "technical"),
        ("Agent: technical\nRoute: technical\nIt seems to me that billing", "technical"),
        ("Agent: technical\nAgent: billing", ""),
        ("Agent: technical\nRoute: billing\nDecision: finish", ""),
        ("Agent: I like technical\nTopic: cars. Send it to billing", "technical"),
        ("Colour: blue. Send it to billing", "billing"),
        ("Agent: technical, hm\nAgent: hm", "technical"),
        ("Agent: technical\nbilling", "technical"),
        ("Agent: it looks like billing\nRoute: technical", ""),
        ("Agent: billing is nice, technical", "technical"),
        # What stands in parentheses is an aside.
        ("technical (billing)", "technical"),
        ("(billing) technical", "technical"),
        ("It is technical (see (the) billing) here", "technical"),
        ("I have read it (all of it), billing (technical)", "billing"),
        ("(billing)", "billing"),
        ("see technical) and (billing)", "technical"),
        ("Agent: (maybe) technical (now). I know billing", "technical"),
        # A value denies its name.
        ("finish: false, billing: true", "billing"),
        ("finish = no", ""),
        ("finish: false", ""),
        ("billing: yes", "billing"),
        # Denials.
        ("no doubt it is billing", "billing"),
        ("billing isn't right, technical", "technical"),
        ("billing is not it; technical is not it; finish", "finish"),
        ("none of billing, technical", ""),
        ("finish, none of billing, technical", "finish"),
        ("billing, technical is already done", "billing"),
        ("technical. Not billing. Not finish.", "technical"),
        ("technical and billing. Not technical. Not finish.", "billing"),
        ("technical and billing. Not billing. Not finish.", "technical"),
    ],
)
def test_prose_is_read_by_its_strongest_evidence(reply: str, expected: str) -> None:
    assert read_route(reply, NAMES) == expected


def test_clauses_know_where_they_stand() -> None:
    text = KNOWN.mark("Agent: technical (hm)? Reason: finish; done\nRoute: billing")
    mark = {name: KNOWN.mark(name) for name in NAMES}
    found = clauses_of(text)
    by_mark = {next(iter(c.chosen)): c for c in found if len(c.chosen) == 1}
    assert by_mark[mark["technical"]].label == 1
    assert not by_mark[mark["technical"]].aside
    assert by_mark[mark["finish"]].remark
    assert by_mark[mark["billing"]].label == 3
    (plain,) = clauses_of(mark["billing"])
    assert (plain.label, plain.remark, plain.aside, plain.asks) == (0, False, False, False)
    unlabelled, labelled = clauses_of(f"colour: {mark['billing']}\nagent: {mark['finish']}")
    assert (unlabelled.label, labelled.label) == (0, 2)
    asides = [(clause.text.strip(), clause.aside) for clause in clauses_of("a (b (c) d) e) f (g")]
    assert [aside for aside in asides if aside[0]] == [
        *(("a", False), ("b", True), ("c", True), ("d", True), ("e", False)),
        *(("f", False), ("g", True)),
    ]


def test_clauses_hold_exactly_the_text() -> None:
    assert [clause.text for clause in clauses_of("one, two")] == ["one", " two"]
    assert [clause.text for clause in clauses_of("one so two: three")] == ["one ", " three"]


@pytest.mark.parametrize(
    ("label", "decides", "remarks"),
    [
        ("next agent", True, False),
        ("agent options", False, True),
        ("colour", False, False),
        ("下一步代理", True, False),
        ("选择的理由", False, True),
        ("nextagent", False, False),
        ("agents", False, False),
        ("éagenté", False, False),
    ],
)
def test_labels_by_their_words(label: str, decides: bool, remarks: bool) -> None:
    assert (is_decision_label(label), is_remark_label(label)) == (decides, remarks)


def test_word_lists_are_patterns_and_sets_of_single_words() -> None:
    assert _any_word("a b", "c") == r"\b(?:a|b|c)\b"
    assert _words("a b", "c") == frozenset("abc")
    assert words_of("next_agent") == {"next", "agent"}


def unread(value: str) -> str:
    return f"<{value}>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "billing"}', "billing"),
        (' {"a": "billing"} , {"b": 1}\r\n\t', "billing"),
        ('{"a": 1}', ""),
        ('{"a": 1} , \r\n\t', ""),
        ('well {"a": 1} then', None),
        ('well {"a": "billing"} then', "billing"),
        ('{"a": "billing"} but technical', None),
        ('technical, from {"a": "billing"}', None),
        ('{"agent": "billing"} but technical', "billing"),
        ('{"a": ["billing", "technical"]}', ""),
        ('well {"agent": ["billing", "technical"]} then', ""),
        ('["billing", "billing"]', "billing"),
        ('[{"agent": "billing"}, {"agent": "technical"}]', ""),
        ('[{"agent": "billing"}, {"x": "technical"}]', "billing"),
        ('{"x": "billing", "y": "technical"}', ""),
        ('{"x": "billing", "y": 3}', "billing"),
        ('{"agent": "to them"}', "<to them>"),
        ('{"nextAgent": "to them"}', "<to them>"),
        ('{"reason": "billing", "x": "technical"}', "technical"),
        ('{"billing": true, "technical": false}', "billing"),
        ("{[billing]", None),
        ('{{"a": "billing"}', "billing"),
        ('[]{"a": "billing"}', "billing"),
        ("no values", None),
        ('x {"a": 1} bill{"a": 2}ing y', None),
        ('{"a": "technical"} bill {"a": 2}ing', "technical"),
        (f"{'[' * 8}" + '"billing"' + f"{']' * 8}", "billing"),
        (f"{'[' * 9}" + '"billing"' + f"{']' * 9}", ""),
        ('{"a":' * 8 + '"billing"' + "}" * 8, "billing"),
        ('{"a":' * 9 + '"billing"' + "}" * 9, ""),
    ],
)
def test_json_values(text: str, expected: str | None) -> None:
    assert read_json(text, KNOWN, unread) == expected


def test_only_the_first_brackets_are_looked_at() -> None:
    assert read_json("{" * 19 + '["billing"]', KNOWN, unread) == "billing"
    assert read_json("{ " * 20 + '["billing"]', KNOWN, unread) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<answer>billing</answer>", "billing"),
        ("<answer>to them</answer>", "<to them>"),
        (r"\boxed{billing}", "billing"),
        (r"\boxed{to them}", "<to them>"),
        ("<x>billing</x>", "billing"),
        ("<x>to them</x>", None),
        ("<reason>billing</reason>", None),
        ("<x>billing</x><y>technical</y>", ""),
        ("<x>billing</x><y>other</y>", "billing"),
        ("<answer></answer><x>billing</x>", "billing"),
        ("<answer>billing</answer><x>technical</x>", "billing"),
        ("plain", None),
    ],
)
def test_tags(text: str, expected: str | None) -> None:
    read = (lambda value: unread(value) if value else "") if "<answer></" in text else unread
    assert read_tags(text, KNOWN, read) == expected


# --- Names


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ('"**c++**".', "c++"),
        ("#c#!", "c#"),
        ("(x)", "x"),
        ("X", "X"),
        ("+", ""),
        ("..", ""),
        ("c++.", "c++"),
        ("+a.+", "a.+"),
    ],
)
def test_what_encloses_a_name_is_taken_off(text: str, stripped: str) -> None:
    assert strip_enclosing(text) == stripped


def test_a_name_of_separators_alone_folds_to_nothing_and_others_to_themselves() -> None:
    assert folded_name("_a_b_") == "ab"
    assert folded_name("-!-") == "!"
    assert folded_name("- -") == ""


def test_a_whole_reply_is_a_name_up_to_a_length() -> None:
    known = route_names(["ab"])
    assert known.whole("." * 38 + "ab") == "ab"  # four times the longest name, and 32
    assert known.whole("." * 39 + "ab") == ""


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("codeReviewer", "code reviewer"),
        ("HTTPServer", "http server"),
        ("agent7", "agent 7"),
        ("agent7b", "agent 7 b"),
        ("a-b_c", "a b c"),
        ("ab", "ab"),
    ],
)
def test_names_are_taken_apart_where_people_do(name: str, reply: str) -> None:
    assert read_route(f"Next: {reply}", [name]) == name


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("ab", "a b"),
        ("ABC", "a b c"),
        ("c++", "c ++"),
        ("reviewer", "r eviewer"),
        ("77", "7 7"),
        ("a.b", "a .b"),
    ],
)
def test_names_are_not_taken_apart_elsewhere(name: str, reply: str) -> None:
    assert read_route(f"Next: {reply}", [name]) == ""


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("take billing+", ""),
        ("take billing#", ""),
        ("take billing\u0316", ""),
        ("take billingX", ""),
        ("take billing7", ""),
        ("take billing.py", ""),
        ("take billing-\uac00", ""),
        ("take \uac00-billing", ""),
        ("take non-billing", ""),
        ("take me@billing", ""),
        ("take -billing-", "billing"),
        ("take 技billing技", "billing"),
        ("transfer_to_billing now", "billing"),
        ("@billing", "billing"),
        ("take billing.", "billing"),
    ],
)
def test_a_name_is_never_part_of_a_longer_word(reply: str, expected: str) -> None:
    assert read_route(reply, NAMES) == expected


def test_marks_stand_where_names_stood_and_nowhere_else() -> None:
    mark = KNOWN.mark("finish")
    assert KNOWN.mark("Now finish!") == f"now {mark}!"
    assert KNOWN.mark("finish") == mark
    assert KNOWN.mark("a\ue000b") == "a b"
    assert KNOWN.name(mark) == "finish"
    assert KNOWN.found_in("to finish") is True
    assert KNOWN.found_in("to \ue000 finis") is False


def test_the_last_word_may_be_of_one_word_where_others_are_of_more() -> None:
    names = ["of three words", "of two", "one"]
    assert last_known_word("hm of three words", names) == "of three words"
    assert last_known_word("hm of two", names) == "of two"
    assert last_known_word("hm one", names) == "one"
    assert last_known_word("a b", []) == ""


# --- Cleaning


def no_name(text: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<think>a<think>b</think>c</think>d", "d"),
        ("<think>a<think>b<think>b</think>b</think>c</think>d", "d"),
        ("a</think>b", "b"),
        ("a<think>b", "a"),
        ("<|im_start|>a<|im_end|>b", "a"),
        ("<|im_end|>a", "a"),
        ("a<|sep|>b", "a\nb"),
        ("```json\na```", "a"),
        ("<|channel|>analysis<|message|>a", ""),
        ("<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "b"),
        ("User: a", ""),
        ("User: a\nAssistant: b\nUser: c", "Assistant: b"),
        ("a\nUser: b", "a"),
    ],
)
def test_the_part_for_the_reader(reply: str, answer: str) -> None:
    assert answer_text(reply, no_name) == answer


def test_what_is_a_name_is_no_mark_up() -> None:
    def is_name(text: str) -> bool:
        return text.lower() in ("<|end|>", "<|go|>", "think", "user")

    assert answer_text("a<|end|>b<|go|><|x|>c", is_name) == "a<|end|>b<|go|>\nc"
    assert answer_text("<think>a <thinking>b</thinking>c", is_name) == "<think>a \nc"
    assert answer_text("User: a", is_name) == "User: a"


def test_prose_without_mark_up() -> None:
    assert plain_prose("~~a~~b") == " b"
    assert plain_prose("- [ ] a\n- [x] b") == "\n- [x] b"
    assert plain_prose("- [ ] a") == "- [ ] a"
    assert plain_prose(r"\boxed{a\_b} \textbf{c}") == " {a_b}  {c}"


def test_very_long_prose_is_read_from_both_ends() -> None:
    whole = "a" * 2_000 + "b" * 18_000
    assert plain_prose(whole) == whole
    assert plain_prose(f"{'a' * 2_000}x{'b' * 18_000}") == f"{'a' * 2_000}\n{'b' * 18_000}"
    assert plain_prose("x" * 17_000) == "x" * 17_000


def test_json_that_wraps_a_sentence_is_read_as_one() -> None:
    reply = json.dumps({"answer": "Not billing, technical."})
    assert read_route(reply, NAMES) == "technical"
