"""Values that JSON does not have, written as JSON, and the words for those that cannot be."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from teff.checkpoint.instances import form_of, is_storable_class
from teff.checkpoint.plain import MARK, TOO_DEEP, integer, is_plain, is_text, number, sort_key, text
from teff.checkpoint.registered import TypeNames, full_name
from teff.errors import StateError
from teff.state.frozen import FROZEN

__all__ = ["Place", "Writer"]

#: Where a value is: the place of what holds it, and the step from there: an index, a key in a
#: tuple, or words. The first place is one text, which may be empty.
Place = tuple[Any, ...]


class Writer:
    """One walk over a value that is not plain JSON.

    In all methods, ``room`` is how many levels of objects and lists there may be, and ``frozen``
    says whether dicts, lists and sets are those of the state, or belong to an instance.

    Attributes:
        has_instances: whether there was an instance of a class with fields.
    """

    def __init__(self, names: TypeNames) -> None:
        self.names = names
        self.has_instances = False

    def write(self, value: Any, place: Place, room: int, *, frozen: bool) -> Any:
        """Return a value as JSON.

        Raises:
            StateError: something in it cannot be stored.
        """
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return text(value)
        if kind is int:
            return integer(value)
        if kind is float:
            return number(value)
        _require_room(room, 1, place)
        if kind is dict or kind is list or kind is set or (frozen and _is_container(value)):
            return self.container(value, place, room, frozen=frozen)
        if kind in FROZEN:
            return {"!frozen": self.write(value, place, room - 1, frozen=True)}
        if kind is tuple:
            return {"!tuple": self.items(value, place, room - 1, frozen=frozen)}
        if kind is frozenset:
            return {"!frozenset": self.members(value, place, room - 1)}
        return self.typed(value, place, room, frozen=frozen)

    def container(self, value: Any, place: Place, room: int, *, frozen: bool) -> Any:
        """Return a dict, a list or a set."""
        if is_plain(value, 1):  # most are, deep inside, also beside what is not
            return value
        if isinstance(value, list):
            return self.items(value, place, room, frozen=frozen)
        if isinstance(value, set):
            return {"!set": self.members(value, place, room - 1)}
        if not all(type(key) is str and is_text(key) for key in value):
            return {"!dict": self.pairs(value, place, room - 1, frozen=frozen)}
        written = {}
        for key, item in value.items():
            written[key] = self.write(item, (place, (key,)), room - 1, frozen=frozen)
        if len(written) == 1 and (key := next(iter(written))).startswith(MARK):
            return {MARK + key: written[key]}
        return written

    def items(self, value: Iterable[Any], place: Place, room: int, *, frozen: bool) -> list[Any]:
        """Return the items of a list or a tuple."""
        _require_room(room, 1, place)
        written = []
        for index, item in enumerate(value):
            written.append(self.write(item, (place, index), room - 1, frozen=frozen))
        return written

    def members(self, value: Iterable[Any], place: Place, room: int) -> list[Any]:
        """Return the members of a set, in an order that is the same for equal sets."""
        _require_room(room, 1, place)
        written = [self.write(item, (place, "a member"), room - 1, frozen=True) for item in value]
        return sorted(written, key=sort_key)

    def pairs(self, value: Mapping[Any, Any], place: Place, room: int, *, frozen: bool) -> Any:
        """Return the keys of a dict with their values."""
        _require_room(room, 2, place)
        written = []
        for key, item in value.items():
            first = self.write(key, (place, "a key"), room - 2, frozen=frozen)
            second = self.write(item, (place, (key,)), room - 2, frozen=frozen)
            written.append([first, second])
        return written

    def typed(self, value: Any, place: Place, room: int, *, frozen: bool) -> dict[str, Any]:
        """Return a value of a type that has a tag or a name."""
        from teff.checkpoint.standard_types import WRITERS, NotStorable

        kind = type(value)
        if kind in WRITERS:
            tag, write = WRITERS[kind]
            try:
                return {MARK + tag: write(value)}
            except NotStorable as error:
                raise StateError(f"{told(place)} {error}") from None
        name = self.names.name_of(kind)
        if name is None:
            _refuse(value, place)
        if isinstance(value, enum.Enum):
            return {"!enum": [name, _member(value, place)]}
        _require_room(room, 3, place)
        self.has_instances = True
        form = form_of(kind)
        inside = frozen and form.is_frozen
        fields = {}
        for field, item in form.take_apart(value).items():
            fields[field] = self.write(item, (place, (field,)), room - 3, frozen=inside)
        return {"!object": [name, fields]}


def _is_container(value: object) -> bool:
    return isinstance(value, dict | list | set)


def _require_room(room: int, levels: int, place: Place) -> None:
    if room < levels:
        root = place
        while len(root) > 1:
            root = root[0]
        raise StateError(f"{told(root)} {TOO_DEEP}: return plain data")


def _member(value: enum.Enum, place: Place) -> Any:
    """Return what an Enum's member is stored as: its name, or the number of several flags at once."""
    name = value._name_
    if type(value).__members__.get(name) is value:
        return text(name)
    if isinstance(value, enum.Flag):
        return integer(value.value)
    raise StateError(f"{told(place)} is {value!r}, which is no member of {type(value).__name__}")


def told(place: Place) -> str:
    """Return the words for a place.

    >>> told((((("state",), ("cfg",)), ("a b",)), 2))
    "state.cfg['a b'][2]"
    """
    steps = []
    while len(place) > 1:
        place, step = place
        steps.append(step)
    path: str = place[0]
    for step in reversed(steps):
        if isinstance(step, int):
            path += f"[{step}]"
        elif isinstance(step, str):
            path = f"{path} ({step})" if path else step
        elif isinstance(step[0], str) and step[0].isidentifier():
            path += f".{step[0]}" if path else step[0]
        else:
            path += f"[{_short(step[0])}]"
    return path or "the value"


def _short(key: object) -> str:
    try:
        written = repr(key)
    except Exception as error:  # a key of somebody's own class
        written = f"({type(key).__name__}, whose __repr__ raised {type(error).__name__})"
    return written if len(written) <= 60 else f"{written[:57]}..."


#: Types whose subclasses are taken for them in most code, and how one is made plain.
_PLAIN = (bool, int, float, complex, str, bytes, bytearray, dict, list, set, frozenset, tuple)


def _refuse(value: object, place: Place) -> NoReturn:
    kind = type(value)
    name = full_name(kind)
    if is_storable_class(kind):
        way_out = (
            f"declare {kind.__name__} in the state schema, or call "
            f"teff.checkpoint.register_type({kind.__name__}, name={kind.__name__!r}) before the run"
        )
    elif base := next((base for base in kind.__mro__[1:] if _is_written(base)), None):
        way_out = f"it is a kind of {base.__name__}: return a plain {base.__name__} made of it"
    else:
        way_out = (
            "return plain data, or an attrs class, dataclass, msgspec.Struct, NamedTuple or Enum "
            "that the state schema declares; what lives as long as the process belongs elsewhere"
        )
    raise StateError(f"{told(place)} is of the type {name}, which cannot be stored: {way_out}")


def _is_written(base: type) -> bool:
    from teff.checkpoint.standard_types import WRITERS

    return base in _PLAIN or base in WRITERS
