"""Values of the state as JSON, and back: what goes into a stored run.

JSON values are stored as they are. A value that JSON does not have is an object of one key, a tag
that begins with ``!``: ``{"!date": "2024-05-01"}``. `Encoder` says which types come back, and how.

Nothing is ever looked up, imported or called by what a store says but the readers of the tags, and
the constructors of classes that the state schema declares or `teff.checkpoint.register_type` names.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from teff.checkpoint.instances import form_of, is_storable_class
from teff.checkpoint.plain import (
    MARK,
    MAX_DEPTH,
    integer,
    is_plain,
    is_text,
    number,
    sort_key,
    text,
)
from teff.checkpoint.registered import TypeNames, full_name
from teff.errors import CheckpointCorrupt, CheckpointError, StateError, error_text, suggest
from teff.state import FrozenDict, FrozenList, FrozenSet
from teff.state.frozen import FROZEN

__all__ = ["Encoder"]

_ATOMS = frozenset({str, int, float, bool, type(None)})


class Encoder:
    """Writes values as JSON that any JSON library keeps, and reads them as the state holds them.

    What comes back is equal to what went in, and of the same type:

    - ``None``, ``bool``, ``int``, ``float``, ``str``, ``dict`` and ``list``. Whole numbers of more
      than 64 bits, NaN, the infinities, and texts with lone surrogates are tagged; so is a dict
      with keys that are not text.
    - ``tuple``, ``set``, ``frozenset``, ``bytes``, ``bytearray``, ``complex``, ``Decimal``,
      ``Fraction``, ``UUID``, ``datetime``, ``date``, ``time``, ``timedelta``, and the paths of
      `pathlib`. A time zone is a ``datetime.timezone`` or a ``ZoneInfo``, which is stored by its
      key. A ``Path`` is one of the machine that reads it.
    - Attrs classes, dataclasses, ``msgspec.Struct`` types, ``NamedTuple`` types and Enums that
      ``types`` or `teff.checkpoint.register_type` name. An instance is its fields, an Enum its
      member's name.

    As in the state itself, dicts, lists and sets come back frozen, and their subclasses as plain
    ones; within an instance, where nothing is frozen, they come back as ordinary ones. A dict whose
    one key begins with ``!`` is written with a second ``!`` in front. Everything else is refused.

    >>> encoder = Encoder()
    >>> data = encoder.encode({"sizes": {2, 1}, "note": {"!date": "mine"}, "n": 1})
    >>> data
    {'sizes': {'!set': [1, 2]}, 'note': {'!!date': 'mine'}, 'n': 1}
    >>> encoder.decode(data) == {"sizes": {1, 2}, "note": {"!date": "mine"}, "n": 1}
    True

    Args:
        types: by the names they are stored under, as `types_of_schema` gives them; None for only
            those of `teff.checkpoint.register_type`.

    Raises:
        ConfigError: a name is registered for another class, or a class cannot be stored.
    """

    def __init__(self, types: Mapping[str, type] | None = None) -> None:
        self._names = TypeNames(types or {})

    def encode(self, value: Any, *, where: str = "") -> Any:
        """Return a value as JSON; the very same object where it is JSON already.

        It fails before anything is stored, and not when the run is loaded: instances are put
        together once to see that their class takes what it gave.

        Args:
            value: is not changed.
            where: what the value is, for errors: ``"node 'plan': state.cfg"``.

        Raises:
            StateError: something in it cannot be stored; the message names its place, its type, and
                the way out.
        """
        try:
            if is_plain(value):
                return value
            writer = _Writer(self._names)
            data = writer.write(value, (where,), MAX_DEPTH, True)
            if writer.has_instances:
                _Reader(self._names).read(data, MAX_DEPTH, True)
        except RecursionError:
            raise StateError(f"{where or 'the value'} {_TOO_DEEP}") from None
        except CheckpointError as error:
            raise StateError(
                f"{where or 'the value'} would not come back from a store: {error}"
            ) from error
        return data

    def decode(self, data: Any) -> Any:
        """Return the value that was written as ``data``, frozen as the state's values are.

        Raises:
            CheckpointCorrupt: it is nothing that `encode` writes.
            CheckpointError: it needs a type that has no name here, or that has changed since.
        """
        try:
            return _Reader(self._names).read(data, MAX_DEPTH, True)
        except RecursionError:
            raise CheckpointCorrupt(f"a stored value {_TOO_DEEP}") from None


_TOO_DEEP = f"contains itself, or is nested more than {MAX_DEPTH} levels deep"

#: Where a value is: the place of what holds it, and the step from there. The first has no step.
_Place = tuple[Any, ...]


class _Writer:
    """One walk over a value that is not plain JSON."""

    def __init__(self, names: TypeNames) -> None:
        self.names = names
        self.has_instances = False

    def write(self, value: Any, place: _Place, room: int, frozen: bool) -> Any:
        """Return a value as JSON of at most ``room`` levels.

        ``frozen`` says whether dicts, lists and sets are those of the state, or belong to an instance.
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
        if room <= 0:
            raise StateError(f"{_told(place)} {_TOO_DEEP}")
        if kind in FROZEN and not frozen:
            return {"!frozen": self.write(value, place, room - 1, True)}
        if kind is dict or (frozen and isinstance(value, dict)):
            return self.mapping(value, place, room, frozen)
        if kind is list or (frozen and isinstance(value, list)):
            return self.items(value, place, room, frozen)
        if kind is set or kind is frozenset or (frozen and isinstance(value, set)):
            tag = "!frozenset" if kind is frozenset else "!set"
            members = self.items(value, place, room - 1, frozen, "a member")
            return {tag: sorted(members, key=sort_key)}
        if kind is tuple:
            return {"!tuple": self.items(value, place, room - 1, frozen)}
        return self.typed(value, place, room, frozen)

    def items(
        self, value: Iterable[Any], place: _Place, room: int, frozen: bool, step: str = ""
    ) -> list[Any]:
        """Return the items as a list."""
        if room <= 0:
            raise StateError(f"{_told(place)} {_TOO_DEEP}")
        written = []
        for index, item in enumerate(value):
            written.append(self.write(item, (place, step or index), room - 1, frozen))  # noqa: PERF401  # a comprehension costs a level of the stack
        return written

    def mapping(
        self, value: Mapping[Any, Any], place: _Place, room: int, frozen: bool
    ) -> dict[str, Any]:
        """Return a dict as an object, or as a list of pairs where its keys are not all text."""
        if all(type(key) is str and is_text(key) for key in value):
            written = {}
            for key, item in value.items():
                written[key] = self.write(item, (place, (key,)), room - 1, frozen)
            if len(written) == 1 and (key := next(iter(written))).startswith(MARK):
                return {MARK + key: written[key]}
            return written
        pairs = []
        for key, item in value.items():
            told = self.write(key, (place, "a key"), room - 3, frozen)
            pairs.append([told, self.write(item, (place, (key,)), room - 3, frozen)])
        return {"!dict": pairs}

    def typed(self, value: Any, place: _Place, room: int, frozen: bool) -> dict[str, Any]:
        """Return a value of a type that has a tag or a name."""
        from teff.checkpoint.standard_types import WRITERS, NotStorable

        kind = type(value)
        if kind in WRITERS:
            tag, write = WRITERS[kind]
            try:
                return {MARK + tag: write(value)}
            except NotStorable as error:
                raise StateError(f"{_told(place)} {error}") from None
        name = self.names.name_of(kind)
        if name is None:
            _refuse(value, place)
        if isinstance(value, enum.Enum):
            return {"!enum": [name, _member(value, place)]}
        form = form_of(kind)
        self.has_instances = True
        inside = frozen and form.is_frozen
        fields = {}
        for field, item in form.take_apart(value).items():
            fields[field] = self.write(item, (place, (field,)), room - 3, inside)
        return {"!object": [name, fields]}


