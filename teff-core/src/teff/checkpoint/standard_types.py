"""The types of the standard library that come back as they were: what is written for each.

A tag's reader gets what is under the tag, from whoever wrote the store: it raises a ValueError,
TypeError, KeyError or ArithmeticError for what no writer gives.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import fractions
import pathlib
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from teff.checkpoint.plain import (
    MARK,
    integer,
    number,
    read_integer,
    read_number,
    read_text,
    text,
)
from teff.errors import CheckpointError

__all__ = ["READERS", "WRITERS", "NotStorable"]


class NotStorable(Exception):
    """A value of a type that is stored, but this one cannot be; the text says why, and the way out."""


# Points in time


_STAMP = re.compile(
    r"(?P<stamp>[^\[\]]*)(?:\[(?P<zone>[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+)*)\])?(?P<fold>\[fold=1\])?"
)

_TINY_OFFSET = re.compile(r"([+-])00:00:00\.([0-9]{6})$")


def _stamp(value: datetime.datetime | datetime.time) -> Any:
    """Return the ISO text of a time, as in ``2024-10-27T03:30:00[Europe/Riga][fold=1]``.

    With a zone there is no offset beside it: what was meant is the time on the clock of that place,
    also where its rules change. An offset that has a name is a list of the text and the name.
    """
    fold = "[fold=1]" if value.fold else ""
    zone = value.tzinfo
    if zone is None or type(zone) is datetime.timezone:
        stamp = value.isoformat() + fold
        if zone is not None and _has_name(zone):
            return [stamp, text(zone.tzname(None) or "")]
        return stamp
    key = _zone_key(zone)
    return f"{value.replace(tzinfo=None).isoformat()}[{key}]{fold}"


def _has_name(zone: datetime.tzinfo) -> bool:
    offset = zone.utcoffset(None)
    return offset is not None and zone.tzname(None) != datetime.timezone(offset).tzname(None)


def _zone_key(zone: datetime.tzinfo) -> str:
    from zoneinfo import ZoneInfo

    key = zone.key if type(zone) is ZoneInfo else None
    if key is None or not _STAMP.fullmatch(f"[{key}]"):
        kind = type(zone)
        raise NotStorable(
            f"has the time zone {zone!r}, a {kind.__module__}.{kind.__qualname__} without a key: "
            "use zoneinfo.ZoneInfo('Europe/Riga') or datetime.timezone"
        )
    return key


def _read_stamp(data: Any, kind: Any) -> Any:
    name = None
    if isinstance(data, list):
        data, name = data
    parts = _STAMP.fullmatch(_string(data))
    if parts is None:
        raise ValueError(f"{data!r} is no time")
    value = kind.fromisoformat(parts["stamp"])
    if tiny := _TINY_OFFSET.search(parts["stamp"]):  # which Python takes for none
        microseconds = datetime.timedelta(microseconds=int(tiny[1] + tiny[2]))
        value = value.replace(tzinfo=datetime.timezone(microseconds))
    if parts["zone"]:
        value = value.replace(tzinfo=_read_zone(parts["zone"]))
    if name is not None:
        offset = value.tzinfo.utcoffset(None) if value.tzinfo else None
        if offset is None:
            raise ValueError("only an offset has a name")
        value = value.replace(tzinfo=datetime.timezone(offset, read_text(name)))
    return value.replace(fold=1) if parts["fold"] else value


def _read_zone(key: str) -> datetime.tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(key)
    except (LookupError, ValueError, OSError) as error:
        raise CheckpointError(
            f"a stored time is in the time zone {key!r}, which this machine does not know: "
            "install the package tzdata"
        ) from error


def _string(data: Any) -> str:
    if type(data) is not str:
        raise TypeError(f"a text is expected, not {type(data).__name__}")
    return data


#: The parts of a duration, by the words of its constructor.
_PARTS = ("days", "seconds", "microseconds")


def _duration(value: datetime.timedelta) -> dict[str, int]:
    return {part: getattr(value, part) for part in _PARTS if getattr(value, part)}


def _read_duration(data: Any) -> datetime.timedelta:
    if not isinstance(data, dict) or not data.keys() <= set(_PARTS):
        raise ValueError(f"a duration has {', '.join(_PARTS)}")
    return datetime.timedelta(**{part: _whole(value) for part, value in data.items()})


def _whole(data: Any) -> int:
    if type(data) is not int:
        raise TypeError(f"a whole number is expected, not {type(data).__name__}")
    return data


# Numbers, bytes, paths


def _two(data: Any, read: Callable[[Any], Any]) -> tuple[Any, Any]:
    if not isinstance(data, list) or len(data) != 2:
        raise ValueError("two numbers are expected")
    return read(data[0]), read(data[1])


def _base64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode()


def _read_base64(data: Any) -> bytes:
    return base64.b64decode(_string(data), validate=True)


def _pure_path(value: pathlib.PurePath) -> Any:
    written = str(value)
    if type(value)(written) != value:
        raise NotStorable(f"is {value!r}, whose text {written!r} means another path: build it anew")
    return text(written)


#: By type: its tag, and what is written under it.
WRITERS: Mapping[type, tuple[str, Callable[[Any], Any]]] = {
    datetime.datetime: ("datetime", _stamp),
    datetime.time: ("time", _stamp),
    datetime.date: ("date", datetime.date.isoformat),
    datetime.timedelta: ("timedelta", _duration),
    decimal.Decimal: ("decimal", str),
    fractions.Fraction: (
        "fraction",
        lambda value: [integer(value.numerator), integer(value.denominator)],
    ),
    complex: ("complex", lambda value: [number(value.real), number(value.imag)]),
    bytes: ("bytes", _base64),
    bytearray: ("bytearray", _base64),
    uuid.UUID: ("uuid", str),
    pathlib.PurePosixPath: ("posixpath", _pure_path),
    pathlib.PureWindowsPath: ("windowspath", _pure_path),
    # A path of this machine is one of the machine that reads it.
    pathlib.PosixPath: ("path", lambda value: text(value.as_posix())),
    pathlib.WindowsPath: ("path", lambda value: text(value.as_posix())),
}

#: By tag: what reads the content.
READERS: Mapping[str, Callable[[Any], Any]] = {
    "text": lambda data: read_text({MARK + "text": data}),
    "int": lambda data: read_integer({MARK + "int": data}),
    "float": lambda data: read_number({MARK + "float": data}),
    "datetime": lambda data: _read_stamp(data, datetime.datetime),
    "time": lambda data: _read_stamp(data, datetime.time),
    "date": lambda data: datetime.date.fromisoformat(_string(data)),
    "timedelta": _read_duration,
    "decimal": lambda data: decimal.Decimal(_string(data)),
    "fraction": lambda data: fractions.Fraction(*_two(data, read_integer)),
    "complex": lambda data: complex(*_two(data, read_number)),
    "bytes": _read_base64,
    "bytearray": lambda data: bytearray(_read_base64(data)),
    "uuid": lambda data: uuid.UUID(_string(data)),
    "posixpath": lambda data: pathlib.PurePosixPath(read_text(data)),
    "windowspath": lambda data: pathlib.PureWindowsPath(read_text(data)),
    "path": lambda data: pathlib.Path(read_text(data)),
}
