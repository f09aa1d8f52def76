"""`Supervisor`: what is told of a decision, what its errors say, and the edges of its guards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from teff.errors import ConfigError
from teff.node import ExecContext, Supervisor
from teff.node.progress import Progress, fingerprint
from teff.node.supervisor import _whole_number
from teff.provider import ChatReply
from teff.runtime import StreamEvent

ASKED = {"messages": [{"role": "user", "content": "help"}]}


class Saying:
    """A model that always says the same."""

    can_choose = False

    def __init__(self, text: str) -> None:
        self.text = text

    async def call(self, messages: Any, *, choices: Any = None) -> ChatReply:
        return ChatReply(text=self.text)


def lead(reply: str, cls: type[Supervisor] = Supervisor, **options: Any) -> Supervisor:
    class Lead(cls):  # type: ignore[misc, valid-type]  # whichever is tested
        def harness(self, ctx: ExecContext) -> Any:
            assert isinstance(ctx, ExecContext)
            return Saying(reply)

    node: Supervisor = Lead(**options)
    return node


def decide(node: Supervisor, state: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return what is told of one decision, and the stop reason."""
    events: list[StreamEvent] = []
    ctx = ExecContext(state, node_id="lead", emit=events.append)
    asyncio.run(node.execute(ctx, dict(state)))
    assert [event.data for event in events[:-1]] == [
        {"errors": [f"the reply is not one of: {', '.join(node.vocabulary)}"], "attempt": 1}
    ] * (len(events) - 1)
    return dict(events[-1].data), ctx.stop_reason


def test_a_finish_by_the_last_word_is_the_models() -> None:
    told, reason = decide(lead("a or finish", agents=["a"]), ASKED)
    assert (told["decided_by"], reason) == ("last_word", "finish")
    assert (told["proposal"], told["reply"]) == ("finish", "a or finish")


def test_a_reply_that_decides_nothing_is_told_too() -> None:
    told, reason = decide(lead("who knows", agents=["a"]), ASKED)
    assert (told["decided_by"], told["reply"], reason) == (
        "no_decision",
        "who knows",
        "no_decision",
    )


def test_the_next_of_a_pipeline_is_decided_by_it() -> None:
    told, _ = decide(lead("?", fill_order={"a": "x", "b": "y"}), {**ASKED, "x": 1})
    assert (told["route"], told["decided_by"], told["reply"]) == ("b", "fill_order", "")


class Ends(Supervisor):
    def decide(self, state: Mapping[str, Any], proposal: str) -> str:
        return "finish"


class Overrules(Supervisor):
    """Takes the proposal where the guards would not."""

    def decide(self, state: Mapping[str, Any], proposal: str) -> str:
        return proposal


def test_a_policy_that_ends_the_loop_is_a_finish() -> None:
    told, reason = decide(lead("a", Ends, agents=["a"]), ASKED)
    assert (told["decided_by"], reason) == ("policy", "finish")


def test_a_policy_that_takes_the_proposal_leaves_the_decision_to_the_model() -> None:
    node = lead("a", Overrules, agents=["a"], route_keys={"a": "x"})
    told, _ = decide(node, {**ASKED, "x": 1})
    assert (told["route"], told["decided_by"]) == ("a", "model")


def test_a_policy_that_does_nothing_sensible_is_told_what_is_known() -> None:
    with pytest.raises(ConfigError) as caught:
        decide(lead("x", Overrules, agents=["a", "b"], max_reasks=0), ASKED)
    assert str(caught.value).count("Known: a, b, finish.") == 1
    assert caught.value.hint == ""


class Approves(Supervisor):
    """Ends where something is approved, and asks no model then."""

    def _needs_model(self, state: Mapping[str, Any]) -> bool:
        return not state.get("approved") and super()._needs_model(state)

    def decide(self, state: Mapping[str, Any], proposal: str) -> str:
        return "finish" if state.get("approved") else super().decide(state, proposal)


@pytest.mark.parametrize("state", [{"approved": True}, {"approved": True, **ASKED}])
def test_a_policy_that_ends_the_loop_without_the_model_is_a_finish(state: Any) -> None:
    told, reason = decide(lead("a", Approves, agents=["a"]), state)
    assert (told["decided_by"], reason) == ("policy", "finish")


@pytest.mark.parametrize(
    ("state", "reason"), [({}, "no_message"), (ASKED, "no_decision")], ids=["silent", "asked"]
)
def test_a_policy_that_leaves_it_to_the_guards_ends_as_they_say(state: Any, reason: str) -> None:
    told, found = decide(lead("?", Approves, agents=["a"], max_reasks=0), state)
    assert (told["decided_by"], found) == ("no_decision", reason)


class Misspells(Supervisor):
    def decide(self, state: Mapping[str, Any], proposal: str) -> str:
        return "nobody"