def _member(value: enum.Enum, place: _Place) -> Any:
    """Return what an Enum's member is stored as: its name, or a number for several flags at once."""
    name = value._name_
    if type(value).__members__.get(name) is value:
        return text(name)
    if isinstance(value, enum.Flag):
        return integer(value._value_)
    raise StateError(f"{_told(place)} is {value!r}, which is no member of {type(value).__name__}")


class _Reader:
    """One walk over what a store gave."""

    def __init__(self, names: TypeNames) -> None:
        self.names = names

    def read(self, data: Any, room: int, frozen: bool) -> Any:
        """Return the value that was written; see `_Writer.write`."""
        if type(data) in _ATOMS:
            return data
        if room <= 0:
            raise CheckpointCorrupt(f"a stored value {_TOO_DEEP}")
        if isinstance(data, list):
            items = self.items(data, room, frozen)
            return FrozenList(items) if frozen else items
        if not isinstance(data, dict):
            raise CheckpointCorrupt(f"a stored value is of the type {type(data).__name__}, not JSON")
        if len(data) == 1:
            key, content = next(iter(data.items()))
            if isinstance(key, str) and key.startswith(MARK):
                if not key.startswith(MARK * 2):
                    return self.tagged(key[1:], content, room, frozen)
                data = {key[1:]: content}
        read = {}
        for key, item in data.items():
            read[key] = item if type(item) in _ATOMS else self.read(item, room - 1, frozen)
        return FrozenDict(read) if frozen else read

    def items(self, data: Any, room: int, frozen: bool) -> list[Any]:
        """Return the values of a list."""
        if room <= 0:
            raise CheckpointCorrupt(f"a stored value {_TOO_DEEP}")
        if not isinstance(data, list):
            raise TypeError("a list is expected")
        read = []
        for item in data:
            read.append(item if type(item) in _ATOMS else self.read(item, room - 1, frozen))  # noqa: PERF401  # a comprehension costs a level of the stack
        return read

    def tagged(self, tag: str, content: Any, room: int, frozen: bool) -> Any:
        """Return the value under a tag.

        Raises:
            CheckpointCorrupt: there is no such tag, or its content is none of its own.
        """
        from teff.checkpoint.standard_types import READERS

        own = _OWN_READERS.get(tag)
        try:
            if own is not None:
                return own(self, content, room, frozen)
            if tag in READERS:
                return READERS[tag](content)
        except (CheckpointError, RecursionError):
            raise
        except Exception as error:
            raise CheckpointCorrupt(
                f"a stored value has the tag {MARK + tag!r}, and is none: {error_text(error)}"
            ) from error
        raise CheckpointCorrupt(
            f"a stored value has the tag {MARK + tag!r}, which is unknown: a newer version of Teff "
            f"wrote it, or something else.{suggest(tag, [*_OWN_READERS, *READERS])}"
        )

    def tuple(self, content: Any, room: int, frozen: bool) -> Any:
        return tuple(self.items(content, room - 1, frozen))

    def set(self, content: Any, room: int, frozen: bool) -> Any:
        members = self.items(content, room - 1, frozen)
        return FrozenSet(members) if frozen else set(members)

    def frozenset(self, content: Any, room: int, frozen: bool) -> Any:
        return frozenset(self.items(content, room - 1, frozen))

    def dict(self, content: Any, room: int, frozen: bool) -> Any:
        pairs = dict(self.items(content, room - 1, False))
        return FrozenDict(pairs) if frozen else pairs

    def frozen(self, content: Any, room: int, frozen: bool) -> Any:
        value = self.read(content, room - 1, True)
        if frozen or type(value) not in FROZEN:
            raise ValueError("it is a dict, list or set of the state within an instance")
        return value

    def enum(self, content: Any, room: int, frozen: bool) -> Any:
        name, member = content
        kind = self.type_of(name)
        if not issubclass(kind, enum.Enum):
            raise CheckpointError(f"a stored value is an Enum, and {name!r} is {full_name(kind)}")
        member = self.read(member, room, frozen)
        if isinstance(member, str):
            if member in kind.__members__:
                return kind.__members__[member]
        elif type(member) is int and issubclass(kind, enum.Flag):
            try:
                return kind(member)
            except ValueError as error:
                raise CheckpointError(f"{name!r} does not take a stored value: {error}") from error
        raise CheckpointError(
            f"a stored value is the member {member!r} of {name!r}, which {full_name(kind)} does not "
            f"have.{suggest(str(member), kind.__members__)}"
        )
