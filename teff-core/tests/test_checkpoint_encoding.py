from __future__ import annotations

import dataclasses
import enum
import io
import json
import math
import os
import pathlib
import sys
import threading
import uuid
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypedDict, TypeVar
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pytest

from teff.checkpoint import Encoder, register_type, registered, types_of_schema
from teff.errors import CheckpointCorrupt, CheckpointError, ConfigError, StateError
from teff.state import DELETE, Append, FrozenDict, FrozenList, FrozenSet, StateSchema, freeze

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


@attrs.frozen
class Moment:
    at: datetime = attrs.field(converter=datetime.fromisoformat)  # type: ignore[misc]


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


@attrs.define
class Box(Generic[T]):
    content: T


@attrs.define
class Node:
    name: str
    next: Any = None


CLASSES = [Colour, Level, Word, Right, Point, Plan, Key, Step, Sum, Reading, Box, Node]
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


def kinds(value: Any) -> Any:
    """Return the type of a value, and of what it holds."""
    if isinstance(value, dict):
        return type(value), [(kinds(key), kinds(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [kinds(item) for item in value]
    if isinstance(value, set | frozenset):
        return type(value), {repr(kinds(item)) for item in value}
    return type(value)


# What a user notices: the values that reported faults are about come back (CKP-01)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 5, 1, 10, 30, tzinfo=UTC),
        datetime(2024, 5, 1, 10, 30, 1, 5, tzinfo=timezone(timedelta(hours=-3, seconds=7))),
        datetime(2024, 5, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
        datetime(2024, 5, 1, 10, 30, tzinfo=ZoneInfo("Europe/Riga")),
        datetime(2024, 10, 27, 3, 30, fold=1, tzinfo=ZoneInfo("Europe/Riga")),
        datetime(2024, 10, 27, 3, 30, fold=1),
        datetime.min,
        datetime.max,
        date(2024, 2, 29),
        time(23, 59, 59, 999999),
        time(1, 2, fold=1),
        time(1, 2, tzinfo=UTC),
        time(1, 2, tzinfo=ZoneInfo("UTC")),
        timedelta(days=-1, seconds=5, microseconds=7),
        timedelta(0),
        timedelta.min,
        Decimal("1.10"),
        Decimal("-0"),
        Decimal("1E+400"),
        Decimal("-Infinity"),
        uuid.UUID(int=7),
        b"\x00\xff",
        b"",
        bytearray(b"ab"),
        {1, 2},
        set(),
        {"a", 1, (2, b"x"), frozenset({3})},
        frozenset({1, "x"}),
        (1, 2),
        (),
        ((1, [2, {"a": (3,)}]),),
        PurePosixPath("/a/b c"),
        PureWindowsPath("C:\\a\\b"),
        Path("a/b"),
        Path("/tmp"),
        Fraction(1, 3),
        complex(1.5, -0.0),
        complex("inf"),
        Colour.RED,
        Colour.BLUE,
        Level.HIGH,
        Word.YES,
        Right.READ,
        Right.READ | Right.WRITE,
        Right(0),
        {1: "a", (1, 2): "b", None: "c", 1.5: "d", "e": 5, Colour.RED: 6},
        {b"x": {date(2024, 1, 1): []}},
        math.inf,
        -math.inf,
        10**30,
        -(2**63),
        2**63,
        -0.0,
        5e-324,
        "\ud800",
        "a\udc00b\ud83d\ude00c",
        "é\u2028\x00",
        {"\ud800": 1},
        {"": {"": []}},
        Point(1, [2]),
        Plan(["a"], Colour.BLUE, "s"),
        Key("k"),
        {Key("k"): {Key("l")}},
        Step("a", Step("b")),
        Sum([1, 2]),
        Reading(datetime(2024, 1, 1, tzinfo=UTC), [1.0]),
        Box((1, {2})),
        [None, True, False, 0, 1, 0.0, 1.0, ""],
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    got = back({"cfg": {"value": value}})["cfg"]["value"]
    assert got == value
    assert kinds(got) == kinds(freeze(value))


def test_a_number_of_more_digits_than_python_reads_comes_back() -> None:
    assert back(-(10**5000)) == -(10**5000)
    assert back(Fraction(10**5000, 7)) == Fraction(10**5000, 7)


@pytest.mark.parametrize("text", ["NaN", "sNaN", "-NaN123"])
def test_a_decimal_that_is_no_number_comes_back(text: str) -> None:
    assert str(back(Decimal(text))) == text


def test_nan_comes_back() -> None:
    assert math.isnan(back({"n": math.nan})["n"])
    assert math.isnan(back(complex(math.nan, 1)).real)


def test_the_clock_goes_on_after_a_fold() -> None:
    value = datetime(2024, 10, 27, 3, 30, fold=1, tzinfo=ZoneInfo("Europe/Riga"))
    got = back(value)
    assert (got.fold, got.tzinfo, got.utcoffset()) == (1, value.tzinfo, timedelta(hours=2))


def test_the_name_of_an_offset_comes_back() -> None:
    named = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "C]T \ud800"))
    assert back(named).tzname() == "C]T \ud800"
    assert back(named.timetz()).tzname() == "C]T \ud800"


# What the store holds


def test_plain_json_is_stored_as_it_is() -> None:
    value = freeze({"a": [1, 2.5, None, True, "é", {"b": {}, "c": []}], "!x": 1, "y": 2})
    assert Encoder().encode(value) is value
    plain: dict[str, Any] = {"a": [1]}
    assert Encoder().encode(plain) is plain
    for atom in (None, True, 1, 1.5, "text"):
        assert Encoder().encode(atom) is atom


def test_what_is_stored_can_be_read_by_people() -> None:
    zone = ZoneInfo("Europe/Riga")
    value = {
        "made": datetime(2024, 10, 27, 3, 30, fold=1, tzinfo=zone),
        "sent": datetime(2024, 5, 1, 10, tzinfo=UTC),
        "on": date(2024, 5, 1),
        "for": timedelta(days=-1, seconds=30),
        "price": Decimal("1.10"),
        "ids": {"b", "a"},
        "size": (1, 2),
        "big": 10**30,
        "rate": math.nan,
        "part": Fraction(1, 3),
        "file": Path("a/b"),
        "raw": b"hi",
        "odd": "a\ud800b",
        "votes": {1: "x"},
        "plan": Plan(["s"], Colour.BLUE),
        "left": Level.LOW,
        "right": Right.READ | Right.WRITE,
        "at": Point(1, 2),
        "bag": {"!set": [1]},
    }
    assert Encoder(TYPES).encode(freeze(value)) == {
        "made": {"!datetime": "2024-10-27T03:30:00[Europe/Riga][fold=1]"},
        "sent": {"!datetime": "2024-05-01T10:00:00+00:00"},
        "on": {"!date": "2024-05-01"},
        "for": {"!timedelta": {"days": -1, "seconds": 30}},
        "price": {"!decimal": "1.10"},
        "ids": {"!set": ["a", "b"]},
        "size": {"!tuple": [1, 2]},
        "big": {"!int": "1000000000000000000000000000000"},
        "rate": {"!float": "nan"},
        "part": {"!fraction": [1, 3]},
        "file": {"!path": "a/b"},
        "raw": {"!bytes": "aGk="},
        "odd": {"!text": ["a", 0xD800, "b"]},
        "votes": {"!dict": [[1, "x"]]},
        "plan": {"!object": ["Plan", {"steps": ["s"], "colour": {"!enum": ["Colour", "BLUE"]}, "_secret": ""}]},
        "left": {"!enum": ["Level", "LOW"]},
        "right": {"!enum": ["Right", 3]},
        "at": {"!object": ["Point", {"x": 1, "y": 2}]},
        "bag": {"!!set": [1]},
    }  # fmt: skip


def test_equal_sets_are_stored_equally() -> None:
    one = {str(number) for number in range(100)}
    other = {str(number) for number in reversed(range(100))}
    assert json.dumps(Encoder().encode(one)) == json.dumps(Encoder().encode(other))


@pytest.mark.parametrize(
    "note",
    [
        {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}},
        {"!set": [1]},
        {"!!set": [1]},
        {"!": 1},
        {"!!": {"!!!": {"!object": ["os.system", {}]}}},
        {"!object": ["Plan", {"steps": []}]},
        {"!unknown": 1},
        {"!set": [1], "!tuple": [2]},
        {"!set": {1, 2}},
        {"!\ud800": 1},
    ],
)
def test_a_dict_that_looks_like_a_tag_stays_a_dict(note: Any) -> None:
    assert back({"note": note}) == {"note": note}
    assert back(note) == note


# Frozen as the state is


def test_lists_dicts_and_sets_come_back_frozen() -> None:
    got = back({"a": [{1}], "b": ([1], {"x": {2: [3]}})})
    assert type(got) is FrozenDict
    assert type(got["a"]) is FrozenList
    assert type(got["a"][0]) is FrozenSet
    assert type(got["b"][0]) is FrozenList
    assert type(got["b"][1]["x"]) is FrozenDict
    assert type(got["b"][1]["x"][2]) is FrozenList
    assert type(back(Point(1, [2])).y) is FrozenList


def test_subclasses_of_containers_come_back_plain_as_the_state_holds_them() -> None:
    counts: defaultdict[str, list[int]] = defaultdict(list, a=[1])
    values = [OrderedDict(b=1, a=2), counts, Append([1])]
    got = back(values)
    assert got == values
    assert [type(value) for value in got] == [FrozenDict, FrozenDict, FrozenList]
    encoder = Encoder()
    raw = encoder.decode(encoder.encode(values))  # as it was given, before it is frozen
    assert [type(value) for value in raw] == [FrozenDict, FrozenDict, FrozenList]


def test_within_an_instance_containers_stay_what_they_were() -> None:
    frozen = freeze({"x": [1]})
    got = back([Node("n", [{"a": [1]}, {2}, frozen, (frozen["x"], [])])])[0].next
    assert got == [{"a": [1]}, {2}, frozen, ([1], [])]
    assert type(got) is list
    assert [type(item) for item in got] == [dict, set, FrozenDict, tuple]
    assert type(got[0]["a"]) is list
    assert type(got[2]["x"]) is FrozenList
    assert [type(item) for item in got[3]] == [FrozenList, list]
    inner = back(freeze({"a": Node("n", freeze([Node("m", [1])]))}))["a"].next
    assert (type(inner), type(inner[0].next)) == (FrozenList, list)


def test_a_dict_with_odd_keys_within_an_instance_comes_back_ordinary() -> None:
    got = back(Node("n", {1: [2], "!a": 1})).next
    assert (type(got), type(got[1])) == (dict, list)


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


def test_missing_fields_get_their_defaults() -> None:
    encoder = Encoder(TYPES)
    assert encoder.decode({"!object": ["Plan", {"steps": []}]}) == Plan([])
    assert encoder.decode({"!object": ["Point", {"x": 1}]}) == Point(1)
    now = {"!datetime": "2024-01-01T00:00:00"}
    assert encoder.decode({"!object": ["Reading", {"taken_at": now}]}).values == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"!object": ["Plam", {}]}, r"'Plam'.*register_type\(TheClass, name='Plam'\).*mean 'Plan'"),
        ({"!object": ["os.system", {}]}, "'os.system', which has no class here"),
        ({"!enum": ["Color", "RED"]}, "'Color'.*register_type"),
        ({"!enum": ["Colour", "REDD"]}, "'REDD' of 'Colour'.*mean 'RED'"),
        ({"!enum": ["Colour", 1]}, "the member 1 of 'Colour'"),
        ({"!enum": ["Right", 64]}, "Right cannot be made"),
        ({"!enum": ["Plan", "x"]}, "is an Enum, and 'Plan'"),
        ({"!object": ["Colour", {}]}, "has fields, and 'Colour' is an Enum"),
        ({"!object": ["Plan", {"steps": [], "step": 1}]}, "the field 'step'.*mean 'steps'"),
        ({"!object": ["Plan", {}]}, "Plan cannot be made of a stored 'Plan': TypeError.*steps"),
        ({"!object": ["Point", {}]}, "Point cannot be made"),
        ({"!datetime": "2024-01-01T00:00:00[Mars/Base]"}, "'Mars/Base'.*tzdata"),
        ({"!datetime": "2024-01-01T00:00:00[Europe]"}, "'Europe'"),
    ],
)
def test_what_has_changed_since_is_named_with_the_way_out(data: Any, said: str) -> None:
    with pytest.raises(CheckpointError, match=said) as raised:
        Encoder(TYPES).decode({"a": [data]})
    assert not isinstance(raised.value, CheckpointCorrupt)


