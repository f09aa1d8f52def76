"""Schemas of the state: where they are read from, and what is wrong with a value."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NewType,
    NotRequired,
    Protocol,
    Required,
    TypedDict,
)

import attrs
import pytest

from teff.errors import ConfigError
from teff.state import (
    FrozenDict,
    FrozenList,
    State,
    StateSchema,
    reducers_from_schema,
    state_schema_to_jsonschema,
    state_schema_to_mapping,
    validate_state,
)


class Note(TypedDict):
    text: str
    tags: NotRequired[list[str]]


class Chat(TypedDict, total=False):
    question: Required[str]
    log: Annotated[list[Note], "append", "what was said"]
    total: Annotated[int, operator.add]
    first: NotRequired[Annotated[str, "keep"]]


@attrs.define
class Counters:
    kind: ClassVar[str] = "counters"
    name: str
    n: int = 0
    log: Annotated[list[str], "append"] = attrs.field(factory=list)
    half: float = attrs.field(default=attrs.Factory(lambda self: self.n / 2, takes_self=True))
    topic: str = attrs.field(default="", metadata={"required": True})


@dataclasses.dataclass
class Totals:
    name: str
    n: int = 0
    log: Annotated[list[str], "append"] = dataclasses.field(default_factory=list)
    topic: str = dataclasses.field(default="", metadata={"required": True})


class Plain:
    n: int = 3
    name: str

    def method(self) -> None:
        """Is no key."""


# Where a schema comes from


def test_a_typed_dict_gives_types_reducers_and_descriptions() -> None:
    schema = StateSchema.of(Chat)
    assert list(schema.keys) == ["question", "log", "total", "first"]
    assert schema.reducers == {"log": "append", "total": operator.add, "first": "keep"}
    assert schema.keys["log"].description == "what was said"


def test_only_what_is_marked_as_required_must_be_in_the_input() -> None:
    class Total(TypedDict):
        written_by_a_node: str

    assert [name for name, key in StateSchema.of(Chat).keys.items() if key.required] == ["question"]
    assert validate_state({}, Total) == []
    assert validate_state({}, Counters) == ["'topic' is missing; it must be text."]


@pytest.mark.parametrize("source", [Counters, Totals])
def test_fields_of_classes_bring_their_defaults(source: type) -> None:
    schema = StateSchema.of(source)
    assert schema.filled({"n": 2}) == {"n": 2, "log": [], "topic": ""}
    assert not schema.keys["name"].has_default
    assert schema.reducers == {"log": "append"}
    one, other = schema.filled({}), schema.filled({})
    one["log"].append("x")
    assert other["log"] == []


def test_a_class_constant_is_no_key() -> None:
    assert "kind" not in StateSchema.of(Counters).keys


def test_a_plain_class_with_annotations_is_a_schema() -> None:
    schema = StateSchema.of(Plain)
    assert list(schema.keys) == ["n", "name"]
    assert schema.filled({}) == {"n": 3}


def test_a_subclass_has_the_keys_of_its_base() -> None:
    class Longer(Chat):
        more: int

    @attrs.define
    class More(Counters):
        more: int = 1

    assert set(StateSchema.of(Longer).keys) == {*StateSchema.of(Chat).keys, "more"}
    assert StateSchema.of(Longer).keys["question"].required
    assert StateSchema.of(More).filled({})["more"] == 1


def test_a_schema_is_a_schema() -> None:
    schema = StateSchema.of(Chat)
    assert StateSchema.of(schema) is schema
    assert reducers_from_schema(schema) == schema.reducers


@pytest.mark.parametrize(
    ("names", "good", "bad"),
    [
        (("str", "string", "text"), "x", 1),
        (("int", "integer"), 1, 1.0),
        (("number", "float"), 1.5, "1.5"),
        (("bool", "boolean"), True, 1),
        (("list", "array"), [1], "x"),
        (("dict", "object", "map"), {"a": 1}, []),
        (("null",), None, 0),
    ],
)
def test_the_names_of_types(names: tuple[str, ...], good: object, bad: object) -> None:
    for name in names:
        assert validate_state({"x": good}, {"x": name}) == []
        assert len(validate_state({"x": bad}, {"x": name})) == 1
        assert len(validate_state({"x": bad}, {"x": {"type": name}})) == 1


@pytest.mark.parametrize("entry", ["any", None, Any, "keep", "override", {}, {"description": "x"}])
def test_a_key_of_any_type_takes_everything(entry: object) -> None:
    assert validate_state({"x": object()}, {"x": entry}) == []


def test_a_mapping_may_hold_python_types_and_reducers() -> None:
    schema = StateSchema.of(
        {
            "names": list[str],
            "maybe": int | None,
            "log": Annotated[list[str], "append"],
            "total": operator.add,
            "messages": "append",
        }
    )
    assert schema.reducers == {"log": "append", "total": operator.add, "messages": "append"}
    assert schema.problems({"names": ["a", 1], "maybe": "x", "messages": "hi"}) == [
        "'names[1]' must be text, not a whole number.",
        "'maybe' must be a whole number or nothing, not text.",
        "'messages' must be a list, not text.",
    ]


def test_null_among_types_may_be_written_without_quotes() -> None:
    schema = {"x": {"type": ["text", None]}}
    assert validate_state({"x": None}, schema) == []
    assert validate_state({"x": 1}, schema) == ["'x' must be text or nothing, not a whole number."]


def test_the_long_form_of_a_key() -> None:
    schema = StateSchema.of(
        {
            "mood": {"type": "text", "enum": ["calm", "loud"], "default": "calm"},
            "tags": {"type": "list", "items": "text", "reducer": "append"},
            "size": {"type": ["integer", "null"], "required": True, "description": "how big"},
        }
    )
    assert schema.filled({}) == {"mood": "calm"}
    assert schema.keys["size"].description == "how big"
    assert schema.problems({"mood": "lout", "tags": [1]}) == [
        "'size' is missing; it must be a whole number or nothing.",
        "'mood' must be one of 'calm', 'loud'. Did you mean 'loud'?",
        "'tags[0]' must be text, not a whole number.",
    ]


# What is no schema


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("strng", r"unknown type 'strng' for state key 'k'\. Did you mean 'string'\?"),
        ("apend", r"unknown type 'apend' for state key 'k'\. Did you mean 'append'\?"),
        ("xyz", r"unknown type 'xyz' .* Types: text, .* Reducers: append"),
        ({"type": "strng"}, r"unknown type 'strng'"),
        ({"type": "list", "items": "strng"}, r"unknown type 'strng'"),
        ({"reducer": "appnd"}, r"unknown reducer 'appnd' .* Did you mean 'append'\?"),
        ({"typ": "text"}, r"unknown option 'typ'\. Did you mean 'type'\?"),
        ({"type": "text", "items": "text"}, r"items belong to the type list"),
        ({"type": "text", "required": "yes"}, r"required is true or false"),
        ({"type": "integer", "default": "3"}, r"default of state key 'k' must be a whole number"),
        ({"type": "integer", "enum": ["a"]}, r"enum of state key 'k' must be a whole number"),
        ({"enum": []}, r"enum is a list of values"),
        ({"type": "text", "reducer": "append"}, r"'append' makes a list .* must be text"),
        (Annotated[list, "appnd"], r"unknown reducer 'appnd'"),
        (3, r"state key 'k': values cannot be compared with the type 3"),
    ],
)
def test_what_is_wrong_with_a_key_names_the_key(entry: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        StateSchema.of({"k": entry})
    assert caught.value.path == "k"


@pytest.mark.parametrize("source", [3, "text", ["a"], Counters(name="x")])
def test_what_is_no_schema_is_refused(source: object) -> None:
    with pytest.raises(ConfigError, match="a state schema is a TypedDict"):
        StateSchema.of(source)


def test_keys_are_text() -> None:
    with pytest.raises(ConfigError, match="a key of the state is text, not 3"):
        StateSchema.of({3: "text"})


def test_a_default_of_a_class_must_fit_too() -> None:
    @attrs.define
    class Wrong:
        n: int = attrs.field(default="3")  # type: ignore[assignment]

    with pytest.raises(ConfigError, match="the default of state key 'n' must be a whole number"):
        StateSchema.of(Wrong)


# Which values fit


class Mood(Enum):
    CALM = "calm"
    LOUD = "loud"


@attrs.define
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass
class Tree:
    name: str
    children: list[Tree] = dataclasses.field(default_factory=list)


class Speaks(Protocol):
    def speak(self) -> str: ...


Name = NewType("Name", str)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (int, 3),
        (float, 3),
        (float, float("inf")),
        (list[int], FrozenList([1])),
        (Sequence[str], ("a",)),
        (tuple[int, str], [1, "a"]),
        (tuple[int, ...], ()),
        (set[int], {1}),
        (set[int], [1]),
        (dict[str, list[int]], FrozenDict({"a": [1]})),
        (Mapping[int, str], {1: "a"}),
        (Literal["a", 1], 1),
        (Mood, Mood.CALM),
        (Mood, "calm"),
        (Point, Point(x=1)),
        (Point, {"x": 1}),
        (Tree, {"name": "a", "children": [{"name": "b"}, Tree("c")]}),
        (Note, {"text": "a", "tags": ["b"]}),
        (Path, "a/b"),
        (Path, Path("a")),
        (Name, "n"),
        (Callable[[], int], len),
        (type, int),
        (Speaks, object()),
        (None, None),
        (int | str | None, None),
        (list[Any], [object()]),
        (Exception, ValueError("x")),
    ],
)
def test_values_that_fit(expected: Any, value: object) -> None:
    assert validate_state({"k": value}, {"k": expected}) == []


@pytest.mark.parametrize(
    ("expected", "value", "problem"),
    [
        (int, True, "'k' must be a whole number, not a true or false value."),
        (int, 1.0, "'k' must be a whole number, not a number with a decimal point."),
        (int, "1", "'k' must be a whole number, not text."),
        (float, False, "'k' must be a number, not a true or false value."),
        (bool, "true", "'k' must be true or false, not text."),
        (str, None, "'k' must be text, not nothing."),
        (list[str], "abc", "'k' must be a list of texts, not text."),
        (list[dict[str, int]], [{"a": "x"}], "'k[0].a' must be a whole number, not text."),
        (tuple[int, str], [1], "'k' must be a list of 2 (a whole number, text), not of 1."),
        (dict[int, str], {"a": "b"}, "'k' has a key that must be a whole number, not text."),
        (Literal["a"], "b", "'k' must be 'a'."),
        (Literal[1], True, "'k' must be 1."),
        (Mood, "lout", "'k' must be one of 'calm', 'loud'. Did you mean 'loud'?"),
        (Point, {"y": "1"}, "'k.x' is missing; it must be a whole number."),
        (Point, 3, "'k' must be a mapping with x, y, not a whole number."),
        (Note, {"text": "a", "tag": []}, "'k.tag' is unknown. Did you mean 'tags'?"),
        (Tree, {"name": "a", "children": [{"name": 1}]}, "'k.children[0].name' must be text, not"),
        (Exception, "x", "'k' must be an Exception, not text."),
        (list[int] | str, ["a"], "'k[0]' must be a whole number, not text."),
        (int | str, [], "'k' must be a whole number or text, not a list."),
    ],
)
def test_values_that_do_not_fit(expected: Any, value: object, problem: str) -> None:
    assert validate_state({"k": value}, {"k": expected})[0].startswith(problem)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    assert len(validate_state({"k": {"z": 1, "y": "a"}}, {"k": Point})) == 3


def test_a_value_that_contains_itself_does_not_fit() -> None:
    loop: dict[str, Any] = {"name": "a"}
    loop["children"] = [loop]
    assert validate_state({"k": loop}, {"k": Tree}) == [
        "'k' contains itself or is nested too deeply."
    ]


def test_undeclared_keys_are_named_with_the_nearest_declared_one() -> None:
    state = {"count": 1, "cuont": 2, "_scratch": 3, "error": {}, "input": "hi", "messages": []}
    assert validate_state(state, {"count": int}) == [
        "'cuont' is not declared in the state schema. Did you mean 'count'?"
    ]


# State


def test_a_state_merges_with_the_reducers_of_its_schema() -> None:
    state = State(Chat, {"question": "why", "log": [{"text": "a"}]})
    state.merge({"log": {"text": "b"}, "first": "x"})
    state.merge({"first": "y", "total": 2})
    state.merge({"total": 3})
    assert state == {
        "question": "why",
        "log": [{"text": "a"}, {"text": "b"}],
        "first": "x",
        "total": 5,
    }
    assert state.reducers == reducers_from_schema(Chat)


def test_a_state_holds_ordinary_values_and_starts_with_the_defaults() -> None:
    data: dict[str, Any] = {"name": "n"}
    state = State(Counters, data)
    state.merge({"log": "a"})
    state["log"].append("b")
    assert state == {"name": "n", "n": 0, "log": ["a", "b"], "topic": ""}
    assert data == {"name": "n"}


def test_a_state_with_a_wrong_schema_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown type"):
        State({"k": "strng"})


# JSON Schema


def test_the_json_schema_of_a_state() -> None:
    schema = {
        "n": {"type": "integer", "default": 0, "description": "how many"},
        "log": "append",
        "title": {"type": "text", "required": True},
        "thing": Exception,
    }
    assert state_schema_to_jsonschema(schema) == {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "description": "how many", "default": 0},
            "log": {"type": "array"},
            "title": {"type": "string"},
            "thing": {},
        },
        "required": ["title"],
        "patternProperties": {"^_|^(error|input|messages)$": {}},
        "additionalProperties": False,
    }


def test_classes_that_refer_to_themselves_are_defined_at_the_top() -> None:
    made = state_schema_to_jsonschema({"tree": Tree})
    assert made["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
    assert set(made["$defs"]) == {"Tree"}


# Plain data


def test_a_schema_of_python_types_is_written_as_plain_data() -> None:
    @attrs.define
    class Work:
        n: int = 0
        log: Annotated[list[str | None], "append", "what was done"] = attrs.field(factory=list)
        mood: Literal["calm", "loud"] = attrs.field(default="calm", metadata={"required": True})
        pairs: list[list[int]] | None = None
        thing: Any = None

    written = state_schema_to_mapping(Work)
    assert written == {
        "n": {"type": "integer", "default": 0},
        "log": {
            "type": "list",
            "items": ["text", "null"],
            "reducer": "append",
            "default": [],
            "description": "what was done",
        },
        "mood": {"enum": ["calm", "loud"], "default": "calm", "required": True},
        "pairs": {
            "type": [{"type": "list", "items": {"type": "list", "items": "integer"}}, "null"],
            "default": None,
        },
        "thing": {"type": "any", "default": None},
    }
    assert state_schema_to_mapping(written) == written


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Point, "'k' has a type"),
        (dict[str, int], "'k' has a type"),
        (operator.add, "'k' has a function as its reducer"),
    ],
)
def test_what_has_no_name_cannot_be_written(entry: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        state_schema_to_mapping({"k": entry})
    assert caught.value.path == "k"
