"""Reading the metadata of what is installed, without importing any of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from teff.plugins.entry import GROUPS, PluginEntry, canonical_name

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["installed_entries"]


def installed_entries(path: Sequence[str] | None = None) -> list[PluginEntry]:
    """List every entry point of Teff's groups that is installed.

    A distribution that stands on the path twice (``lib`` and ``lib64``, or two versions of it)
    counts once: the first one, as for an import. One whose metadata cannot be read gives a row in
    state ``failed`` and hurts nobody else.

    Args:
        path: the folders to look in; None for ``sys.path``.
    """
    from importlib.metadata import distributions

    found: dict[str, list[PluginEntry]] = {}
    broken: list[PluginEntry] = []
    for distribution in distributions() if path is None else distributions(path=list(path)):
        try:
            entries = list(_entries_of(distribution))
        except Exception as error:
            broken.append(_unreadable(distribution, error))
        else:
            if entries:
                found.setdefault(entries[0].distribution, entries)
    return [*broken, *(entry for entries in found.values() for entry in entries)]


def _entries_of(distribution: Distribution) -> Iterator[PluginEntry]:
    # Most distributions have nothing for Teff; parsing the metadata of all is what makes scans slow.
    if "[teff." not in (distribution.read_text("entry_points.txt") or ""):
        return
    name, version = distribution.metadata["Name"], distribution.version
    if not name:
        raise ValueError("the metadata has no name")
    for entry_point in distribution.entry_points:
        if entry_point.group in GROUPS:
            yield PluginEntry(
                distribution=name,
                version=version or "",
                group=entry_point.group,
                name=entry_point.name,
                target=entry_point.value.partition("[")[0].strip(),
            )


def _unreadable(distribution: Distribution, error: Exception) -> PluginEntry:
    try:
        name = canonical_name(distribution.metadata["Name"])
    except Exception:
        name = "unknown"
    return PluginEntry(
        distribution=name,
        group="",
        name="",
        target="",
        state="failed",
        error=f"its metadata in {distribution.locate_file('')} cannot be read: {error}",
    )
