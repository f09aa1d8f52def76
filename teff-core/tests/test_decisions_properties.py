"""What holds for every gate and every validation, whatever stands in the state."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from teff.node import Gate, Validate
from teff.node.decision import Decision, read_truth
from teff.runtime import ExecContext

YES = ["true", "yes", "1", "Yes.", " TRUE "]
NO = ["false", "no", "0", "No!", " FALSE "]
words = st.sampled_from([*YES, *NO, "maybe", "null", "a", "A!", "7", ""])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ok", "clear", "message", "v"]), inner, max_size=4)
    ),
    max_leaves=6,
)
KEYS = ("answer", "verdict", "rounds", "decision", "decision_forced", "value", "note")
states = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), json_values, max_size=7)
verdicts = st.dictionaries(st.sampled_from(["ok", "clear", "message", "v"]), json_values)

gates = st.builds(
    Gate,
    max_rounds=st.integers(1, 5),
    missing_is_ok=st.booleans(),
    message_key=st.sampled_from(["", "note"]),
)
strategies = st.sampled_from(
    [
        {},
        {"verdict_key": "verdict"},
        {"equals": "a"},
        {"equals": "null"},
        {"any_of": ["yes", "7"]},
        {"regex": "([a-z])+|^$"},
        {"strategy": "llm", "equals": "a"},
    ]
)
validations = st.builds(
    lambda strategy, **knobs: Validate({**strategy, **knobs}),
    strategies,
    max_rounds=st.integers(1, 5),
    missing_is_ok=st.booleans(),
    on_exhausted=st.sampled_from(["pass", "fail"]),
    clarify_value=st.sampled_from(["", "again"]),
    clear_field=st.sampled_from(["", "clear"]),
    value_key=st.sampled_from(["", "value", "answer"]),
    value_field=st.sampled_from(["", "v"]),
)
deciders: st.SearchStrategy[Decision] = st.one_of(gates, validations)


def decide(node: Decision, state: dict[str, Any], told: list[Any] | None = None) -> dict[str, Any]:
    listener = None if told is None else told.append
    ctx = ExecContext(state, node_id="it", tracer=listener)
    updates: Any = asyncio.run(node.execute(ctx, dict(state)))
    return dict(updates)


def values(node: Decision) -> set[str]:
    return {node.pass_value, node.fail_value, getattr(node, "clarify_value", "")} - {""}


@given(deciders, states)
def test_every_state_gives_one_of_the_decisions(node: Decision, state: dict[str, Any]) -> None:
    before, told = copy.deepcopy(state), list[Any]()
    updates = decide(node, state, told)
    assert updates[node.output_key] in values(node)
    assert updates.keys() <= set(node.writes() or ())
    assert set(node.turn_keys()) <= updates.keys()
    assert repr(state) == repr(before)
    rounds, forced = updates[node.rounds_key], updates[node.forced_key]
    assert rounds >= 1
    assert forced is True or forced is False
    limits = [event.data for event in told if event.type == "limit"]
    told_of_it = {"reason": "max_rounds", "node": "it", "rounds": rounds, "forced": True}
    assert limits == ([told_of_it] if forced else [])
    assert not forced or rounds >= node.max_rounds


@given(deciders, st.lists(states, min_size=1, max_size=12))
def test_the_fails_are_bounded_and_only_the_bound_forces(
    node: Decision, rounds: list[dict[str, Any]]
) -> None:
    counter: dict[str, Any] = {}
    refused = 0
    for number, state in enumerate(rounds, 1):
        updates = decide(node, {**state, "rounds": counter.get("rounds")})
        counter = {"rounds": updates["rounds"]}
        assert updates["rounds"] == number
        if number < node.max_rounds:
            assert updates[node.forced_key] is False
        if updates[node.output_key] == node.pass_value or updates[node.forced_key]:
            refused = 0
        else:
            refused += 1
        assert refused <= node.max_rounds - 1
        if number >= node.max_rounds and getattr(node, "on_exhausted", "pass") == "pass":
            assert updates[node.output_key] == node.pass_value


@given(gates, states, verdicts | json_values)
def test_a_gate_passes_only_a_verdict_that_says_yes(
    gate: Gate, state: dict[str, Any], verdict: Any
) -> None:
    updates = decide(gate, {**state, "verdict": verdict})
    says = read_truth(verdict.get("ok") if isinstance(verdict, dict) else verdict)
    ok = gate.missing_is_ok if says is None else says
    if updates["decision_forced"]:
        assert not ok
        assert updates["decision"] == gate.pass_value
    else:
        assert (updates["decision"] == gate.pass_value) == ok


@given(json_values)
def test_only_the_words_for_it_are_a_truth(value: Any) -> None:
    truth = read_truth(value)
    if isinstance(value, str):
        word = value.strip().casefold().rstrip(".,!?;: \t\r\n\u00a0\u202f")
        expected = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        assert truth is expected.get(word)
    elif isinstance(value, bool | int | float) and value in (0, 1):
        assert truth is bool(value)
    else:
        assert truth is None


@given(states, st.sampled_from([None, "", " ", "\n\t"]), st.text(min_size=1, max_size=6))
def test_no_answer_is_never_accepted(state: dict[str, Any], answer: Any, expected: str) -> None:
    try:
        node = Validate(any_of=[expected])
    except ValueError:
        return  # nothing but space and punctuation
    updates = decide(node, {**state, "answer": answer, "rounds": 0})
    assert updates["decision"] == node.fail_value


@given(st.text(min_size=1, max_size=6), st.sampled_from(["{}", " {}", "{}!", "{} .\n"]))
def test_an_answer_equals_itself_whatever_is_around_it(word: str, around: str) -> None:
    try:
        node = Validate(equals=word)
    except ValueError:
        return  # nothing but space and punctuation
    assert decide(node, {"answer": around.format(word.strip())})["decision"] == node.pass_value
