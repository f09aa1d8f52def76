from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import math
import pathlib
import sys
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Generic, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pytest

from teff.checkpoint import Encoder
from teff.errors import CheckpointCorrupt, StateError
from teff.state import Append, FrozenDict, FrozenList, FrozenSet, freeze

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


@attrs.define
class Node:
    name: str
    next: Any = None


CLASSES = [Colour, Level, Word, Right, Point, Plan, Key, Step, Sum, Reading, Box, Node]
TYPES: dict[str, type] = {cls.__name__: cls for cls in CLASSES}


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
        datetime(2024, 5, 1, tzinfo=timezone(-timedelta(microseconds=5))),
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


def test_a_path_of_the_other_system_comes_back_as_one_of_this() -> None:
    assert Encoder().decode({"!path": "a/b"}) == pathlib.Path("a/b")


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


def test_the_deepest_value_is_read_with_a_record_around_it() -> None:
    encoder = Encoder()
    record = {"effects": {"values": encoder.encode(nested(200)), "operators": {}}}
    assert encoder.decode(stored(record)) == record


def test_what_is_stored_too_deeply_is_refused() -> None:
    for data in (nested(221), nested(50_000), nested(111, lambda inner: {"!tuple": [inner]})):
        with pytest.raises(CheckpointCorrupt, match="nested more than 200 levels"):
            Encoder().decode(data)
    with pytest.raises(CheckpointCorrupt, match="of the type object"):
        Encoder().decode([object()])


def test_where_the_stack_is_nearly_used_up_it_is_told_as_too_deep() -> None:
    encoder = Encoder()
    value = nested(150)

    def call(levels: int, function: Callable[[Any], Any]) -> Any:
        return call(levels - 1, function) if levels else function(value)

    room = sys.getrecursionlimit() - len(inspect.stack(0)) - 50
    with pytest.raises(StateError, match="nested more than 200 levels"):
        call(room, encoder.encode)
    with pytest.raises(CheckpointCorrupt, match="nested more than 200 levels"):
        call(room, encoder.decode)
