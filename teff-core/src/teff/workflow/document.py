"""A workflow file together with the files that it includes, as one document.

What several of them say is put together: steps, edges and tools one after the other, the including
file first; of anything that has a name, the including file's counts. Every part keeps its own file
and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs

from teff.errors import ConfigError
from teff.workflow.environment import Environment
from teff.workflow.files import read_text
from teff.workflow.part import Part
from teff.workflow.yaml import Source, Written, read_yaml

__all__ = ["KEYS", "MAX_DEPTH", "MAX_FILES", "NESTED_KEYS", "read_document"]

#: How deep files may include each other, and how many files there may be.
MAX_DEPTH = 20
MAX_FILES = 100

#: What may stand at the top of a file.
KEYS = (
    "name",
    "description",
    "include",
    "default_provider",
    "default_model",
    "providers",
    "state",
    "tools",
    "limits",
    "prices",
    "checkpoint",
    "hooks",
    "steps",
    "edges",
)

#: What a graph inside of a step may say.
NESTED_KEYS = tuple(
    key for key in KEYS if key not in ("include", "tools", "hooks", "checkpoint", "description")
)

#: What other projects write at the top, and the way out.
_ELSEWHERE: Mapping[str, str] = {
    "plugins": "Plugins are installed packages with entry points: `pip install` what you need and "
    "remove the key; `teff plugins` lists what is there.",
    "plugins_folder": "Plugins are installed packages with entry points; nothing is imported from a "
    "folder. Make a package of it, and remove the key.",
    "observability": "Observers are plugins, installed packages with an entry point in the group "
    "teff.plugins; remove the key.",
    "channels": "A workflow file says what is run, not where it is served; remove the key.",
}


def read_document(text: str, source: Source, environment: Environment, path: Path | None) -> Part:
    """Read a workflow file and everything that it includes.

    Args:
        text: the content of the file.
        source: where it comes from.
        environment: fills in references.
        path: the file, or None where the text was given.

    Raises:
        ConfigError: something cannot be read, an unknown key, or files that include each other;
            with the place.
    """
    reading = _Reading(environment)
    reading.add(text, source, [] if path is None else [path.resolve()])
    return _merged(reading.documents) if len(reading.documents) > 1 else reading.documents[0]


@attrs.frozen
class _Reading:
    """The documents so far, the including one always before those that it includes."""

    environment: Environment
    documents: list[Part] = attrs.field(factory=list)
    #: The files that were read, each with the prefix for its ids.
    seen: set[tuple[Path, str]] = attrs.field(factory=set)

    def add(self, text: str, source: Source, chain: list[Path]) -> None:
        """Read a document, then what it includes; ``chain`` are the files around it, and itself."""
        written = read_yaml(text, source, fill=self.environment.fill)
        if written is None:
            raise ConfigError("the file is empty; a workflow has 'steps'.", file=source.file)
        document = Part.whole(written, self.environment)
        _check_top(document)
        self.documents.append(document)
        if "include" in document:
            for part in _several(document["include"]):
                self._include(part, chain)

    def _include(self, part: Part, chain: list[Path]) -> None:
        source, place = part.place.source, part
        prefix = ""
        if isinstance(part.value, dict):
            part.check_keys(["path", "prefix"], what="include")
            if "path" not in part:
                raise part.error("include: the key 'path' is missing.")
            prefix = part["prefix"].text() if "prefix" in part else ""
            place = part["path"]
        path = source.folder / place.text()
        resolved = path.resolve()
        prefix = f"{source.prefix}{prefix}"
        if resolved in chain:
            circle = [*chain[chain.index(resolved) :], resolved]
            names = " includes ".join(file.name for file in circle)
            raise place.error(f"files include each other in a circle: {names}.", "Break it.")
        if (resolved, prefix) in self.seen:
            return
        if len(chain) >= MAX_DEPTH or len(self.seen) + 1 >= MAX_FILES:
            raise place.error(
                f"too many files: they may include each other {MAX_DEPTH} deep, and be "
                f"{MAX_FILES} in all."
            )
        self.seen.add((resolved, prefix))
        with place.errors_here():
            text = read_text(path)
        self.add(
            text, Source(file=str(path), folder=path.parent, prefix=prefix), [*chain, resolved]
        )


def _check_top(document: Part) -> None:
    for key, part in document.entries().items():
        if key in _ELSEWHERE:
            raise part.error(f"the key {key!r} is not supported.", _ELSEWHERE[key])
    document.check_keys(KEYS, what="a workflow file")


def _several(part: Part) -> list[Part]:
    return part.elements() if isinstance(part.value, list) else [part]


def _merged(documents: list[Part]) -> Part:
    """Return several documents as one, the first of them first."""
    first = documents[0]
    entries: dict[str, Written] = {}
    keys = dict(first.written.keys)
    for key in KEYS:
        parts = [document[key] for document in documents if key in document]
        if key in ("name", "description", "include"):
            parts = [first[key]] if key in first else []
        if parts:
            entries[key] = _MERGERS.get(key, _first)(parts)
            keys.setdefault(key, parts[0].place)
    written = attrs.evolve(first.written, value=_values(entries), entries=entries, keys=keys)
    return attrs.evolve(first, written=written)


def _first(parts: list[Part]) -> Written:
    return parts[0].written


def _one_after_the_other(parts: list[Part]) -> Written:
    return _as_list(parts[0], (element for part in parts for element in part.elements()))


def _as_list(first: Part, elements: Iterable[Part]) -> Written:
    written = [element.written for element in elements]
    return attrs.evolve(
        first.written, value=[element.value for element in written], elements=written
    )


def _tools(parts: list[Part]) -> Written:
    """Put tools together; a tool that stood in a file before is left out."""
    kept: list[Part] = []
    before: set[object] = set()
    for part in parts:
        named = [(_tool_name(tool), tool) for tool in part.elements()]
        kept += [tool for name, tool in named if name not in before]
        before |= {name for name, _ in named}
    return _as_list(parts[0], kept)


def _tool_name(part: Part) -> object:
    name = part.value.get("name") if isinstance(part.value, dict) else part.value
    return name if isinstance(name, str) else object()


def _by_name(parts: list[Part]) -> Written:
    return _mapping(parts[0], [part.entries() for part in parts])


def _providers(parts: list[Part]) -> Written:
    declared = []
    for part in parts:
        if isinstance(part.value, list):
            with_names = [entry for entry in part.elements() if "name" in entry.entries()]
            declared.append({entry["name"].text(): entry.without(["name"]) for entry in with_names})
        else:
            declared.append(part.entries())
    return _mapping(parts[0], declared)


def _state(parts: list[Part]) -> Written:
    """Put the sections of ``state`` together by key."""
    sections: dict[str, list[Part]] = {}
    for part in parts:
        for name, section in part.entries().items():
            sections.setdefault(name, []).append(section)
    merged: dict[str, Part] = {}
    for name, found in sections.items():
        if all(isinstance(section.value, dict) for section in found):
            merged[name] = attrs.evolve(found[0], written=_by_name(found))
        else:
            merged[name] = found[0]
    return _mapping(parts[0], [merged])


def _mapping(first: Part, mappings: list[dict[str, Part]]) -> Written:
    """Return mappings as one; of a key that stands in several, the first counts."""
    entries: dict[str, Part] = {}
    for mapping in mappings:
        entries = {**entries, **{key: part for key, part in mapping.items() if key not in entries}}
    written = {key: part.written for key, part in entries.items()}
    return attrs.evolve(
        first.written,
        value=_values(written),
        entries=written,
        keys={key: part.place for key, part in entries.items()},
        elements=(),
    )


def _values(entries: Mapping[str, Written]) -> dict[str, object]:
    return {key: entry.value for key, entry in entries.items()}


_MERGERS: Mapping[str, Callable[[list[Part]], Written]] = {
    "edges": _one_after_the_other,
    "hooks": _by_name,
    "limits": _by_name,
    "prices": _by_name,
    "providers": _providers,
    "state": _state,
    "steps": _one_after_the_other,
    "tools": _tools,
}
