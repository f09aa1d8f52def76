from __future__ import annotations

import dataclasses
import enum
import json
import threading
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypedDict, TypeVar

import attrs
import msgspec
import pytest

from teff.checkpoint import Encoder, register_type, registered, types_of_schema
from teff.errors import ConfigError, StateError
from teff.state import StateSchema, freeze

T = TypeVar("T")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2
    ROUGE = 1  # noqa: PIE796  # the same member by another name


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: Any = 0


@attrs.define
class Plan:
    steps: list[str]
    colour: Colour = Colour.RED
    _secret: str = ""


@attrs.frozen
class Key:
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    title: str
    after: Step | None = None


@dataclasses.dataclass
class Sum:
    largest: ClassVar[Doubled]
    parts: list[int]
    total: int = dataclasses.field(init=False)
    cached: Any = dataclasses.field(init=False, compare=False, default=None)

    def __post_init__(self) -> None:
        self.total = sum(self.parts)


class Reading(msgspec.Struct, frozen=True, rename="camel"):
    taken_at: datetime
    values: list[float] = []


@attrs.define
class Box(Generic[T]):
    content: T


def _doubled(given: int) -> int:
    return given * 2


@attrs.define
class Doubled:
    n: int = attrs.field(converter=_doubled)


@dataclasses.dataclass
class Seeded:
    n: int
    seed: dataclasses.InitVar[int]

    def __post_init__(self, seed: int) -> None:
        self.n += seed


