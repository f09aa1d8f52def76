from __future__ import annotations

import dataclasses
import enum
import json
import math
import pathlib
import struct
from datetime import timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import attrs
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from teff.checkpoint import Encoder
from teff.checkpoint.reading import CONTAINERS
from teff.checkpoint.standard_types import READERS
from teff.errors import CheckpointError, StateError
from teff.state import FrozenDict, FrozenList, FrozenSet, freeze


class Colour(enum.Enum):
    RED = "r"
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Right(enum.IntFlag):
    READ = 1
    WRITE = 2


class Pair(NamedTuple):
    left: Any
    right: Any = None


@attrs.frozen
class Frozen:
    _content: Any
    more: Any = attrs.field(factory=list)


@attrs.define
class Open:
    content: Any
    made: Any = attrs.field(init=False, default=None)


@dataclasses.dataclass(slots=True)
class Data:
    content: Any
    other: Any = dataclasses.field(default=None, kw_only=True)


class Form(msgspec.Struct, kw_only=True, rename="kebab"):
    some_content: Any = None


TYPES: dict[str, type] = {
    **{cls.__name__: cls for cls in (Colour, Level, Right, Pair, Frozen, Open, Data)},
    "a form, with: any !name/here\u2028": Form,
}
ENCODER = Encoder(TYPES)

offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23))
zones = st.none() | st.timezones() | st.builds(timezone, offsets)
zones |= st.builds(timezone, offsets, st.text(st.characters(exclude_categories=()), max_size=5))
texts = st.text(st.characters(exclude_categories=()), max_size=6)
names = texts | st.sampled_from(["!", "!!", "!set", "!object", "!a", "a"])


@st.composite
def _paths(draw: st.DrawFn) -> pathlib.PurePath:
    parts = draw(st.lists(st.text("ab:/\\ .\u00e9\udc80", max_size=4), max_size=3))
    kinds = (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.Path)
    return draw(st.sampled_from(kinds))(*parts)


numbers = (
    st.integers()
    | st.integers(-(2**70), 2**70)
    | st.integers(0, 5000).map(lambda power: 10**power)
    | st.floats()
    | st.complex_numbers()
    | st.decimals(allow_nan=False)
    | st.sampled_from([Decimal("NaN"), Decimal("-NaN12"), Decimal("1E+999999"), Decimal("-0E-9")])
    | st.fractions()
)
atoms = (
    st.none()
    | st.booleans()
    | numbers
    | texts
    | st.binary(max_size=4)
    | st.datetimes(timezones=zones, allow_imaginary=True)
    | st.dates()
    | st.times(timezones=zones)
    | st.timedeltas()
    | st.uuids()
    | _paths()
    | st.sampled_from([*Colour, *Level, *Right, Right(3), Right(0), Right(8)])
)


def hashables(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.builds(Frozen, inner, inner)
    )


keys = st.recursive(atoms, hashables, max_leaves=4)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    opened = st.builds(Open, inner)
    return (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=2).map(freeze)
        | st.dictionaries(names, inner, max_size=3)
        | st.dictionaries(keys, inner, max_size=2)
        | st.dictionaries(names, inner, max_size=2).map(freeze)
        | st.sets(keys, max_size=3)
        | st.sets(keys, max_size=2).map(FrozenSet)
        | st.binary(max_size=3).map(bytearray)
        | st.builds(Pair, inner, inner)
        | st.builds(Frozen, inner)
        | st.builds(Data, inner, other=inner)
        | st.builds(Form, some_content=inner)
        | opened
        | st.builds(_with_made, opened, inner)
    )


def _with_made(value: Open, made: Any) -> Open:
    value.made = made
    return value


values = st.recursive(keys, containers, max_leaves=8)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
#: What somebody might write who knows the tags.
tags = st.sampled_from([*READERS, *CONTAINERS, "nothing"])
contents = st.sampled_from(
    [
        "2024-01-01",
        "2024-01-01T00:00:00[Europe/Riga][fold=1]",
        "00:00+01:00",
        "1",
        "0x1f",
        "nan",
        "1/2",
        "a/b",
        "YQ==",
        {"days": 1},
        [1, 2],
        [0, 0],
        [[1, 2]],
        ["a", 0xD800],
        ["Colour", "RED"],
        ["Right", 3],
        ["Level", "x"],
        ["Pair", {"left": 1}],
        ["Frozen", {"_content": []}],
        ["Open", {"content": {}, "made": []}],
        ["Data", {}],
        [1, {}],
    ]
)
documents = st.recursive(
    json_values | contents,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names, inner, max_size=3)
        | st.builds(lambda tag, content: {f"!{tag}": content}, tags, inner | contents)
        | st.builds(
            lambda name, content: {"!object": [name, {"content": content, "left": content}]},
            st.sampled_from([*TYPES, "os.system"]),
            inner,
        )
    ),
    max_leaves=8,
)


