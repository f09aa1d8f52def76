"""Values out of replies that may hold anything."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.messages import ModelUsage
from teff.provider.reading import (
    CharacterJoiner,
    UnreadableReply,
    as_mapping,
    as_text,
    call_ids,
    content_text,
    free_call_id,
    parse_json,
    read_usage,
    read_whole_arguments,
    unknown_fields,
    whole_text,
)


def test_what_is_of_another_kind_is_the_neutral_value() -> None:
    assert as_text(None) == as_text(3) == ""
    assert as_mapping([]) == as_mapping(None) == {}


def test_content_is_a_text_null_or_parts() -> None:
    assert content_text(None) == ""
    assert content_text("a") == "a"
    assert content_text([{"type": "text", "text": "a"}, {"type": "image"}, "b", None]) == "ab"
    with pytest.raises(UnreadableReply, match="its content is int"):
        content_text(3)


def test_counts_that_are_missing_are_unknown_and_not_zero() -> None:
    assert read_usage(None, 0) == ModelUsage(completion_tokens=0)
    assert read_usage(1, 2).total_tokens == 3
    assert read_usage(1, 2, 4).total_tokens == 4
    assert read_usage("1", -2, 2.5) == ModelUsage()


@pytest.mark.parametrize("absurd", [10**400, 10**12 + 1, 1e300, float("inf"), -1, True, "9"])
def test_counts_that_no_answer_has_are_unknown(absurd: object) -> None:
    assert read_usage(absurd, absurd, absurd) == ModelUsage()
    assert read_usage(10**12, 1, absurd).total_tokens == 10**12 + 1


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def test_fields_are_kept_that_can_be_sent_back() -> None:
    fields = {
        "id": 1,
        "own": "x",
        "deep": nested(101),
        "list": [nested(100)],
        "odd": [float("nan")],
    }
    assert unknown_fields(fields, {"id"}) == {"own": "x"}
    assert unknown_fields({"deep": nested(100)}, ()) == {"deep": nested(100)}


def test_json_from_the_wire_may_have_a_mark_and_broken_characters() -> None:
    assert parse_json(b'\xef\xbb\xbf\n\n{"a": "\xff"}') == {"a": "\ufffd"}
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000)


def test_ids_of_calls_are_whole_texts() -> None:
    assert free_call_id("a\ud800", set()) == "a\ufffd"
    assert free_call_id("a\ud83c\udf0a", set()) == "a🌊"
    assert free_call_id("\udc00", {"\ufffd"}).isalnum()


@pytest.mark.parametrize("as_text", [True, False])
def test_arguments_that_no_state_can_hold_are_an_error_for_the_model(as_text: bool) -> None:
    for levels in (101, 150, 900):
        raw = '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)
        given = raw if as_text else parse_json(raw)
        assert read_whole_arguments(given) == ({}, "the arguments are nested too deeply")
    assert read_whole_arguments(nested(100)) == (nested(100), "")
    told = "the arguments hold a number that JSON does not have"
    assert read_whole_arguments({"a": [float("nan")]}) == ({}, told)


def test_ids_of_calls_are_kept_where_they_are_usable() -> None:
    assert free_call_id("call_1", set()) == "call_1"
    for useless in ("", None, 3, "call_1"):
        made = free_call_id(useless, {"call_1"})
        assert made != "call_1"
        assert len(made) == 9
        assert made.isalnum()


def test_the_ids_of_a_conversation_are_collected() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user"},
        {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]},
    ]
    assert call_ids(messages) == {"a", "b"}


# --- Halves of characters ------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8") | st.sampled_from("🌊😀\ud83c\udf0a"), max_size=12)


@given(texts, st.lists(st.integers(0, 24), max_size=6))
def test_pieces_that_are_joined_are_the_whole_text_wherever_it_was_cut(
    text: str, cuts: list[int]
) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    borders = [0, *sorted(min(2 * cut, len(units)) for cut in cuts), len(units)]
    pieces = [units[start:end] for start, end in pairwise(borders)]
    joiner = CharacterJoiner()
    joined = [joiner.feed(piece.decode("utf-16-le", "surrogatepass")) for piece in pieces]
    joined.append(joiner.close())
    assert "".join(joined) == whole_text(text)
    for each in joined:
        each.encode()
    assert joiner.close() == ""


def test_only_a_first_half_waits() -> None:
    joiner = CharacterJoiner()
    assert [joiner.feed(piece) for piece in ("a", "é", "🌊", "b\ud83c", "", "c", "\udf0ad")] == [
        "a",
        "é",
        "🌊",
        "b",
        "",
        "\ufffdc",
        "\ufffdd",
    ]


@given(texts)
def test_a_whole_text_has_no_halves(text: str) -> None:
    whole = whole_text(text)
    whole.encode()
    assert whole_text(whole) == whole
    if not any("\ud800" <= mark <= "\udfff" for mark in text):
        assert whole is text


@pytest.mark.parametrize(
    ("raw", "city"),
    [
        ('{"city": "\ud83c\udf0a"}', "🌊"),
        (r'{"city": "\ud83c\udf0a"}', "🌊"),
        ('{"city": "a\ud83c"}', "a\ufffd"),
        (r'{"city": "a\ud83c"}', "a\ufffd"),
        (r'{"city": "\udf0ab"}', "\ufffdb"),
        ({"city": "\ud83c\udf0a"}, "🌊"),
        ({"city": "\udf0a"}, "\ufffd"),
        ({"city": ["\ud83c", {"\udf0a": 1.5}]}, ["\ufffd", {"\ufffd": 1.5}]),
        (r'{"city": "\\ud83c"}', r"\ud83c"),
        ('{"city": "Rīga"}', "Rīga"),
    ],
)
def test_arguments_have_no_halves(raw: object, city: object) -> None:
    assert read_whole_arguments(raw) == ({"city": city}, "")


def test_what_is_wrong_with_arguments_is_told() -> None:
    assert read_whole_arguments('{"city": "\ud83c') == (
        {},
        "the arguments are not whole JSON: Unterminated string starting at character 10",
    )
    assert read_whole_arguments(None) == ({}, "")
    assert read_whole_arguments([]) == ({}, "the arguments must be a JSON object, not list")
    deep: Any = "a"
    for _ in range(100_000):
        deep = [deep]
    assert read_whole_arguments({"a": deep}) == ({}, "the arguments are nested too deeply")
