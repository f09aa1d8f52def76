"""`Supervisor`: the guards, the question to the model, and what is told of each decision."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.graph import Edge, Graph
from teff.node import ExecContext, Node, Supervisor
from teff.provider import ChatReply
from teff.runtime import StreamEvent

ASKED = {"messages": [{"role": "user", "content": "I was charged twice"}]}


class ScriptedHarness:
    """Answers from a list, the last answer again and again, and keeps what it was asked."""

    def __init__(self, replies: Sequence[str], *, can_choose: bool = False) -> None:
        self.replies = list(replies)
        self.can_choose = can_choose
        self.asked: list[list[dict[str, Any]]] = []
        self.choices: list[Sequence[str] | None] = []

    async def call(
        self, messages: Sequence[Any], *, choices: Sequence[str] | None = None
    ) -> ChatReply:
        self.asked.append([dict(message) for message in messages])
        self.choices.append(choices)
        return ChatReply(text=self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])


class Lead(Supervisor):
    """A supervisor whose model is a script."""

    script: Any

    def harness(self, ctx: ExecContext) -> Any:
        return self.script

    def asks_model(self) -> None:
        return None


def lead(*replies: str, can_choose: bool = False, **options: Any) -> Lead:
    node = Lead(**options)
    node.script = ScriptedHarness(replies or ["no model should be asked"], can_choose=can_choose)
    return node


class Round:
    """One executed round: its updates, its events, and the reason it would end the run with."""

    def __init__(self, node: Lead, state: Mapping[str, Any]) -> None:
        self.events: list[StreamEvent] = []
        ctx = ExecContext(state, node_id="lead", emit=self.events.append)
        self.updates = dict(asyncio.run(node.execute(ctx, dict(state))))
        self.stop_reason = ctx.stop_reason or None
        self.calls = len(node.script.asked)

    @property
    def route(self) -> str:
        return str(self.updates["next_agent"])

    @property
    def decided_by(self) -> str:
        (event,) = [event for event in self.events if event.type == "route"]
        return str(event.data["decided_by"])


def drive(
    node: Lead, agents: Mapping[str, Any], state: Mapping[str, Any]
) -> tuple[list[str], dict[str, Any], str | None]:
    """Run the loop to its end; return who ran, the final state, and the stop reason."""
    current: dict[str, Any] = dict(state)
    ran: list[str] = []
    while True:
        decided = Round(node, current)
        current |= decided.updates
        if decided.route == node.finish:
            return ran, current, decided.stop_reason
        ran.append(decided.route)
        current |= agents[decided.route](current)


def nothing(state: Mapping[str, Any]) -> dict[str, Any]:
    return {}


# --- One round


def test_the_models_choice_is_the_route_and_the_round_is_counted() -> None:
    decided = Round(lead("**Billing**", agents=["billing", "technical"]), ASKED)
    assert decided.updates == {"next_agent": "billing", "supervisor_rounds": 1}
    assert decided.stop_reason is None


def test_the_models_finish_ends_the_loop() -> None:
    decided = Round(lead("FINISH.", agents=["billing"]), {**ASKED, "supervisor_rounds": 2})
    assert decided.updates == {"next_agent": "finish", "supervisor_rounds": 3}
    assert decided.stop_reason == "finish"


def test_the_model_is_told_the_sections_the_round_and_the_last_message() -> None:
    node = lead(
        "billing",
        agents=["billing"],
        system="Who next?",
        sections={"plan": "Plan", "tries": "Tries", "draft": "Draft"},
    )
    Round(node, {**ASKED, "plan": "1. ask", "tries": 0, "draft": ""})
    assert node.script.asked == [
        [
            {"role": "system", "content": "Who next?"},
            {
                "role": "user",
                "content": "Plan:\n1. ask\n\nTries:\n0\n\nRound: 1/6\n\nUser: I was charged twice",
            },
        ]
    ]


def test_without_a_system_text_the_model_is_told_the_names() -> None:
    node = lead("billing", agents=["billing", "technical"], finish="done")
    Round(node, ASKED)
    assert "billing, technical, done" in node.script.asked[0][0]["content"]


def test_every_decision_is_an_event() -> None:
    decided = Round(lead("I choose billing.", agents=["billing"]), ASKED)
    (event,) = decided.events
    assert (event.type, event.node_id) == ("route", "lead")
    assert event.data == {
        "proposal": "billing",
        "reply": "I choose billing.",
        "route": "billing",
        "decided_by": "model",
        "round": 1,
        "max_rounds": 6,
    }


def test_keys_can_be_renamed() -> None:
    node = lead("b", agents=["b"], messages_key="chat", output_key="who", rounds_key="n")
    updates = Round(node, {"chat": ASKED["messages"], "n": 1}).updates
    assert updates == {"who": "b", "n": 2}


def test_without_a_message_of_the_user_the_model_is_not_asked() -> None:
    for messages in (None, [], "hi", [1, None]):
        decided = Round(lead(agents=["billing"]), {"messages": messages})
        assert (decided.route, decided.stop_reason, decided.calls) == ("finish", "no_message", 0)


def test_without_a_messages_key_the_model_is_always_asked() -> None:
    decided = Round(lead("billing", agents=["billing"], messages_key=""), {})
    assert (decided.route, decided.calls) == ("billing", 1)


@pytest.mark.parametrize("stored", [None, "3", -1, 2.0, True, [], {}, "x"])
def test_a_stored_counter_that_is_no_count_is_taken_as_none(stored: Any) -> None:
    decided = Round(lead("billing", agents=["billing"]), {**ASKED, "supervisor_rounds": stored})
    assert decided.updates["supervisor_rounds"] == 1


# --- No decision


def test_a_reply_without_a_decision_is_asked_for_again_with_the_list() -> None:
    node = lead("Hm, billing or technical?", "technical", agents=["billing", "technical"])
    decided = Round(node, ASKED)
    assert (decided.route, decided.decided_by, decided.calls) == ("technical", "model", 2)
    again = node.script.asked[1]
    assert again[:-2] == node.script.asked[0]
    assert again[-2] == {"role": "assistant", "content": "Hm, billing or technical?"}
    assert again[-1]["role"] == "user"
    assert "billing, technical, finish" in again[-1]["content"]


def test_each_asking_again_is_an_event() -> None:
    decided = Round(lead("?", "?", "billing", agents=["billing"], max_reasks=2), ASKED)
    asked_again = [event.data["attempt"] for event in decided.events if event.type == "structured"]
    assert asked_again == [1, 2]


def test_an_empty_reply_is_not_shown_to_the_model_and_a_long_one_in_part() -> None:
    node = lead(" ", "billing", agents=["billing"])
    Round(node, ASKED)
    assert [message["role"] for message in node.script.asked[1]] == ["system", "user", "user"]
    node = lead("x" * 100_000, "billing", agents=["billing"])
    Round(node, ASKED)
    assert len(node.script.asked[1][2]["content"]) == 2_000


def test_then_the_last_known_word_counts() -> None:
    decided = Round(lead("billing or technical", agents=["billing", "technical"]), ASKED)
    assert (decided.route, decided.decided_by, decided.calls) == ("technical", "last_word", 2)


def test_then_the_fallback_answers() -> None:
    decided = Round(lead("no idea", agents=["billing"], fallback_agent="billing"), ASKED)
    assert (decided.route, decided.decided_by) == ("billing", "fallback")


def test_then_the_loop_ends_and_says_so() -> None:
    decided = Round(lead("no idea", agents=["billing"]), ASKED)
    assert (decided.route, decided.decided_by) == ("finish", "no_decision")
    assert decided.stop_reason == "no_decision"


def test_a_pipeline_begins_with_its_first_agent_where_there_is_no_decision() -> None:
    node = lead("?", fill_order={"a": "facts", "b": "text"}, fallback_agent="b")
    decided = Round(node, ASKED)
    assert (decided.route, decided.decided_by) == ("a", "fill_order")
    assert Round(node, {}).route == "a"


def test_without_reasks_the_documented_rule_decides_at_once() -> None:
    decided = Round(lead("coder or planner", agents=["planner", "coder"], max_reasks=0), ASKED)
    assert (decided.route, decided.decided_by, decided.calls) == ("planner", "last_word", 1)


@pytest.mark.parametrize(
    ("constrain", "can_choose", "sent"),
    [("auto", True, True), ("auto", False, False), ("on", False, True), ("off", True, False)],
)
def test_the_vocabulary_is_enforced_where_it_can_be(
    constrain: str, can_choose: bool, sent: bool
) -> None:
    node = lead("a", agents=["b", "a"], constrain=constrain, can_choose=can_choose)
    Round(node, ASKED)
    assert node.script.choices == [("b", "a", "finish") if sent else None]


# --- Guards


@pytest.mark.parametrize("value", [0, False, " ", "None", [0], {"a": 1}])
def test_a_done_key_with_a_value_ends_the_loop_without_a_model_call(value: Any) -> None:
    decided = Round(lead(agents=["a"], done_keys="plan"), {**ASKED, "plan": value})
    assert (decided.route, decided.decided_by) == ("finish", "done_keys")
    assert (decided.stop_reason, decided.calls) == ("done_keys", 0)


@pytest.mark.parametrize("state", [{}, {"plan": None}, {"plan": ""}, {"plan": []}, {"plan": {}}])
def test_a_done_key_that_is_not_filled_does_not(state: dict[str, Any]) -> None:
    assert Round(lead("a", agents=["a"], done_keys="plan"), {**ASKED, **state}).route == "a"


@pytest.mark.parametrize(
    "keys", [["plan", "text"], ("plan", "text"), {"plan", "text"}, frozenset({"plan", "text"})]
)
def test_all_or_any_done_keys_must_be_filled(keys: Any) -> None:
    state = {"plan": "1."}
    assert Supervisor(agents=["a"], done_keys=keys).decide(state, "a") == "a"
    assert Supervisor(agents=["a"], done_keys=keys, done_mode="any").decide(state, "a") == "finish"
    assert Supervisor(agents=["a"], done_keys=[]).decide(state, "a") == "a"


def test_finished_work_is_not_overwritten() -> None:
    node = lead("writer", route_keys={"writer": "text", "critic": "review"})
    assert Round(node, ASKED).route == "writer"
    decided = Round(node, {**ASKED, "text": 0})
    assert (decided.route, decided.decided_by) == ("finish", "route_keys")
    assert decided.stop_reason == "route_keys"
    assert node.decide({"text": "!"}, "critic") == "critic"


def test_a_finish_before_anything_was_produced_goes_to_the_fallback() -> None:
    node = lead("finish", route_keys={"writer": "text"}, fallback_agent="direct")
    decided = Round(node, ASKED)
    assert (decided.route, decided.decided_by, decided.stop_reason) == ("direct", "fallback", None)
    assert Round(node, {**ASKED, "text": "!"}).route == "finish"


def test_the_fallback_is_silent_once_work_is_done_where_no_done_keys_are_named() -> None:
    node = Supervisor(route_keys={"writer": "text"}, fallback_agent="writer")
    assert node.decide({"text": "!", "supervisor_rounds": 1}, "finish") == "finish"


def test_without_slots_the_fallback_answers_only_before_an_agent_has_run() -> None:
    node = lead("finish", agents=["a", "b"], fallback_agent="b")
    ran, state, reason = drive(node, {"b": nothing}, ASKED)
    assert (ran, reason) == (["b"], "finish")
    # The route of an earlier turn is no sign of work in this one.
    assert node.decide({**state, "supervisor_rounds": 0, "next_agent": "b"}, "finish") == "b"


def test_a_pipeline_runs_in_its_order_after_its_first_agent() -> None:
    order = [("a", "x"), ("b", "y"), ("c", "z")]
    node = lead("a", fill_order=order)
    fill = {name: lambda state, slot=slot: {slot: 0} for name, slot in order}
    ran, _, reason = drive(node, fill, ASKED)
    assert (ran, reason, len(node.script.asked)) == (["a", "b", "c"], "fill_order", 1)


def test_an_agent_picked_from_the_middle_of_a_pipeline_runs_alone() -> None:
    node = lead("b", fill_order={"a": "x", "b": "y", "c": "z"})
    ran, _, reason = drive(node, {"b": lambda state: {"y": "!"}}, ASKED)
    assert (ran, reason) == (["b"], "fill_order")


def test_an_agent_may_stand_twice_in_a_pipeline() -> None:
    node = lead("w", fill_order=[("w", "draft"), ("r", "review"), ("w", "final")])
    agents = {
        "w": lambda state: {"final" if "review" in state else "draft": "!"},
        "r": lambda state: {"review": "!"},
    }
    assert drive(node, agents, ASKED)[0] == ["w", "r", "w"]


def test_the_round_that_reaches_the_bound_ends_without_a_model_call() -> None:
    decided = Round(lead(agents=["a"], max_rounds=3), {**ASKED, "supervisor_rounds": 2})
    assert decided.updates == {"next_agent": "finish", "supervisor_rounds": 3}
    assert (decided.decided_by, decided.stop_reason) == ("max_rounds", "max_rounds")
    assert decided.calls == 0
    assert Round(lead(agents=["a"], max_rounds=1), ASKED).stop_reason == "max_rounds"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"done_keys": ["x", "y"]}, "done_keys"),
        ({"fill_order": {"a": "x", "b": "y"}}, "fill_order"),
    ],
)
def test_work_that_is_complete_in_the_last_round_is_not_stopped_by_the_bound(
    options: dict[str, Any], reason: str
) -> None:
    node = lead(agents=["a", "b"], max_rounds=3, **options)
    assert Round(node, {"x": 1, "y": 2, "supervisor_rounds": 2}).stop_reason == reason


def test_a_finish_token_of_ones_own_is_written_and_understood() -> None:
    node = lead("All answered: <END>", agents=["a"], finish="<end>")
    decided = Round(node, ASKED)
    assert (decided.route, decided.stop_reason) == ("<end>", "finish")
    assert Round(lead("end", agents=["a"], finish="<end>"), ASKED).route == "<end>"


# --- Standing still


def test_an_agent_that_changes_no_slot_is_not_chosen_for_ever() -> None:
    node = lead("a", route_keys={"a": "x", "b": "y"}, max_rounds=100)
    ran, state, reason = drive(
        node, {"a": lambda state: {"tries": state.get("tries", 0) + 1}}, ASKED
    )
    assert (ran, reason) == (["a", "a", "a"], "no_progress")
    assert state["tries"] == 3


def test_stall_after_says_how_often() -> None:
    node = lead("a", route_keys={"a": "x"}, max_rounds=100, stall_after=5)
    assert drive(node, {"a": nothing}, ASKED)[0] == ["a"] * 5


def test_a_change_in_a_slot_is_progress() -> None:
    node = lead("a", agents=["a", "b"], done_keys=["log", "never"], max_rounds=9)
    agents = {"a": lambda state: {"log": [*state.get("log", []), 1]}}
    ran, _, reason = drive(node, agents, ASKED)
    assert (len(ran), reason) == (8, "max_rounds")


def test_another_agent_in_between_begins_the_count_again() -> None:
    replies = ["a", "a", "b"] * 9
    node = lead(*replies, route_keys={"a": "x", "b": "y"}, max_rounds=20, stall_after=2)
    ran, _, reason = drive(node, {"a": nothing, "b": nothing}, ASKED)
    assert (len(ran), reason) == (19, "max_rounds")


def test_without_slots_only_the_bound_ends_a_loop() -> None:
    node = lead("a", agents=["a"], max_rounds=10)
    assert len(drive(node, {"a": nothing}, ASKED)[0]) == 9


def test_a_new_turn_starts_clean() -> None:
    node = lead("a", route_keys={"a": "x"}, max_rounds=100)
    state = drive(node, {"a": nothing}, ASKED)[1]
    for counter in ({"supervisor_rounds": 0}, {"supervisor_rounds": None}):
        assert drive(node, {"a": nothing}, {**state, **counter})[0] == ["a", "a", "a"]


def test_what_is_remembered_is_small_json_and_only_where_it_is_needed() -> None:
    node = lead("a", route_keys={"a": "x", "b": "y"}, output_key="who")
    assert "_who_progress" not in Round(node, ASKED).updates
    remembered = Round(node, {**ASKED, "y": "long " * 1000}).updates["_who_progress"]
    assert remembered["agent"] == "a"
    assert len(json.dumps(remembered)) < 100


@pytest.mark.parametrize("stored", [None, 3, "a", [], {"agent": "a"}, {"agent": "a", "times": "9"}])
def test_what_is_remembered_may_be_anything(stored: Any) -> None:
    state = {**ASKED, "_next_agent_progress": stored, "next_agent": "a", "supervisor_rounds": 1}
    assert Round(lead("a", route_keys={"a": "x"}), state).route == "a"


# --- A policy of one's own


class HumanGate(Lead):
    """Sends every plan through a gate, and asks no model once there is a plan."""

    def _needs_model(self, state: Mapping[str, Any]) -> bool:
        return "plan" not in state

    def decide(self, state: Mapping[str, Any], proposal: str) -> str:
        if "plan" in state:
            return "finish" if state.get("approved") else "gate"
        return super().decide(state, proposal)


def gate(*replies: str, **options: Any) -> Lead:
    node = HumanGate(**options)
    node.script = ScriptedHarness(replies or ["?"])
    return node


def test_a_subclass_decides_with_a_policy_of_its_own() -> None:
    node = gate("planner", agents=["planner", "gate"], done_keys=["plan"])
    assert Round(node, ASKED).decided_by == "model"
    decided = Round(node, {**ASKED, "plan": "1."})
    assert (decided.route, decided.decided_by, decided.calls) == ("gate", "policy", 1)
    assert Round(node, {**ASKED, "plan": "1.", "approved": True}).stop_reason == "done_keys"


def test_the_bound_holds_for_a_policy_too() -> None:
    node = gate(agents=["gate"], max_rounds=2)
    assert Round(node, {"plan": "1.", "supervisor_rounds": 1}).stop_reason == "max_rounds"


def test_a_policy_that_returns_no_agent_is_an_error_that_says_what_is_known() -> None:
    node = gate(agents=["planner", "gates"], id="pick")
    with pytest.raises(ConfigError) as caught:
        Round(node, {"plan": "1."})
    for part in ("pick", "'gate'", "planner", "gates", "finish", "Did you mean 'gates'?"):
        assert part in str(caught.value)
    fallen_back = Round(gate(agents=["planner"], fallback_agent="planner"), {"plan": "1."})
    assert (fallen_back.route, fallen_back.decided_by) == ("planner", "fallback")


def test_a_policy_needs_no_vocabulary() -> None:
    assert Round(gate(), {"plan": "1."}).route == "gate"


def test_what_a_policy_reads_and_whether_it_asks_is_not_known() -> None:
    class Policy(Supervisor):
        def _needs_model(self, state: Mapping[str, Any]) -> bool:
            return False

    assert Policy(agents=["a"]).reads() is None
    assert Policy(agents=["a"]).asks_model() is None
    assert Policy(agents=["a"], model="small").asks_model() == (None, "small")
    assert Supervisor(agents=["a"]).asks_model() == (None, None)
    assert Supervisor(agents=["a"], max_rounds=1).asks_model() is None


# --- Options


def test_the_mapping_form_works_and_wins_where_keywords_are_silent() -> None:
    node = Supervisor({"max_rounds": "3", "agents": ["a"]}, agents=["b"])
    assert (node.max_rounds, node.vocabulary) == (3, ("b", "finish"))
    assert node.config["max_rounds"] == 3


def test_the_vocabulary_is_that_of_agents_or_of_the_other_options() -> None:
    assert Supervisor(agents=["b", "a", "finish"]).vocabulary == ("b", "a", "finish")
    assert Supervisor(agents={"b", "a"}).vocabulary == ("a", "b", "finish")
    node = Supervisor(route_keys={"r": "x"}, fill_order=[("p", "y")], fallback_agent="f")
    assert node.vocabulary == ("r", "p", "f", "finish")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_rounds": 0}, "'max_rounds' must be a whole number of at least 1, not 0"),
        ({"max_rounds": -1}, "'max_rounds'"),
        ({"max_rounds": 2.5}, "'max_rounds'"),
        ({"max_rounds": None}, "'max_rounds'"),
        ({"max_rounds": True}, "'max_rounds'"),
        ({"max_rounds": "x"}, "'max_rounds'"),
        ({"max_reasks": -1}, "'max_reasks'"),
        ({"stall_after": 0}, "'stall_after'"),
        ({"done_mode": "ANY"}, "'done_mode'"),
        ({"constrain": "yes"}, "'constrain'"),
        ({"agents": "planner"}, "'agents'"),
        ({"agents": ["a", ""]}, "'agents' holds an empty name"),
        ({"agents": ["--"]}, "'--'"),
        ({"agents": ["QA", "qa"]}, "'QA' and 'qa' read the same"),
        ({"agents": ["code_reviewer", "Code Reviewer"]}, "read the same"),
        ({"agents": ["Finish"]}, "'Finish' and 'finish' read the same"),
        ({"agents": ["coder"], "fallback_agent": "codr"}, "Did you mean 'coder'?"),
        ({"agents": ["a"], "fill_order": [("b", "x")]}, "'fill_order' names 'b'"),
        ({"agents": ["a"], "route_keys": {"b": "x"}}, "'route_keys' names 'b'"),
        ({"route_keys": {"finish": "x"}}, "which is the finish token"),
        ({"fallback_agent": "stop", "finish": "stop"}, "which is the finish token"),
        ({"fill_order": [("a", "x", "y")]}, "'fill_order[0]'"),
        ({"finish": ""}, "'finish' is empty"),
        ({"output_key": ""}, "'output_key' is empty"),
        ({"max_round": 3}, "Did you mean 'max_rounds'?"),
    ],
)
def test_wrong_options_are_refused_when_the_node_is_made(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Supervisor(id="lead", **options)
    assert message in str(caught.value)
    assert "supervisor 'lead'" in str(caught.value)
    assert caught.value.path


def test_an_option_that_is_set_later_is_checked_too() -> None:
    node = Supervisor(agents=["a"])
    with pytest.raises(ConfigError, match="max_rounds"):
        node.config["max_rounds"] = 0
    assert node.max_rounds == 6


def test_a_supervisor_without_agents_says_so_instead_of_asking() -> None:
    with pytest.raises(ConfigError, match="no agents to choose from"):
        Round(lead(), ASKED)


def test_what_it_reads_and_writes_is_known() -> None:
    node = Supervisor(route_keys={"a": "x"}, done_keys=["x", "y"], sections={"z": "Z"})
    assert node.reads() == ["messages", "z", "x", "y"]
    assert node.writes() == ["next_agent", "supervisor_rounds", "_next_agent_progress"]


# --- Faults that people reported


class Digger(Node):
    type = "digger"

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return {"hits": state.get("hits", 0) + 1, **self.config}


def team(node: Lead, **written: Any) -> Graph:
    return Graph(
        {"lead": node, "digger": Digger(written)},
        [Edge("lead", "digger", "next_agent = digger"), Edge("digger", "lead")],
        "lead",
    )


def last_event(graph: Graph) -> StreamEvent:
    async def collect() -> list[StreamEvent]:
        return [event async for event in graph.stream(ASKED)]

    events = asyncio.run(collect())
    assert [event.type for event in events].count("run_end") == 1
    return events[-1]


@pytest.mark.parametrize("slots", [{}, {"done_keys": ["report"]}])
def test_sup_01_a_router_that_never_finishes_is_stopped_and_keeps_what_was_done(
    slots: dict[str, Any],
) -> None:
    node = lead("digger", agents=["digger"], max_rounds=4, **slots)
    result = asyncio.run(team(node).run(ASKED))
    assert result["hits"] == 3
    assert (result.status, result.stop_reason) == ("stopped", "max_rounds")


def test_sup_02_the_last_event_tells_a_bound_from_an_end() -> None:
    bounded = last_event(team(lead("digger", agents=["digger"], max_rounds=4)))
    done = last_event(team(lead("digger", agents=["digger"], done_keys="text"), text="!"))
    assert bounded.data["stop_reason"] == "max_rounds"
    assert done.data["stop_reason"] == "done_keys"
    assert (bounded.data["status"], done.data["status"]) == ("stopped", "finished")


@pytest.mark.parametrize(
    ("reply", "route", "calls"),
    [
        ("They want prose.\nscribe", "scribe", 1),
        (' "Scribe". ', "scribe", 1),
        ("not checker, maybe scribe or lingo", "lingo", 2),
        ("", "checker", 2),
    ],
)
def test_sup_05_one_exact_name_or_another_question(reply: str, route: str, calls: int) -> None:
    node = lead(reply, agents=["scribe", "checker", "lingo"], fallback_agent="checker")
    decided = Round(node, ASKED)
    assert (decided.route, decided.calls) == (route, calls)


def test_sup_07_the_end_rests_on_the_state_not_on_what_the_chat_says() -> None:
    node = lead("writer", agents=["writer"], done_keys=["draft"])
    ran, _, reason = drive(node, {"writer": lambda state: {"draft": "!"}}, ASKED)
    assert (ran, reason) == (["writer"], "done_keys")


def test_sup_11_control_returns_until_all_slots_are_filled() -> None:
    order = [("a", "facts"), ("b", "text")]
    node = lead("~ garbage ~", done_keys=["facts", "text"], fill_order=order)
    fill = {"a": lambda state: {"facts": "!"}, "b": lambda state: {"text": "!"}}
    ran, _, reason = drive(node, fill, ASKED)
    assert (ran, reason) == (["a", "b"], "done_keys")


@pytest.mark.parametrize("value", [0, -1, 2.5, None, True])
def test_sup_12_a_bound_without_a_meaning_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ConfigError, match="max_rounds"):
        Supervisor(max_rounds=value)
    assert Supervisor(max_rounds="3").max_rounds == 3  # type: ignore[arg-type]  # as YAML writes it