CLASSES = [Colour, Level, Word, Right, Point, Plan, Key, Step, Sum, Reading, Box]
TYPES: dict[str, type] = {cls.__name__: cls for cls in CLASSES}


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the names of the process as they were."""
    monkeypatch.setattr(registered, "_types", {})
    monkeypatch.setattr(registered, "_names", {})


def stored(data: Any) -> Any:
    """Write JSON as a store does, and read it."""
    written = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return json.loads(written.encode())


def back(value: Any, types: dict[str, type] | None = None) -> Any:
    encoder = Encoder(TYPES if types is None else types)
    return encoder.decode(stored(encoder.encode(freeze(value))))


# Classes


def test_instances_come_back_whatever_their_class_is_like() -> None:
    nested = Plan(["a"], Colour.BLUE, "s"), Step("a", Step("b")), Reading(datetime(2024, 1, 1))
    assert back({"all": [nested]}) == {"all": [nested]}


def test_a_field_that_the_constructor_does_not_take_comes_back_if_it_is_compared() -> None:
    value = Sum([1, 2])
    value.total, value.cached = 7, object()
    got = back(value)
    assert (got.parts, got.total, got.cached) == ([1, 2], 7, None)


def test_what_a_converter_would_do_once_more_is_not_done() -> None:
    value = Doubled(2)
    assert value.n == 4
    assert back(value, {"Doubled": Doubled}).n == 4


def test_a_named_tuple_that_hides_what_it_holds_is_refused_when_it_is_written() -> None:
    class Hidden(Point):
        x = property(lambda self: [])

    with pytest.raises(StateError, match="the field 'x' of Hidden gives something else"):
        Encoder({"Hidden": Hidden}).encode(Hidden(1))


def test_missing_fields_get_their_defaults() -> None:
    encoder = Encoder(TYPES)
    assert encoder.decode({"!object": ["Plan", {"steps": []}]}) == Plan([])
    assert encoder.decode({"!object": ["Point", {"x": 1}]}) == Point(1)
    now = {"!datetime": "2024-01-01T00:00:00"}
    assert encoder.decode({"!object": ["Reading", {"taken_at": now}]}).values == []


class Mine:
    pass


class Cents(int):
    pass


@attrs.define
class Basket(dict[str, int]):
    owner: str


# The names of types


def test_a_registered_class_comes_back_without_being_declared() -> None:
    register_type(Plan, name="the plan: über")
    register_type(Plan, name="the plan: über")
    register_type(Colour, name="os.system")
    encoder = Encoder()
    data = encoder.encode(Plan(["a"]))
    assert data["!object"][0] == "the plan: über"
    assert encoder.decode(stored(data)) == Plan(["a"])


def test_a_class_may_get_a_new_name_and_is_read_under_the_older_one() -> None:
    register_type(Key, name="old")
    data = Encoder().encode(Key("k"))
    register_type(Key, name="new")
    assert Encoder().decode(data) == Key("k")
    assert Encoder().encode(Key("k")) == {"!object": ["new", {"name": "k"}]}


def test_a_name_belongs_to_one_class() -> None:
    register_type(Plan, name="plan")
    with pytest.raises(ConfigError, match=r"'plan' is registered for .*Plan; give .*Key another"):
        register_type(Key, name="plan")
    with pytest.raises(ConfigError, match=r"declares .*Key, and the name 'plan' is registered for"):
        Encoder({"plan": Key})
    assert Encoder({"plan": Plan}).encode(Plan([], None))["!object"][0] == "plan"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cls", [int, dict, Mine, Exception, Cents, Basket, list[int], "Plan", None, TypedDict]
)
def test_only_classes_with_fields_and_enums_have_names(cls: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be stored"):
        register_type(cls, name="x")
    with pytest.raises(ConfigError, match="cannot be stored"):
        Encoder({"x": cls})


@pytest.mark.parametrize("name", ["", "  ", None, 5, "\ud800"])
def test_a_name_is_a_text(name: Any) -> None:
    with pytest.raises(ConfigError, match="the name of Plan is a text"):
        register_type(Plan, name=name)


def test_many_threads_may_register_at_once() -> None:
    refused: list[str] = []

    def register(cls: type) -> None:
        for number in range(200):
            try:
                register_type(cls, name=f"name {number}")
            except ConfigError:
                refused.append(cls.__name__)

    threads = [threading.Thread(target=register, args=(cls,)) for cls in (Plan, Key, Step)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 400


# The types of a schema


class Item(NamedTuple):
    made: Reading
    owner: Box[Level]


class Part(TypedDict, total=False):
    word: Word
    key: Annotated[Key, "about it"]


class Everything(TypedDict):
    plans: Annotated[list[Plan], "append"]
    step: Step | None
    by_name: dict[str, tuple[Item, ...]]
    part: Part
    right: Literal[Right.READ]
    maker: Callable[[Sum], Point]
    n: int
    anything: Any


def test_the_types_of_a_schema_are_found_wherever_they_stand() -> None:
    found = types_of_schema(Everything)
    expected = [Colour, Level, Word, Right, Point, Plan, Key, Step, Sum, Reading, Box, Item]
    assert found == {cls.__name__: cls for cls in expected}
    assert types_of_schema(StateSchema.of(Everything)) == found


@pytest.mark.parametrize("schema", [None, {}, {"n": int, "log": "append"}, {"e": enum.Enum}])
def test_a_schema_without_such_types_gives_none(schema: Any) -> None:
    assert types_of_schema(schema) == {}


def test_a_schema_may_be_a_mapping_an_attrs_class_or_a_dataclass() -> None:
    assert types_of_schema({"k": Key, "ks": {"type": list[Colour]}}) == {
        "Key": Key,
        "Colour": Colour,
    }
    assert types_of_schema(Plan) == {"Colour": Colour}
    assert types_of_schema(Step) == {"Step": Step}
    assert types_of_schema({"a": Seeded}) == {"Seeded": Seeded}


def test_a_registered_class_has_its_registered_name_in_a_schema() -> None:
    register_type(Key, name="key, 2nd edition")
    assert types_of_schema({"k": Key}) == {"key, 2nd edition": Key}


def test_two_classes_of_one_name_are_refused_until_one_is_registered() -> None:
    other = attrs.make_class("Key", ["n"])
    with pytest.raises(ConfigError, match=r"two types of the name 'Key'.*register_type\(Key, name"):
        types_of_schema({"a": Key, "b": other})
    register_type(other, name="other key")
    encoder = Encoder(types_of_schema({"a": Key, "b": other}))
    value = [Key("a"), other(1)]
    assert encoder.decode(encoder.encode(value)) == value


def test_an_annotation_that_cannot_be_resolved_is_told() -> None:
    with pytest.raises(ConfigError, match="Lost, which the state declares.*'Nowhere'"):
        types_of_schema({"lost": list[Lost]})


class Lost(NamedTuple):
    what: Nowhere  # type: ignore[name-defined]  # noqa: F821


def test_the_fields_of_attrs_classes_without_annotations_are_found() -> None:
    made = attrs.make_class("Made", {"key": attrs.field(type=Key)})
    assert types_of_schema({"a": made}) == {"Made": made, "Key": Key}
