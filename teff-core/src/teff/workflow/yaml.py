"""Reading YAML strictly: plain values, and where and how each of them is written.

PyYAML finds the structure; what the structure means is decided here, by YAML 1.2: ``yes`` and
``NO`` are text, ``0123`` and ``10:30`` too, keys are always text, and nothing is ever a date or an
object. Refused, with their place: a key that stands twice, tabs, several documents, tags, and files
that are too large, too deep or multiplied by aliases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import yaml
from yaml import events

from teff.errors import ConfigError
from teff.workflow.complaints import explain
from teff.workflow.scalars import resolve_plain

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "MAX_VALUES", "Place", "Source", "Written", "read_yaml"]

#: The longest file, in characters.
MAX_CHARACTERS = 2_000_000
#: How deep lists and mappings may stand in each other.
MAX_DEPTH = 100
#: How many values a file may hold, those that aliases repeat counted each time.
MAX_VALUES = 250_000

_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"


@attrs.frozen(kw_only=True)
class Source:
    """A text that is read.

    Attributes:
        file: its name, for messages.
        folder: what relative paths in it start from.
        prefix: what the ids in it begin with; the file that includes it says so.
    """

    file: str = ""
    folder: Path = attrs.field(factory=Path)
    prefix: str = ""


@attrs.frozen
class Place:
    """A place in a file; ``line`` and ``column`` count from 1."""

    line: int
    column: int
    source: Source = attrs.field(factory=Source, eq=False, repr=False)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Written:
    """A value of a YAML file together with how it is written.

    Attributes:
        value: the plain value: text, a number, a truth value, None, a list or a dict.
        place: where it begins.
        text: the source of a scalar without quotes, as ``1.10``; else None.
        is_missing: nothing is written: ``key:`` and no more.
        comment: the comment that stands where the value is missing, or "".
        entries: what a mapping holds, by key; else empty.
        keys: where the keys of a mapping stand.
        elements: what a list holds; else empty.
    """

    value: Any
    place: Place
    text: str | None = None
    is_missing: bool = False
    comment: str = ""
    entries: Mapping[str, Written] = attrs.field(factory=dict)
    keys: Mapping[str, Place] = attrs.field(factory=dict)
    elements: Sequence[Written] = ()


def read_yaml(
    text: str, source: Source | str = "", *, fill: Callable[[str], str] = lambda text: text
) -> Written | None:
    r"""Read a YAML document; None where there is nothing but space and comments.

    >>> document = read_yaml("name: desk\nretries: 3\nversion: 1.10\n")
    >>> document.value
    {'name': 'desk', 'retries': 3, 'version': 1.1}
    >>> document.entries["version"].text, document.keys["version"]
    ('1.10', Place(line=3, column=1))

    Args:
        text: the content of the file.
        source: where it comes from, or the name of the file, for errors.
        fill: called with every text that is a value; returns what it stands for.

    Raises:
        ConfigError: with ``file``, ``line``, ``column`` and a hint.
    """
    if isinstance(source, str):
        source = Source(file=source)
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(
            f"the file has {len(text):,} characters; a workflow file has at most "
            f"{MAX_CHARACTERS:,}.",
            file=source.file,
        )
    try:
        return _Reader(text, source, fill).document()
    except yaml.YAMLError as error:
        raise explain(error, text, source.file) from None


class _Reader:
    """Turns PyYAML's events into `Written` values."""

    def __init__(self, text: str, source: Source, fill: Callable[[str], str]) -> None:
        self._lines = text.splitlines()
        self._source = source
        self._fill = fill
        self._events: Iterator[events.Event] = yaml.parse(text, Loader=yaml.SafeLoader)
        self._anchors: dict[str, tuple[Written, int]] = {}
        self._count = 0

    def document(self) -> Written | None:
        """Read the one document."""
        next(self._events)  # the start of the stream
        if isinstance(next(self._events), events.StreamEndEvent):
            return None
        written = self._read(next(self._events), 0)
        next(self._events)  # the end of the document
        following = next(self._events)
        if not isinstance(following, events.StreamEndEvent):
            raise self._error(
                following, "a second document begins here.", "A workflow file holds one."
            )
        return None if written.is_missing else written

    def _read(self, event: events.Event, depth: int) -> Written:
        if isinstance(event, events.AliasEvent):
            return self._alias(event)
        before = self._count
        self._add(event, 1)
        if depth > MAX_DEPTH:
            raise self._error(event, f"lists and mappings stand more than {MAX_DEPTH} deep.")
        if isinstance(event, events.ScalarEvent):
            written = self._scalar(event)
        elif isinstance(event, events.SequenceStartEvent):
            self._check_tag(event, "seq")
            written = self._sequence(event, depth)
        else:
            assert isinstance(event, events.MappingStartEvent)  # noqa: S101  # there is no other
            self._check_tag(event, "map")
            written = self._mapping(event, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (written, self._count - before)
        return written

    def _alias(self, event: events.AliasEvent) -> Written:
        if event.anchor not in self._anchors:
            raise self._error(
                event,
                f"*{event.anchor} stands for an anchor &{event.anchor} that is not above.",
                "Put the text in quotes if it is one.",
            )
        written, size = self._anchors[event.anchor]
        self._add(event, size)
        return written

    def _add(self, event: events.Event, size: int) -> None:
        self._count += size
        if self._count > MAX_VALUES:
            raise self._error(
                event, f"the file holds more than {MAX_VALUES:,} values, with what aliases repeat."
            )

    def _sequence(self, event: events.SequenceStartEvent, depth: int) -> Written:
        elements = []
        while not isinstance(following := next(self._events), events.SequenceEndEvent):
            elements.append(self._read(following, depth + 1))
        return Written(
            value=[element.value for element in elements],
            place=self._place(event),
            elements=elements,
        )

    def _mapping(self, event: events.MappingStartEvent, depth: int) -> Written:
        own: dict[str, Written] = {}
        keys: dict[str, Place] = {}
        merged: list[Written] = []
        merge_place: Place | None = None
        while not isinstance(following := next(self._events), events.MappingEndEvent):
            key = self._key(following)
            is_merge = key == _MERGE and _is_plain(following)
            first = merge_place if is_merge else keys.get(key)
            if first is not None:
                raise self._twice(following, key, first)
            value = self._read(next(self._events), depth + 1)
            if is_merge:
                merge_place = self._place(following)
                merged = self._merged(following, value)
            else:
                own[key], keys[key] = value, self._place(following)
        if own and event.flow_style and all(value.is_missing for value in own.values()):
            raise self._slot(event, own)
        entries: dict[str, Written] = {}
        for source in reversed(merged):  # the first of several wins
            entries |= source.entries
            keys = {**source.keys, **keys}
        entries |= own
        return Written(
            value={key: value.value for key, value in entries.items()},
            place=self._place(event),
            entries=entries,
            keys=keys,
        )

    def _key(self, event: events.Event) -> str:
        if isinstance(event, events.ScalarEvent) and event.tag in (None, f"{_TAG}str"):
            if not event.value:
                raise self._error(event, "a key is empty.", "Write a name before the ':'.")
            return event.value
        raise self._error(
            event,
            "a key must be a plain name.",
            "Put a text that begins with '[', '{', '*', '&' or '!' in quotes.",
        )

    def _merged(self, event: events.Event, value: Written) -> list[Written]:
        sources = list(value.elements) or [value]
        if not all(isinstance(source.value, dict) for source in sources):
            raise self._error(event, "'<<' takes a mapping, or a list of mappings.")
        return sources

    def _scalar(self, event: events.ScalarEvent) -> Written:
        place = self._place(event)
        if not _is_plain(event):
            self._check_tag(event, "str")
            return Written(value=self._filled(event), place=place)
        if event.tag == f"{_TAG}str":
            return Written(value=self._filled(event), place=place)
        self._check_tag(event)
        if event.value == "":
            return Written(value=None, place=place, is_missing=True, comment=self._comment(event))
        try:
            value = resolve_plain(event.value)
        except ValueError as error:
            raise self._error(event, f"{error}.", "Put it in quotes if it is text.") from None
        if isinstance(value, str):
            value = self._filled(event)
        return Written(value=value, place=place, text=event.value)

    def _filled(self, event: events.ScalarEvent) -> str:
        try:
            return self._fill(event.value)
        except ConfigError as error:
            raise self._error(event, error.message, error.hint) from None

    def _comment(self, event: events.ScalarEvent) -> str:
        """Return the comment that follows on the line where a value is missing."""
        place = self._place(event)
        line = self._lines[place.line - 1] if place.line <= len(self._lines) else ""
        rest = line[place.column - 1 :].strip()
        return rest if rest.startswith("#") else ""

    def _check_tag(
        self, event: events.ScalarEvent | events.CollectionStartEvent, *allowed: str
    ) -> None:
        tag = event.tag
        if tag is None or tag in {f"{_TAG}{name}" for name in allowed}:
            return
        shown = f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
        raise self._error(
            event,
            f"a value that begins with '!' is read as a tag, and {shown!r} is no tag that is known.",
            "Put the text in quotes.",
        )

    def _place(self, event: events.Event) -> Place:
        mark = event.start_mark
        if mark is None:
            return Place(1, 1, self._source)
        return Place(mark.line + 1, mark.column + 1, self._source)

    def _twice(self, event: events.Event, key: str, first: Place) -> ConfigError:
        second = self._place(event)
        return self._error(
            event,
            f"the key {key!r} stands twice in one mapping: in line {first.line} and in line "
            f"{second.line}.",
            "Remove one of them, or rename it.",
        )

    def _slot(self, event: events.Event, entries: Mapping[str, Written]) -> ConfigError:
        text = f"{{{', '.join(entries)}}}"
        return self._error(
            event, f"{text} without quotes is a mapping in YAML.", f'As text, write "{text}".'
        )

    def _error(self, event: events.Event, message: str, hint: str = "") -> ConfigError:
        place = self._place(event)
        return ConfigError(
            message, file=self._source.file, line=place.line, column=place.column, hint=hint
        )


def _is_plain(event: events.Event) -> bool:
    return isinstance(event, events.ScalarEvent) and not event.style
