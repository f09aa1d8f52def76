"""Conversations with holes, as runs that were interrupted and histories that were cut leave them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.harness.repair import CONTINUE, INTERRUPTED, valid_messages
from teff.messages import ToolCall, assistant, system, tool_result, user
from teff.state import freeze


def call(id: str, name: str = "search", **arguments: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def asks(*calls: ToolCall, text: str = "") -> Any:
    return assistant(text, calls)


def answer(id: str, text: str = "found", name: str = "search") -> Any:
    return tool_result(call(id, name), text)


def interrupted(id: str, name: str = "search") -> Any:
    return tool_result(call(id, name), INTERRUPTED)


def shape(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return each message as its role and its text, id or calls."""
    told = []
    for message in messages:
        calls = "+".join(call["id"] for call in message.get("tool_calls") or ())
        about = message.get("tool_call_id") or calls or message["content"]
        told.append(f"{message['role']} {about}")
    return told


# Calls and their results.


def test_msg_01_a_call_without_a_result_is_answered_as_interrupted() -> None:
    history = [user("Find it."), asks(call("t1")), user("hi")]
    repaired = valid_messages(history)
    assert repaired.messages == [user("Find it."), asks(call("t1")), interrupted("t1"), user("hi")]
    assert repaired.warnings == (
        "call 't1' of 'search' had no result and was answered as interrupted",
    )
    assert "interrupted" in INTERRUPTED


def test_msg_01_only_the_calls_that_have_no_result_are_answered() -> None:
    calls = [call("t1"), call("t2"), call("t3")]
    repaired = valid_messages([user("?"), asks(*calls), answer("t3"), answer("t1")])
    assert repaired.messages[2:] == [answer("t1"), interrupted("t2"), answer("t3")]
    assert len(repaired.warnings) == 1


def test_msg_02_a_result_whose_call_was_cut_off_is_dropped() -> None:
    cut = [system("s"), answer("t1"), assistant("Here."), user("Thanks"), assistant("Yes.")]
    repaired = valid_messages(cut)
    assert repaired.messages == [cut[0], *cut[2:]]
    assert repaired.warnings == (
        "message 1, a result, was dropped, for its call 't1' is not there",
    )


def test_msg_09_results_of_every_call_of_a_message_follow_it_after_a_hand_off() -> None:
    hand_off = asks(call("t1", "lookup"), call("t2", "transfer"))
    repaired = valid_messages([user("?"), hand_off, answer("t2", "Over to B.", "transfer")])
    assert shape(repaired.messages) == ["user ?", "assistant t1+t2", "tool t1", "tool t2"]
    assert repaired.messages[2] == interrupted("t1", "lookup")


@pytest.mark.parametrize(
    "history",
    [
        [user("?"), asks(call("t1")), user("hi"), answer("t1")],
        [user("?"), answer("t1"), asks(call("t1")), user("hi")],
        [user("?"), asks(call("t1")), system("s"), answer("t1"), user("hi")],
    ],
)
def test_a_result_in_the_wrong_place_is_moved_directly_after_its_call(history: list[Any]) -> None:
    repaired = valid_messages(history)
    turns = [message for message in repaired.messages if message["role"] != "system"]
    assert turns == [user("?"), asks(call("t1")), answer("t1"), user("hi")]
    assert repaired.warnings == ()


def test_a_result_of_an_earlier_round_finds_its_call() -> None:
    history = [user("?"), asks(call("t1")), asks(call("t2")), answer("t1"), answer("t2")]
    repaired = valid_messages(history)
    assert shape(repaired.messages)[1:] == ["assistant t1", "tool t1", "assistant t2", "tool t2"]
    assert repaired.warnings == ()


def test_of_two_results_for_one_call_the_first_in_place_counts() -> None:
    history = [user("?"), asks(call("t1")), answer("t1", "one"), answer("t1", "two")]
    repaired = valid_messages(history)
    assert repaired.messages == history[:3]
    assert repaired.warnings == (
        "message 3, a result, was dropped, for its call 't1' has a result already",
    )


def test_ids_that_are_used_again_are_told_apart_and_keep_their_results() -> None:
    rounds = [asks(call("c0", x=1)), answer("c0", "1"), asks(call("c0", x=2)), answer("c0", "2")]
    repaired = valid_messages([user("?"), *rounds])
    first, result, second, other = repaired.messages[1:]
    assert (first, result) == (rounds[0], rounds[1])
    made = second["tool_calls"][0]["id"]
    assert len(made) == 9
    assert made.isalnum()
    assert second["tool_calls"][0] == {"id": made, "name": "search", "args": {"x": 2}}
    assert other == {**rounds[3], "tool_call_id": made}
    assert valid_messages([user("?"), *rounds]) == repaired
    assert repaired.warnings == ()


