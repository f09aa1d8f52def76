"""JSON Schema from annotated types and signatures."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import attrs
import pytest

from teff.errors import ConfigError
from teff.schema import json_schema_from_signature, json_schema_from_type


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


class Place(TypedDict):
    city: Annotated[str, "in English"]
    country: NotRequired[str]


@dataclasses.dataclass
class Range:
    low: int
    high: int = 10


@attrs.define
class Tree:
    name: str
    children: list[Tree] = attrs.field(factory=list)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (Path, {"type": "string"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (dict, {"type": "object"}),
        (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
    ],
)
def test_a_type_has_its_schema(annotation: Any, schema: dict[str, Any]) -> None:
    assert json_schema_from_type(annotation) == schema


def test_a_typed_dict_says_what_it_requires() -> None:
    assert json_schema_from_type(Place) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "in English"},
            "country": {"type": "string"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_a_dataclass_has_its_defaults() -> None:
    schema = json_schema_from_type(Range)
    assert schema["required"] == ["low"]
    assert schema["properties"]["high"] == {"type": "integer", "default": 10}


def test_a_class_that_contains_itself_is_referred_to() -> None:
    schema = json_schema_from_type(Tree)
    assert schema["$ref"] == "#/$defs/Tree"
    children = schema["$defs"]["Tree"]["properties"]["children"]
    assert children == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}


def test_a_signature_with_defaults_and_descriptions() -> None:
    def forecast(
        city: str,
        days: int = 3,
        level: Level = Level.LOW,
        unit: Annotated[str | None, "C or F"] = None,
        __state__: Any = None,
    ) -> str:
        """Say what the weather will be.

        Args:
            city: where, in English;
                a district is allowed
            days (int): how far ahead

        Returns:
            a sentence
        """
        return ""

    assert json_schema_from_signature(forecast) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where, in English; a district is allowed"},
            "days": {"type": "integer", "description": "how far ahead", "default": 3},
            "level": {"type": "integer", "enum": [1, 2], "default": 1},
            "unit": {
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "description": "C or F",
            },
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_parameters_without_annotation_are_text_or_like_their_default() -> None:
    def old(query, limit=3, exact=False):  # type: ignore[no-untyped-def]
        return None

    properties = json_schema_from_signature(old)["properties"]
    assert properties["query"] == {"type": "string"}
    assert properties["limit"]["type"] == "integer"
    assert properties["exact"]["type"] == "boolean"


def test_a_method_and_a_callable_object_leave_self_out() -> None:
    class Search:
        def find(self, query: str) -> str:
            return query

        def __call__(self, text: str) -> str:
            return text

    assert list(json_schema_from_signature(Search().find)["properties"]) == ["query"]
    assert list(json_schema_from_signature(Search())["properties"]) == ["text"]


def test_open_arguments_are_refused_with_the_reason() -> None:
    def loose(**options: str) -> None: ...

    def list_of(*items: str) -> None: ...

    with pytest.raises(ConfigError, match=r"loose\(\) takes \*\*options: .*Name each parameter"):
        json_schema_from_signature(loose)
    with pytest.raises(ConfigError, match=r"takes \*items"):
        json_schema_from_signature(list_of)


def test_arguments_by_position_only_are_refused() -> None:
    def first(item: str, /) -> None: ...

    with pytest.raises(ConfigError, match="by position only"):
        json_schema_from_signature(first)


@pytest.mark.parametrize(
    "annotation",
    [datetime.date, bytes, Callable[[], int], dict[float, int], list[complex], Literal[b"x"]],
)
def test_a_type_that_json_cannot_carry_names_the_parameter(annotation: Any) -> None:
    def book(day: str) -> None: ...

    book.__annotations__["day"] = annotation
    with pytest.raises(ConfigError, match=r"'day' of book\(\)"):
        json_schema_from_signature(book)


def test_an_annotation_that_does_not_exist_names_the_parameter() -> None:
    def lost(where: Elsewhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match=r"parameter 'where' of lost\(\) names 'Elsewhere'"):
        json_schema_from_signature(lost)
