"""Whatever the history holds, what goes out is a conversation that servers take."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ContextLimitError
from teff.harness.repair import CONTINUE, valid_messages
from teff.harness.trim import estimate_tokens, trim_messages
from teff.messages import message_text

# An independent reading of what servers accept.


def faults(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what a server would refuse."""
    found = []
    turns = list(messages)
    if turns and turns[0]["role"] == "system":
        found += [] if turns.pop(0)["content"] else ["an empty system text"]
    found += [f"role {turn['role']}" for turn in turns if turn["role"] not in TURNS]
    for message in messages:
        if not isinstance(message["content"], str | list) or message["content"] == []:
            found.append(f"content {message['content']!r}")
    ids = [call["id"] for turn in turns for call in turn.get("tool_calls") or ()]
    if len(ids) != len(set(ids)) or not all(isinstance(one, str) and one for one in ids):
        found.append(f"ids {ids}")
    place = 0
    while place < len(turns):
        turn = turns[place]
        calls = (turn.get("tool_calls") or []) if turn["role"] == "assistant" else []
        results = turns[place + 1 : place + 1 + len(calls)]
        if [call["id"] for call in calls] != [one.get("tool_call_id") for one in results]:
            found.append(f"calls {calls} and {results}")
        if turn["role"] == "tool":
            found.append(f"an orphan {turn}")
        if turn["role"] == "assistant" and not calls and not says_anything(turn["content"]):
            found.append("an empty turn")
        for call in calls:
            function = call.get("function", call)
            if not function["name"] or function.get("args", function.get("arguments")) in BROKEN:
                found.append(f"call {call}")
        place += 1 + len(calls)
    return found


def says_anything(content: object) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    assert isinstance(content, list)
    return any("image_url" in part or part.get("text", "").strip() for part in content)


def alternates(messages: Sequence[Mapping[str, Any]]) -> bool:
    roles = "".join(message["role"][0] for message in messages if message["role"] != "system")
    return re.fullmatch(r"u(at*u?)*", roles) is not None and not roles.endswith("a")


TURNS = ("user", "assistant", "tool")
BROKEN = ("{", [1], 3, "[]")

# Histories, whole and broken.

ids = st.sampled_from(["t1", "t2", "t3", ""])
tool_names = st.sampled_from(["look", "add"])
texts = st.sampled_from(["", " ", "yes", "no."])
parts = st.sampled_from(
    [
        {"type": "text", "text": "part"},
        {"type": "text", "text": ""},
        {"type": "image_url", "image_url": {"url": "data:,"}},
        "bare",
    ]
)
contents = texts | st.none() | st.lists(parts, max_size=3)
arguments = st.sampled_from([{}, {"x": 1}, '{"x": 1}', "", None, *BROKEN])
stored = st.fixed_dictionaries(
    {"name": tool_names | st.just(""), "args": arguments}, optional={"id": ids | st.none()}
)
written = st.builds(
    lambda call_id, name, arguments: {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    ids,
    tool_names,
    arguments,
)
calls = st.lists(stored | written, max_size=3) | st.none()
messages = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer"]), "content": contents}),
    st.fixed_dictionaries(
        {"role": st.just("user")}, optional={"content": contents, "name": st.just("ann")}
    ),
    st.fixed_dictionaries(
        {"role": st.just("assistant")},
        optional={"content": contents, "tool_calls": calls, "thinking": st.just("hm")},
    ),
    st.fixed_dictionaries(
        {"role": st.just("tool")},
        optional={"content": contents, "tool_call_id": ids | st.none(), "name": tool_names},
    ),
)
histories = st.lists(messages, max_size=10)


@given(histories, st.booleans())
def test_what_goes_out_is_valid(history: list[Any], alternating: bool) -> None:
    sent = valid_messages(history, alternating=alternating).messages
    assert faults(sent) == []
    assert not alternating or not sent or alternates(sent)


@given(histories, st.booleans())
def test_repairing_twice_is_repairing_once(history: list[Any], alternating: bool) -> None:
    once = valid_messages(history, alternating=alternating).messages
    twice = valid_messages(once, alternating=alternating)
    assert all(one is other for one, other in zip(twice.messages, once, strict=True))
    assert twice.warnings == ()


@given(histories, st.booleans())
def test_a_history_is_read_and_never_written(history: list[Any], alternating: bool) -> None:
    before = copy.deepcopy(history)
    first = valid_messages(history, alternating=alternating)
    assert history == before
    assert valid_messages(history, alternating=alternating) == first


@given(histories)
def test_a_valid_history_is_told_from_a_broken_one(history: list[Any]) -> None:
    sent = valid_messages(history).messages
    unchanged = len(sent) == len(history) and all(
        one is other for one, other in zip(sent, history, strict=True)
    )
    whole = all("content" in message for message in history)
    assert not unchanged or (whole and faults(history) == [])


