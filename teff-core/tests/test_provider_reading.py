"""Values out of replies that may hold anything."""

from __future__ import annotations

from typing import Any

import pytest

from teff.messages import ModelUsage
from teff.provider.reading import (
    UnreadableReply,
    as_mapping,
    as_text,
    call_ids,
    content_text,
    free_call_id,
    parse_json,
    read_usage,
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


def test_json_from_the_wire_may_have_a_mark_and_broken_characters() -> None:
    assert parse_json(b'\xef\xbb\xbf\n\n{"a": "\xff"}') == {"a": "\ufffd"}
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000)


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
