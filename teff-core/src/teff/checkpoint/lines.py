"""The text of a run file: JSON Lines, each with a checksum.

The first line says whose run it is, and each other one is a record::

    {"teff_run":1,"run_id":"order-7","owner":"default","created":"2026-03-01T09:30:00.000000+00:00","crc":"5d0c2a11"}
    {"number":1,"time":"2026-03-01T09:30:00.000412+00:00","kind":"start","path":"","data":{…},"crc":"90b7e4f3"}

``crc`` is the CRC-32 of the line without it. Records that were stored together carry
``"more":true``, all but the last of them: where the end of such a group is missing, the group was
never stored. So is a last line that was not written to its end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, get_args
from zlib import crc32

import attrs

from teff.checkpoint.protocol import Record, RecordKind, StoredRecord
from teff.errors import CheckpointCorrupt, CheckpointError, error_text
from teff.state import freeze

__all__ = [
    "FORMAT",
    "Header",
    "RunText",
    "header_line",
    "last_record",
    "read_header",
    "read_run",
    "record_lines",
    "time_of",
    "time_text",
]

#: The format that is written. Files of a higher one are refused.
FORMAT = 1

_KINDS = frozenset(get_args(RecordKind))
_CRC_LENGTH = len(',"crc":"00000000"}')


@attrs.frozen(kw_only=True)
class Header:
    """The first line of a run file: whose run it is, and when it was begun."""

    run_id: str
    owner: str
    created: float


@attrs.frozen(kw_only=True)
class RunText:
    """What a run file holds.

    Attributes:
        header: its first line, or None where it was not written to its end.
        records: the records that were stored.
        size: how many bytes they take, with the header; what comes after was not stored.
        open_line: whether the last of them lacks only the end of its line.
    """

    header: Header | None
    records: tuple[StoredRecord, ...] = ()
    size: int = 0
    open_line: bool = False


def time_text(seconds: float) -> str:
    """Return seconds since the epoch as ISO 8601 in UTC, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def time_of(text: str) -> float:
    """Return the seconds since the epoch that `time_text` has written."""
    return datetime.fromisoformat(text).timestamp()


def header_line(run_id: str, owner: str, created: float) -> bytes:
    """Return the first line of a run file."""
    return _line(
        {"teff_run": FORMAT, "run_id": run_id, "owner": owner, "created": time_text(created)}
    )


def record_lines(records: Sequence[Record], *, first: int, stored: float, run_id: str) -> bytes:
    """Return the lines of records that are stored together.

    Args:
        records: what to store.
        first: the number of the first one.
        stored: when, in seconds since the epoch.
        run_id: for the error.

    Raises:
        CheckpointError: the data of a record are no JSON values.
    """
    time, lines = time_text(stored), []
    for number, record in enumerate(records, first):
        content: dict[str, Any] = {"number": number, "time": time, "kind": record.kind}
        content |= {"path": record.path, "data": record.data}
        if number - first < len(records) - 1:
            content["more"] = True
        try:
            lines.append(_line(content))
        except (TypeError, ValueError, RecursionError) as error:
            raise CheckpointError(
                f"run {run_id!r}: a record of kind {record.kind!r} at {record.path!r} holds what is "
                f"no JSON value, and nothing was stored: {error_text(error)}",
                run_id=run_id,
            ) from error
    return b"".join(lines)


