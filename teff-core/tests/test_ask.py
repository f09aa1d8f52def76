"""`Ask`: how the answer of a person is judged, as a recipe."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.graph import Edge, Graph
from teff.node import Ask, Validate
from teff.node.ask import AskOptions
from teff.node.validate import Validate as ValidateNode
from teff.runtime import ExecContext
from teff.schema.annotations import class_fields
from teff.testing import ScriptedProvider


def decide(ask: Ask, answer: Any, key: str = "answer") -> Any:
    state = {key: answer}
    updates = asyncio.run(ask.validate_node(key).execute(ExecContext(), state))
    return updates[ask.decision_key]


@pytest.mark.parametrize(
    ("ask", "strategy", "good", "bad"),
    [
        (Ask.equals("yes"), "equals", "Yes!", "no"),
        (Ask.equals(5), "equals", "5.0", "6"),
        (Ask.equals(True), "equals", True, False),
        (Ask.any_of(["yes", 5]), "any_of", 5, "no"),
        (Ask.regex(r"^\d+$"), "regex", "12", "x"),
        (Ask.check(str.isdigit), "check", "12", "x"),
        (Ask(equals="yes"), "equals", "yes", "no"),
        (Ask(equals="no", regex="^yes$"), "regex", "yes", "no"),
        (Ask(equals="yes", regex="^no$", strategy="equals"), "equals", "yes", "no"),
        (Ask(equals="yes", system="Judge."), "equals", "yes", "no"),
    ],
)
def test_each_strategy_gives_the_node_that_judges(
    ask: Ask, strategy: str, good: Any, bad: Any
) -> None:
    assert ask.strategy == strategy
    assert not ask.needs_classifier()
    assert isinstance(ask.validate_node("answer"), Validate)
    assert decide(ask, good, key="ship") == ask.pass_value == "да"
    assert decide(ask, bad, key="ship") == ask.fail_value == "нет"


def test_the_knobs_are_those_of_the_node() -> None:
    knobs: dict[str, Any] = {
        "input_key": "reply",
        "verdict_key": "v",
        "ok_field": "good",
        "output_key": "next",
        "pass_value": "go",
        "fail_value": "stop",
        "clear_field": "plain",
        "clarify_value": "again",
        "value_key": "sum",
        "value_field": "amount",
        "rounds_key": "tries",
        "max_rounds": 4,
        "missing_is_ok": True,
        "on_exhausted": "fail",
    }
    for ask in (Ask.equals("yes", **knobs), Ask.from_mapping({"equals": "yes", **knobs})):
        node = ask.validate_node()
        assert {name: getattr(node, name) for name in knobs} == knobs
        assert (ask.decision_key, ask.forced_key) == ("next", "next_forced")
        assert (ask.pass_value, ask.fail_value, ask.clarify_value) == ("go", "stop", "again")
        assert ask.validate_node("other").input_key == "other"
        assert ask.validate_node("other").id is None


def test_every_option_of_the_node_is_one_of_the_recipe() -> None:
    of_the_node = {field.name: field.type for field in class_fields(ValidateNode)}
    of_the_recipe = {field.name: field.type for field in class_fields(AskOptions)}
    model = {"system", "user", "schema", "model", "provider"}
    assert of_the_recipe.keys() - model == of_the_node.keys() - {"id"}


def test_two_recipes_do_not_share_what_they_make() -> None:
    ask = Ask.any_of(["a"])
    assert ask.validate_node("x") is not ask.validate_node("x")


# --- llm


def test_a_model_writes_the_verdict_that_is_judged() -> None:
    ask = Ask.llm(
        system="Does the customer accept {offer}?",
        model="small",
        value_key="date",
        value_field="day",
        clarify_value="again",
        pass_value="go",
        fail_value="stop",
    )
    assert (ask.strategy, ask.needs_classifier()) == ("llm", True)
    classifier, node = ask.classifier("reply"), ask.validate_node("reply")
    assert (classifier.output_key, node.verdict_key, node.clear_field) == (
        "verdict",
        "verdict",
        "clear",
    )
    provider = ScriptedProvider(
        [
            json.dumps({"ok": True, "clear": True, "day": "Monday"}),
            json.dumps({"ok": False, "clear": False, "day": ""}),
            json.dumps({"ok": False, "clear": True, "day": ""}),
        ]
    )
    graph = Graph(
        {"classify": classifier, "judge": node},
        [Edge("classify", "judge")],
        "classify",
        providers={"scripted": provider},
        default_provider="scripted",
    )
    results = [
        asyncio.run(graph.run({"reply": reply, "offer": "5 EUR"}))
        for reply in ("Monday, fine", "hm", "no")
    ]
    assert [result["decision"] for result in results] == ["go", "again", "stop"]
    assert results[0]["date"] == "Monday"
    assert "date" not in results[1]
    request = provider.requests[0]
    assert request.model == "small"
    sent = json.dumps(request.messages, default=str)
    assert "accept 5 EUR?" in sent
    assert "Monday, fine" in sent


def test_the_classifier_has_an_instruction_of_its_own() -> None:
    ask = Ask.from_mapping({"llm": {}, "value_field": "day", "clarify_value": "again"})
    classifier = ask.classifier()
    assert classifier.input_key == "answer"
    assert not classifier.stream
    for field in ("'ok'", "'clear'", "'day'"):
        assert field in classifier.system


def test_what_is_judged_can_be_a_template() -> None:
    classifier = Ask.llm(user="Question: {question}. Answer: {reply}").classifier("reply")
    assert classifier.prompt == "Question: {question}. Answer: {reply}"


def test_the_schema_of_the_verdict() -> None:
    assert Ask.llm().verdict_schema["required"] == ["ok"]
    assert Ask.llm(ok_field="good", clear_field="plain", value_field="v").verdict_schema[
        "required"
    ] == ["good", "plain", "v"]
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    ask = Ask.llm(schema=schema, clarify_value="again")
    assert ask.verdict_schema == schema
    assert ask.validate_node().clear_field == ""
    with_clear = {"type": "object", "properties": {"ok": {}, "clear": {}}}
    assert Ask.llm(schema=with_clear, clarify_value="a").validate_node().clear_field == "clear"
    with pytest.raises(ConfigError, match="the schema has no property 'good'") as caught:
        Ask.llm(schema=schema, ok_field="good")
    assert caught.value.path == "schema"


def test_a_strategy_without_a_model_has_no_classifier() -> None:
    with pytest.raises(ConfigError, match="the strategy 'equals' asks no model"):
        Ask.equals("yes").classifier()


# --- Workflow files


@pytest.mark.parametrize(
    ("data", "strategy"),
    [
        ({"equals": "yes"}, "equals"),
        ({"any_of": ["yes", "да"], "max_rounds": 3}, "any_of"),
        ({"regex": "^y"}, "regex"),
        ({"check": str.isdigit}, "check"),
        ({"llm": {"system": "Judge.", "model": "m", "provider": "p"}}, "llm"),
        ({"llm": None}, "llm"),
        ({"strategy": "llm"}, "llm"),
        ({"equals": "yes", "max_rounds": "3"}, "equals"),
        ({"equals": "yes", "llm": {}}, "equals"),
        ({"equals": "yes", "llm": {}, "strategy": "llm"}, "llm"),
    ],
)
def test_a_mapping_gives_the_same_recipe(data: dict[str, Any], strategy: str) -> None:
    before = dict(data)
    ask = Ask.from_mapping(data)
    assert ask.strategy == strategy
    assert repr(ask) == f"<Ask {strategy!r}>"
    assert data == before


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ({"equal": "yes"}, "equal", "Did you mean 'equals'?"),
        ({"equals": "yes", "max_round": 3}, "max_round", "Did you mean 'max_rounds'?"),
        ({"system": "Judge."}, "system", "belongs under 'llm'"),
        ({"llm": {"sistem": "Judge."}}, "llm.sistem", "Did you mean 'system'?"),
        ({"llm": "Judge."}, "llm", "is a mapping"),
        ({"llm": {"system": 3}}, "system", "must be text"),
        ({}, "strategy", "no strategy is given"),
        ({"pass_value": "go"}, "strategy", "no strategy is given"),
        ({"any_of": []}, "any_of", "holds no value"),
        ({"any_of": "yes"}, "any_of", "must be"),
        ({"regex": "("}, "regex", "is no pattern"),
        ({"check": "isdigit"}, "check", "must be"),
        ({"equals": "a", "max_rounds": "x"}, "max_rounds", "whole number"),
        ({"equals": "a", "max_rounds": True}, "max_rounds", "whole number"),
        ({"equals": "a", "pass_value": "x", "fail_value": "X"}, "fail_value", "tell them"),
        ({1: 2}, "1", "unknown key 1"),
    ],
)
def test_a_wrong_mapping_is_refused_by_name(data: dict[Any, Any], path: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Ask.from_mapping(data)
    assert caught.value.path == path
    assert said in str(caught.value)


def test_an_unknown_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'pass_value'"):
        Ask.equals("yes", pas_value="go")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="'max_rounds' must be a whole number"):
        Ask.equals("yes", max_rounds="3")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a strategy is a mapping, not str"):
        Ask.from_mapping("yes")  # type: ignore[arg-type]
