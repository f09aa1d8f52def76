from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.graph import Graph
from teff.messages import assistant, user
from teff.node.context_builder import ContextBuilder
from teff.runtime import ExecContext
from teff.state import Overwrite


def text_of(state: dict[str, Any], sections: dict[str, str], **given: Any) -> str:
    node = ContextBuilder(sections=sections, **given)
    found = asyncio.run(node.execute(ExecContext(), state))[node.output_key]
    assert isinstance(found, str)
    return found


def test_sections_and_the_last_user_message_are_blocks_with_blank_lines_between() -> None:
    state = {
        "plan": "1. look\n2. answer",
        "facts": "none yet",
        "messages": [user("first"), assistant("hm"), user("second"), assistant("yes")],
    }
    assert text_of(state, {"facts": "Facts", "plan": "The plan"}) == (
        "Facts:\nnone yet\n\nThe plan:\n1. look\n2. answer\n\nUser: second"
    )


@pytest.mark.parametrize("empty", [None, "", [], {}])
def test_what_is_not_filled_is_left_out(empty: object) -> None:
    state = {"plan": empty, "messages": [user("hi")]}
    assert text_of(state, {"plan": "Plan", "missing": "Missing"}) == "User: hi"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (False, "false"),
        (1.5, "1.5"),
        (["a", 1], '["a", 1]'),
        ({"ü": None}, '{"ü": null}'),
        ("{plan}", "{plan}"),
    ],
)
def test_zero_and_false_are_shown_and_values_that_are_no_text_stand_as_json(
    value: object, shown: str
) -> None:
    assert text_of({"plan": value}, {"plan": "Plan"}) == f"Plan:\n{shown}"


def test_an_empty_label_leaves_the_value_alone() -> None:
    assert text_of({"plan": "look"}, {"plan": ""}) == "look"


@pytest.mark.parametrize("messages", [None, [], "text", [assistant("hi")], [{"role": "user"}], [3]])
def test_without_a_user_message_there_is_no_user_line(messages: object) -> None:
    assert text_of({"messages": messages}, {}) == ""


def test_the_conversation_may_be_elsewhere_or_left_out() -> None:
    state = {"chat": [user("here")], "messages": [user("there")]}
    assert text_of(state, {}, messages_key="chat", output_key="ask") == "User: here"
    assert text_of(state, {}, messages_key="") == ""


@pytest.mark.parametrize("reducer", ["override", "append", "keep"])
def test_reset_keys_become_empty_lists_whatever_their_reducer(reducer: str) -> None:
    node = ContextBuilder(reset_keys=["scratch", "draft"])
    run = Graph({"it": node}, [], "it").run(
        {"scratch": ["old"], "draft": "old", "messages": [user("hi")]},
        reducers={"scratch": reducer, "draft": reducer},
    )
    state = asyncio.run(run)

    assert (state["scratch"], state["draft"], state["input"]) == ([], [], "User: hi")


def test_a_reset_key_that_is_also_a_section_is_shown_before_it_is_reset() -> None:
    node = ContextBuilder(sections={"draft": "Draft"}, reset_keys=["draft"])
    updates = asyncio.run(node.execute(ExecContext(), {"draft": "old"}))
    assert updates == {"draft": Overwrite([]), "input": "Draft:\nold"}


def test_the_text_wins_where_the_output_key_is_reset_too() -> None:
    node = ContextBuilder(reset_keys=["input"])
    updates = asyncio.run(node.execute(ExecContext(), {"messages": [user("hi")]}))
    assert updates == {"input": "User: hi"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"section": {}}, "unknown option 'section'.*'sections'"),
        ({"sections": ["plan"]}, "'sections' must be"),
        ({"reset_keys": "draft"}, "'reset_keys' must be"),
        ({"output_key": ""}, "output_key is empty"),
    ],
)
def test_options_that_do_not_fit_are_refused_when_the_node_is_made(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ContextBuilder(given)


def test_it_says_which_keys_it_reads_and_writes() -> None:
    node = ContextBuilder(sections={"plan": "Plan"}, reset_keys=["draft", "input"])
    assert list(node.reads()) == ["plan", "messages"]
    assert list(node.writes()) == ["input", "draft"]