def test_a_displaced_result_of_an_id_that_was_used_twice_is_dropped() -> None:
    rounds = [asks(call("c0")), asks(call("c0")), answer("c0", "2"), answer("c0", "1")]
    repaired = valid_messages([user("?"), *rounds])
    assert [message["content"] for message in repaired.messages] == [
        "?",
        "",
        INTERRUPTED,
        "",
        "2",
    ]
    assert "is there more than once" in repaired.warnings[0]


def test_calls_without_ids_are_matched_by_name_and_order() -> None:
    calls = [call("", "add", x=1), call("", "look"), call("", "add", x=2)]
    results = [answer("", "1", "add"), answer("", "2", "add"), answer("", "seen", "look")]
    repaired = valid_messages([user("?"), asks(*calls), *results])
    texts = [message["content"] for message in repaired.messages[2:]]
    assert texts == ["1", "seen", "2"]
    ids = [call["id"] for call in repaired.messages[1]["tool_calls"]]
    assert [message["tool_call_id"] for message in repaired.messages[2:]] == ids
    assert len(set(ids)) == 3


def test_a_result_without_an_id_answers_the_call_of_its_name() -> None:
    asked = [user("?"), asks(call("t1", "look"), call("t2", "add"))]
    repaired = valid_messages([*asked, answer("", "2", "add"), {"role": "tool", "content": "seen"}])
    assert repaired.messages[2:] == [
        {"role": "tool", "content": "seen", "tool_call_id": "t1"},
        answer("t2", "2", "add"),
    ]
    stray = valid_messages([*asked, answer("", "2", "erase")])
    assert [message["content"] for message in stray.messages[2:]] == [INTERRUPTED] * 2
    assert "its call '' is not there" in stray.warnings[0]


def test_a_call_without_the_field_of_its_id_gets_one() -> None:
    asked = {"role": "assistant", "content": "", "tool_calls": [{"name": "search", "args": {}}]}
    repaired = valid_messages([user("?"), asked, answer("")])
    made = repaired.messages[1]["tool_calls"][0]["id"]
    assert made
    assert repaired.messages[2] == {**answer(""), "tool_call_id": made}


def test_one_id_for_every_call_of_a_message_is_told_apart_by_name() -> None:
    calls = [call("0", "lookup"), call("0", "transfer")]
    results = [answer("0", "over", "transfer"), answer("0", "seen", "lookup")]
    repaired = valid_messages([user("?"), asks(*calls), *results])
    assert [message["content"] for message in repaired.messages[2:]] == ["seen", "over"]


def test_ids_that_are_numbers_are_texts() -> None:
    asked = {"role": "assistant", "content": "", "tool_calls": [{"id": 7, "name": "f", "args": {}}]}
    result = {"role": "tool", "content": "ok", "tool_call_id": 7}
    repaired = valid_messages([user("?"), asked, result])
    assert shape(repaired.messages) == ["user ?", "assistant 7", "tool 7"]
    assert repaired.messages[2]["tool_call_id"] == "7"


@pytest.mark.parametrize("arguments", [[], ["a"], "{", "nonsense", "[1]", 3])
def test_fault_19_and_21_arguments_that_are_no_object_are_not_sent_again(arguments: Any) -> None:
    asked = {"id": "t1", "name": "f", "args": arguments, "extra": {"signature": "x"}}
    history = [user("?"), {"role": "assistant", "content": "", "tool_calls": [asked]}, answer("t1")]
    sent = valid_messages(history).messages[1]["tool_calls"][0]
    assert sent["args"] == {}
    assert sent["error"]
    assert sent["extra"] == {"signature": "x"}


@pytest.mark.parametrize("arguments", ["", None, "{}", '{"x": 1}', {}])
def test_fault_18_arguments_that_can_be_read_stay(arguments: Any) -> None:
    function = {"name": "f", "arguments": arguments}
    asked = {"id": "t1", "type": "function", "function": function, "extra_content": {"s": 1}}
    history = [user("?"), {"role": "assistant", "content": "", "tool_calls": [asked]}, answer("t1")]
    assert valid_messages(history).messages == history


def test_unknown_fields_of_a_call_that_must_be_rewritten_are_kept() -> None:
    asked = {"id": "t1", "function": {"name": "f", "arguments": "{"}, "extra_content": {"s": 1}}
    history = [user("?"), {"role": "assistant", "content": "", "tool_calls": [asked]}, answer("t1")]
    sent = valid_messages(history).messages[1]["tool_calls"][0]
    assert sent["extra"] == {"extra_content": {"s": 1}}


