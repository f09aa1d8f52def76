"""`Validate`: an answer is accepted, refused, or asked for again."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, StateError
from teff.graph import Edge, Graph
from teff.node import Interrupt, NodeRegistry, Validate
from teff.runtime import ExecContext

SHORT = {"pass_value": "pass", "fail_value": "fail"}


def judge(state: dict[str, Any], **options: Any) -> dict[str, Any]:
    return dict(asyncio.run(Validate({**SHORT, **options}).execute(ExecContext(), state)))


def decision(answer: Any, **options: Any) -> Any:
    return judge({"answer": answer}, **options)["decision"]


def captured(answer: Any, **options: Any) -> Any:
    return judge({"answer": answer}, value_key="value", **options).get("value", "nothing")


# --- The defaults that users rely on.


def test_the_defaults_are_the_documented_ones() -> None:
    updates = asyncio.run(Validate(equals="ok").execute(ExecContext(), {"answer": "Ok."}))
    assert updates == {"rounds": 1, "decision": "да", "decision_forced": False}
    state = {"answer": "no", "rounds": 98}
    updates = asyncio.run(Validate(equals="ok").execute(ExecContext(), state))
    assert updates == {"rounds": 99, "decision": "нет", "decision_forced": False}
    updates = asyncio.run(Validate(equals="ok").execute(ExecContext(), {**state, **updates}))
    assert updates == {"rounds": 100, "decision": "да", "decision_forced": True}


def test_exhaustion_can_fail_and_is_marked_all_the_same() -> None:
    updates = judge({"answer": "x"}, equals="y", max_rounds=1, on_exhausted="fail")
    assert updates == {"rounds": 1, "decision": "fail", "decision_forced": True}


def test_exhaustion_ends_the_asking_for_clarity_too() -> None:
    options: dict[str, Any] = {"equals": "y", "clarify_value": "again", "max_rounds": 2}
    assert judge({"answer": ""}, **options)["decision"] == "again"
    assert judge({"answer": "", "rounds": 1}, **options)["decision"] == "pass"
    failing = judge({"answer": "", "rounds": 1}, on_exhausted="fail", **options)
    assert (failing["decision"], failing["decision_forced"]) == ("fail", True)


def test_a_forced_decision_is_told_as_an_event() -> None:
    told: list[Any] = []
    graph = Graph({"check": Validate(equals="y", max_rounds=1)}, [], "check")
    asyncio.run(graph.run({"answer": "n"}, tracer=told.append))
    assert [event.data for event in told if event.type == "limit"] == [
        {"reason": "max_rounds", "node": "check", "rounds": 1, "forced": True}
    ]


# --- equals and any_of compare like edges do.


@pytest.mark.parametrize("answer", ["yes", " Yes! ", "YES.", "yes , "])
def test_case_space_and_closing_punctuation_do_not_matter(answer: str) -> None:
    assert decision(answer, equals="yes") == "pass"
    assert decision(answer, any_of=["go", "Yes."]) == "pass"


@pytest.mark.parametrize(
    "answer", ["no", "yes please", "y", "", None, 1, True, [], ["yes"], 0, "!", {"yes": 1}]
)
def test_any_other_answer_fails(answer: Any) -> None:
    assert decision(answer, equals="yes") == "fail"
    assert decision(answer, any_of=["yes", "go"]) == "fail"


def test_numbers_and_truth_values_are_compared_as_such() -> None:
    assert decision("5.0", equals=5) == "pass"
    assert decision(5, equals="5") == "pass"
    assert decision("7", any_of=[5, 7]) == "pass"
    assert decision(True, equals=True) == "pass"
    assert decision("true", equals=True) == "pass"
    assert decision(False, equals=True) == "fail"


@pytest.mark.parametrize("answer", [None, "", "  ", "\n"])
def test_no_answer_never_equals_a_word(answer: Any) -> None:
    for word in ("null", "none", "no", "false", "0"):
        assert decision(answer, equals=word) == "fail"
        assert decision(answer, any_of=[word]) == "fail"


def test_a_missing_answer_fails_unless_that_is_ok() -> None:
    assert judge({}, equals="yes")["decision"] == "fail"
    assert judge({}, equals="yes", missing_is_ok=True)["decision"] == "pass"
    assert decision("no", equals="yes", missing_is_ok=True) == "fail"


# --- regex


@pytest.mark.parametrize(
    ("pattern", "answer", "value"),
    [
        (r"\d+ EUR", "It was 25 EUR.", "25 EUR"),
        (r"(\d+) EUR", "It was 25 EUR.", "25"),
        (r"(\d+)kg|(\d+)lb", "7lb", "7"),
        (r"^(a)?b$", "b", "b"),
        (r"^yes$", " yes\n", "yes"),
        (r"^\d$", 7, "7"),
        (r"^$", "", ""),
        (r"^true$", True, "true"),
    ],
)
def test_a_pattern_is_found_and_its_first_group_captured(
    pattern: str, answer: Any, value: str
) -> None:
    assert captured(answer, regex=pattern) == value
    assert decision(answer, regex=pattern) == "pass"


@pytest.mark.parametrize("answer", ["none", "", None, [], ["5"], {"n": "5"}, "a" * 10_001 + "5"])
def test_what_does_not_match_fails(answer: Any) -> None:
    assert decision(answer, regex="5") == "fail"


def test_a_long_text_does_not_match() -> None:
    assert decision("5" * 10_000, regex="5") == "pass"
    assert decision("5" * 10_001, regex="5") == "fail"
    assert decision(10**5000, regex="[0-9]") == "fail"


# --- check


def test_a_check_decides_and_captures() -> None:
    assert decision("12", check=str.isdigit) == "pass"
    assert decision("x", check=str.isdigit) == "fail"
    assert captured("12", check=lambda text: (True, int(text))) == 12
    assert captured("12", check=str.isdigit) == "12"
    assert captured("x", check=lambda text: (False, text)) == "nothing"
    assert captured("x", check=lambda text: (True, None)) is None


def test_a_check_refuses_by_a_value_error() -> None:
    def positive(text: Any) -> tuple[bool, int]:
        return int(text) > 0, int(text)

    assert [decision(text, check=positive) for text in ("x", "-1", "30")] == [
        "fail",
        "fail",
        "pass",
    ]


def test_an_async_check_is_awaited() -> None:
    async def check(text: str) -> tuple[bool, str]:
        await asyncio.sleep(0)
        return text == "a", text * 2

    class Check:
        async def __call__(self, text: str) -> bool:
            return text == "a"

    assert captured("a", check=check) == "aa"
    assert decision("b", check=check) == "fail"
    assert decision("a", check=Check()) == "pass"
    assert decision("a", check=lambda text: check(text)) == "pass"


def test_a_plain_check_runs_beside_the_event_loop() -> None:
    threads = []

    def check(answer: Any) -> bool:
        threads.append(threading.current_thread())
        return True

    decision("a", check=check)
    assert threads[0] is not threading.main_thread()


def test_a_check_is_asked_of_every_answer_but_none() -> None:
    asked: list[Any] = []

    def check(answer: Any) -> bool:
        asked.append(answer)
        return False

    answers: list[Any] = [{"ok": True}, False, 0, "", [], None]
    for answer in answers:
        assert decision(answer, check=check) == "fail"
    assert asked == answers[:-1]


def test_a_check_that_says_nothing_gives_no_verdict() -> None:
    def silent(answer: Any) -> None:
        return None

    assert decision("a", check=silent) == "fail"
    assert decision("a", check=silent, clarify_value="again") == "again"
    assert decision("a", check=silent, missing_is_ok=True) == "pass"


@pytest.mark.parametrize("result", ["maybe", 2, [True], re.match("a", "a"), (True, 1, 2), object()])
def test_a_check_that_returns_something_else_is_an_error(result: Any) -> None:
    with pytest.raises(StateError, match="validate: the check must return True or False"):
        decision("a", check=lambda answer: result)


def test_what_a_check_raises_goes_on() -> None:
    def check(answer: Any) -> bool:
        raise ConnectionError("down")

    def misuse(answer: Any) -> bool:
        raise ConfigError("wrong")

    with pytest.raises(ConnectionError):
        decision("a", check=check)
    with pytest.raises(ConfigError, match="wrong"):
        decision("a", check=misuse)


# --- llm: a verdict that a model left.


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ({"ok": True}, "pass"),
        ({"ok": "yes"}, "pass"),
        ({"ok": "false"}, "fail"),
        ({"ok": "no"}, "fail"),
        ({"ok": 0}, "fail"),
        ({}, "fail"),
        (None, "fail"),
        ([], "fail"),
        ("no", "fail"),
        ("yes", "pass"),
        (True, "pass"),
        ("whatever", "fail"),
    ],
)
def test_a_verdict_is_read_strictly(verdict: Any, expected: str) -> None:
    state = {"answer": "yes", "verdict": verdict}
    assert judge(state, strategy="llm", verdict_key="verdict")["decision"] == expected
    assert judge({"answer": verdict})["decision"] == expected


def test_an_answer_that_is_a_dict_is_a_verdict() -> None:
    for options in ({"equals": "x"}, {"any_of": ["x"]}, {"regex": "x"}):
        assert decision({"ok": True}, **options) == "pass"
        assert decision({"ok": "x"}, **options) == "fail"


def test_a_verdict_that_is_unclear_is_never_a_pass() -> None:
    options: dict[str, Any] = {"clear_field": "clear", "clarify_value": "again"}
    assert decision({"ok": False, "clear": False}, **options) == "again"
    assert decision({"ok": True, "clear": "no"}, **options) == "again"
    assert decision({"ok": True, "clear": True}, **options) == "pass"
    assert decision({"ok": False, "clear": True}, **options) == "fail"
    assert decision({"ok": False}, **options) == "fail"
    assert decision({"ok": True}, **options) == "pass"
    assert decision({"ok": True, "clear": False}, clear_field="clear") == "fail"
    assert decision({"clear": False}, missing_is_ok=True, **options) == "again"


def test_without_a_verdict_it_asks_again_where_it_can() -> None:
    assert decision({}, clarify_value="again") == "again"
    assert decision("hm", clarify_value="again") == "again"
    assert decision("", equals="yes", clarify_value="again") == "again"
    assert decision("what?", equals="yes", clarify_value="again") == "fail"
    assert decision(" ", regex="x", clarify_value="again") == "again"


# --- What is captured.


def test_each_strategy_captures_what_it_accepted() -> None:
    assert captured(" Yes!", equals="yes") == "yes"
    assert captured("5.0", any_of=[4, 5]) == "5"
    assert captured({"ok": True, "sum": 5}, value_field="sum") == 5
    assert captured({"ok": True}, value_field="sum") is None
    assert captured({"ok": True, "sum": 5}) == {"ok": True, "sum": 5}
    state = {"answer": "five, please", "verdict": {"ok": True, "sum": 5}}
    options: dict[str, Any] = {"verdict_key": "verdict", "value_key": "value"}
    assert judge(state, **options)["value"] == "five, please"
    assert judge(state, value_field="sum", **options)["value"] == 5


def test_nothing_is_captured_from_an_answer_that_did_not_pass() -> None:
    assert captured("b", regex="a") == "nothing"
    assert captured("b", regex="a", max_rounds=1) == "nothing"
    assert captured("", equals="a", missing_is_ok=True) == "nothing"


def test_the_answer_may_be_replaced_by_its_value() -> None:
    updates = judge({"age": "30"}, input_key="age", value_key="age", check=lambda a: (True, int(a)))
    assert updates["age"] == 30


# --- Which strategy counts.


def test_the_first_in_the_order_counts_or_the_one_that_is_named() -> None:
    given: dict[str, Any] = {
        "equals": "e",
        "any_of": ["a"],
        "regex": "r",
        "check": lambda answer: answer == "c",
    }
    for name, answer in {"check": "c", "regex": "r", "any_of": "a", "equals": "e"}.items():
        assert Validate(given).chosen_strategy == name
        assert decision(answer, **given) == "pass"
        assert decision("z", **given) == "fail"
        given = {**given, name: None}
    assert Validate(given).chosen_strategy == "llm"
    assert Validate(equals="e", regex="r", strategy="equals").chosen_strategy == "equals"


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"any_of": []}, "any_of"),
        ({"any_of": "yes"}, "any_of"),
        ({"any_of": ["yes", ""]}, "any_of"),
        ({"equals": ""}, "equals"),
        ({"equals": " ?! "}, "equals"),
        ({"equals": ["yes"]}, "equals"),
        ({"regex": ""}, "regex"),
        ({"regex": "(a"}, "regex"),
        ({"check": "isdigit"}, "check"),
        ({"strategy": "equal"}, "strategy"),
        ({"strategy": "regex"}, "strategy"),
        ({"on_exhausted": "stop"}, "on_exhausted"),
        ({"max_rounds": 0}, "max_rounds"),
        ({"max_rounds": True}, "max_rounds"),
        ({"max_rounds": "3"}, "max_rounds"),
        ({"pass_value": "fail"}, "fail_value"),
        ({"clarify_value": "Pass."}, "clarify_value"),
        ({"clarify_value": "?"}, "clarify_value"),
        ({"value_key": "rounds"}, "value_key"),
        ({"value_key": "decision_forced"}, "value_key"),
        ({"input_key": "rounds"}, "input_key"),
        ({"verdict_key": "rounds"}, "verdict_key"),
        ({"ok_field": ""}, "ok_field"),
        ({"regexp": "a"}, "regexp"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Validate({**SHORT, **options}, id="approval")
    assert caught.value.path.partition("[")[0] == path
    assert "validate 'approval'" in str(caught.value)
    assert path.removesuffix("_key") in str(caught.value)


def test_options_are_read_anew_when_they_are_set() -> None:
    node = Validate(equals="a", **SHORT)  # type: ignore[arg-type]
    node.config["regex"] = "b"
    assert node.chosen_strategy == "regex"
    assert asyncio.run(node.execute(ExecContext(), {"answer": "b"}))["decision"] == "pass"


def test_what_it_reads_writes_and_starts_clean_with_a_turn() -> None:
    node = Validate(equals="a", value_key="v")
    assert list(node.reads()) == ["answer"]
    assert list(node.writes()) == ["rounds", "decision", "decision_forced", "v"]
    assert list(node.turn_keys()) == ["rounds", "decision_forced"]
    assert list(Validate(verdict_key="verdict").reads()) == ["verdict"]
    assert list(Validate(verdict_key="verdict", value_key="v").reads()) == ["answer", "verdict"]
    assert isinstance(NodeRegistry().create("validate", {"equals": "a"}), Validate)


def test_a_question_is_asked_until_the_answer_passes() -> None:
    def age(answer: Any) -> tuple[bool, int]:
        return int(answer) > 0, int(answer)

    graph = Graph(
        {
            "ask": Interrupt(key="age", prompt="How old?"),
            "check": Validate(input_key="age", check=age, value_key="age"),
        },
        [Edge("ask", "check"), Edge("check", "ask", "decision=нет")],
        "ask",
    )
    run: dict[str, Any] = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "age"}
    prompts = []
    with pytest.raises(GraphInterrupt) as pause:
        asyncio.run(graph.run({}, **run))
    prompts.append(pause.value.prompt)
    for answer in ("x", -1):
        with pytest.raises(GraphInterrupt) as pause:
            asyncio.run(graph.run(resume={"age": answer}, **run))
        prompts.append(pause.value.prompt)
    result = asyncio.run(graph.run(resume={"age": "30"}, **run))
    assert prompts == ["How old?"] * 3
    assert (result["age"], result["rounds"], result["decision_forced"]) == (30, 3, False)
