"""Structured output: schemas from types, lenient reading, complete checks, further questions."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
from typing import Any, Literal, NotRequired, TypedDict

import attrs
import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, StructuredOutputError
from teff.flow import Flow
from teff.harness import StructuredOutput
from teff.harness.json_reply import find_json
from teff.messages import message_text, user
from teff.node import LLM
from teff.provider import ChatReply
from teff.runtime import StreamEvent
from teff.schema.shape import shape_of
from teff.schema.validate import SchemaValidator
from teff.testing import ScriptedProvider

FENCE = "```"
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
RIGA = '{"city": "Riga", "days": 2}'


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Trip(TypedDict):
    city: str
    days: int
    note: NotRequired[str]


class Loose(TypedDict, total=False):
    city: str


@dataclasses.dataclass
class Stay:
    city: str
    nights: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)
    mood: Mood = Mood.GOOD
    until: str | None = None


@attrs.define
class Order:
    item: str
    count: int = attrs.field(default=1, validator=attrs.validators.ge(1))


@attrs.define
class Tree:
    v: int
    kids: list[Tree] = attrs.field(factory=list)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def ask(provider: ScriptedProvider, state: Any = None, **options: Any) -> Any:
    """Run a flow of one `LLM`; those options that a run takes go to the run."""
    given = {key: options.pop(key) for key in ("tools", "emit") if key in options}
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = flow.llm(**{"input_key": "input", **options}).compile()
    return asyncio.run(graph.run({"input": "Where to?"} if state is None else state, **given))


def read(text: str, schema: Any = None, *, finish: str = "stop", **how: Any) -> Any:
    wanted = StructuredOutput.of(json_schema=schema, **how)
    return wanted.read(ChatReply(text=text, finish_reason=finish))


# What a user sees first.


def test_an_answer_that_fits_is_kept_as_plain_json() -> None:
    provider = ScriptedProvider([f"Sure!\n{FENCE}json\n{RIGA}\n{FENCE}"])
    result = ask(provider, json_schema=CITY)
    assert result["output"] == {"city": "Riga", "days": 2}
    assert type(result["output"]) is dict
    assert provider.requests[0].json_schema == CITY


def test_the_model_is_told_the_schema_over_the_request_and_nothing_of_it_is_stored() -> None:
    provider = ScriptedProvider([RIGA])
    history = [user("Where to?")]
    result = ask(
        provider,
        {"messages": history},
        messages_key="messages",
        append_reply=True,
        system="Be brief.",
        json_schema=CITY,
    )
    first = message_text(provider.requests[0].messages[0])
    assert first.startswith("Be brief.\n\n")
    assert json.dumps(CITY) in first
    assert [m["role"] for m in result["messages"]] == ["user", "assistant"]
    assert message_text(result["messages"][1]) == RIGA


def test_sto_13_an_answer_that_does_not_fit_is_asked_for_again_with_what_is_wrong() -> None:
    heard: list[StreamEvent] = []
    provider = ScriptedProvider(["no idea", '{"city": "Riga", "days": "2"}', RIGA])
    result = ask(provider, json_schema=CITY, system="Be brief.", emit=heard.append)
    assert result["output"] == {"city": "Riga", "days": 2}
    assert [e.data for e in heard if e.type == "structured"] == [
        {"errors": ["the answer holds no whole JSON value"], "attempt": 1},
        {"errors": ["days: '2' is not of type 'integer'"], "attempt": 2},
    ]
    third = provider.requests[2].messages
    assert [m["role"] for m in third] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert message_text(third[4]) == '{"city": "Riga", "days": "2"}'
    assert "days: '2' is not of type 'integer'" in message_text(third[5])
    assert "no whole JSON" in message_text(third[3])


def test_the_questions_are_bounded_and_the_error_says_everything() -> None:
    provider = ScriptedProvider(["a", "b", '{"city": 1, "days": 2}'])
    with pytest.raises(StructuredOutputError) as caught:
        ask(provider, json_schema=CITY)
    error = caught.value
    assert (error.schema, error.attempts) == (CITY, 3)
    assert error.content == '{"city": 1, "days": 2}'
    assert error.errors == ["city: 1 is not of type 'string'"]
    provider.assert_done()


def test_without_retries_the_first_answer_decides() -> None:
    with pytest.raises(StructuredOutputError, match="1 attempt: the answer is empty"):
        ask(ScriptedProvider([" "]), json_schema=CITY, max_retries=0)


def test_the_tokens_of_two_answers_have_an_event_between_them() -> None:
    heard: list[StreamEvent] = []
    pieces: list[str] = []
    ask(
        ScriptedProvider(["not this", RIGA]),
        json_schema=CITY,
        on_token=pieces.append,
        emit=heard.append,
    )
    kinds = [e.type for e in heard if e.type in ("token", "structured")]
    first = kinds.index("structured")
    assert set(kinds[:first]) == set(kinds[first + 1 :]) == {"token"}
    assert "".join(pieces) == f"not this{RIGA}"


# Types and maps of fields.


@pytest.mark.parametrize(
    ("output_type", "answer", "kept"),
    [
        (Trip, RIGA, {"city": "Riga", "days": 2}),
        (Loose, "{}", {}),
        (
            Stay,
            '{"city": "Riga"}',
            {"city": "Riga", "nights": 1, "tags": [], "mood": "good", "until": None},
        ),
        (Order, '{"item": "tea", "count": 3.0}', {"item": "tea", "count": 3}),
        (Mood, '"bad"', "bad"),
        (Mood, "**good**", "good"),
        (Literal["yes", "no"], 'Yes is wrong:\n"no"', "no"),
        (list[int], "[1, 2]", [1, 2]),
        (int | None, "null", None),
        (
            {"name": "string", "age": int, "tags": list[str]},
            '{"name": "A", "age": 7, "tags": ["x"]}',
            {"name": "A", "age": 7, "tags": ["x"]},
        ),
        (
            {"who": {"name": "text"}, "all": ["list[number]"], "any": "any"},
            '{"who": {"name": "A"}, "all": [[1, 2.5]], "any": null}',
            {"who": {"name": "A"}, "all": [[1, 2.5]], "any": None},
        ),
        ({"type": "string", "items": "list"}, '{"type": "a", "items": []}', None),
    ],
)
def test_a_type_tells_the_schema_and_its_defaults(output_type: Any, answer: str, kept: Any) -> None:
    result = ask(ScriptedProvider([answer]), output_type=output_type)
    assert result["output"] == (json.loads(answer) if kept is None and answer != "null" else kept)


def test_a_msgspec_struct_is_a_type_too() -> None:
    msgspec = pytest.importorskip("msgspec")
    struct: Any = msgspec.defstruct("Place", [("city", str), ("days", int, 1)])
    provider = ScriptedProvider(['{"city": 3}', '{"city": "Riga"}', '[{"city": "Riga"}]'])
    assert ask(provider, output_type=struct)["output"] == {"city": "Riga", "days": 1}
    assert provider.requests[0].json_schema["type"] == "object"  # type: ignore[index]  # it is there
    assert ask(provider, output_type=list[struct])["output"] == [{"city": "Riga", "days": 1}]


def test_d76_defaults_and_not_required_are_not_required_and_an_enum_has_its_values() -> None:
    stay = shape_of(Stay).schema
    assert stay["required"] == ["city"]
    assert stay["properties"]["mood"]["enum"] == ["good", "bad"]
    assert shape_of(Trip).schema["required"] == ["city", "days"]
    assert "required" not in shape_of(Loose).schema


def test_d76_a_field_may_be_called_type() -> None:
    both = {"type": "string", "title": "string", "properties": "list"}
    assert shape_of(both).schema["required"] == ["type", "title", "properties"]
    assert shape_of({"type": "string"}).schema["required"] == ["type"]
    schema = {"type": "object", "properties": {"type": {"type": "string"}}}
    assert shape_of(schema).schema == schema
    others: list[dict[str, Any]] = [
        {"type": "string", "description": "a name"},
        {"enum": ["a", "b"]},
        {"type": ["string", "null"]},
        {"type": "string"},
    ]
    for other in others:
        assert shape_of({"x": other}).schema["properties"]["x"] == other


def test_a_validator_of_the_type_is_asked_too() -> None:
    provider = ScriptedProvider(['{"item": "tea", "count": 0}', '{"item": "tea"}'])
    heard: list[StreamEvent] = []
    result = ask(provider, output_type=Order, emit=heard.append)
    assert result["output"] == {"item": "tea", "count": 1}
    (told,) = [e.data["errors"] for e in heard if e.type == "structured"]
    assert "'count' must be >= 1" in told[0]


def test_sto_10_a_type_that_contains_itself() -> None:
    deep = '{"v": 1, "kids": [{"v": 2, "kids": [{"v": 3, "kids": [{"v": 4}]}]}]}'
    wanted = StructuredOutput.of(output_type=Tree)
    assert wanted.read(ChatReply(text=deep)).value["kids"][0]["kids"][0]["kids"] == [
        {"v": 4, "kids": []}
    ]
    bad = wanted.read(ChatReply(text='{"v": 1, "kids": [{"v": "x"}]}'))
    assert bad.problems == ("kids[0].v: 'x' is not of type 'integer'",)
    assert wanted.schema is not None
    assert wanted.schema["type"] == "object"


def test_sto_10_a_schema_that_contains_itself_and_words_beside_a_reference() -> None:
    node = {
        "type": "object",
        "properties": {
            "v": {"$ref": "#/$defs/V", "maximum": 9},
            "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
        },
        "required": ["v"],
    }
    schema = {"$ref": "#/$defs/Node", "$defs": {"Node": node, "V": {"type": "integer"}}}
    deep = '{"v":1,"kids":[' * 40 + '{"v":2}' + "]}" * 40
    assert read(deep, schema).value["kids"][0]["kids"][0]["v"] == 1
    assert read('{"v":1,"kids":[{"v":"x"}]}', schema).problems == (
        "kids[0].v: 'x' is not of type 'integer'",
    )
    assert read('{"v":10}', schema).problems == ("v: 10 is greater than the maximum of 9",)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_references_in_a_circle_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="lead in a circle"):
        SchemaValidator(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$dynamicRef": "#nope"},
        {"$id": "https://x.example/s", "$ref": "other"},
        {"properties": {"a": {"$ref": "#/x/y"}}, "x": {"y": {"$ref": "#/nope"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"$ref": "#/nope"}]},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    ],
)
def test_sto_10_references_to_nothing_and_to_the_net_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="leads to nothing within it"):
        SchemaValidator(schema)


def test_references_of_every_kind_are_followed() -> None:
    dynamic = {
        "$id": "https://x.example/tree",
        "$dynamicAnchor": "node",
        "properties": {"kid": {"$dynamicRef": "#node"}, "v": {"$ref": "#v"}},
        "$defs": {"v": {"$anchor": "v", "type": "integer"}},
    }
    assert SchemaValidator(dynamic).problems({"kid": {"v": "x"}}) == [
        "kid.v: 'x' is not of type 'integer'"
    ]
    old = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"v": {"type": "integer"}},
        "items": [{"$ref": "#/definitions/v"}],
    }
    assert SchemaValidator(old).problems(["x"])


def test_fields_may_have_types_that_contain_themselves() -> None:
    wanted = StructuredOutput.of(output_type={"a": Tree, "more": [{"b": Tree}]})
    answer = wanted.read(ChatReply(text='{"a": {"v": 1}, "more": [{"b": {"v": 2}}]}'))
    assert answer.value == {"a": {"v": 1, "kids": []}, "more": [{"b": {"v": 2, "kids": []}}]}
    bad = wanted.read(ChatReply(text='{"a": {"v": 1}, "more": [{"b": {"v": "2"}}]}'))
    assert bad.problems == ("more[0].b.v: '2' is not of type 'integer'",)


def test_sto_09_the_schema_that_was_given_decides_and_is_not_changed() -> None:
    schema = {
        "$defs": {
            "Leg": {
                "type": "object",
                "properties": {"len": {"type": "integer"}, "colour": {"type": "string"}},
                "required": ["len"],
            }
        },
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/Leg"},
            "b": {"$ref": "#/$defs/Leg", "description": "the other"},
            "meta": {"type": "object"},
            "one": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }
    before = json.dumps(schema)
    answer = '{"a": {"len": 1}, "b": {"len": 2}, "meta": {"a": 1}, "one": 3}'
    assert ask(ScriptedProvider([answer]), json_schema=schema)["output"] == json.loads(answer)
    assert json.dumps(schema) == before


def test_a_workflow_file_names_types_in_words() -> None:
    from teff.workflow import loads

    workflow = loads(
        """