@pytest.mark.parametrize(
    "data",
    [
        {"!unknown": 1},
        {"!": 1},
        {"!set": 1},
        {"!set": [[1]]},
        {"!tuple": {}},
        {"!dict": [[1]]},
        {"!dict": [[{}, 1]]},
        {"!dict": {"a": 1}},
        {"!frozen": []},
        {"!frozen": {"!frozen": []}},
        {"!object": ["Node", {"name": {"!frozen": 1}}]},
        {"!object": []},
        {"!object": ["Plan", []]},
        {"!object": [["Plan"], {}]},
        {"!object": "Plan"},
        {"!enum": ["Colour"]},
        {"!enum": {"Colour": "RED"}},
        {"!text": "x"},
        {"!text": [1]},
        {"!text": [None]},
        {"!int": 1.5},
        {"!int": "1e5"},
        {"!int": "9" * 5000},
        {"!float": "1.5"},
        {"!float": None},
        {"!datetime": 5},
        {"!datetime": ["2024-01-01T00:00:00", "name"]},
        {"!datetime": ["2024-01-01T00:00:00+01:00"]},
        {"!datetime": "2024-01-01T00:00:00[../etc/passwd]"},
        {"!datetime": "2024-01-01T00:00:00[fold=2]"},
        {"!date": "yesterday"},
        {"!time": "25:00"},
        {"!timedelta": {"weeks": 1}},
        {"!timedelta": {"days": 10**12}},
        {"!timedelta": {"days": True}},
        {"!decimal": "one"},
        {"!decimal": 1},
        {"!fraction": [1, 0]},
        {"!fraction": [1]},
        {"!fraction": ["1", "2"]},
        {"!complex": [1]},
        {"!complex": [10**400, 1]},
        {"!bytes": "a"},
        {"!bytes": "é"},
        {"!bytes": None},
        {"!uuid": 5},
        {"!uuid": "5"},
        {"!path": None},
    ],
    ids=repr,
)
def test_what_nobody_wrote_is_refused(data: Any) -> None:
    with pytest.raises(CheckpointCorrupt, match="a stored value"):
        Encoder(TYPES).decode({"a": [data]})


