"""Conversations cut to a length."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from teff.errors import ContextLimitError, TeffError
from teff.harness.trim import estimate_tokens, trim_messages
from teff.messages import Message, ToolCall, assistant, system, tool_result, user
from teff.provider import ToolSpec
from teff.state import freeze


def tool_round(id: str, text: str = "found") -> list[Message]:
    call = ToolCall(id=id, name="search")
    return [assistant("", [call]), tool_result(call, text)]


MSG_02 = [
    system("s"),
    user("Find it."),
    *tool_round("t1"),
    assistant("Here."),
    user("Thanks."),
    assistant("Welcome."),
]


def room_for(*messages: Message) -> int:
    return estimate_tokens(messages)


def test_without_bounds_all_is_kept() -> None:
    trimmed = trim_messages(MSG_02)
    assert trimmed == MSG_02
    assert trimmed is not MSG_02


@pytest.mark.parametrize(
    ("bound", "first"),
    [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5), (6, 1), (7, 1), (100, 1)],
)
def test_msg_02_no_cut_falls_between_a_call_and_its_result(bound: int, first: int) -> None:
    trimmed = trim_messages(MSG_02, max_messages=bound)
    kept = MSG_02[first:] if bound > 1 else [MSG_02[5]]
    assert trimmed == [MSG_02[0], *kept]


def test_msg_02_by_tokens_too_the_newest_exchanges_stay() -> None:
    whole = room_for(*MSG_02)
    assert trim_messages(MSG_02, max_tokens=whole) == MSG_02
    assert trim_messages(MSG_02, max_tokens=whole - 1) == [MSG_02[0], *MSG_02[5:]]
    least = room_for(MSG_02[0], *MSG_02[5:])
    assert trim_messages(MSG_02, max_tokens=least) == [MSG_02[0], *MSG_02[5:]]


def test_both_bounds_hold() -> None:
    talk = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    assert trim_messages(talk, max_messages=3, max_tokens=room_for(*talk)) == talk[2:]
    assert trim_messages(talk, max_messages=5, max_tokens=room_for(*talk[2:])) == talk[2:]


def test_no_older_exchange_jumps_over_one_that_is_too_long() -> None:
    talk = [user("short"), assistant("x"), user("long"), assistant("y" * 4_000), user("z")]
    assert trim_messages(talk, max_tokens=900) == talk[4:]
    talk[1], talk[3] = assistant("x" * 4_000), assistant("y")
    assert trim_messages(talk, max_tokens=900) == talk[2:]


def test_a_long_exchange_is_cut_between_its_rounds_and_keeps_the_question() -> None:
    rounds = [tool_round(f"t{number}") for number in range(5)]
    talk = [user("old"), assistant("x"), user("?"), *(part for one in rounds for part in one)]
    assert trim_messages(talk, max_messages=6) == [talk[2], *rounds[3], *rounds[4]]
    bound = room_for(talk[2], *rounds[3], *rounds[4])
    assert trim_messages(talk, max_tokens=bound) == [talk[2], *rounds[3], *rounds[4]]


def test_results_that_the_model_is_to_read_now_are_never_cut() -> None:
    talk = [user("?"), *tool_round("t1"), *tool_round("t2", "x" * 4_000)]
    assert trim_messages(talk, max_messages=1) == [talk[0], *talk[3:]]
    with pytest.raises(ContextLimitError, match="the tool results after it"):
        trim_messages(talk, max_tokens=200)


def test_parallel_results_stay_together() -> None:
    calls = [ToolCall(id=f"t{number}", name="f") for number in range(3)]
    results = [tool_result(call, "ok") for call in calls]
    talk = [user("?"), assistant("", calls), *results, *tool_round("t9")]
    assert trim_messages(talk, max_messages=6) == [talk[0], *talk[5:]]


def test_the_system_text_is_kept_wherever_it_stands() -> None:
    talk = [user("a"), assistant("b"), system("s"), user("c"), assistant("d")]
    assert trim_messages(talk, max_messages=2) == talk[2:]
    developer = [*talk[:2], {"role": "developer", "content": "s"}, *talk[3:]]
    assert trim_messages(developer, max_messages=2) == developer[2:]


def test_a_conversation_without_the_user_keeps_its_newest_turn() -> None:
    talk = [system("s"), assistant("a"), *tool_round("t1"), assistant("b")]
    assert trim_messages(talk, max_messages=1) == [talk[0], talk[4]]
    assert trim_messages(talk[:4], max_messages=1) == [talk[0], *talk[2:4]]
    assert trim_messages([], max_messages=1, max_tokens=1) == []
    assert trim_messages([system("s")], max_messages=1, max_tokens=100) == [system("s")]


def test_what_must_be_sent_and_is_too_long_is_refused_with_the_numbers() -> None:
    talk = [system("s" * 400), user("u" * 400)]
    needed = room_for(*talk)
    assert trim_messages(talk, max_tokens=needed) == talk
    with pytest.raises(ContextLimitError) as caught:
        trim_messages([user("old"), *talk], max_tokens=needed - 1)
    error = caught.value
    assert (error.tokens, error.limit) == (needed, needed - 1)
    assert str(error) == (
        f"what must be sent is about {needed} tokens long, and may be {needed - 1}: the system "
        "text, the tools, the user's last message and the tool results after it. Shorten them, or "
        "raise the bound (max_context_tokens)."
    )
    assert isinstance(error, TeffError)
    assert isinstance(error, ValueError)
    assert copy.copy(error).tokens == needed


def test_tools_take_room_too() -> None:
    tools = [ToolSpec(name="search", description="d" * 400)]
    talk = [user("a"), assistant("b"), user("c")]
    bound = estimate_tokens(talk[2:], tools=tools)
    assert bound > room_for(talk[2]) + 100
    assert trim_messages(talk, max_tokens=bound, tools=tools) == talk[2:]
    with pytest.raises(ContextLimitError):
        trim_messages(talk, max_tokens=bound - 1, tools=tools)


@pytest.mark.parametrize("kind", [tuple, freeze])
def test_nothing_that_was_given_is_changed(kind: Callable[[Any], Any]) -> None:
    before = copy.deepcopy(MSG_02)
    trimmed = trim_messages(kind(MSG_02), max_messages=2)
    assert trimmed == [MSG_02[0], *MSG_02[5:]]
    assert before == MSG_02


# The estimate.


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("ab de", 2),
        ("包裹", 2),
        ("ok 包裹", 3),
        ("é", 1),
        ("2026", 4),
        ('{"a": 1}', 7),
    ],
)
def test_four_letters_or_one_other_character_are_a_token(text: str, tokens: int) -> None:
    assert estimate_tokens([user(text)]) - estimate_tokens([user("")]) == tokens


def test_everything_that_is_sent_counts() -> None:
    bare = estimate_tokens([assistant("hi")])
    call = ToolCall(id="t1", name="search", arguments={"query": "x" * 400})
    assert estimate_tokens([assistant("hi", [call])]) > bare + 100
    assert estimate_tokens([assistant("hi", thinking="x" * 400)]) == bare + 100
    assert estimate_tokens([{"role": "user", "content": "hi", "name": "a" * 400}]) == bare + 100
    assert estimate_tokens([tool_result(call, "hi")]) == bare + 2 + 2
    assert estimate_tokens([assistant("hi")] * 3) == 3 * bare
    assert estimate_tokens([]) == 0
    assert estimate_tokens([{"role": "assistant", "content": None}]) == bare - 1


def test_images_are_a_constant_and_parts_are_counted_as_their_texts() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    text = {"type": "text", "text": "x" * 400}
    bare = estimate_tokens([user("")])
    assert estimate_tokens([{"role": "user", "content": [text, "abcd"]}]) == bare + 101
    assert estimate_tokens([{"role": "user", "content": [image, image]}]) == bare + 3_000


def test_lone_surrogates_and_odd_values_are_counted_and_not_refused() -> None:
    odd = [
        user("\ud800"),
        {"role": "user", "content": 3},
        {"role": "assistant", "content": "", "tool_calls": [None, {"args": {1}}]},
    ]
    assert estimate_tokens(odd) > 24
