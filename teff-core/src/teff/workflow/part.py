"""A part of a workflow file: its value, and the place that errors about it name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from teff.errors import ConfigError, suggest
from teff.schema.words import describe_value
from teff.workflow.environment import Environment
from teff.workflow.yaml import Place, Written

__all__ = ["Part"]

#: One step of a path: ``name``, ``[2]``.
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_NAMED_OPTION = re.compile(r"option '([^']+)'")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Part:
    """A value in a workflow file.

    Attributes:
        written: the value as it is written.
        place: where errors about it point: at its key, or where it begins.
        path: the way to it from the top, as ``steps[2].team.roles``.
        environment: what was filled in, to be kept out of messages.
        label: how messages call it, where that is not the last word of the path.
    """

    written: Written
    place: Place
    path: str
    environment: Environment
    label: str = ""

    @classmethod
    def whole(cls, written: Written, environment: Environment) -> Part:
        """Return the whole document as a part."""
        return cls(written=written, place=written.place, path="", environment=environment)

    @property
    def file(self) -> str:
        """The name of the file in which it stands."""
        return self.place.source.file

    @property
    def value(self) -> Any:
        """The plain value."""
        return self.written.value

    def __contains__(self, key: str) -> bool:
        return key in self.written.entries

    def __getitem__(self, key: str) -> Part:
        path = f"{self.path}.{key}" if self.path else key
        return self._inner(self.written.entries[key], self.written.keys[key], path)

    def find(self, key: str) -> Part | None:
        """Return what a mapping holds under ``key``, or None."""
        return self[key] if key in self.written.entries else None

    def entries(self) -> dict[str, Part]:
        """Return what a mapping holds, by key.

        Raises:
            ConfigError: it is no mapping.
        """
        if not isinstance(self.value, dict):
            raise self.error(f"{self.named()} must be a mapping, not {self._kind()}.")
        return {key: self[key] for key in self.written.entries}

    def elements(self) -> list[Part]:
        """Return what a list holds.

        Raises:
            ConfigError: it is no list.
        """
        if not isinstance(self.value, list):
            hint = "Begin each of its elements with `- `." if isinstance(self.value, dict) else ""
            raise self.error(f"{self.named()} must be a list, not {self._kind()}.", hint)
        return [
            self._inner(element, element.place, f"{self.path}[{number}]")
            for number, element in enumerate(self.written.elements)
        ]

    def text(self) -> str:
        """Return a text; a number or a truth value without quotes is the text as it is written.

        Raises:
            ConfigError: it is none of them.
        """
        if isinstance(self.value, str):
            return self.value
        if self.written.text is not None and self.value is not None:
            return self.written.text
        raise self.error(f"{self.named()} must be text, not {self._kind()}.")

    def id(self) -> str:
        """Return a text that is the id of a node, with the prefix that the file is included with.

        Raises:
            ConfigError: it is no text, or it is empty.
        """
        text = self.text()
        if not text:
            raise self.error(f"{self.named()} is empty; it names a step.")
        return f"{self.place.source.prefix}{text}"

    def check_keys(self, known: Iterable[str], *, what: str, kind: str = "key") -> None:
        """Refuse keys of a mapping that are not known, and values that are missing.

        Args:
            known: the keys that there may be.
            what: what the mapping is, to begin a message with.
            kind: what its keys are called.

        Raises:
            ConfigError: with the nearest known key.
        """
        known = list(known)
        for key, part in self.entries().items():
            if key not in known:
                raise part.error(f"{what}: unknown {kind} {key!r}.", suggest(key, known).strip())
            part.check_present()

    def check_present(self) -> None:
        """Refuse a value that is not written at all; an explicit ``null`` is a value.

        Raises:
            ConfigError: saying where a comment took the place of the value.
        """
        if self.written.is_missing:
            raise self.error(
                f"the value of {self.path.rpartition('.')[2]!r} is empty.",
                f"{self.written.comment.split()[0]!r} begins a comment; put the text in quotes."
                if self.written.comment
                else "Write a value, or remove the key.",
            )

    def error(self, message: str, hint: str = "") -> ConfigError:
        """Return an error about this part."""
        return ConfigError(
            self.environment.hide(message),
            path=self.path,
            file=self.file,
            line=self.place.line,
            column=self.place.column,
            hint=self.environment.hide(hint),
        )

    def without(self, keys: Iterable[str]) -> Part:
        """Return the mapping with some of its keys left out."""
        left_out = set(keys)
        written = attrs.evolve(
            self.written,
            value={key: item for key, item in self.value.items() if key not in left_out},
            entries={
                key: item for key, item in self.written.entries.items() if key not in left_out
            },
        )
        return attrs.evolve(self, written=written)

    def empty(self, key: str) -> Part:
        """Return an empty mapping in the place of one that is not written."""
        return self._inner(Written(value={}, place=self.place), self.place, f"{self.path}.{key}")

    def labelled(self, label: str) -> Part:
        """Return this part with another name for messages."""
        return attrs.evolve(self, label=label)

    def unplaced(self, error: ConfigError) -> ConfigError:
        """Return ``error`` with the name of the file, where no better place is known."""
        return ConfigError(
            self.environment.hide(error.message),
            path=error.path,
            file=self.file,
            hint=self.environment.hide(error.hint),
        )

    def located(self, error: ConfigError) -> ConfigError:
        """Return ``error`` with the place of what it is about inside of this part.

        That is what its ``path`` names; without one, the option that its message names.
        """
        if error.line is not None:
            return error
        named = _NAMED_OPTION.search(error.message)
        path = error.path or (named.group(1) if named else "")
        return self._deepest(path).error(error.message, error.hint)

    @contextmanager
    def errors_here(self) -> Iterator[None]:
        """Give every `ConfigError` that is raised inside a place in this part."""
        try:
            yield
        except ConfigError as error:
            raise self.located(error) from error.__cause__

    def _deepest(self, path: str) -> Part:
        """Follow ``path`` as far as it leads."""
        part = self
        for index, name in _STEP.findall(path):
            inner = part.written.elements
            if name and name in part:
                part = part[name]
            elif index and int(index) < len(inner):
                part = part.elements()[int(index)]
            else:
                break
        return part

    def _inner(self, written: Written, place: Place, path: str) -> Part:
        return attrs.evolve(self, written=written, place=place, path=path, label="")

    def line(self) -> str:
        """Return how messages name the line in which it stands."""
        return f"line {self.place.line} of {self.file}"

    def named(self) -> str:
        """Return how messages call the value: its key."""
        return repr(self.path.rpartition(".")[2]) if self.path else "a workflow file"

    def _kind(self) -> str:
        return "empty" if self.written.is_missing else describe_value(self.value)
