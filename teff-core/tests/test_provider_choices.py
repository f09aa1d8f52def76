"""A constrained choice comes back bare, whatever form the server gave it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.provider.choices import choice_grammar, choice_schema, read_choice

CHOICES = ["billing", "technical", 'say "é"', "finish"]


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("billing", "billing"),
        ("  billing\n", "billing"),
        ('"billing"', "billing"),
        ('\n "billing"  ', "billing"),
        ('{"choice": "billing"}', "billing"),
        ('{\n  "choice" : "billing"\n', "billing"),
        ('{"choice": "say \\"\\u00e9\\""}', 'say "é"'),
        ('{"choice": "bill', None),
        ('{"choice": "other"}', None),
        ('{"other": "billing"}', None),
        ('{"choice": ["billing"]}', None),
        ("billing, of course", None),
        ("", None),
        ("[" * 100_000, None),
    ],
)
def test_a_choice_is_read(text: str, choice: str | None) -> None:
    assert read_choice(text, CHOICES) == choice


choice_texts = st.lists(st.text(min_size=1), min_size=1, max_size=4)


@given(choice_texts, st.data())
def test_every_choice_is_read_back_from_each_form(choices: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.sampled_from(choices))
    for form in (chosen, json.dumps({"choice": chosen}), json.dumps({"choice": chosen}, indent=2)):
        assert read_choice(form, choices) == chosen
    assert read_choice(json.dumps(chosen), [chosen]) == chosen


@given(st.text())
def test_whatever_is_read_is_one_of_the_choices(text: str) -> None:
    assert read_choice(text, CHOICES) in (None, *CHOICES)


def test_a_schema_fits_the_choices_only() -> None:
    assert choice_schema(["a"], as_object=True) == {
        "type": "object",
        "properties": {"choice": {"type": "string", "enum": ["a"]}},
        "required": ["choice"],
        "additionalProperties": False,
    }


def test_a_grammar_escapes_what_would_end_its_texts() -> None:
    assert choice_grammar(['a"b', "c\\d", "e\nf", "g\x01h", "é"]) == (
        r'root ::= "a\"b" | "c\\d" | "e\nf" | "g\x01h" | "é"'
    )