@pytest.mark.parametrize(
    "nameless",
    [*({"id": "t1", "name": name, "args": {}} for name in ("", " ")), {"id": "t1"}, None, 3],
)
def test_a_call_that_names_no_tool_is_dropped_with_its_result(nameless: Any) -> None:
    asked = {"role": "assistant", "content": "Hm.", "tool_calls": [nameless]}
    repaired = valid_messages([user("?"), asked, answer("t1")])
    assert repaired.messages == [user("?"), assistant("Hm.")]
    assert len(repaired.warnings) == 2


def test_a_server_that_writes_one_id_ten_thousand_times_costs_no_more() -> None:
    rounds = [message for _ in range(10_000) for message in (asks(call("0")), answer("0"))]
    repaired = valid_messages([user("?"), *rounds])
    assert len({message.get("tool_call_id") for message in repaired.messages}) == 10_001


# System texts, empty turns, contents, roles.


def test_msg_04_a_system_text_in_the_middle_joins_the_one_at_the_start() -> None:
    history = [system("be brief"), user("hi"), assistant("yes"), system("site=7"), user("and?")]
    repaired = valid_messages(history)
    assert repaired.messages == [
        system("be brief\n\nsite=7"),
        user("hi"),
        assistant("yes"),
        user("and?"),
    ]


def test_msg_05_a_system_text_that_is_there_four_times_is_said_once() -> None:
    history = [message for _ in range(4) for message in (system("be brief"), user("hi"))]
    sent = valid_messages(history).messages
    assert sent[0] == system("be brief")
    assert [message["role"] for message in sent] == ["system", *["user"] * 4]


def test_the_developer_is_the_system() -> None:
    sent = valid_messages([{"role": "developer", "content": "be brief"}, user("hi")]).messages
    assert sent == [system("be brief"), user("hi")]


def test_an_empty_system_text_is_not_sent() -> None:
    assert valid_messages([system(""), user("hi"), system("")]).messages == [user("hi")]


@pytest.mark.parametrize(
    "content",
    ["", "  \n", None, [], [{"type": "text", "text": " "}], ()],
)
def test_fault_23_an_empty_turn_of_the_assistant_is_dropped(content: Any) -> None:
    repaired = valid_messages([user("hi"), {"role": "assistant", "content": content}, user("Hm?")])
    assert repaired.messages == [user("hi"), user("Hm?")]
    assert repaired.warnings == (
        "message 1, a turn of the assistant without text and calls, was dropped",
    )


def test_fault_22_no_content_beside_calls_is_an_empty_text() -> None:
    without = {name: value for name, value in asks(call("t1")).items() if name != "content"}
    for asked in ({**without, "content": None}, without):
        sent = valid_messages([user("?"), asked, answer("t1")]).messages
        assert sent[1] == asks(call("t1"))


def test_fault_24_the_reasoning_behind_calls_stays() -> None:
    asked = assistant("", [call("t1")], thinking="Hm, let me look.")
    assert valid_messages([user("?"), asked]).messages[1] is asked


def test_fault_35_what_says_nothing_leaves_an_empty_conversation() -> None:
    for alternating in (False, True):
        assert valid_messages([], alternating=alternating).messages == []
        nothing = valid_messages([assistant(""), answer("t1")], alternating=alternating)
        assert nothing.messages == []
        assert len(nothing.warnings) == 2


def test_results_that_are_lists_of_texts_become_texts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    image = [*parts, {"type": "image_url", "image_url": {"url": "data:,"}}]
    for content, sent in ((parts, "a\nb"), (["a", "b"], "a\nb"), (None, ""), (image, image)):
        history = [user("?"), asks(call("t1")), {**answer("t1"), "content": content}]
        assert valid_messages(history).messages[2] == {**answer("t1"), "content": sent}


