from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType

import pytest

from teff.errors import ConfigError
from teff.prompt import compile_template, render_template, to_text


def test_a_prompt_takes_its_values_from_the_state() -> None:
    prompt = "Answer {customer.name} about {topics[0]}."
    state = {"customer": {"name": "Ann"}, "topics": ["invoices"]}

    assert render_template(prompt, state) == "Answer Ann about invoices."


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("", ""),
        ("no placeholder", "no placeholder"),
        ("{a}", "A"),
        ("{a}{a} {n}", "AA 5"),
        ("{a_b2}", "under"),
        ("{my-key}", "hyphen"),
        ("{größe}", "groß"),
        ("{user.n}", "flat"),
        ("{user.m}", "nested"),
        ("{xs[0]}{xs.0}{xs[-1]}", "556"),
        ("{rows[0].name}", "first"),
        ("{{a}}", "{a}"),
        ("{{user.n}} {{xs[0]}} {{a|b}}", "{user.n} {xs[0]} {a|b}"),
        ("{missing|some default: 5%, (x)}", "some default: 5%, (x)"),
        ("{missing|}", ""),
        ("{missing.part[3]|none}", "none"),
        ("{a|unused}", "A"),
        ("{blank|friend}", "friend"),
        ("{nothing|friend}", "friend"),
        ("{zero|friend}", "0"),
        ("{no|friend}", "false"),
        ("{blank}{nothing}", ""),
        ("{missing|two\nlines}", "two\nlines"),
    ],
)
def test_placeholders(template: str, rendered: str) -> None:
    state = {
        "a": "A",
        "n": 5,
        "a_b2": "under",
        "my-key": "hyphen",
        "größe": "groß",
        "user.n": "flat",
        "user": {"n": "no", "m": "nested"},
        "xs": [5, 6],
        "rows": [{"name": "first"}],
        "blank": "",
        "nothing": None,
        "zero": 0,
        "no": False,
    }

    assert render_template(template, state) == rendered


@pytest.mark.parametrize(
    "template",
    [
        "{",
        "}",
        "{}",
        "{{}}",
        "{ }",
        "{{ }}",
        "{ a }",
        "{{ a }}",
        "{1; 2}",
        "{0}",
        "{12}",
        '{\n "a"}',
        '{"a": {"b": [{}, {}]}}',
        '{"a":1}',
        "{a:>999999999}",
        "{a!r}",
        "{a b}",
        "{a.}",
        "{.a}",
        "{a[}",
        "{a[b]}",
        "{a[0]b}",
        "{-a}",
        "{a-}",
        "{a|b{ }",
        r"\d{2,3} and x{1}",
        "function f() { return a; }",
        "{% if a %} {# a #}",
        "{a\n}",
    ],
)
def test_every_other_brace_is_literal(template: str) -> None:
    assert render_template(template, {}) == template
    assert compile_template(template).keys == frozenset()


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("{{a}", "{A"),
        ("{a}}", "A}"),
        ('{"a": {"b": {a}}}', '{"a": {"b": A}}'),
        ("{{{a}}}", "{{a}}"),
        ("{a}{{a}}{a}", "A{a}A"),
        ("{ {a} }", "{ A }"),
    ],
)
def test_braces_around_a_placeholder(template: str, rendered: str) -> None:
    assert render_template(template, {"a": "A"}) == rendered


class Color(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as {it} is\n", "as {it} is\n"),
        ("", ""),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (1.5, "1.5"),
        (math.nan, "nan"),
        (Decimal("1.10"), "1.10"),
        (date(2026, 1, 31), "2026-01-31"),
        ([], "[]"),
        ({}, "{}"),
        ([1, "two", None, True], '[1, "two", null, true]'),
        ((1, 2), "[1, 2]"),
        ({"b": "Łódź 🙂"}, '{"b": "Łódź 🙂"}'),
        ({"at": date(2026, 1, 31)}, '{"at": "2026-01-31"}'),
        ({1: 2}, '{"1": 2}'),
        ({"c", "a", "b"}, '["a", "b", "c"]'),
        ({"s": frozenset({2, 1})}, '{"s": [1, 2]}'),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (Color.RED, "red"),
    ],
)
def test_values_as_text(value: object, text: str) -> None:
    assert to_text(value) == text
    assert render_template("{x}", {"x": value}) == text


def test_a_value_that_holds_itself_is_shown_all_the_same() -> None:
    value: list[object] = [1]
    value.append(value)

    assert to_text(value) == "[1, [...]]"


def test_a_lone_surrogate_does_not_break_a_prompt() -> None:
    assert render_template("{x}", {"x": ["\ud800"]}) == '["\ud800"]'


def test_the_state_may_be_any_mapping() -> None:
    assert render_template("{a.b}", MappingProxyType({"a": MappingProxyType({"b": 1})})) == "1"


def test_attributes_are_out_of_reach() -> None:
    for template in ("{a.__class__}", "{a.upper}", "{a.__class__.__mro__}"):
        with pytest.raises(ConfigError, match="has no parts"):
            render_template(template, {"a": "text"})