steps:
  - llm:
      provider: p
      model: m
      input_key: input
      output_type: {city: string, days: int, tags: [string], type: text}
"""
    )
    answer = {"city": "Riga", "days": 2, "tags": ["sea"], "type": "trip"}
    provider = ScriptedProvider([json.dumps(answer)])
    result = asyncio.run(workflow.graph.run({"input": "x"}, providers={"p": provider}))
    assert result["output"] == answer


# What is refused when the node is made.


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"json_schema": CITY, "output_type": Trip}, "output_type", "not both"),
        ({"json_schema": {"type": "strin"}}, "json_schema", "'strin'"),
        ({"json_schema": {"pattern": "("}}, "json_schema", "regex"),
        ({"json_schema": {"$ref": "#/$defs/No"}}, "json_schema", "'#/\\$defs/No' leads to nothing"),
        ({"json_schema": {"$ref": "https://x.example/s"}}, "json_schema", "leads to nothing"),
        ({"json_schema": {"enum": [float("nan")]}}, "json_schema", "no JSON Schema"),
        ({"json_schema": {"enum": [{1}]}}, "json_schema", "type set"),
        ({"output_type": {"a": "strin"}}, "output_type", "'a'.*Did you mean 'string'"),
        ({"output_type": {"a": {"b": 3}}}, "output_type", "the field 'a.b': .*3"),
        ({"output_type": {"a": ["int", "str"]}}, "output_type", "'a' is a list of 2"),
        ({"output_type": {}}, "output_type", "no fields"),
        ({"output_type": complex}, "output_type", "complex"),
        ({"parse": True, "response_path": "a..b"}, "response_path", "not a path"),
        ({"json_schema": CITY, "max_retries": -1}, "max_retries", "max_retries"),
    ],
)
def test_what_cannot_be_checked_is_refused_at_once(options: Any, path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        LLM(id="plan", **options)
    assert caught.value.path == path
    assert "plan" in str(caught.value)


# Without a schema.


def test_parse_keeps_the_json_of_the_answer_and_asks_once() -> None:
    assert ask(ScriptedProvider(['See [1]: {"a": [1, 2]}']), parse=True)["output"] == {"a": [1, 2]}
    provider = ScriptedProvider(["no json"])
    with pytest.raises(StructuredOutputError) as caught:
        ask(provider, parse=True)
    assert (caught.value.schema, caught.value.attempts) == ({}, 1)
    assert caught.value.errors == ["the answer holds no whole JSON value"]


def test_response_path_keeps_a_part_and_names_what_is_missing() -> None:
    answer = '{"data": {"cities": ["Riga", "Oslo"]}}'
    assert ask(ScriptedProvider([answer]), response_path="data.cities[1]")["output"] == "Oslo"
    with pytest.raises(StructuredOutputError, match="there is nothing at 'data.towns'"):
        ask(ScriptedProvider([answer]), response_path="data.towns")
    with pytest.raises(StructuredOutputError, match="there is nothing at 'a'"):
        ask(ScriptedProvider(["[1]"]), response_path="a")
    provider = ScriptedProvider(["{}", '{"note": "x"}'])
    schema = {"type": "object", "properties": {"note": {"type": "string"}}}
    assert ask(provider, json_schema=schema, response_path="note")["output"] == "x"


# Reading.


@pytest.mark.parametrize(
    "text",
    [
        f'{FENCE}json\n{{"n":1}}\n{FENCE}',
        f'{FENCE}JSON {{"n":1}}{FENCE}',
        f'{FENCE}\n{{"n":1}}',
        '\ufeff{"n":1}',
        '{"n":1}\nHope this helps!',
        'Sure: {"n":1}',
        '<think>{"n":0}</think>{"n":1}',
        'maybe {"n":0}? [1, </think>{"n":1}',
        '<think>{"n": </think>{"n":1}',
        '[THINK]{"n":0}[/THINK] {"n":1}',
        '<reasoning>a <think>b</think> {"n":0}</reasoning>{"n":1}',
        '<|channel|>analysis<|message|>{"n":0}<|end|><|channel|>final<|message|>{"n":1}',
        'Take {n} and [n], then {"n":1} or {"n":2}.',
        'As in [1, 2]: {"x": 1, {"n":3}} but {"n":1}',
        f'e.g. {{"n":3}}\n{FENCE}json\n{{"n":1}}\n{FENCE}',
    ],
)
def test_sto_01_an_answer_is_found_in_what_is_around_it(text: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    provider = ScriptedProvider([text])
    assert ask(provider, json_schema=schema)["output"] == {"n": 1}
    assert len(provider.requests) == 1


def test_sto_03_a_block_of_another_language_is_no_answer() -> None:
    text = f'{FENCE}bash\nls [ -f x ] {{a,b}}\n{FENCE}\nthen {{"ok":true}}'
    assert read(text, {"type": "object", "required": ["ok"]}).value == {"ok": True}


def test_the_value_that_fits_is_taken_before_the_ones_that_do_not() -> None:
    assert read(f'Example: {{"x": 1}}. Answer: {RIGA}', CITY).value["city"] == "Riga"
    told = read('{"city": "Riga", "day": 2} or {}', CITY).problems
    assert set(told) == {
        "'days' is a required property",
        "Additional properties are not allowed ('day' was unexpected)",
    }


def test_what_stands_inside_a_broken_value_is_no_answer() -> None:
    assert read('{"a": {"city": "Riga", "days": 2}, oops}', CITY).problems
    assert read(f'[{RIGA}, {{"city"', CITY).problems


@pytest.mark.parametrize("written", ["NaN", "-Infinity", "Infinity", "1e999", "9" * 5_000])
def test_sto_15_what_is_no_json_number_is_refused(written: str) -> None:
    told = read(f'{{"n": {written}}}', {"type": "object"}).problems
    assert told
    assert "number" in told[0] or "JSON value" in told[0]
    assert read(written, {}).problems


@pytest.mark.parametrize("depth", [101, 5_000, 100_000])
def test_sto_15_a_value_that_is_too_deep_is_an_error_like_any_other(depth: int) -> None:
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth):
        (told,) = read(text, {}).problems
        assert "deep" in told or "whole JSON" in told


def test_of_a_long_reply_so_many_values_are_looked_at_and_no_more() -> None:
    for piece in (
        "[",
        '{"a":',
        "{",
        "[1 ",
        '["a',
        "[1x<think></think>",
        '"\\',
        "{}",
        FENCE,
        "[x",
        "\n1",
    ):
        found = find_json(piece * (200_000 // len(piece)))
        assert len(found.candidates) == (64 if piece in ("{}", "\n1") else 0)


@pytest.mark.parametrize("piece", ['{"a": x} ', '{"a": 1x}<think></think>', '"a": [1, "x\n'])
def test_broken_values_do_not_have_the_whole_reply_searched_each_time(piece: str) -> None:
    reply = piece * (2_000_000 // len(piece))
    assert find_json(reply).candidates == ()
    assert len(find_json(reply).answer) > 1_000_000


def test_items_that_must_be_unique_are_not_compared_each_with_each() -> None:
    check = SchemaValidator({"uniqueItems": True})
    many: list[Any] = [{"a": [n, "x"]} for n in range(50_000)]
    assert check.problems(many) == []
    assert "non-unique" in check.problems([*many, {"a": [7, "x"]}])[0]


@pytest.mark.parametrize(
    ("items", "fits"),
    [
        ([1, True, "1", None, 0, False, [], {}, [1], [True]], True),
        ([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}], False),
        ([1, 1.0], False),
        ([["value", 1], ["truth", 1]], True),
        ([[], []], False),
    ],
)
def test_which_items_are_unique(items: list[Any], fits: bool) -> None:
    assert (not SchemaValidator({"uniqueItems": True}).problems(items)) is fits
    assert not SchemaValidator({"uniqueItems": False}).problems(items)


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        ("true", "integer", False),
        ("false", "number", False),
        ("3.0", "integer", True),
        ("4.5", "integer", False),
        ('"42"', "integer", False),
        ('"true"', "boolean", False),
        ("1", "boolean", False),
    ],
)
def test_a_truth_value_is_no_number_and_a_text_is_neither(
    value: str, kind: str, fits: bool
) -> None:
    schema = {"type": "object", "properties": {"v": {"type": kind}}}
    assert (not read(f'{{"v": {value}}}', schema).problems) is fits


LOOSE = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "r": {"type": "number"},
        "ok": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "either": {"type": ["integer", "string"]},
    },
}


def test_sto_07_values_that_came_as_texts_are_listed_one_by_one_and_not_converted() -> None:
    text = '{"n": "42", "r": "3.0", "ok": "true", "tags": "[\\"x\\"]", "either": "7"}'
    assert read(text, LOOSE).problems == (
        "n: '42' is not of type 'integer'",
        "r: '3.0' is not of type 'number'",
        "ok: 'true' is not of type 'boolean'",
        "tags: '[\"x\"]' is not of type 'array'",
    )
    for value in ('"NaN"', '"1e999"', "4.5", "true"):
        assert read(f'{{"n": {value}}}', LOOSE).problems
    assert read('{"either": "7"}', LOOSE).value == {"either": "7"}


@pytest.mark.parametrize(
    "schema",
    [
        {"const": 1},
        {"type": ["string", "null"]},
        {"allOf": [{"type": "string"}]},
        {"format": "date", "type": "string"},
        {"exclusiveMinimum": 5},
        {"not": {"type": "integer"}},
        {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
    ],
)
def test_d76_every_keyword_counts(schema: dict[str, Any]) -> None:
    assert SchemaValidator(schema).problems("x" if "format" in schema else 3)


def test_of_a_key_that_is_there_twice_the_last_value_counts() -> None:
    assert read('{"a": 1, "a": 2}', {}).value == {"a": 2}


def test_a_long_message_about_a_value_is_shortened() -> None:
    (told,) = SchemaValidator({"type": "integer"}).problems("x" * 10_000)
    assert len(told) < 400
    assert told.endswith("is not of type 'integer'")


# Texts of other languages, and runs that go on.


def test_sto_12_nothing_that_a_model_reads_is_escaped() -> None:
    schema = {"type": "object", "properties": {"Łódź": {"const": "🙂"}}, "required": ["Łódź"]}
    provider = ScriptedProvider(["{}", '{"Łódź": "🙂", "x": "\\ud800"}'])
    assert ask(provider, json_schema=schema)["output"]["Łódź"] == "🙂"
    assert "Łódź" in message_text(provider.requests[0].messages[0])


def test_the_answers_are_recorded_so_a_resumed_run_asks_none_of_them_again() -> None:
    provider = ScriptedProvider(["?", RIGA])
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = flow.llm(input_key="input", json_schema=CITY).interrupt("ok", "Fine?").compile()
    store: Any = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(Exception, match="waits"):
        asyncio.run(graph.run({"input": "x"}, **store))
    result = asyncio.run(graph.run({}, resume="yes", **store))
    assert (result["output"]["city"], len(provider.requests)) == ("Riga", 2)
