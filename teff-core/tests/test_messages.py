from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.messages import (
    ModelUsage,
    ToolCall,
    Usage,
    assistant,
    last_assistant_message,
    last_user_message,
    message_text,
    read_arguments,
    system,
    tool_result,
    user,
)
from teff.state import freeze

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(), json_values, max_size=4)
CALL = ToolCall(id="c1", name="find", arguments={"city": "Rīga"})

# Messages


def test_messages_have_the_shape_of_the_chat_format() -> None:
    assert system("Be brief.") == {"role": "system", "content": "Be brief."}
    assert user("Hi") == {"role": "user", "content": "Hi"}
    assert assistant("Hello") == {"role": "assistant", "content": "Hello"}
    assert assistant("", [CALL]) == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "name": "find", "args": {"city": "Rīga"}}],
    }
    assert tool_result(CALL, "sunny") == {
        "role": "tool",
        "content": "sunny",
        "tool_call_id": "c1",
        "name": "find",
    }


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "hi"}, "hi"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"content": [{"type": "image_url", "image_url": {}}, {"text": "b"}]}, "b"),
        ({"content": [{"text": 3}, "loose", None]}, ""),
        ({"content": None}, ""),
        ({"content": {"text": "a"}}, ""),
        ({"content": 5}, ""),
        ({}, ""),
        ("hi", ""),
        (None, ""),
    ],
)
def test_the_text_of_a_message(message: object, text: str) -> None:
    assert message_text(message) == text
    assert message_text(freeze(message)) == text


def test_the_last_message_of_a_role_that_has_text() -> None:
    messages = [user("one"), assistant("two"), user("three"), assistant("", [CALL]), user("")]
    assert last_user_message(messages) == "three"
    assert last_assistant_message(messages) == "two"
    assert last_user_message(freeze(messages)) == "three"
    assert last_user_message(tuple(messages)) == "three"


@pytest.mark.parametrize("messages", [None, "user", b"user", 3, {}, [], [None, 3, "x", {}]])
def test_what_is_no_list_of_messages_has_no_last_message(messages: object) -> None:
    assert last_user_message(messages) == ""
    assert last_assistant_message(messages) == ""


# Tool calls


@given(st.text(), st.text(), arguments, arguments)
def test_a_tool_call_comes_back_from_its_json_form(
    id: str, name: str, given: dict[str, Any], extra: dict[str, Any]
) -> None:
    call = ToolCall(id=id, name=name, arguments=given, extra=extra)
    stored = json.loads(json.dumps(call.to_json()))
    assert ToolCall.from_json(stored) == call
    assert ToolCall.from_json(freeze(stored)) == call


def test_an_error_comes_back_too() -> None:
    call = ToolCall(id="c", name="find", error="the arguments are not whole JSON")
    assert ToolCall.from_json(call.to_json()) == call
    assert "error" not in CALL.to_json()
    assert "extra" not in CALL.to_json()


@pytest.mark.parametrize(
    "data",
    [
        {"id": "c1", "name": "find", "args": {"city": "Rīga"}},
        {"id": "c1", "name": "find", "args": '{"city": "Rīga"}'},
        {"id": "c1", "name": "find", "arguments": '{"city": "Rīga"}'},
        {"id": "c1", "function": {"name": "find", "arguments": '{"city": "Rīga"}'}},
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "find", "arguments": {"city": "Rīga"}},
        },
    ],
)
def test_tool_calls_are_read_in_every_form_servers_write_them(data: dict[str, Any]) -> None:
    assert ToolCall.from_json(data) == CALL


def test_a_call_without_id_name_or_arguments_is_read_with_empty_ones() -> None:
    assert ToolCall.from_json({"id": None}) == ToolCall(id="", name="")
    assert ToolCall.from_json({"function": {}}) == ToolCall(id="", name="")


