"""Reading YAML: YAML 1.2, with the place of everything, and nothing that surprises."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.errors import ConfigError
from teff.workflow.yaml import MAX_CHARACTERS, Place, Written, read_yaml


def read(text: str) -> Written:
    written = read_yaml(text, "flow.yaml")
    assert written is not None
    return written


def value_of(text: str) -> Any:
    return read(text).value


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, "flow.yaml")
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_yml_01_words_of_yaml_1_1_stay_words():
    assert value_of("options: [yes, no, off, On, NO, y]\nyes: NO") == {
        "options": ["yes", "no", "off", "On", "NO", "y"],
        "yes": "NO",
    }


def test_true_and_false_are_the_truth_values():
    assert value_of("[true, false, True, FALSE]") == [True, False, True, False]
    assert value_of("[\"true\", 'false']") == ["true", "false"]


@pytest.mark.parametrize(
    "text", ["0123", "10:30", "1:2:3", "1_000", "2024-05-01", "1.2.3", "+", "."]
)
def test_yml_03_times_codes_and_versions_stay_text(text):
    assert value_of(f"at: {text}") == {"at": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("1e-3", 0.001),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("+12", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("0", 0),
    ],
)
def test_yml_03_numbers_are_numbers(text, value):
    found = value_of(f"n: {text}")["n"]
    assert found == value
    assert type(found) is type(value)


def test_yml_03_the_source_of_a_number_is_kept():
    entry = read("version: 1.10").entries["version"]
    assert (entry.value, entry.text) == (1.1, "1.10")


@pytest.mark.parametrize("text", [".inf", "-.Inf", ".nan", "1e999"])
def test_numbers_that_the_state_cannot_hold_are_refused(text):
    assert refused(f"n: {text}").startswith("flow.yaml:1:4: ")


def test_nothing_null_and_tilde_are_none_and_only_nothing_is_missing():
    written = read("a:\nb: null\nc: ~\nd: ''")
    assert written.value == {"a": None, "b": None, "c": None, "d": ""}
    assert [entry.is_missing for entry in written.entries.values()] == [True, False, False, False]


def test_keys_are_text():
    assert value_of("{1.10: a, true: b, null: c, 0x10: d}") == {
        "1.10": "a",
        "true": "b",
        "null": "c",
        "0x10": "d",
    }


def test_places_count_from_one():
    written = read("name: desk\nsteps:\n  - llm:\n      prompt: hi\n")
    step = written.entries["steps"].elements[0]
    assert written.keys["steps"] == Place(2, 1)
    assert step.keys["llm"] == Place(3, 5)
    assert step.entries["llm"].entries["prompt"].place == Place(4, 15)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "\n\n"])
def test_a_file_without_a_document_is_none(text):
    assert read_yaml(text) is None


def test_yml_04_a_key_that_stands_twice_names_both_lines():
    message = refused("nodes:\n  draft: {prompt: a}\n  edit: {}\n  draft: {prompt: b}\n")
    assert message == (
        "flow.yaml:4:3: the key 'draft' stands twice in one mapping: in line 2 and in line 4. "
        "Remove one of them, or rename it."
    )
    assert "'prompt' stands twice" in refused("{prompt: a, prompt: b}")
    assert "'1' stands twice" in refused("1: a\n'1': b")


def test_yml_04_merge_keys_are_legal():
    text = (
        "base: &base {a: 1, b: 2}\nmore: &more {b: 3, c: 4}\nboth:\n  <<: [*base, *more]\n  a: 9\n"
    )
    assert value_of(text)["both"] == {"a": 9, "b": 2, "c": 4}
    assert value_of("x: &x {a: 1}\ny: {<<: *x}")["y"] == {"a": 1}
    assert "'<<' stands twice" in refused("x: &x {a: 1}\ny:\n  <<: *x\n  <<: *x")
    assert "takes a mapping" in refused("y: {<<: 3}")


def test_yml_05_aliases_that_multiply_are_refused():
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    assert "with what aliases repeat" in refused("\n".join(bomb))


def test_yml_05_a_few_anchors_are_fine():
    text = "a: &a {x: 1}\nb: &b [1, 2]\nc: &c text\nd: [*a, *b, *c, *a, *b]"
    assert value_of(text)["d"] == [{"x": 1}, [1, 2], "text", {"x": 1}, [1, 2]]


def test_yml_05_large_and_deep_files_are_refused():
    assert "2,000,000" in refused("a" * (MAX_CHARACTERS + 1))
    assert "deep" in refused("[" * 5_000)
    assert "deep" in refused("- " * 5_000)


@pytest.mark.parametrize("text", ["a: *b", "a: &a [*a]"])
def test_an_alias_needs_an_anchor_above(text):
    assert "that is not above" in refused(text)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("steps:\n  when: !done", "2:9", "'!done' is no tag"),
        ("steps:\n  prompt: @you", "2:11", "cannot begin with '@'. Put the text in quotes."),
        ("prompt: %x", "1:9", "cannot begin with '%'"),
        ("prompt: `x`", "1:9", "cannot begin with '`'"),
        ("a:\n\tb: 1", "2:1", "a tab stands where only spaces may indent"),
        ("a: 1\n---\nb: 2", "2:1", "a second document begins here"),
        ("a: !!python/object:os.system x", "1:4", "'!!python/object:os.system' is no tag"),
        ("prompt: **bold**", "1:10", "'*' or '&'"),
        ("prompt: [INST] hi", "1:16", "something follows a value that is complete"),
        ('prompt: "a" b', "1:13", "something follows a value that is complete"),
        ("a: 1\nb: 'open\nc: 2", "2:4", "a quote is never closed"),
        ('a: "\\d"', "1:6", "'\\d' means nothing in double quotes"),
        ("a: b: c", "1:5", "a ':' stands where no key can be"),
        ("a:\n  b: 1\n c: 2", "3:2", "not indented as the lines before it"),
        ("a: [1, 2\nb: 3", "2:2", "not closed with ']'"),
        ("a: {b: Who?, c: d}", "1:11", "a '?' stands in a text between brackets. Put"),
        ("? [a]\n: b", "1:3", "a key must be a plain name"),
        (": b", "1:1", "is complete"),
        ("a: \x07", "1:4", "U+0007 may not stand in a YAML file"),
        ("a: - b", "1:4", "a '-' stands where no list can begin"),
        ("a: >b", "1:5", "'>' or '|'"),
    ],
)
def test_yml_09_what_is_no_yaml_has_a_place_and_a_way_out(text, place, words):
    message = refused(text)
    assert message.startswith(f"flow.yaml:{place}: ")
    assert words in message
    assert message.endswith(".")


def test_yml_09_a_comment_in_place_of_a_value_is_remembered():
    entry = read("prompt: #1 first").entries["prompt"]
    assert entry.is_missing
    assert entry.comment == "#1 first"
    assert read("prompt:\n  # a comment\n  text").entries["prompt"].value == "text"


@pytest.mark.parametrize("text", ["a: {topic}", "a: {topic} is late", "- {a, b}"])
def test_an_unquoted_template_is_reported_as_such(text):
    message = refused(text)
    assert "without quotes is a mapping in YAML" in message
    assert 'write "{' in message


def test_an_empty_mapping_and_explicit_nulls_are_no_template():
    assert value_of("a: {}\nb: {x: null}") == {"a": {}, "b": {"x": None}}


def test_texts_are_filled_in_but_not_numbers_or_keys():
    written = read_yaml("a: x\n'x': 3\nc: [x]\nd: |\n  x", fill=lambda text: text.replace("x", "y"))
    assert written is not None
    assert written.value == {"a": "y", "x": 3, "c": ["y"], "d": "y"}


# PyYAML writes 0E0 without quotes: in YAML 1.1 it is a text, in YAML 1.2 a number.
texts = (st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]))).filter(
    lambda text: re.fullmatch(r"[-+]?\d+[eE][-+]?\d+|0o[0-7]+", text) is None
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts.filter(bool), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(values, st.booleans())
def test_what_pyyaml_writes_is_read_back(value, in_flow_style):
    text = yaml.safe_dump(value, default_flow_style=in_flow_style, allow_unicode=True)
    written = read_yaml(text)
    assert (None if written is None else written.value) == value


pieces = st.sampled_from(
    [*"ab:-?#&*!|>%@`'\"{}[], \n\t\r0.1e~<$\\é\x85\u2028\x07\ufeff", "<<", "---", "...", "- ", ": "]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(pieces, max_size=40).map("".join))
def test_any_text_is_read_or_refused_in_one_line_with_its_place(text):
    try:
        message = "flow.yaml:1:1: "
        read_yaml(text, "flow.yaml")
    except ConfigError as error:
        message = str(error)
    assert re.match(r"flow\.yaml:\d+:\d+: ", message)
    assert "\n" not in message