def _line(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    body = text[:-1].encode()
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def _content(line: bytes) -> dict[str, Any] | None:
    """Return what a line says, or None where it does not fit its checksum."""
    body, ending = line[:-_CRC_LENGTH], line[-_CRC_LENGTH:]
    if ending != b',"crc":"%08x"}' % crc32(body):
        return None
    try:
        content = json.loads(body + b"}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _Damage(Exception):  # never leaves this module
    """A line that is not what was stored: its number, and what is wrong with it."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(line, what)
        self.line = line
        self.what = what


def read_header(line: bytes) -> Header | None:
    """Return what the first line of a file says, or None where it is no such line.

    Raises:
        CheckpointError: the file has a newer format.
    """
    content = _content(line) or {}
    written = content.get("teff_run")
    if isinstance(written, int) and written > FORMAT:
        raise CheckpointError(
            f"run {content.get('run_id')!r} was stored in format {written} by a newer Teff, and "
            f"this one reads up to format {FORMAT}: upgrade teff-core",
            run_id=str(content.get("run_id", "")),
        )
    if written != FORMAT:
        return None
    try:
        created = time_of(content["created"])
        return Header(run_id=content["run_id"], owner=content["owner"], created=created)
    except (KeyError, TypeError, ValueError):
        return None


def last_record(ending: bytes) -> tuple[int, float] | None:
    """Return number and time of the last record that the end of a run file holds whole, if any."""
    for line in reversed(ending.split(b"\n")):
        content = _content(line)
        if content is not None and "number" in content and not content.get("more"):
            try:
                return content["number"], time_of(content["time"])
            except (KeyError, TypeError, ValueError):
                continue
    return None


def read_run(
    content: bytes, *, run_id: str, owner: str, file: str, up_to: float = math.inf
) -> RunText:
    """Read the text of a run file.

    Args:
        content: the text, in UTF-8.
        run_id: whose file it should be.
        owner: whose run that is.
        file: where it is, for the error.
        up_to: how many records are wanted. More may be returned; damage behind them is not seen.

    Raises:
        CheckpointCorrupt: a line is not what was stored. The error names it.
        CheckpointError: the file has a newer format.
    """
    records: list[StoredRecord] = []
    try:
        return _read(content, (run_id, owner), records, up_to)
    except _Damage as damage:
        whole = len(records)
        way_out = (
            f"Go on from what is whole with a fork at {whole}, or bring back a copy of the file"
            if whole
            else "Bring back a copy of the file, or delete the run"
        )
        raise CheckpointCorrupt(
            f"run {run_id!r} is damaged: line {damage.line} of {file} {damage.what}. {way_out}",
            run_id=run_id,
        ) from None


def _read(
    content: bytes, key: tuple[str, str], records: list[StoredRecord], up_to: float
) -> RunText:
    """Read ``content``, and add its records to ``records`` group by group."""
    lines = _lines(content)
    line, size, ended = next(lines, (b"", 0, False))
    if not ended and _is_beginning(line, header_line(*key, created=0)):
        return RunText(header=None)
    header = None if not ended and _is_torn(line, 1) else read_header(line)
    if header is None:
        raise _Damage(1, "does not say whose run it is")
    if (header.run_id, header.owner) != key:
        raise _Damage(1, f"is of run {header.run_id!r} of owner {header.owner!r}")
    open_line = not ended
    group: list[StoredRecord] = []
    for number, (line, end, ended) in enumerate(lines, 2):
        if len(records) >= up_to or (not ended and _is_torn(line, number)):
            break
        stored, more = _read_record(line, number)
        group.append(stored)
        wanted = len(records) + len(group)
        if stored.number != wanted:
            raise _Damage(number, f"is record {stored.number} where record {wanted} belongs")
        if not more:
            records += group
            group, size, open_line = [], end, not ended
    return RunText(header=header, records=tuple(records), size=size, open_line=open_line)


def _lines(content: bytes) -> Iterator[tuple[bytes, int, bool]]:
    """Yield each line without its end, where the next one begins, and whether it has an end."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start)
        if end < 0:
            yield content[start:], len(content), False
            return
        yield content[start:end], end + 1, True
        start = end + 1


def _is_beginning(line: bytes, header: bytes) -> bool:
    """Tell whether ``line`` is a header that was not written to its end."""
    same = header[: header.index(b'"created":') + len(b'"created":"')]
    return len(line) < len(header) - 1 and same.startswith(line[: len(same)])


def _is_torn(line: bytes, number: int) -> bool:
    """Tell whether a last line without an end was not written whole."""
    if _content(line) is not None:
        return False
    if _content(line[:-1]) is not None:
        raise _Damage(number, "has another character in place of its end")
    return True


def _read_record(line: bytes, number: int) -> tuple[StoredRecord, bool]:
    content = _content(line)
    if content is None:
        raise _Damage(number, "does not fit its checksum")
    try:
        kind, path, data = content["kind"], content["path"], content["data"]
        if kind not in _KINDS or not isinstance(path, str) or not isinstance(data, dict):
            raise _Damage(number, "is no record")
        record = Record(kind=kind, path=path, data=freeze(data))
        stored = StoredRecord(
            number=content["number"], stored=time_of(content["time"]), record=record
        )
    except (KeyError, TypeError, ValueError):
        raise _Damage(number, "is no record") from None
    return stored, content.get("more") is True
