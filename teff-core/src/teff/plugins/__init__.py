"""What plugs in: names that users write, looked up in a catalogue, and hooks that are told.

`catalogue()` is the catalogue of this process; `teff.plugins.hookspecs` is the manual of the hooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teff.plugins.catalogue import Catalogue, catalogue
from teff.plugins.dispatch import Hooks
from teff.plugins.entry import GROUPS, PluginEntry
from teff.plugins.loader import hooks, load_hooks
from teff.plugins.observed import NodeInfo, Outcome, RunInfo

if TYPE_CHECKING:
    from teff.plugins.hookspecs import hookimpl

__all__ = [
    "GROUPS",
    "Catalogue",
    "Hooks",
    "NodeInfo",
    "Outcome",
    "PluginEntry",
    "RunInfo",
    "catalogue",
    "hookimpl",
    "hooks",
    "load_hooks",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # The marker is pluggy's, and only plugins need it.
        if name == "hookimpl":
            from teff.plugins.hookspecs import hookimpl

            return hookimpl
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
