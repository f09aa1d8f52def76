from __future__ import annotations

import dataclasses
import enum
import io
import os
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator
from datetime import datetime, time, timedelta, tzinfo
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import attrs
import msgspec
import pytest

from teff.checkpoint import Encoder
from teff.errors import CheckpointCorrupt, CheckpointError, StateError
from teff.state import DELETE, freeze

T = TypeVar("T")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2
    ROUGE = 1  # noqa: PIE796  # the same member by another name


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


@attrs.define
class Node:
    name: str
    next: Any = None


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


CLASSES = [Colour, Right, Point, Plan, Node, Reading]
TYPES: dict[str, type] = {cls.__name__: cls for cls in CLASSES}


# What cannot be stored is refused before anything is written (CKP-03)


class Mine:
    pass


class Cents(int):
    pass


@attrs.define
class Basket(dict[str, int]):
    owner: str


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
    moment = Moment("2024-05-01T10:00:00")
    for value, types in ((moment, {"Moment": Moment}), (Seeded(1, 2), {"Seeded": Seeded})):
        with pytest.raises(
            StateError, match=r"state\.a would not come back.*cannot be made of.*must take"
        ):
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