def test_content_lists_are_lists_of_parts() -> None:
    part = {"type": "text", "text": "b"}
    sent = valid_messages([{"role": "user", "content": ("a", part)}]).messages
    assert sent == [{"role": "user", "content": [{"type": "text", "text": "a"}, part]}]


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([user("hi"), {"role": "usr", "content": "x"}], r"message 1 has the role 'usr'.*'user'\?"),
        ([{"role": "User", "content": "x"}], r"'User'.*Did you mean 'user'\?"),
        ([{"content": "x"}], "message 0 has the role None"),
        ([{"role": ["user"], "content": "x"}], "message 0 has the role"),
        (["hi"], "message 0 must be a dict with role and content, not str"),
        ([None], "message 0 must be a dict"),
        ([{"role": "user", "content": 3}], "message 0 must have a text or a list .* not int"),
        ([{"role": "user", "content": {"text": "x"}}], "not dict"),
        ([{"role": "user", "content": b"x"}], "not bytes"),
        ([{"role": "user", "content": [3]}], "not a list of other things"),
        ([{"role": "assistant", "content": "", "tool_calls": {"id": "t"}}], "a list as tool_calls"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(messages: list[Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        valid_messages(messages)
    assert caught.value.path.startswith("messages[")


# Servers that want the turns to alternate.


def test_msg_07_neighbours_are_joined_and_the_user_has_the_last_word() -> None:
    repaired = valid_messages([user("Go."), assistant("A"), assistant("B")], alternating=True)
    assert repaired.messages == [user("Go."), assistant("A\n\nB"), user(CONTINUE)]
    assert repaired.warnings == (
        "the conversation ended with the assistant: 'Continue.' was added",
    )


def test_msg_07_servers_that_do_not_mind_get_what_was_said() -> None:
    history = [user("Go."), assistant("A"), assistant("B")]
    assert valid_messages(history).messages == history


def test_the_user_has_the_first_word_after_the_system() -> None:
    repaired = valid_messages([system("s"), assistant("Welcome!"), user("hi")], alternating=True)
    assert repaired.messages == [system("s"), user(CONTINUE), assistant("Welcome!"), user("hi")]
    assert valid_messages([system("s")], alternating=True).messages == [system("s"), user(CONTINUE)]


def test_joining_keeps_calls_reasoning_and_the_parts_of_lists() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    history = [
        user("Look:"),
        user(""),
        {"role": "user", "content": [image], "name": "ann"},
        assistant("I will.", thinking="one"),
        assistant("Now.", [call("t1")], thinking="two"),
        answer("t1"),
        user("And?"),
    ]
    repaired = valid_messages(history, alternating=True)
    assert repaired.messages == [
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
        assistant("I will.\n\nNow.", [call("t1")], thinking="one\n\ntwo"),
        answer("t1"),
        user("And?"),
    ]


def test_turns_that_become_neighbours_by_a_repair_are_joined() -> None:
    history = [user("a"), assistant(""), user("b"), answer("t9"), user("c")]
    assert valid_messages(history, alternating=True).messages == [user("a\n\nb\n\nc")]


def test_tool_results_are_the_users_side() -> None:
    rounds = [user("?"), asks(call("t1")), answer("t1"), asks(call("t2")), answer("t2")]
    repaired = valid_messages(rounds, alternating=True)
    assert all(one is other for one, other in zip(repaired.messages, rounds, strict=True))


# What it costs, and what it leaves alone.


def long_conversation(rounds: int) -> list[Any]:
    talk: list[Any] = [system("s")]
    for number in range(rounds):
        talk += [user(f"{number}?"), asks(call(f"t{number}")), answer(f"t{number}")]
        talk.append(assistant("So."))
    return [*talk, user("And?")]


@pytest.mark.parametrize("alternating", [False, True])
def test_a_conversation_that_is_right_is_handed_on_as_it_is(alternating: bool) -> None:
    history = long_conversation(2_500)
    repaired = valid_messages(history, alternating=alternating)
    assert repaired.messages is not history
    assert all(one is other for one, other in zip(repaired.messages, history, strict=True))
    assert repaired.warnings == ()


def test_messages_of_a_broken_conversation_that_are_right_are_handed_on_too() -> None:
    history = [*long_conversation(3), asks(call("last"))]
    repaired = valid_messages(history)
    assert all(one is other for one, other in zip(repaired.messages, history, strict=False))
    assert repaired.messages[len(history) :] == [interrupted("last")]


def test_nothing_that_was_given_is_changed() -> None:
    history = [assistant("A"), assistant("B"), asks(call("0"), call("0")), answer("x"), system("s")]
    before = copy.deepcopy(history)
    valid_messages(freeze(history), alternating=True)
    valid_messages(tuple(history), alternating=True)
    valid_messages(history, alternating=True)
    assert history == before


def test_a_repaired_conversation_can_be_written_as_json() -> None:
    history = freeze([asks(call("0"), call("0")), answer("0"), {"role": "user", "content": ["a"]}])
    sent = valid_messages(history, alternating=True).messages
    assert json.loads(json.dumps(sent)) == sent
