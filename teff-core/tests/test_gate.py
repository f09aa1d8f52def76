"""`Gate`: a verdict becomes a decision, within a budget."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.graph import Edge, Graph
from teff.node import Gate, NodeRegistry
from teff.node.decision import read_truth, text_of
from teff.node.function import make_function_node
from teff.runtime import ExecContext


def decide(state: dict[str, Any], **options: Any) -> dict[str, Any]:
    return dict(asyncio.run(Gate(**options).execute(ExecContext(), state)))


def decision(verdict: Any, **options: Any) -> Any:
    return decide({"verdict": verdict}, **options)["decision"]


@pytest.mark.parametrize(
    "verdict", [True, 1, 1.0, "true", "yes", "1", " YES! ", "True.", "yes ,", {"ok": True}]
)
def test_a_verdict_that_says_yes_passes(verdict: Any) -> None:
    assert decision(verdict) == "yes"
    assert decision({"ok": verdict if not isinstance(verdict, dict) else "yes"}) == "yes"


@pytest.mark.parametrize("word", [False, 0, 0.0, "false", "no", "0", "No.", " FALSE ", "no!?"])
def test_a_verdict_that_says_no_fails(word: Any) -> None:
    for missing_is_ok in (False, True):
        assert decision(word, missing_is_ok=missing_is_ok) == "fix"
        assert decision({"ok": word}, missing_is_ok=missing_is_ok) == "fix"


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        "",
        " ",
        "maybe",
        "not yes",
        "yes and no",
        2,
        -1,
        0.5,
        float("nan"),
        [],
        {},
        ["yes"],
        ".",
        {"okay": True},
        {"ok": None},
        {"ok": ""},
        {"ok": [True]},
        {"ok": {"ok": True}},
        '{"ok": 1}',
    ],
)
def test_everything_else_is_a_missing_verdict_which_fails(verdict: Any) -> None:
    assert decision(verdict) == "fix"
    assert decision(verdict, missing_is_ok=True) == "yes"


def test_without_a_verdict_it_fails() -> None:
    assert decide({}) == {"rounds": 1, "decision": "fix", "decision_forced": False}


def test_the_last_round_passes_and_says_that_it_was_forced() -> None:
    state: dict[str, Any] = {"verdict": {"ok": False}}
    seen = []
    for _ in range(4):
        state |= decide(state)
        seen.append((state["rounds"], state["decision"], state["decision_forced"]))
    assert seen == [(1, "fix", False), (2, "fix", False), (3, "yes", True), (4, "yes", True)]


def test_a_verdict_that_passes_in_the_last_round_is_not_forced() -> None:
    assert decide({"verdict": True, "rounds": 2})["decision_forced"] is False


def test_one_round_asks_the_verdict_and_passes_anyway() -> None:
    assert decide({"verdict": False}, max_rounds=1)["decision_forced"] is True
    assert decide({"verdict": True}, max_rounds=1)["decision_forced"] is False


@pytest.mark.parametrize("stored", [None, "2", -1, 2.5, True, [], {"n": 2}, "x", float("nan")])
def test_a_counter_that_is_no_whole_number_counts_as_none(stored: Any) -> None:
    assert decide({"verdict": False, "rounds": stored})["rounds"] == 1


def test_a_counter_beyond_the_bound_forces_at_once() -> None:
    updates = decide({"verdict": False, "rounds": 10**30})
    assert updates == {"rounds": 10**30 + 1, "decision": "yes", "decision_forced": True}


@pytest.mark.parametrize(
    ("verdict", "remark"),
    [
        ({"ok": False, "message": "  Too long.\n"}, "Too long."),
        ({"ok": False, "message": None}, ""),
        ({"ok": False}, ""),
        ({"message": ["a", 1]}, '["a", 1]'),
        ({"ok": False, "message": 7}, "7"),
        ({"ok": False, "message": 10**5000}, ""),
        ({"ok": True, "message": "Well done."}, ""),
        (False, ""),
        ("no", ""),
        (None, ""),
    ],
)
def test_the_remark_stands_on_a_fail_and_is_empty_on_a_pass(verdict: Any, remark: str) -> None:
    assert decide({"verdict": verdict}, message_key="remark")["remark"] == remark


def test_a_forced_pass_clears_the_remark() -> None:
    state = {"verdict": {"ok": False, "message": "Bad."}, "remark": "Bad."}
    assert decide(state, message_key="remark", max_rounds=1)["remark"] == ""


def test_names_and_values_can_be_chosen() -> None:
    updates = decide(
        {"review": {"good": "no", "why": "Dull."}},
        input_key="review",
        ok_field="good",
        output_key="next",
        pass_value="publish",
        fail_value="rewrite",
        rounds_key="drafts",
        message_field="why",
        message_key="hint",
    )
    assert updates == {"drafts": 1, "next": "rewrite", "next_forced": False, "hint": "Dull."}


def test_the_state_is_not_changed() -> None:
    state = {"verdict": {"ok": False}, "rounds": 1}
    decide(state)
    assert state == {"verdict": {"ok": False}, "rounds": 1}


def test_a_forced_pass_is_told_as_an_event() -> None:
    told: list[Any] = []
    graph = Graph(
        {
            "judge": make_function_node(lambda ctx, state: {"verdict": False}, "judge"),
            "gate": Gate(max_rounds=2),
        },
        [Edge("judge", "gate"), Edge("gate", "judge", "decision=fix")],
        "judge",
    )
    result = asyncio.run(graph.run({}, tracer=told.append))
    assert (result["decision"], result["rounds"], result["decision_forced"]) == ("yes", 2, True)
    limits = [event for event in told if event.type == "limit"]
    assert [event.data for event in limits] == [
        {"reason": "max_rounds", "node": "gate", "rounds": 2, "forced": True}
    ]
    assert limits[0].node_id == "gate"


def test_what_it_reads_writes_and_starts_clean_with_a_turn() -> None:
    gate = Gate(output_key="next", rounds_key="n", message_key="hint")
    assert list(gate.reads()) == ["verdict"]
    assert list(gate.writes()) == ["n", "next", "next_forced", "hint"]
    assert list(Gate().writes()) == ["rounds", "decision", "decision_forced"]
    assert list(gate.turn_keys()) == ["n", "next_forced"]


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_rounds": -3}, "max_rounds"),
        ({"max_rounds": True}, "max_rounds"),
        ({"max_rounds": "3"}, "max_rounds"),
        ({"max_rounds": "x"}, "max_rounds"),
        ({"max_rounds": 2.0}, "max_rounds"),
        ({"max_rounds": None}, "max_rounds"),
        ({"pass_value": "fix"}, "fail_value"),
        ({"pass_value": "Fix!"}, "fail_value"),
        ({"pass_value": ""}, "pass_value"),
        ({"fail_value": " . "}, "fail_value"),
        ({"fail_value": False}, "fail_value"),
        ({"output_key": ""}, "output_key"),
        ({"rounds_key": ""}, "rounds_key"),
        ({"ok_field": ""}, "ok_field"),
        ({"input_key": ""}, "input_key"),
        ({"input_key": "rounds"}, "input_key"),
        ({"rounds_key": "decision"}, "rounds_key"),
        ({"rounds_key": "decision_forced"}, "rounds_key"),
        ({"message_key": "decision"}, "message_key"),
        ({"message_key": "hint", "message_field": ""}, "message_field"),
        ({"missing_is_ok": "no"}, "missing_is_ok"),
        ({"max_round": 3}, "max_round"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Gate(options, id="review")
    assert caught.value.path == path
    assert "gate 'review'" in str(caught.value)
    assert path in str(caught.value) or path.removesuffix("_key") in str(caught.value)


def test_it_is_made_by_its_type() -> None:
    made = NodeRegistry().create("gate", {"max_rounds": 5})
    assert isinstance(made, Gate)
    assert made.max_rounds == 5


def test_truths_and_texts_of_odd_values() -> None:
    assert read_truth(10**400) is None
    assert read_truth(object()) is None
    assert text_of(None) == ""
