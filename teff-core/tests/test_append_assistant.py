from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.errors import ConfigError, StateError
from teff.graph import Edge, Graph
from teff.messages import assistant, user
from teff.node.append_assistant import AppendAssistant
from teff.runtime import ExecContext


def run(state: dict[str, Any], **given: Any) -> dict[str, Any]:
    return dict(asyncio.run(Graph({"it": AppendAssistant()}, [], "it").run(state, **given)))


@pytest.mark.parametrize("reducers", [{}, {"messages": "append"}, {"messages": "override"}])
def test_the_answer_is_added_and_the_conversation_stays(reducers: dict[str, str]) -> None:
    after = run({"messages": [user("Where is it?")], "draft": "On its way."}, reducers=reducers)
    assert after["messages"] == [user("Where is it?"), assistant("On its way.")]


def test_the_user_message_survives_several_agents_without_a_reducer() -> None:
    graph = Graph(
        {"a": AppendAssistant(output_key="plan"), "b": AppendAssistant(output_key="code")},
        [Edge("a", "b")],
        "a",
    )
    state = asyncio.run(graph.run({"messages": [user("go")], "plan": "p", "code": "c"}))
    assert state["messages"] == [user("go"), assistant("p"), assistant("c")]


def test_a_conversation_that_is_not_there_yet_is_begun() -> None:
    assert run({"draft": "Hello"})["messages"] == [assistant("Hello")]


@pytest.mark.parametrize("text", ["", None, "  \n"])
def test_an_empty_text_adds_nothing(text: object) -> None:
    assert run({"messages": [user("hi")], "draft": text})["messages"] == [user("hi")]


def test_a_missing_text_adds_nothing() -> None:
    assert asyncio.run(AppendAssistant().execute(ExecContext(), {})) == {}


def test_a_value_that_is_no_text_is_added_as_json() -> None:
    assert run({"draft": {"ok": True}})["messages"] == [assistant('{"ok": true}')]


def test_a_conversation_that_is_no_list_is_refused() -> None:
    with pytest.raises(StateError, match="'messages': it holds str"):
        run({"messages": "hi", "draft": "Hello"})


@pytest.mark.parametrize("key", ["output_key", "messages_key"])
def test_an_empty_key_is_refused_when_the_node_is_made(key: str) -> None:
    with pytest.raises(ConfigError, match=f"append_assistant 'add': {key} is empty"):
        AppendAssistant({key: ""}, id="add")


def test_it_says_which_keys_it_reads_and_writes() -> None:
    node = AppendAssistant(output_key="poem", messages_key="chat")
    assert (list(node.reads()), list(node.writes())) == (["poem"], ["chat"])