@given(arguments)
def test_arguments_are_read_from_an_object_and_from_its_text(given: dict[str, Any]) -> None:
    assert read_arguments(given) == (given, "")
    assert read_arguments(freeze(given)) == (given, "")
    assert read_arguments(json.dumps(given)) == (given, "")
    assert type(read_arguments(freeze(given))[0]) is dict


@pytest.mark.parametrize("raw", [None, "", " \n"])
def test_nothing_is_no_arguments(raw: object) -> None:
    assert read_arguments(raw) == ({}, "")


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        ('{"city": "Rig', "not whole JSON: Unterminated string starting at character 10"),
        ("{'city': 1}", "not whole JSON: .* at character 2"),
        ("find", "not whole JSON"),
        ('{"a": 1} {"b": 2}', "not whole JSON"),
        ('["Rīga"]', "must be a JSON object, not list"),
        ("null", "must be a JSON object, not NoneType"),
        ('"{}"', "must be a JSON object, not str"),
        (["Rīga"], "must be a JSON object, not list"),
        (5, "must be a JSON object, not int"),
        ('{"n": NaN}', "NaN is no JSON value"),
        ('{"n": -Infinity}', "-Infinity is no JSON value"),
        ('{"n": 1e999}', "1e999 is too great a number"),
        ("[" * 100_000, "nested too deeply|not whole JSON"),
    ],
)
def test_arguments_that_are_no_whole_object_say_what_is_wrong(raw: object, error: str) -> None:
    read, problem = read_arguments(raw)
    assert read == {}
    assert re.search(error, problem), problem


@given(st.text() | st.binary() | st.none() | st.integers() | st.lists(st.integers()))
def test_reading_arguments_never_raises(raw: object) -> None:
    read, problem = read_arguments(raw)
    assert isinstance(read, dict)
    assert not (read and problem)


# Usage


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (ModelUsage(prompt_tokens=3, completion_tokens=2, total_tokens=6), 6),
        (ModelUsage(prompt_tokens=3, completion_tokens=2), 5),
        (ModelUsage(prompt_tokens=3), 3),
        (ModelUsage(total_tokens=0, prompt_tokens=3), 0),
        (ModelUsage(), 0),
    ],
)
def test_the_total_is_what_the_server_said_or_the_sum(usage: ModelUsage, total: int) -> None:
    assert usage.total == total
    assert ModelUsage(**usage.to_json()) == usage


counts = st.none() | st.integers(0, 1000)
answers = st.lists(
    st.tuples(
        st.sampled_from(["openai/a", "ollama/b"]),
        st.builds(ModelUsage, prompt_tokens=counts, completion_tokens=counts, total_tokens=counts),
    )
)


@given(answers)
def test_the_counts_of_the_models_add_up_to_those_of_the_run(
    answered: list[tuple[str, ModelUsage]],
) -> None:
    usage = Usage()
    for model, used in answered:
        usage.add_model_tokens(model, used)

    assert usage.total_tokens == sum(used.total for _, used in answered)
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(usage, name) == sum(entry[name] for entry in usage.by_model.values())
    assert sum(entry["model_calls"] for entry in usage.by_model.values()) == len(answered)
    assert Usage.from_json(json.loads(json.dumps(usage.to_json()))) == usage


def test_usage_that_was_stored_is_not_shared() -> None:
    usage = Usage()
    usage.add_model_tokens("ollama/b", ModelUsage(total_tokens=1))
    stored = usage.to_json()
    again = Usage.from_json(freeze(stored))
    again.add_model_tokens("ollama/b", ModelUsage(total_tokens=1))

    assert usage.by_model["ollama/b"]["total_tokens"] == 1
    assert stored["by_model"]["ollama/b"]["total_tokens"] == 1
    assert again.total_tokens == 2


def test_usage_of_an_older_or_newer_version_is_read() -> None:
    assert Usage.from_json({"model_calls": 2, "unheard_of": 1}) == Usage(model_calls=2)