@pytest.mark.parametrize(
    ("slots", "state", "route"),
    [
        ({"route_keys": {"b": "x"}}, {}, "b"),
        ({"route_keys": {"b": "x"}}, {"x": 1}, "finish"),
        ({"fill_order": [("b", "x"), ("b", "y")]}, {"x": 1}, "b"),
        ({"fill_order": [("b", "x"), ("b", "y")]}, {"x": 1, "y": 1}, "finish"),
        ({}, {"x": 1}, "b"),
    ],
)
def test_a_name_that_is_no_agents_goes_to_a_fallback_with_work_to_do(
    slots: Any, state: Any, route: str
) -> None:
    node = lead("?", Misspells, agents=["a", "b"], fallback_agent="b", **slots)
    told, reason = decide(node, {**ASKED, **state})
    assert told["route"] == route
    assert told["decided_by"] == ("fallback" if route == "b" else "no_decision")
    assert reason == ("" if route == "b" else "no_decision")


def test_only_the_first_of_a_pipeline_stands_in_for_a_decision() -> None:
    node = Supervisor(fill_order={"a": "x", "b": "y"}, route_keys={"a": "z"})
    assert node.decide({"z": 1}, "") == "finish"


def test_it_asks_itself_what_is_next_with_text() -> None:
    node = Supervisor(fill_order={"a": "x"})
    assert node._next_in_order({"x": 1}) == ""


def test_without_reasks_nor_words_there_is_no_proposal() -> None:
    assert decide(lead("", agents=["a"], max_reasks=0), ASKED)[0]["proposal"] == ""


def test_a_supervisor_without_agents_says_what_to_do() -> None:
    for node, name in ((lead(""), "lead"), (lead("", id="boss"), "boss")):
        with pytest.raises(ConfigError) as caught:
            decide(node, ASKED)
        assert str(caught.value).startswith(f"supervisor {name!r} has no agents to choose from: ")
        assert "name them in agents, route_keys or fill_order." in str(caught.value)
        assert caught.value.path == "agents"


def test_what_the_graph_asks_of_it() -> None:
    node = Supervisor(agents=["a"])
    assert node.outcomes() == {"next_agent": ("a", "finish")}
    assert Supervisor().outcomes() is None
    assert node.bounds_rounds() is True
    assert Supervisor(agents=["a"], max_rounds=2).asks_model() == (None, None)
    assert list(node.loop_keys()) == ["next_agent", "supervisor_rounds", "_next_agent_progress"]


def test_sets_are_put_in_order() -> None:
    names = {f"agent{number}" for number in range(20)}
    assert Supervisor(agents=names).vocabulary == (*sorted(names), "finish")
    assert Supervisor(agents=["b", "a"]).vocabulary == ("b", "a", "finish")


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"agents": ["a", ""]}, "agents", "supervisor: option 'agents' holds an empty name."),
        ({"agents": ["--"]}, "agents", "the name '--' has nothing that a reply could"),
        ({"agents": ["A", "a"]}, "agents", "the names 'A' and 'a' read the same"),
        ({"agents": ["a"], "fallback_agent": "b"}, "fallback_agent", "'fallback_agent' names 'b'"),
    ],
)
def test_errors_name_the_option(options: Any, path: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Supervisor(**options)
    assert caught.value.path == path
    assert message in str(caught.value)


def test_a_whole_number_has_a_lowest() -> None:
    node, option = Supervisor(id="lead"), attrs.fields(Supervisor)[0]  # type: ignore[arg-type]  # @options makes attrs classes
    check = _whole_number(1)
    check(node, option, 1)
    with pytest.raises(ConfigError) as caught:
        check(node, option, 0)
    assert str(caught.value).startswith("supervisor 'lead': option 'id' must be a whole number")
    assert caught.value.path == option.name


# --- Standing still


def test_what_is_remembered_is_read_as_it_was_written() -> None:
    before = Progress("a", 2, "abc")
    assert Progress.read(before.to_state(), last="a") == before
    assert Progress.read(before.to_state(), last="b") == Progress("b")
    assert Progress.read({"agent": "a", "times": 2, "slots": 3}, last="a") == Progress("a")
    assert Progress.read({"agent": "a", "times": "2", "slots": "x"}, last="a") == Progress("a")
    assert Progress.read(None, last=["a"]) == Progress("")


def test_the_next_choice_counts_on_where_nothing_changed() -> None:
    before = Progress("a", 2, "abc")
    assert before.then("a", "abc") == Progress("a", 3, "abc")
    assert before.then("a", "abd") == Progress("a", 1, "abd")
    assert before.then("b", "abc") == Progress("b", 1, "abc")


def test_any_value_has_a_fingerprint() -> None:
    class Thing:
        def __init__(self, name: str) -> None:
            self.name = name

        def __repr__(self) -> str:
            return self.name

    itself: list[Any] = []
    itself.append(itself)
    one, other = (fingerprint({"x": Thing(name)}, ["x"]) for name in "ab")
    assert one != other
    assert fingerprint({"x": {(1, 2): 3, "y": 4}}, ["x"])
    assert len(fingerprint({"x": itself}, ["x"])) == 16
    assert fingerprint({"x": itself}, ["x"]) != fingerprint({"y": itself}, ["y"])