@given(st.lists(messages.filter(lambda message: message["role"] != "system")), st.booleans())
def test_no_word_of_the_user_or_the_assistant_is_lost(
    history: list[Any], alternating: bool
) -> None:
    for number, message in enumerate(history):
        if message["role"] in ("user", "assistant"):
            message["content"] = f"<{number}>"
    sent = valid_messages(history, alternating=alternating).messages
    for role in ("user", "assistant"):
        said = " ".join(message_text(message) for message in sent if message["role"] == role)
        expected = [message["content"] for message in history if message["role"] == role]
        assert re.findall(r"<\d+>", said) == expected
        assert not re.sub(r"<\d+>", "", said.replace(CONTINUE, "")).strip()


@given(histories)
def test_no_result_is_given_to_a_call_of_another_id_or_name(history: list[Any]) -> None:
    for number, message in enumerate(history):
        if message["role"] == "tool":
            message["content"] = f"<{number}>"
    sent = valid_messages(history).messages
    given = [message["content"] for message in sent if message["role"] == "tool"]
    kept = [text for text in given if text.startswith("<")]
    assert len(kept) == len(set(kept))
    called = {
        call["id"]: call.get("function", call)["name"]
        for message in sent
        if message["role"] == "assistant"
        for call in message.get("tool_calls") or ()
    }
    for message in sent:
        if message["role"] == "tool" and message["content"] in kept:
            original = history[int(message["content"][1:-1])]
            if not original.get("tool_call_id") and original.get("name"):
                waiting = called[message["tool_call_id"]]
                assert waiting == original["name"] or _one_without_id(history)


def _one_without_id(history: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether exactly one call has no id, which then is the one a result without id answers."""
    found = [
        call
        for message in history
        if message["role"] == "assistant"
        for call in message.get("tool_calls") or ()
        if not call.get("id") and call.get("function", call)["name"]
    ]
    return len(found) == 1


# Trimming.

bounds = st.none() | st.integers(1, 12)


@given(histories, st.booleans(), bounds, st.none() | st.integers(10, 200))
def test_a_trimmed_conversation_is_valid_and_within_its_bounds(
    history: list[Any], alternating: bool, max_messages: int | None, max_tokens: int | None
) -> None:
    whole = valid_messages(history, alternating=alternating).messages
    least = trim_messages(whole, max_messages=1)
    needed = estimate_tokens(least)
    if max_tokens is not None and needed > max_tokens:
        with pytest.raises(ContextLimitError) as caught:
            trim_messages(whole, max_messages=max_messages, max_tokens=max_tokens)
        assert (caught.value.tokens, caught.value.limit) == (needed, max_tokens)
        return
    trimmed = trim_messages(whole, max_messages=max_messages, max_tokens=max_tokens)
    assert faults(trimmed) == []
    assert not alternating or not trimmed or alternates(trimmed)
    assert max_tokens is None or estimate_tokens(trimmed) <= max_tokens
    if max_messages is not None:
        assert turns(trimmed) <= max(max_messages, turns(least))
    places = [
        next(place for place, one in enumerate(whole) if one is message) for message in trimmed
    ]
    assert places == sorted(set(places))
    kept = {id(message) for message in trimmed}
    assert kept >= {id(message) for message in least}
    users = [message for message in whole if message["role"] == "user"]
    systems = [message for message in whole if message["role"] == "system"]
    assert kept >= {id(message) for message in [*systems, *users[-1:]]}


def turns(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(message["role"] != "system" for message in messages)


@given(histories, bounds, st.integers(10, 200))
def test_trimming_twice_is_trimming_once_and_more_room_keeps_more(
    history: list[Any], max_messages: int | None, max_tokens: int
) -> None:
    whole = valid_messages(history).messages
    try:
        once = trim_messages(whole, max_messages=max_messages, max_tokens=max_tokens)
    except ContextLimitError:
        return
    assert trim_messages(once, max_messages=max_messages, max_tokens=max_tokens) == once
    wider = trim_messages(whole, max_messages=max_messages, max_tokens=max_tokens + 50)
    assert len(wider) >= len(once)
    assert trim_messages(whole, max_messages=len(whole), max_tokens=100_000) == whole


@given(histories, bounds, st.integers(10, 200))
def test_any_history_can_be_trimmed_before_it_is_repaired(
    history: list[Any], max_messages: int | None, max_tokens: int
) -> None:
    before = copy.deepcopy(history)
    try:
        trimmed = trim_messages(history, max_messages=max_messages, max_tokens=max_tokens)
    except ContextLimitError:
        return
    assert history == before
    assert estimate_tokens(trimmed) <= max_tokens


@given(st.text(), st.text())
def test_the_estimate_grows_with_the_text_and_is_nearly_additive(one: str, other: str) -> None:
    def tokens(text: str) -> int:
        return estimate_tokens([{"role": "user", "content": text}])

    assert tokens(one) <= tokens(one + other) <= tokens(one) + tokens(other)
    assert tokens(one) <= 8 + len(one)
