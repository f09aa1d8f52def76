from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.conditions import evaluate
from teff.errors import ConfigError
from teff.prompt import compile_template, render_template, to_text

names = st.sampled_from(["a", "b", "user.n", "xs[0]", "my-key"])
scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
states = st.fixed_dictionaries(dict.fromkeys(["a", "b", "user.n", "xs[0]", "my-key"], values))
plain = st.text(st.characters(exclude_characters="{}"), max_size=10)


@given(st.lists(st.tuples(plain, names)), plain, states)
def test_values_stand_where_their_placeholders_stood(
    pieces: list[tuple[str, str]], end: str, state: dict[str, object]
) -> None:
    template = "".join(f"{text}{{{name}}}" for text, name in pieces) + end
    expected = "".join(text + to_text(state[name]) for text, name in pieces) + end

    assert render_template(template, state) == expected
    assert compile_template(template).keys == {name for _, name in pieces}


@given(st.lists(plain | names.map("{{{{{0}}}}}".format)))
def test_doubled_braces_give_the_literal_placeholder(pieces: list[str]) -> None:
    template = "".join(pieces)

    assert compile_template(template).keys == frozenset()
    assert render_template(template, {}) == template.replace("{{", "{").replace("}}", "}")


objects = st.dictionaries(plain, plain, max_size=2)
nested = st.dictionaries(plain, st.lists(objects, max_size=2) | objects, max_size=3)


@given(nested, st.sampled_from([None, 2]))
def test_json_stands_in_a_template_as_it_is(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)

    assert render_template(text, {}) == text


@given(st.text("{}a1|.[] \n", max_size=30))
def test_braces_that_open_no_name_are_literal(text: str) -> None:
    text = text.replace("{a", "{ a")

    assert render_template(text, {}) == text


@given(st.text('{}ab|.[0] \n"-', max_size=30), st.text("{}ab|", max_size=10))
def test_what_a_value_says_is_not_expanded(text: str, value: str) -> None:
    template = compile_template(text)
    marks = dict.fromkeys(template.keys | template.optional_keys, "\0")
    inserted = dict.fromkeys(template.keys | template.optional_keys, f"<{value}>")

    assert template.render(inserted) == template.render(marks).replace("\0", f"<{value}>")


@given(st.text('{}ab|.[0] \n"-', max_size=30))
def test_a_template_fails_exactly_where_a_key_without_default_is_missing(text: str) -> None:
    template = compile_template(text)

    if template.keys:
        with pytest.raises(ConfigError):
            template.render({})
    else:
        template.render({})


@given(names, values, plain)
def test_a_default_stands_exactly_where_a_condition_says_empty(
    name: str, value: object, default: str
) -> None:
    for state in ({}, {name: value}):
        empty = evaluate(f"{name}=", state)
        expected = default if empty else to_text(value)
        assert render_template(f"{{{name}|{default}}}", state) == expected


@given(values)
def test_lists_and_dicts_come_out_as_json(value: object) -> None:
    assert json.loads(to_text([value])) == [value]
