"""References to environment variables: filled in after reading, and kept out of messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError
from teff.workflow import loads
from teff.workflow.environment import Environment

VARIABLES = {"A": "1", "EMPTY": "", "TRICKY": "x: y #z\nq: 1", "TOKEN": "sk-77-secret"}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("no reference", "no reference"),
        ("${A}", "1"),
        ("a${A}b${A}", "a1b1"),
        ("${A:-9}", "1"),
        ("${EMPTY}", ""),
        ("${EMPTY:-9}", "9"),
        ("${MISSING:-}", ""),
        ("${MISSING:-http://h:80/p}", "http://h:80/p"),
        ("${MISSING:-${ALSO_MISSING:-${A}}}", "1"),
        ('${MISSING:-{"a": 1}}', '{"a": 1}'),
        ("${A:?needed}", "1"),
        ("$${A}", "${A}"),
        ("$A and $", "$A and $"),
        ("${TRICKY}", VARIABLES["TRICKY"]),
    ],
)
def test_yml_07_references(text, filled):
    assert Environment(VARIABLES).fill(text) == filled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "${MISSING}",
            "variable MISSING is not set. Set it, or give a default: ${MISSING:-default}",
        ),
        ("${MISSING:?ask Ann}", "MISSING is not set: ask Ann"),
        ("${EMPTY:?}", "EMPTY is not set."),
        ("${A-9}", "is no reference to an environment variable"),
        ("${}", "is no reference"),
        ("${a b}", "is no reference"),
        ("${A", "never closed"),
    ],
)
def test_yml_07_wrong_references(text, words):
    with pytest.raises(ConfigError) as caught:
        Environment(VARIABLES).fill(text)
    assert words in str(caught.value)


def test_yml_07_a_value_cannot_add_keys():
    workflow = loads(
        "state: {initial: {note: '${TRICKY}'}}\nsteps: [transform: {action: now, id: at}]",
        environment=VARIABLES,
    )
    assert workflow.initial == {"note": "x: y #z\nq: 1"}


def test_yml_07_a_number_from_the_environment_is_a_number_where_one_is_expected():
    workflow = loads(
        "limits: {max_steps: '${N}'}\nsteps: [transform: {action: now}]", environment={"N": "3"}
    )
    assert workflow.limits is not None
    assert workflow.limits.max_steps == 3


def test_yml_07_a_missing_variable_is_an_error_with_its_place():
    with pytest.raises(ConfigError) as caught:
        loads("name: x\ndefault_model: ${MODEL}\nsteps: []", environment={})
    assert str(caught.value).startswith("<text>:2:16: the environment variable MODEL is not set")


def test_the_environment_of_the_process_is_the_default(monkeypatch):
    monkeypatch.setenv("TEFF_TEST_NAME", "Ann")
    workflow = loads("name: ${TEFF_TEST_NAME}\nsteps: [transform: {action: now}]")
    assert workflow.name == "Ann"


@pytest.mark.parametrize(
    "text",
    [
        "default_provider: ${TOKEN}\ndefault_model: m\nsteps: [llm: {prompt: hi}]",
        "steps: [llm: {prompt: hi, temperature: '${TOKEN}', provider: ollama, model: m}]",
        "steps: [command: {routes: [{when: '${TOKEN} >', goto: STOP}]}]",
        "steps: [type: {type: '${TOKEN}'}]",
        "tools: ['${TOKEN}']\nsteps: [transform: {action: now}]",
        "state: {reducers: {messages: '${TOKEN}'}}\nsteps: [transform: {action: now}]",
        "providers: {fast: {type: openai, api_key: '${TOKEN}'}}\nsteps: [transform: {action: now}]",
    ],
)
def test_log_04_values_never_appear_in_errors(text):
    try:
        findings = loads(text, environment=VARIABLES).check()
        messages = [str(finding) for finding in findings]
    except ConfigError as error:
        messages = [str(error)]
    assert messages
    for message in messages:
        assert "sk-77" not in message


def test_log_04_the_reference_stands_in_place_of_the_value():
    environment = Environment(VARIABLES)
    environment.fill("${TOKEN}")
    environment.fill("${A}")
    assert environment.hide("unknown provider 'sk-77-secret'") == "unknown provider '${TOKEN}'"
    assert environment.hide("in line 1: option '1' is wrong") == "in line 1: option '${A}' is wrong"


@given(st.text(alphabet="ab${}:-?A\n", max_size=30))
def test_any_text_is_filled_or_refused_in_one_line(text):
    try:
        message = ""
        Environment({"A": "x"}).fill(text)
    except ConfigError as error:
        message = str(error)
    assert "\n" not in message