# Templates that are compiled.


def test_a_template_knows_the_keys_that_it_needs() -> None:
    template = compile_template("{a.b} {c} {c|x} {d[0]|y} {{e}} {f-g}")

    assert template.keys == {"a.b", "c", "f-g"}
    assert template.root_keys == {"a", "c", "f-g"}
    assert template.optional_keys == {"d[0]"}
    assert template.source == "{a.b} {c} {c|x} {d[0]|y} {{e}} {f-g}"


def test_a_template_is_rendered_many_times() -> None:
    template = compile_template("Hi {name}")

    assert [template.render({"name": name}) for name in "AB"] == ["Hi A", "Hi B"]


def test_a_template_is_a_value() -> None:
    assert compile_template("{a}") == compile_template("{a}")
    assert compile_template("{a}") != compile_template("{b}")
    assert "{a}" in repr(compile_template("{a}"))
    with pytest.raises(AttributeError):
        compile_template("{a}").source = "x"  # type: ignore[misc]


@pytest.mark.parametrize("wrong", [None, 5, {"a": 1}, ["{a}"]])
def test_what_is_no_text_is_no_template(wrong: object) -> None:
    with pytest.raises(ConfigError, match="a template is text"):
        render_template(wrong, {})  # type: ignore[arg-type]


# Missing keys.


@pytest.mark.parametrize(
    ("template", "state", "message"),
    [
        ("{a}", {}, "a template needs the key 'a', and the state does not hold it."),
        ("{nmae}", {"name": "Bo"}, "Did you mean 'name'?"),
        ("{zzz}", {"name": "Bo", "age": 3, "_scratch": 1}, "Known: age, name."),
        ("{_scrtch}", {"_scratch": 1}, "Did you mean '_scratch'?"),
        ("{user.nmae}", {"user": {"name": "Bo"}}, "Did you mean 'user.name'?"),
        ("{rows[0].nmae}", {"rows": [{"name": 1}]}, "Did you mean 'rows[0].name'?"),
        ("{rows[2]}", {"rows": [1]}, "'rows' is a list of 1."),
        ("{user.name}", {"user": "Bo"}, "'user' is str, which has no parts."),
    ],
)
def test_a_missing_key_is_named_with_the_nearest_one(
    template: str, state: dict[str, object], message: str
) -> None:
    with pytest.raises(KeyError) as caught:
        render_template(template, state)

    assert message in str(caught.value)


def test_a_missing_key_names_the_template_and_the_node() -> None:
    with pytest.raises(ConfigError) as caught:
        compile_template("Dear {nmae}").render({"name": "Bo"}, name="system", node="writer")

    assert str(caught.value) == (
        "the template 'system' of node 'writer' needs the key 'nmae', and the state does not hold "
        "it. Did you mean 'name'?"
    )


def test_an_error_shows_keys_and_never_values() -> None:
    with pytest.raises(ConfigError) as caught:
        render_template("{tokne}", {"token": "s-123"})

    assert "s-123" not in str(caught.value)


# Faults that people reported of templates.


def test_tpl_01_json_in_a_prompt_is_literal() -> None:
    template = 'Answer {q} as {"act": "<x>", "n": {"k": 1}}'

    assert render_template(template, {"q": "why"}) == (
        'Answer why as {"act": "<x>", "n": {"k": 1}}'
    )
    for literal in ("{1; 2}", "{ }", "{}", '{\n "a"}'):
        assert render_template(literal, {}) == literal


def test_tpl_02_text_with_braces_is_inserted_verbatim() -> None:
    tools = "{'url': {'type': 'str'}} {website_url}"

    assert render_template("Use: {tools}", {"tools": tools}) == f"Use: {tools}"


def test_tpl_04_a_value_is_never_expanded() -> None:
    state = {"name": "{token} {{7*7}} {{token}}", "token": "s-123"}

    assert render_template("Hi {name}", state) == "Hi {token} {{7*7}} {{token}}"
    rendered = render_template("Hi {name}", state)
    assert render_template("{text}", {"text": rendered, **state}) == rendered
    assert (
        render_template("{no|{name}}", {"no": "{token}", **state})
        == "{no|{token} {{7*7}} {{token}}}"
    )


def test_tpl_06_a_misspelt_key_is_an_error_and_a_default_makes_it_lenient() -> None:
    with pytest.raises(ConfigError, match=r"'nmae'.*'name'"):
        render_template("Dear {nmae}", {"name": "Bo"})
    assert render_template("Dear {nmae|}", {"name": "Bo"}) == "Dear "


def test_tpl_08_nested_values_follow_the_paths_of_conditions() -> None:
    state = {"user": {"n": "Ann"}, "user.n": "flat", "xs": [5]}

    assert render_template("{user.n}", state) == "flat"
    assert render_template("{xs.0}", state) == "5"
    with pytest.raises(ConfigError, match=r"'user\.z'.*Did you mean 'user\.n'"):
        render_template("{user.z}", state)
