"""Options read into the fields of a class, strictly."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError
from teff.schema import missing_fields, structure_fields

if TYPE_CHECKING:
    from somewhere import Nothing  # type: ignore[import-not-found]  # it must not be there


class Color(str, enum.Enum):  # noqa: UP042  # the form that is written most
    RED = "red"
    BLUE = "blue"


class Worker:
    pass


class Speaker(Protocol):
    def speak(self) -> str: ...


class Entry(TypedDict, total=False):
    label: str


@attrs.frozen(kw_only=True)
class Bounds:
    max_steps: int | None = None
    inner: Bounds | None = None


@attrs.define(kw_only=True)
class Base:
    id: str = ""


@attrs.define(kw_only=True)
class Options(Base):
    system: str | Callable[[Mapping[str, Any]], str] | None = None
    tools: str | list[str] | None = None
    sections: Mapping[str, str] | None = None
    rounds: int = 3
    factor: float = 1.0
    stream: bool = False
    color: Color = Color.RED
    mode: Literal["auto", "deny", "pause"] = "auto"
    bounds: Bounds | None = None
    entries: list[Entry] = attrs.field(factory=list)
    pair: tuple[str, int] = ("", 0)
    names: tuple[str, ...] = attrs.field(converter=tuple, default=())
    workers: dict[str, Worker] = attrs.field(factory=dict)
    speaker: Speaker | None = None
    anything: Any = None
    _hidden: int = 0
    made: int = attrs.field(init=False, default=0)


def read(**options: object) -> dict[str, object]:
    return structure_fields(Options, options, what="step 'route' (supervisor)")


def refusal(**options: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(**options)
    return caught.value


def test_values_that_fit_come_back_under_their_names() -> None:
    def say(state: Mapping[str, Any]) -> str:
        return ""

    worker = Worker()
    given_options = {
        "id": "a",
        "system": say,
        "tools": ["x", "y"],
        "sections": {"name": "Name"},
        "rounds": 4,
        "stream": True,
        "workers": {"w": worker},
        "anything": worker,
    }
    assert read(**given_options) == given_options


@pytest.mark.parametrize("tools", ["one", ["one", "two"], None])
def test_each_form_of_a_union_is_taken(tools: object) -> None:
    assert read(tools=tools) == {"tools": tools}


def test_an_unknown_option_names_the_nearest() -> None:
    error = refusal(rouns=3)
    assert str(error) == "step 'route' (supervisor): unknown option 'rouns'. Did you mean 'rounds'?"
    assert error.path == "rouns"


def test_a_wrong_type_names_option_and_expectation_and_never_the_value() -> None:
    error = refusal(rounds="sk-secret")
    assert str(error) == (
        "step 'route' (supervisor): option 'rounds' must be a whole number, not text"
    )
    assert error.path == "rounds"


@pytest.mark.parametrize("value", [3, 1.5, True])
def test_text_is_only_text_and_the_message_says_to_quote_it(value: object) -> None:
    assert "must be text, not" in str(refusal(id=value))
    assert "put it in quotes" in str(refusal(id=value))


@pytest.mark.parametrize(("value", "expected"), [(3, 3), ("3", 3), (" -7 ", -7)])
def test_whole_numbers_may_be_written_as_text(value: object, expected: int) -> None:
    assert read(rounds=value) == {"rounds": expected}


@pytest.mark.parametrize("value", [True, 1.9, 2.0, "1.9", "three", "", "0x10", None, "1_000", "²"])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    assert "must be a whole number" in str(refusal(rounds=value))


@pytest.mark.parametrize(("value", "expected"), [(1, 1.0), (0.5, 0.5), ("0.5", 0.5), ("1e3", 1e3)])
def test_numbers_may_be_written_as_text(value: object, expected: float) -> None:
    assert read(factor=value) == {"factor": expected}


@pytest.mark.parametrize("value", [True, "nan", "inf", math.nan, math.inf, "1e999", 10**400, "x"])
def test_what_is_no_finite_number_is_refused(value: object) -> None:
    assert "number" in str(refusal(factor=value))


@pytest.mark.parametrize(("value", "expected"), [(True, True), ("true", True), ("false", False)])
def test_truth_values_may_be_the_words_true_and_false(value: object, expected: bool) -> None:
    assert read(stream=value) == {"stream": expected}


@pytest.mark.parametrize("value", ["no", "yes", "on", "", 0, 1, 2, None])
def test_no_other_word_or_number_is_a_truth_value(value: object) -> None:
    assert "must be true or false" in str(refusal(stream=value))


def test_an_enumeration_is_written_by_its_values() -> None:
    assert read(color="blue") == {"color": Color.BLUE}
    assert read(color=Color.BLUE) == {"color": Color.BLUE}
    assert str(refusal(color="Blue")).endswith("must be one of 'red', 'blue'. Did you mean 'blue'?")


def test_a_choice_takes_its_words_and_names_the_nearest() -> None:
    assert read(mode="deny") == {"mode": "deny"}
    assert "Did you mean 'auto'?" in str(refusal(mode="autoo"))


def test_a_nested_class_is_read_from_a_mapping_or_taken_as_it_is() -> None:
    bounds = Bounds(max_steps=3, inner=Bounds(max_steps=2))
    assert read(bounds={"max_steps": "3", "inner": {"max_steps": 2}}) == {"bounds": bounds}
    assert read(bounds=bounds)["bounds"] is bounds


def test_nested_problems_have_a_dotted_path() -> None:
    unknown = refusal(bounds={"inner": {"max_step": 1}})
    assert unknown.path == "bounds.inner.max_step"
    assert "unknown option 'bounds.inner.max_step'. Did you mean 'max_steps'?" in str(unknown)
    wrong = refusal(entries=[{"label": "a"}, {"label": 3}])
    assert wrong.path == "entries[1].label"
    assert refusal(sections={"a": ["b"]}).path == "sections.a"


def test_a_text_is_no_list() -> None:
    assert "must be a list of texts, not text" in str(refusal(names="abc"))


def test_a_pair_has_two_items() -> None:
    assert read(pair=["a", 1]) == {"pair": ("a", 1)}
    assert "must be a list of 2 (text, a whole number), not of 1" in str(refusal(pair=["a"]))


def test_instances_are_checked_by_their_class() -> None:
    assert "must be a Worker, not text" in str(refusal(workers={"w": "worker"}))


def test_a_protocol_takes_objects_but_no_plain_values() -> None:
    worker = Worker()
    assert read(speaker=worker) == {"speaker": worker}
    assert "must be a Speaker" in str(refusal(speaker="ollama"))


def test_an_alias_is_the_name_of_the_option() -> None:
    assert read(hidden="2") == {"hidden": 2}
    assert refusal(_hidden=2).path == "_hidden"


def test_a_field_that_the_constructor_does_not_take_is_no_option() -> None:
    assert "unknown option 'made'" in str(refusal(made=1))


def test_ignored_names_are_left_out() -> None:
    options = {"rounds": 1, "retry": {"x": 1}}
    assert structure_fields(Options, options, what="a step", ignore=("retry",)) == {"rounds": 1}


def test_a_name_that_is_no_text_is_unknown() -> None:
    with pytest.raises(ConfigError, match="unknown option 3"):
        structure_fields(Options, {3: "x"}, what="a step")  # type: ignore[dict-item]


def test_a_converter_says_what_a_field_takes() -> None:
    def seconds(text: str) -> float:
        return float(text.removesuffix("s"))

    @attrs.frozen
    class Wait:
        time: float = attrs.field(converter=seconds)
        loose: int = attrs.field(converter=int, default=0)

    fields = structure_fields(Wait, {"time": "3s", "loose": "0x"}, what="a wait")
    assert fields == {"time": "3s", "loose": "0x"}
    with pytest.raises(ConfigError, match="'time' must be text"):
        structure_fields(Wait, {"time": 3}, what="a wait")


@attrs.define
class Unresolved:
    fine: int = 0
    lost: Nothing | None = None


def test_an_annotation_that_is_not_there_at_run_time_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match="field 'lost' of Unresolved names 'Nothing'"):
        structure_fields(Unresolved, {"fine": 1}, what="a step")


def test_required_options_can_be_asked_for() -> None:
    @attrs.frozen
    class Needy:
        first: str
        second: int
        third: int = 0

    assert missing_fields(Needy, {"first"}) == ["second"]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(value=PLAIN)
def test_whatever_is_taken_has_the_type_and_whatever_is_refused_says_so(value: object) -> None:
    kinds: dict[str, type] = {"id": str, "rounds": int, "factor": float, "stream": bool}
    for name, kind in kinds.items():
        try:
            taken = read(**{name: value})[name]
        except ConfigError as refused:
            error = refused
        else:
            assert type(taken) is kind
            continue
        assert error.path == name
