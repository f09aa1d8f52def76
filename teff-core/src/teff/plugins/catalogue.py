"""From a name that a user writes to the object behind it.

Built-in names stand in a table. The first other name makes the catalogue look at what is
installed, once, reading metadata only; an object is imported when it is first asked for, so a
broken plugin hurts only whoever names it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

import attrs

from teff.errors import AmbiguousName, ConfigError, PluginLoadError, suggest
from teff.plugins.blocking import blocked_by
from teff.plugins.builtin import BUILTINS, CORE, OFFICIAL
from teff.plugins.entry import GROUPS, PluginEntry, canonical_name
from teff.plugins.log import warn
from teff.plugins.scan import installed_entries

__all__ = ["Catalogue", "catalogue"]

_Key = tuple[str, str, str]

_NEW_TOOL = "Give it to the run as tools=[…], register it with @tool, or install what brings it."


class Catalogue:
    """Every name that can be used, in each of the groups ``GROUPS``.

    Names are compared exactly. A name is a built-in's (``"transform"``), a plugin's short name
    (``"ollama"``), or ``"distribution/name"``, which always works. A plugin cannot take the name
    of a built-in; a short name that two distributions offer is an error when it is used.

    Args:
        entry_points: gives what is installed; called once, on the first name that is not built
            in. The default reads the metadata of every distribution on ``sys.path``.
        builtins: group → name → ``"module:attribute"``.

    >>> catalogue().find("teff.nodes", "transform").target
    'teff.node.transform:Transform'
    """

    def __init__(
        self,
        *,
        entry_points: Callable[[], Iterable[PluginEntry]] = installed_entries,
        builtins: Mapping[str, Mapping[str, str]] = BUILTINS,
    ) -> None:
        self._entry_points = entry_points
        self._builtins = builtins
        self._scanned: dict[_Key, PluginEntry] | None = None
        self._objects: dict[tuple[str, str], object] = {}

    def load(self, group: str, name: str, *, known: Iterable[str] = ()) -> object:
        """Return the object behind ``name``, importing it on its first use.

        Args:
            group: one of ``GROUPS``.
            name: what a user wrote.
            known: names that the caller knows besides, for the suggestion in an error.

        Raises:
            ConfigError: nothing of this name is there, or the environment blocks it.
            AmbiguousName: several distributions offer it.
            PluginLoadError: it is there and cannot be imported; every time, not only the first.
        """
        if (group, name) not in self._objects:
            self._objects[group, name] = self._import(self.find(group, name, known=known))
        return self._objects[group, name]

    def find(self, group: str, name: str, *, known: Iterable[str] = ()) -> PluginEntry:
        """Say where ``name`` comes from, without importing it. The arguments are those of `load`.

        Raises:
            ConfigError: nothing of this name is there, or the environment blocks it.
            AmbiguousName: several distributions offer it.
        """
        _check_group(group)
        distribution, slash, short = name.partition("/")
        if self.is_builtin(group, name):
            return self._builtin(group, name)
        if slash:
            return self._find_qualified(group, canonical_name(distribution), short, name)
        offers = [entry for entry in self._offers(group) if entry.name == name]
        allowed = [entry for entry in offers if not blocked_by(entry.distribution)]
        if not allowed:
            raise _blocked(offers[0]) if offers else self.unknown(group, name, known=known)
        if len(allowed) > 1:
            raise _ambiguous(allowed)
        return allowed[0]

    def is_builtin(self, group: str, name: str) -> bool:
        """Say whether a name is built in, so that no plugin can have it."""
        return name in self._builtins.get(group, {})

    def names(self, group: str) -> list[str]:
        """List every name of a group that can be used, sorted, without importing anything.

        What a short name does not reach (because it is a built-in's, or offered twice) stands
        there as ``distribution/name``; what is blocked or has failed is left out.
        """
        names = set(self._builtins.get(group, {}))
        for entry in self.entries(group):
            if entry.state in ("found", "loaded"):
                names.add(entry.name if self._is_unique(entry) else entry.qualified_name)
            elif entry.state in ("shadowed", "ambiguous"):
                names.add(entry.qualified_name)
        return sorted(names)

    def entries(self, group: str | None = None) -> list[PluginEntry]:
        """List what the installed distributions declare, with the state of each.

        Built-ins are not among them. Sorted by group, distribution and name; nothing is imported.

        Args:
            group: one of ``GROUPS``; None for all of them, and for rows of unreadable metadata.
        """
        if group is not None:
            _check_group(group)
        rows = [
            self._with_state(entry)
            for entry in self._index().values()
            if group is None or entry.group == group
        ]
        return sorted(rows, key=lambda row: (row.group, row.distribution, row.name))

    def mark_failed(self, entry: PluginEntry, error: str) -> None:
        """Record that an entry was loaded and is of no use after all; it fails from now on."""
        self._record(attrs.evolve(entry, state="failed", error=error))
        for name in (entry.name, entry.qualified_name):
            self._objects.pop((entry.group, name), None)

    def unknown(self, group: str, name: str, *, known: Iterable[str] = ()) -> ConfigError:
        """Make the error for a name that is not there, with the nearest one or the ``pip`` line.

        Args:
            group: one of ``GROUPS``.
            name: what was asked for.
            known: further names that would have been right.
        """
        there = {*self.names(group), *known}
        official = {
            name: distribution
            for name, distribution in OFFICIAL.get(group, {}).items()
            if name not in there
        }
        message = f"unknown {GROUPS[group]} {name!r}."
        distribution, _, short = name.rpartition("/")
        if short in official and distribution in ("", official[short]):
            return ConfigError(message, hint=_install_line(short, official[short]))
        nearest = suggest(name, there)
        if "Did you mean" not in nearest and "Did you mean" in (guess := suggest(name, official)):
            meant = next(candidate for candidate in official if repr(candidate) in guess)
            return ConfigError(message + guess, hint=_install_line(meant, official[meant]))
        is_new = group == "teff.tools" and "Did you mean" not in nearest
        return ConfigError(message + nearest, hint=_NEW_TOOL if is_new else "")

    def _index(self) -> dict[_Key, PluginEntry]:
        if self._scanned is None:
            index: dict[_Key, PluginEntry] = {}
            for entry in self._entry_points():
                earlier = index.get(_key(entry))
                if "/" in entry.name:
                    index[_key(entry)] = attrs.evolve(
                        entry, state="failed", error="a name may not contain '/'"
                    )
                elif earlier is None:
                    index[_key(entry)] = entry
                elif earlier.target != entry.target and entry.group:
                    index[_key(entry)] = attrs.evolve(
                        earlier,
                        state="failed",
                        error=f"declared twice: as {earlier.target} and as {entry.target}",
                    )
            self._scanned = index
        return self._scanned

    def _offers(self, group: str) -> list[PluginEntry]:
        return [entry for entry in self._index().values() if entry.group == group]

    def _find_qualified(self, group: str, distribution: str, short: str, name: str) -> PluginEntry:
        if distribution == CORE and self.is_builtin(group, short):
            return self._builtin(group, short)
        entry = self._index().get((group, distribution, short))
        if entry is None:
            qualified = [offer.qualified_name for offer in self._offers(group)]
            raise self.unknown(group, name, known=qualified)
        if blocked_by(distribution):
            raise _blocked(entry)
        return entry

    def _builtin(self, group: str, name: str) -> PluginEntry:
        target = self._builtins[group][name]
        return PluginEntry(distribution=CORE, group=group, name=name, target=target)

    def _is_unique(self, entry: PluginEntry) -> bool:
        if self.is_builtin(entry.group, entry.name):
            return False
        return not any(
            other.name == entry.name
            and other.distribution != entry.distribution
            and not blocked_by(other.distribution)
            for other in self._offers(entry.group)
        )

    def _with_state(self, entry: PluginEntry) -> PluginEntry:
        if entry.state != "found":
            return entry
        if reason := blocked_by(entry.distribution):
            return attrs.evolve(entry, state="blocked", error=reason)
        # Whatever is told is told to all: names in this group are labels, nobody asks for them.
        if entry.group == "teff.plugins" or self._is_unique(entry):
            return entry
        use = f"write {entry.qualified_name!r}"
        if self.is_builtin(entry.group, entry.name):
            return attrs.evolve(entry, state="shadowed", error=f"the name belongs to {CORE}; {use}")
        return attrs.evolve(
            entry, state="ambiguous", error=f"other distributions offer the name too; {use}"
        )

    def _import(self, entry: PluginEntry) -> object:
        if entry.state == "failed":
            raise _load_error(entry)
        _warn_of_squatting(entry)
        try:
            found = _import_target(entry)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin that exits on import must not end the program
            failed = attrs.evolve(
                entry, state="failed", error=f"{type(error).__name__}: {error}".rstrip(": ")
            )
            self._record(failed)
            raise _load_error(failed) from error
        self._record(attrs.evolve(entry, state="loaded", error=""))
        return found

    def _record(self, entry: PluginEntry) -> None:
        if self._scanned is not None and _key(entry) in self._scanned:
            self._scanned[_key(entry)] = entry


_PROCESS = Catalogue()


def catalogue() -> Catalogue:
    """Return the catalogue of this process, which everything resolves its names through."""
    return _PROCESS


def _key(entry: PluginEntry) -> _Key:
    return (entry.group, entry.distribution, entry.name)


def _check_group(group: str) -> None:
    if group not in GROUPS:
        raise ConfigError(f"unknown plugin group {group!r}.{suggest(group, GROUPS)}")


def _import_target(entry: PluginEntry) -> object:
    module, _, attribute = entry.target.partition(":")
    # Standard output belongs to the result of a run, and a plugin may print when it is imported.
    quiet = contextlib.nullcontext() if entry.distribution == CORE else _output_to_stderr()
    with quiet:
        found: object = import_module(module.strip())
        for part in attribute.strip().split(".") if attribute.strip() else ():
            found = getattr(found, part)
    return found


def _output_to_stderr() -> contextlib.AbstractContextManager[object]:
    return contextlib.redirect_stdout(sys.stderr)


def _warn_of_squatting(entry: PluginEntry) -> None:
    owner = OFFICIAL.get(entry.group, {}).get(entry.name)
    if owner is None or owner == entry.distribution:
        return
    warn(
        f"{GROUPS[entry.group]} {entry.name!r} is loaded from {entry.distribution}, which is not "
        f"{owner}, the distribution known for it. If that is not what you installed it for: "
        f"pip uninstall {entry.distribution}",
        distribution=entry.distribution,
        name=entry.name,
        official=owner,
    )


def _load_error(entry: PluginEntry) -> PluginLoadError:
    version = f" {entry.version}" if entry.version else ""
    return PluginLoadError(
        f"cannot load {GROUPS[entry.group]} {entry.name!r} from {entry.distribution}{version} "
        f"(entry point {entry.name} = {entry.target}): {entry.error}. "
        f"Repair it with: pip install --upgrade --force-reinstall {entry.distribution} "
        f"- or remove it with: pip uninstall {entry.distribution}",
        plugin=entry.distribution,
    )


def _blocked(entry: PluginEntry) -> ConfigError:
    return ConfigError(
        f"{GROUPS[entry.group]} {entry.name!r} comes from {entry.distribution}, which may not be "
        f"loaded: {blocked_by(entry.distribution)}.",
        hint=f"Add {entry.distribution} to TEFF_PLUGINS, or unset the variable.",
    )


def _ambiguous(entries: list[PluginEntry]) -> AmbiguousName:
    name, group = entries[0].name, entries[0].group
    origins = sorted(entry.distribution for entry in entries)
    choices = " or ".join(repr(f"{origin}/{name}") for origin in origins)
    return AmbiguousName(
        f"{GROUPS[group]} {name!r} is offered by {' and by '.join(origins)}; write {choices}."
    )


def _install_line(name: str, distribution: str) -> str:
    return f"{name!r} comes with {distribution}: pip install {distribution}"