def test_nothing_is_imported_for_a_stored_name() -> None:
    before = set(sys.modules)
    for name in ("this.that", "antigravity", "antigravity.x", "test_checkpoint_encoding.Plan"):
        with pytest.raises(CheckpointError):
            Encoder().decode({"!object": [name, {}]})
        with pytest.raises(CheckpointError):
            Encoder().decode({"!enum": [name, "X"]})
    assert "antigravity" not in set(sys.modules) - before


# What cannot be stored is refused before anything is written (CKP-03)


class Mine:
    pass


class Cents(int):
    pass


class Stamp(datetime):
    pass


class Off(tzinfo):
    def utcoffset(self, when: object) -> timedelta:
        return timedelta(0)

    def tzname(self, when: object) -> str:
        return "off"

    def dst(self, when: object) -> None:
        return None


def _numbers() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (lambda: 1, r"of the type function, which cannot be stored: return plain data"),
        (os, "of the type module"),
        (Mine(), r"Mine, which cannot be stored: return plain data"),
        (Mine, "of the type type"),
        (_numbers(), "generator"),
        (io.StringIO(), "StringIO"),
        (deque([1]), "collections.deque"),
        (MappingProxyType({}), "mappingproxy"),
        (range(3), "of the type range"),
        (..., "ellipsis"),
        (memoryview(b"x"), "memoryview"),
        (ValueError("x"), "ValueError"),
        (DELETE, "teff.state.operators._Delete"),
        (Cents(1), r"Cents, .*: it is a kind of int: return a plain int made of it"),
        (Stamp(2024, 1, 1), "it is a kind of datetime: return a plain datetime"),
        (Path.cwd().stat(), "os.stat_result"),
        (Doubled(1), r"declare Doubled in the state schema, or call .*register_type\(Doubled, name='Doubled'\)"),
        (datetime(2024, 1, 1, tzinfo=Off()), "has the time zone .*Off without a key: use zoneinfo"),
        (time(1, tzinfo=Off()), "has the time zone"),
    ],
)  # fmt: skip
def test_other_objects_are_refused_with_their_place_and_the_way_out(value: Any, said: str) -> None:
    state = freeze({"cfg": {"path": [1, 2, value]}, "n": 2})
    with pytest.raises(StateError, match=said) as raised:
        Encoder(TYPES).encode(state, where="state")
    assert str(raised.value).startswith("state.cfg.path[2] ")
    with pytest.raises(StateError) as raised:
        Encoder(TYPES).encode(state)
    assert str(raised.value).startswith("cfg.path[2] ")
    with pytest.raises(StateError) as raised:
        Encoder(TYPES).encode(value)
    assert str(raised.value).startswith("the value ")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a b": Mine()}, "state['a b'] "),
        ({1: {"x": Mine()}}, "state[1].x "),
        ({Mine(): 1}, "state (a key) "),
        ({"x" * 100: Mine()}, f"state.{'x' * 100} "),
        ({"x " * 100: Mine()}, f"state['{'x ' * 28}... "),
        ({"s": {Mine()}}, "state.s (a member) "),
        ((1, Mine()), "state[1] "),
        (Node("n", [Mine()]), "state.next[0] "),
        (Point(1, Mine()), "state.y "),
    ],
)
def test_the_place_is_told_through_all_kinds_of_containers(value: Any, place: str) -> None:
    with pytest.raises(StateError) as raised:
        Encoder(TYPES).encode(freeze(value), where="state")
    said = str(raised.value)
    assert said.startswith(place.replace("... ", "")), said