def stored(data: Any) -> Any:
    """Write JSON as a store does, and read it."""
    written = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return json.loads(written.encode())


def written(value: Any, *, frozen: bool) -> Any:
    """Return what tells a value from all that differ from it in value or type, within too."""
    kind = type(value)
    if isinstance(value, float) and kind is float:
        return kind, "nan" if math.isnan(value) else struct.pack("d", value)
    if kind is complex:
        return kind, written(value.real, frozen=True), written(value.imag, frozen=True)
    if kind is int:
        return kind, hex(value)
    if kind is Fraction:
        return kind, hex(value.numerator), hex(value.denominator)
    if isinstance(value, dict):
        frozen = frozen or kind is FrozenDict
        pairs = [
            (written(key, frozen=frozen), written(item, frozen=frozen))
            for key, item in value.items()
        ]
        return FrozenDict if frozen else kind, pairs
    if isinstance(value, set | frozenset):
        members = sorted(repr(written(member, frozen=True)) for member in value)
        return FrozenSet if frozen and kind is set else kind, members
    if isinstance(value, list | tuple):
        frozen = frozen or kind is FrozenList
        items = [written(item, frozen=frozen) for item in value]
        return FrozenList if frozen and kind is list else kind, items
    if isinstance(value, Frozen | Open):
        fields = [getattr(value, field.name) for field in attrs.fields(kind)]
        return kind, [written(field, frozen=False) for field in fields]
    if isinstance(value, Data):
        return kind, [written(field, frozen=False) for field in (value.content, value.other)]
    if isinstance(value, Form):
        return kind, [written(value.some_content, frozen=False)]
    return kind, repr(value), getattr(value, "fold", 0)


@given(values)
def test_any_value_comes_back_equal_with_all_its_types(value: Any) -> None:
    frozen = freeze(value)
    try:
        data = ENCODER.encode(frozen, where="state")
    except StateError as error:
        assert "means another path" in str(error)  # noqa: PT017
        return
    got = ENCODER.decode(stored(data))
    assert written(got, frozen=True) == written(frozen, frozen=True)
    assert ENCODER.encode(got) == data
    assert stored(ENCODER.encode(got)) == stored(data)


@given(json_values)
def test_json_is_stored_as_it_is_but_for_what_looks_like_a_tag(value: Any) -> None:
    data = ENCODER.encode(value)
    if "!" not in json.dumps(value) and not _has_surrogates(value) and not _is_large(value):
        assert data is value
    assert ENCODER.decode(stored(data)) == value


def _has_surrogates(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _is_large(value: Any) -> bool:
    """Say whether there is a number in it that may be tagged."""
    if isinstance(value, dict):
        return any(map(_is_large, value.values()))
    if isinstance(value, list):
        return any(map(_is_large, value))
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int) and value.bit_length() >= 64


@given(documents)
def test_any_document_is_read_or_refused_and_what_is_read_is_written_alike(document: Any) -> None:
    try:
        value = ENCODER.decode(document)
    except CheckpointError:
        return
    data = ENCODER.encode(value)
    again = ENCODER.decode(stored(data))
    assert written(again, frozen=True) == written(value, frozen=True)
    assert ENCODER.encode(again) == data


@given(documents, st.sampled_from([None, 1, "x", [], {}, ["Colour"]]), st.integers(0, 50))
def test_a_document_that_was_damaged_is_read_or_refused(
    document: Any, damage: Any, place: int
) -> None:
    damaged = _damaged(document, [place], damage)
    try:
        ENCODER.decode(damaged)
    except CheckpointError as error:
        assert str(error)  # noqa: PT017


def _damaged(document: Any, left: list[int], damage: Any) -> Any:
    left[0] -= 1
    if left[0] == -1:
        return damage
    if isinstance(document, dict):
        return {key: _damaged(item, left, damage) for key, item in document.items()}
    if isinstance(document, list):
        return [_damaged(item, left, damage) for item in document]
    return document
