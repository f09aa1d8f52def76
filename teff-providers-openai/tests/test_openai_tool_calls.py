"""Tool calls from the pieces of a stream, as servers really send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.messages import ToolCall
from teff.provider.reading import UnreadableReply
from teff_providers_openai.tool_calls import ToolCallAssembler, to_wire


def piece(
    index: int | None = 0, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": id, "type": "function", "function": function}


def assembled(*pieces: dict[str, Any], used: set[str] | None = None) -> list[ToolCall]:
    calls = ToolCallAssembler()
    for each in pieces:
        calls.add([each])
    return calls.finish(used_ids=used or set())


def seen(*pieces: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, dict(call.arguments)) for call in assembled(*pieces)]


def test_arguments_come_in_pieces() -> None:
    calls = assembled(
        piece(0, "a", "add", ""), piece(0, arguments='{"x"'), piece(0, arguments=": 1}")
    )
    assert calls == [ToolCall(id="a", name="add", arguments={"x": 1})]


def test_parallel_calls_are_kept_apart_by_their_index_even_interleaved() -> None:
    assert seen(
        piece(0, "a", "add", '{"x":'),
        piece(1, "b", "sub", '{"y":'),
        piece(0, arguments="1}"),
        piece(1, arguments="2}"),
    ) == [("add", {"x": 1}), ("sub", {"y": 2})]


def test_whole_calls_that_all_have_index_0_are_several_calls() -> None:
    calls = assembled(
        piece(0, "a", "add", '{"x":1}'), piece(0, "b", "add", '{"x":2}'), piece(0, "c", "sub", "{}")
    )
    assert [(call.id, call.name) for call in calls] == [("a", "add"), ("b", "add"), ("c", "sub")]


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("arguments", ['{"x":1}', "{}", "", {"x": 1}, None])
def test_the_calls_of_a_whole_message_are_separate(index: int | None, arguments: Any) -> None:
    calls = ToolCallAssembler(whole=True)
    calls.add([piece(index, "a", "add", arguments), piece(index, "a", "add", arguments)])
    first, second = calls.finish(used_ids=set())
    assert first.id == "a" != second.id
    assert (first.arguments, first.error) == (second.arguments, second.error)
    assert not first.error


def test_whole_calls_with_one_id_and_no_index_are_several_calls() -> None:
    twice = [piece(None, "a", "add", '{"x":1}'), piece(None, "a", "add", '{"x":2}')]
    assert seen(*twice) == [("add", {"x": 1}), ("add", {"x": 2})]
    calls = ToolCallAssembler()
    calls.add(twice)
    assert len(calls.finish(used_ids=set())) == 2
    begun = [piece(None, "a", "add", '{"x"'), piece(None, "a", "add", ":1}")]
    assert seen(*begun) == [("add", {"x": 1})]


def test_arguments_too_deep_for_any_state_are_told_to_the_model() -> None:
    deep = '{"x":' * 300 + "1" + "}" * 300
    for arguments in (deep, json.loads(deep)):
        first, second = assembled(piece(0, "a", "add", arguments), piece(0, "b", "add", "{}"))
        assert (first.arguments, first.error) == ({}, "the arguments are nested too deeply")
        assert second.error == ""
    kept = assembled({**piece(0, "a", "add", "{}"), "own": 1, "deep": json.loads(deep)})
    assert kept[0].extra == {"own": 1}


def test_half_characters_in_ids_and_names_are_replaced() -> None:
    (call,) = assembled(piece(0, "a\ud800", "ad\udc00", "{}"))
    assert (call.id, call.name) == ("a\ufffd", "ad\ufffd")


@pytest.mark.parametrize("index", [0, 1])
def test_an_answer_makes_a_thousand_calls_at_most(index: int) -> None:
    pieces = [piece(place * index, f"id{place}", "add", "{}") for place in range(1000)]
    assert len(assembled(*pieces)) == 1000
    with pytest.raises(UnreadableReply, match="more than 1,000 tool calls"):
        assembled(*pieces, piece(1000 * index, "more", "add", "{}"))


def test_a_name_that_is_repeated_is_not_joined() -> None:
    assert seen(piece(0, "a", "add", '{"x"'), piece(0, "a", "add", ":1}")) == [("add", {"x": 1})]


def test_a_new_id_on_each_piece_is_no_new_call() -> None:
    calls = assembled(piece(0, "a", "add", '{"x"'), piece(0, "b", None, ":1}"))
    assert calls == [ToolCall(id="a", name="add", arguments={"x": 1})]


def test_a_new_id_and_name_before_the_arguments_are_whole_are_no_new_call() -> None:
    assert seen(piece(0, "a", "add", '{"x"'), piece(0, "b", "add", ":1}")) == [("add", {"x": 1})]


def test_without_an_index_a_name_begins_a_call() -> None:
    assert seen(
        piece(None, None, "add", '{"x"'),
        piece(None, None, None, ":1}"),
        piece(None, None, "sub", '{"y":2}'),
    ) == [("add", {"x": 1}), ("sub", {"y": 2})]


def test_without_an_index_an_id_finds_its_call() -> None:
    assert seen(
        piece(None, "a", "add", '{"x"'),
        piece(None, "b", "sub", '{"y"'),
        piece(None, "a", None, ":1}"),
        piece(None, "b", "sub", ":2}"),
    ) == [("add", {"x": 1}), ("sub", {"y": 2})]


def test_arguments_may_be_an_object() -> None:
    assert seen(piece(0, "a", "add", {"x": 1})) == [("add", {"x": 1})]


@pytest.mark.parametrize("arguments", ["", None, "  ", "{}"])
def test_no_arguments_are_an_empty_object(arguments: str | None) -> None:
    assert assembled(piece(0, "a", "now", arguments)) == [ToolCall(id="a", name="now")]


@pytest.mark.parametrize("arguments", ["{", '"x"', "[1]", "NaN", '{"x": NaN}', [1], 3, "[" * 9999])
def test_arguments_that_are_no_object_are_an_error_of_the_call(arguments: Any) -> None:
    [call] = assembled(piece(0, "a", "add", arguments))
    assert call.error
    assert call.arguments == {}


def test_a_call_that_was_cut_off_before_its_arguments_is_no_call_without_arguments() -> None:
    calls = ToolCallAssembler()
    calls.add([piece(0, "a", "now", ""), piece(1, "b", "delete_all", "")])
    now, delete = calls.finish(used_ids=set(), cut_off=True)
    assert now.error == ""
    assert "cut off" in delete.error


def test_missing_and_repeated_ids_are_made_unique() -> None:
    calls = assembled(
        piece(0, None, "a", "{}"), piece(1, "call_1", "b", "{}"), piece(2, "call_1", "c", "{}")
    )
    ids = [call.id for call in calls]
    assert ids[1] == "call_1"
    assert len(set(ids)) == 3
    [again] = assembled(piece(0, "call_1", "a", "{}"), used={"call_1"})
    assert again.id != "call_1"


def test_unknown_fields_of_a_call_go_back_unchanged() -> None:
    sent = piece(0, "a", "add", '{"x": 1}') | {"extra_content": {"google": {"signature": "s"}}}
    sent["function"]["strict"] = True
    [call] = assembled(sent)
    wire = to_wire(call.to_json())
    assert wire["extra_content"] == {"google": {"signature": "s"}}
    assert wire["function"] == {"name": "add", "arguments": '{"x": 1}', "strict": True}
    assert "index" not in wire


def test_arguments_go_out_as_readable_json_text() -> None:
    wire = to_wire({"id": "a", "name": "say", "args": {"t": "Łódź 🙂"}})
    assert wire["function"]["arguments"] == '{"t": "Łódź 🙂"}'
    assert to_wire({"id": "a", "name": "now", "args": {}})["function"]["arguments"] == "{}"


@pytest.mark.parametrize("pieces", [3, "x", {}, [3], [None]])
def test_what_is_no_list_of_calls_is_refused(pieces: object) -> None:
    with pytest.raises(UnreadableReply, match="tool_calls"):
        ToolCallAssembler().add(pieces)


def test_a_call_without_a_name_is_refused() -> None:
    with pytest.raises(UnreadableReply, match="without saying which"):
        assembled(piece(0, "a", None, "{}"))


call_values = st.lists(
    st.tuples(
        st.sampled_from(["add", "sub"]),
        st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@given(call_values, st.data())
def test_any_cut_of_the_arguments_gives_the_same_calls(
    calls: list[tuple[str, dict[str, Any]]], data: st.DataObject
) -> None:
    assembler = ToolCallAssembler()
    for index, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments)
        cut = data.draw(st.integers(0, len(text)))
        assembler.add([piece(index, f"id{index}", name, text[:cut])])
        assembler.add([piece(index, arguments=text[cut:])])
    finished = assembler.finish(used_ids=set())
    assert [(call.name, dict(call.arguments)) for call in finished] == calls


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["index", "id", "function", "type", "x"]),
            st.none()
            | st.integers(-1, 2)
            | st.text(max_size=2)
            | st.dictionaries(
                st.sampled_from(["name", "arguments"]),
                st.none() | st.text(max_size=3) | st.integers() | st.just({"a": 1}),
            ),
        )
    )
)
def test_whatever_comes_gives_calls_with_unique_ids_or_is_refused(
    pieces: list[dict[str, Any]],
) -> None:
    try:
        calls = assembled(*pieces)
    except UnreadableReply:
        return
    assert len({call.id for call in calls}) == len(calls)
    assert all(call.name for call in calls)