def test_subclasses_of_containers_within_an_instance_are_refused() -> None:
    with pytest.raises(
        StateError, match=r"next is of the type collections.OrderedDict.*plain dict"
    ):
        Encoder(TYPES).encode(Node("n", OrderedDict(a=1)))


def test_a_class_that_does_not_take_its_fields_is_refused_when_it_is_written() -> None:
    moment = Moment("2024-05-01T10:00:00")  # type: ignore[arg-type]
    for value, types in ((moment, {"Moment": Moment}), (Seeded(1, 2), {"Seeded": Seeded})):
        with pytest.raises(StateError, match=r"state\.a would not come back.*cannot be made of"):
            Encoder(types).encode(value, where="state.a")


def test_an_enum_member_that_the_class_does_not_have_is_refused() -> None:
    made = object.__new__(Colour)
    made._name_, made._value_ = "GREEN", 3
    with pytest.raises(StateError, match="is no member of Colour"):
        Encoder(TYPES).encode(made)


def test_a_key_with_a_broken_repr_is_told_all_the_same() -> None:
    @attrs.frozen(repr=False)
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(StateError, match=r"Broken, whose __repr__ raised RuntimeError"):
        Encoder({"Broken": Broken}).encode({Broken(): Mine()})


# Depth and cycles


def nested(depth: int, make: Callable[[Any], Any] = lambda inner: [inner]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = make(value)
    return value


@pytest.mark.parametrize(
    ("make", "levels"),
    [
        (lambda inner: [inner], 1),
        (lambda inner: {"a": inner}, 1),
        (lambda inner: {"!a": inner}, 1),
        (lambda inner: (inner,), 2),
        (lambda inner: frozenset({inner}), 2),
        (lambda inner: {1: inner}, 3),
        (lambda inner: Node("n", inner), 3),
        (lambda inner: Node("n", [inner]), 4),
    ],
)
def test_as_deep_as_it_may_be_it_comes_back_and_any_deeper_it_is_refused(
    make: Callable[[Any], Any], levels: int
) -> None:
    deepest = 200 // levels
    value = nested(deepest, make)
    encoder = Encoder(TYPES)
    assert encoder.encode(encoder.decode(stored(encoder.encode(value)))) == encoder.encode(value)
    with pytest.raises(StateError, match="^state contains itself, or is nested more than 200 lev"):
        encoder.encode(nested(deepest + 1, make), where="state")
    with pytest.raises(StateError, match="nested more than 200 levels"):
        encoder.encode(nested(5000, make) if levels < 3 else nested(150, make))


def test_what_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    person: Any = Node("a")
    person.next = {"back": (person,)}
    table: dict[Any, Any] = {}
    table[1] = table
    for value in (ring, person, table):
        with pytest.raises(StateError, match="contains itself"):
            Encoder(TYPES).encode(value)


def test_what_is_stored_too_deeply_is_refused() -> None:
    for data in (nested(201), nested(50_000), nested(101, lambda inner: {"!tuple": [inner]})):
        with pytest.raises(CheckpointCorrupt, match="nested more than 200 levels"):
            Encoder().decode(data)
    with pytest.raises(CheckpointCorrupt, match="of the type object"):
        Encoder().decode([object()])


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
    "cls", [int, dict, Mine, Exception, Cents, list[int], "Plan", None, TypedDict]
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


def test_a_path_of_the_other_system_comes_back_as_one_of_this() -> None:
    assert Encoder().decode({"!path": "a/b"}) == pathlib.Path("a/b")
