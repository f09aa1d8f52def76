"""What a store gave, read back into values.

A store may be broken, or written by somebody who means harm: every content is checked, and only the
types that have a name here are made.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from teff.checkpoint.instances import form_of
from teff.checkpoint.plain import MARK, TOO_DEEP
from teff.checkpoint.registered import TypeNames, full_name
from teff.errors import CheckpointCorrupt, CheckpointError, error_text, suggest
from teff.state import FrozenDict, FrozenList, FrozenSet
from teff.state.frozen import FROZEN

__all__ = ["CONTAINERS", "Reader"]

_ATOMS = frozenset({str, int, float, bool, type(None)})


class Reader:
    """One walk over what a store gave; for ``room`` and ``frozen`` see `teff.checkpoint.writing`."""

    def __init__(self, names: TypeNames) -> None:
        self.names = names

    def read(self, data: Any, room: int, *, frozen: bool) -> Any:
        """Return the value that was written.

        Raises:
            CheckpointCorrupt: it is nothing that is written.
            CheckpointError: it needs a type that has no name here, or that has changed since.
        """
        if type(data) in _ATOMS:
            return data
        _require_room(room, 1)
        if isinstance(data, list):
            items = self.items(data, room, frozen=frozen)
            return FrozenList(items) if frozen else items
        if not isinstance(data, dict):
            raise CheckpointCorrupt(f"a stored value is of the type {full_name(type(data))}")
        if len(data) == 1:
            key, content = next(iter(data.items()))
            if isinstance(key, str) and key.startswith(MARK):
                if not key.startswith(MARK * 2):
                    return self.tagged(key[1:], content, room, frozen=frozen)
                data = {key[1:]: content}
        read = {}
        for key, item in data.items():
            read[key] = item if type(item) in _ATOMS else self.read(item, room - 1, frozen=frozen)
        return FrozenDict(read) if frozen else read

    def items(self, data: Any, room: int, *, frozen: bool) -> list[Any]:
        """Return the values of a list."""
        _require_room(room, 1)
        read = []
        for item in _list(data):
            # A comprehension would take a frame of the stack.
            read.append(  # noqa: PERF401
                item if type(item) in _ATOMS else self.read(item, room - 1, frozen=frozen)
            )
        return read

    def tagged(self, tag: str, content: Any, room: int, *, frozen: bool) -> Any:
        """Return the value under a tag."""
        from teff.checkpoint.standard_types import READERS

        try:
            if tag in CONTAINERS:
                return CONTAINERS[tag](self, content, room, frozen)
            if tag in READERS:
                return READERS[tag](content)
        except (CheckpointError, RecursionError):
            raise
        except Exception as error:
            raise CheckpointCorrupt(
                f"a stored value has the tag {MARK + tag!r} and is none: {error_text(error)}"
            ) from error
        raise CheckpointCorrupt(
            f"a stored value has the tag {MARK + tag!r}, which is unknown: a newer version of Teff "
            "wrote it, or something else."
            + suggest(MARK + tag, [MARK + known for known in (*CONTAINERS, *READERS)])
        )

    def type_of(self, name: Any) -> type:
        """Return the class that has a name.

        Raises:
            CheckpointError: none has it here.
        """
        if not isinstance(name, str):
            raise ValueError("the name of a type is a text")
        kind = self.names.type_of(name)
        if kind is None:
            raise CheckpointError(
                f"a stored value is of the type {name!r}, which has no class here: declare it in "
                "the state schema, or call teff.checkpoint.register_type(TheClass, "
                f"name={name!r}) before the run is loaded.{suggest(name, self.names.known())}"
            )
        return kind


def _require_room(room: int, levels: int) -> None:
    if room < levels:
        raise CheckpointCorrupt(f"a stored value {TOO_DEEP}")


def _list(data: Any, length: int | None = None) -> list[Any]:
    if not isinstance(data, list) or (length is not None and len(data) != length):
        raise ValueError("it should be a list" + (f" of {length}" if length else ""))
    return data


def _read_tuple(reader: Reader, content: Any, room: int, frozen: bool) -> Any:
    return tuple(reader.items(content, room - 1, frozen=frozen))


def _read_set(reader: Reader, content: Any, room: int, frozen: bool) -> Any:
    members = reader.items(content, room - 1, frozen=True)
    return FrozenSet(members) if frozen else set(members)


def _read_frozenset(reader: Reader, content: Any, room: int, frozen: bool) -> Any:
    return frozenset(reader.items(content, room - 1, frozen=True))


def _read_dict(reader: Reader, content: Any, room: int, frozen: bool) -> Any:
    _require_room(room, 3)
    read = {}
    for pair in _list(content):
        key, item = _list(pair, 2)
        name = reader.read(key, room - 3, frozen=frozen)
        read[name] = reader.read(item, room - 3, frozen=frozen)
    return FrozenDict(read) if frozen else read


def _read_frozen(reader: Reader, content: Any, room: int, frozen: bool) -> Any:
    value = reader.read(content, room - 1, frozen=True)
    if frozen or type(value) not in FROZEN:
        raise ValueError("it should be a dict, list or set within an instance")
    return value


def _read_enum(reader: Reader, content: Any, room: int, frozen: bool) -> Any:
    name, stored = _list(content, 2)
    kind = reader.type_of(name)
    if not issubclass(kind, enum.Enum):
        raise CheckpointError(f"a stored value is an Enum, and {name!r} is {full_name(kind)} here")
    member = reader.read(stored, room, frozen=frozen)
    if isinstance(member, str) and member in kind.__members__:
        return kind.__members__[member]
    if type(member) is int and issubclass(kind, enum.Flag):
        return _made(name, kind, kind, member)
    raise CheckpointError(
        f"a stored value is the member {member!r} of {name!r}, which {full_name(kind)} does not "
        f"have.{suggest(str(member), kind.__members__)}"
    )


def _read_object(reader: Reader, content: Any, room: int, frozen: bool) -> Any:
    _require_room(room, 3)
    name, fields = _list(content, 2)
    kind = reader.type_of(name)
    if issubclass(kind, enum.Enum):
        raise CheckpointError(f"a stored value has fields, and {name!r} is an Enum here")
    if not isinstance(fields, dict):
        raise ValueError("it should have fields")
    form = form_of(kind)
    inside = frozen and form.is_frozen
    values = {}
    for field, item in fields.items():
        if field not in form.parameters:
            raise CheckpointError(
                f"a stored {name!r} has the field {field!r}, which {full_name(kind)} does not have: "
                f"load the run with the class that it was stored with."
                f"{suggest(str(field), form.parameters)}"
            )
        values[field] = reader.read(item, room - 3, frozen=inside)
    return _made(name, kind, form.put_together, values)


def _made(name: str, kind: type, make: Callable[[Any], Any], given: Any) -> Any:
    """Call a class, which may raise whatever it likes."""
    try:
        return make(given)
    except Exception as error:
        raise CheckpointError(
            f"{full_name(kind)} cannot be made of a stored {name!r}: "
            f"{type(error).__name__}: {error_text(error)}"
        ) from error


#: By tag: what reads values that hold others, or need a name.
CONTAINERS: Mapping[str, Callable[[Reader, Any, int, bool], Any]] = {
    "tuple": _read_tuple,
    "set": _read_set,
    "frozenset": _read_frozenset,
    "dict": _read_dict,
    "frozen": _read_frozen,
    "enum": _read_enum,
    "object": _read_object,
}
