"""Loading the installed plugins of the group ``teff.plugins``, each on its own.

A plugin that the environment blocks is not imported. One that cannot be loaded costs one line on
standard error, is shown as ``failed`` by ``teff plugins``, and disturbs nothing else.
"""

from __future__ import annotations

import threading

from teff.errors import PluginError, PluginLoadError
from teff.plugins.catalogue import Catalogue, catalogue
from teff.plugins.dispatch import Hooks
from teff.plugins.entry import PluginEntry
from teff.plugins.log import warn

__all__ = ["hooks", "load_hooks", "load_installed"]

_process: Hooks | None = None
_loading = threading.RLock()


def load_hooks() -> Hooks | None:
    """Return the hooks of this process, or None where nobody listens to any of them.

    The first call loads the installed plugins; later calls are cheap.
    """
    found = hooks()
    return found if found.listens_at_all() else None


def hooks() -> Hooks:
    """Return the hooks of this process, to register an observer from code.

    ::

        from teff.plugins import hooks
        hooks().register(MyObserver())

    The first call loads the installed plugins.
    """
    global _process
    # Reentrant, and set before loading: a plugin may register an observer while it is imported.
    with _loading:
        if _process is None:
            _process = Hooks()
            load_installed(_process, catalogue())
        return _process


def load_installed(hooks: Hooks, catalogue: Catalogue) -> None:
    """Load and register every plugin of a catalogue that is not blocked, sorted by distribution."""
    for entry in catalogue.entries("teff.plugins"):
        if entry.state == "blocked":
            continue
        try:
            _register(hooks, catalogue, entry)
        except PluginError as error:
            warn(f"{error} (the plugin is left out)", plugin=entry.distribution)


def _register(hooks: Hooks, catalogue: Catalogue, entry: PluginEntry) -> None:
    plugin = catalogue.load(entry.group, entry.qualified_name)
    try:
        hooks.register(plugin() if isinstance(plugin, type) else plugin, name=entry.qualified_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = (
            str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
        )
        catalogue.mark_failed(entry, reason)
        raise PluginLoadError(
            f"cannot register plugin {entry.name!r} from {entry.distribution}: {reason}. "
            f"Remove it with: pip uninstall {entry.distribution}",
            plugin=entry.distribution,
        ) from error
