"""A model's arguments, read by the types of the function."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, Literal, NotRequired, TypedDict

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ToolError
from teff.schema import json_schema_from_type, structure_arguments
from teff.schema.structure import structure


class Unit(str, enum.Enum):  # noqa: UP042  # the form that is written most
    CELSIUS = "c"
    KELVIN = "k"


class Place(TypedDict):
    city: str
    country: NotRequired[str]


@dataclasses.dataclass
class Span:
    low: int
    high: int = 10


@attrs.frozen
class Tree:
    name: str
    children: list[Tree] = attrs.field(factory=list)


def search(
    query: str,
    limit: int = 3,
    *,
    exact: bool = False,
    weight: float = 1.0,
    places: list[Place] = [],  # noqa: B006
    span: Span | None = None,
    unit: Unit = Unit.CELSIUS,
) -> None:
    """Search."""


def refusal(**arguments: Any) -> str:
    with pytest.raises(ToolError) as caught:
        structure_arguments(search, arguments, tool="search")
    assert caught.value.tool == "search"
    return str(caught.value)


def test_arguments_that_fit_are_read_and_defaults_are_left_to_the_function() -> None:
    arguments = {
        "query": "x",
        "places": [{"city": "Riga"}],
        "span": {"low": 1},
        "unit": "k",
    }
    assert structure_arguments(search, arguments) == {
        "query": "x",
        "places": [{"city": "Riga"}],
        "span": Span(1),
        "unit": Unit.KELVIN,
    }


def test_the_given_arguments_are_not_changed() -> None:
    arguments = {"query": "x", "limit": "4", "places": [{"city": "Riga"}]}
    before = json.dumps(arguments)
    structure_arguments(search, arguments)
    assert json.dumps(arguments) == before


@pytest.mark.parametrize("written", [4, "4", 4.0])
def test_a_whole_number_may_be_written_in_three_ways(written: object) -> None:
    assert structure_arguments(search, {"query": "x", "limit": written})["limit"] == 4


@pytest.mark.parametrize("written", [1.9, "1.9", True, "two", None])
def test_nothing_is_truncated_to_a_whole_number(written: object) -> None:
    assert "'limit' must be a whole number" in refusal(query="x", limit=written)


def test_no_is_no_truth_value() -> None:
    assert "'exact' must be true or false, not text" in refusal(query="x", exact="no")


def test_json_text_of_lists_and_objects_is_taken() -> None:
    arguments = {"query": "x", "places": '[{"city": "Riga"}]', "span": ' {"low": 2} '}
    read = structure_arguments(search, arguments)
    assert read["places"] == [{"city": "Riga"}]
    assert read["span"] == Span(2)


def test_broken_json_text_is_text() -> None:
    assert "'places' must be a list" in refusal(query="x", places='[{"city":')


def test_json_text_stays_text_where_text_is_wanted() -> None:
    assert structure_arguments(search, {"query": '{"a": 1}'}) == {"query": '{"a": 1}'}


def test_everything_that_is_wrong_is_said_at_once() -> None:
    message = refusal(limit="many", quary="x", places=[{"city": 3}, {"town": "Riga"}])
    assert message == (
        "'limit' must be a whole number, not text. "
        "'quary' is no parameter. Did you mean 'query'? "
        "'places[0].city' must be text, not a whole number; put it in quotes. "
        "'places[1].town' is unknown. Known: city, country. "
        "'places[1].city' is missing; it must be text. "
        "'query' is missing; it must be text."
    )


def test_a_choice_says_what_there_is() -> None:
    assert "'unit' must be one of 'c', 'k'" in refusal(query="x", unit="fahrenheit")


def test_types_can_be_given_by_name() -> None:
    assert structure_arguments({"n": int}, {"n": "1"}) == {"n": 1}
    with pytest.raises(ToolError, match="'n' is missing; it must be a whole number"):
        structure_arguments({"n": int}, {})


def test_a_function_without_parameters_says_that_it_has_none() -> None:
    def now() -> str:
        return ""

    with pytest.raises(ToolError, match="There are no parameters"):
        structure_arguments(now, {"zone": "utc"})


def test_what_a_class_itself_refuses_is_a_sentence_too() -> None:
    @attrs.frozen
    class Even:
        number: int = attrs.field()

        @number.validator
        def _check(self, attribute: object, value: int) -> None:
            if value % 2:
                raise ValueError("the number must be even")

    with pytest.raises(ToolError, match="'even' is not valid: the number must be even"):
        structure_arguments({"even": Even}, {"even": {"number": 3}})


TEXT = st.text(max_size=5)
NUMBERS = st.integers(-(2**60), 2**60)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TREES = st.recursive(
    st.builds(Tree, TEXT), lambda inner: st.builds(Tree, TEXT, st.lists(inner, max_size=3))
)
TYPES_AND_VALUES = [
    (str, TEXT),
    (int, NUMBERS),
    (float, FLOATS),
    (bool, st.booleans()),
    (int | None, NUMBERS | st.none()),
    (int | str, NUMBERS | TEXT),
    (float | bool | None, FLOATS | st.booleans() | st.none()),
    (str | list[str], TEXT | st.lists(TEXT)),
    (Literal["a", 1, True], st.sampled_from(["a", 1, True])),
    (Unit, st.sampled_from(Unit)),
    (list[int], st.lists(NUMBERS)),
    (set[int], st.sets(NUMBERS)),
    (tuple[int, str], st.tuples(NUMBERS, TEXT)),
    (tuple[bool, ...], st.lists(st.booleans()).map(tuple)),
    (dict[str, int], st.dictionaries(TEXT, NUMBERS)),
    (dict[int, str], st.dictionaries(NUMBERS, TEXT)),
    (Place, st.fixed_dictionaries({"city": TEXT}, optional={"country": TEXT})),
    (Span, st.builds(Span, NUMBERS, NUMBERS)),
    (Tree, TREES),
    (Span | Place, st.builds(Span, NUMBERS) | st.fixed_dictionaries({"city": TEXT})),
]


def to_json(value: Any) -> str:
    def plain(other: Any) -> Any:
        if attrs.has(type(other)):
            return attrs.asdict(other)
        if dataclasses.is_dataclass(other) and not isinstance(other, type):
            return dataclasses.asdict(other)
        return list(other)

    return json.dumps(value, default=plain)


@given(data=st.data())
def test_a_value_of_a_type_arrives_equal_after_json(data: st.DataObject) -> None:
    expected, values = data.draw(st.sampled_from(TYPES_AND_VALUES))
    value = data.draw(values)
    arrived = structure(json.loads(to_json(value)), expected, from_model=True)
    assert arrived == value
    assert type(arrived) is type(value)


def test_every_type_of_the_round_trip_has_a_schema() -> None:
    for expected, _ in TYPES_AND_VALUES:
        assert isinstance(json_schema_from_type(expected), dict)
