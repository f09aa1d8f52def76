"""Whatever surrounds a JSON value, it is read back; whatever is read, nothing else is raised."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teff.harness import StructuredOutput
from teff.harness.json_reply import find_json
from teff.provider import ChatReply
from teff.schema.validate import SchemaValidator

NAMES = st.text(min_size=1, max_size=6)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=20)
    | st.sampled_from(["<think>", "```", "a [1] {", '"', "</think>"]),
    "integer": st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "null": st.none(),
}


def objects(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.sampled_from([{"type": kind} for kind in SCALARS]),
    lambda below: (
        below.map(lambda items: {"type": "array", "items": items})
        | st.dictionaries(NAMES, below, max_size=3).map(objects)
    ),
    max_leaves=6,
)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if schema["type"] == "array":
        return st.lists(values(schema["items"]), max_size=3)
    if schema["type"] == "object":
        return st.fixed_dictionaries(
            {name: values(field) for name, field in schema["properties"].items()}
        )
    return SCALARS[schema["type"]]


CASES = SCHEMAS.flatmap(lambda schema: st.tuples(st.just(schema), values(schema)))
NOISE = st.sampled_from(
    [
        "{}",
        "```json\n{}\n```",
        "```\n{}\n```",
        "```json\n{}",
        "Here you are:\n{}\nI hope that this helps.",
        '<think>It could be {{"draft": 1}}, or [1].</think>\n{}',
        'First [1], then {{"draft": 2}}.</think>\n{}\n',
        "<think>never [</think> Sure.\n```JSON\n{}\n```\nDone {{now}}.",
        "\ufeff\n {} \n",
    ]
)


@given(CASES, NOISE, st.booleans(), st.sampled_from([None, 2]))
def test_a_value_is_read_back_from_what_is_around_it(
    case: tuple[dict[str, Any], Any], noise: str, escape: bool, indent: int | None
) -> None:
    schema, value = case
    written = json.dumps(value, ensure_ascii=escape, indent=indent)
    reply = ChatReply(text=noise.format(written))
    answer = StructuredOutput.of(json_schema=schema).read(reply)
    assert answer.problems == ()
    assert answer.value == value
    assert json.dumps(answer.value) == json.dumps(value)


PIECES = st.lists(
    st.sampled_from(
        [
            *'[]{}",:\\\n x10-.e',
            *("```", "```json", "<think>", "</think>", "[THINK]", '{"a": 1}', "null", "true"),
            *("NaN", '"a"', "<|channel|>final<|message|>", "\ud800", "\ufeff"),
        ]
    ),
    max_size=60,
).map("".join)


@settings(max_examples=300)
@given(st.text() | PIECES, st.sampled_from(["stop", "length"]), SCHEMAS)
def test_any_text_is_read_or_has_problems(text: str, finish: str, schema: dict[str, Any]) -> None:
    reply = ChatReply(text=text, finish_reason=finish)
    for wanted in (
        StructuredOutput.of(json_schema=schema),
        StructuredOutput.of(),
        StructuredOutput.of(response_path="a"),
    ):
        answer = wanted.read(reply)
        assert answer.problems or not SchemaValidator(wanted.schema or {}).problems(answer.value)
        assert all(answer.problems)


@given(PIECES)
def test_every_value_that_is_found_is_json(text: str) -> None:
    for candidate in find_json(text).candidates:
        assert json.loads(json.dumps(candidate.value, allow_nan=False)) == candidate.value


def from_the_library(schema: dict[str, Any], value: Any) -> bool:
    from jsonschema import Draft202012Validator

    return bool(Draft202012Validator(schema).is_valid(value))


JSON = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, "1", "value"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=2),
    max_leaves=5,
)


@given(st.lists(JSON, max_size=6))
def test_unique_items_are_those_of_the_library(items: list[Any]) -> None:
    schema = {"uniqueItems": True}
    assert (not SchemaValidator(schema).problems(items)) is from_the_library(schema, items)


@given(CASES, st.text(alphabet="secret<>/ \n", max_size=20))
def test_thinking_is_never_part_of_the_answer(case: tuple[dict[str, Any], Any], said: str) -> None:
    schema, value = case
    written = json.dumps(value)
    thought = said.replace("<", "")
    reply = ChatReply(text=f"<think>hidden-thought {thought}</think>{written}")
    answer = StructuredOutput.of(json_schema=schema).read(reply)
    assert answer.text == written.strip()
