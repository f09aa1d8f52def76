"""One row of what is installed: which distribution offers which name, and how far it got."""

from __future__ import annotations

import re
from typing import Literal

import attrs

__all__ = ["GROUPS", "PluginEntry", "PluginState", "canonical_name"]

#: Every entry point group that Teff reads, and what its objects are called in messages.
GROUPS = {
    "teff.nodes": "node type",
    "teff.providers": "provider",
    "teff.tools": "tool",
    "teff.checkpointers": "checkpointer",
    "teff.memory": "memory store",
    "teff.conditions": "condition",
    "teff.reducers": "reducer",
    "teff.exporters": "exporter",
    "teff.commands": "command",
    "teff.plugins": "plugin",
}

PluginState = Literal["found", "loaded", "failed", "blocked", "shadowed", "ambiguous"]


def canonical_name(distribution: str) -> str:
    """Return the one spelling under which a distribution's name is compared (PEP 503).

    >>> canonical_name("Teff_Providers.OpenAI")
    'teff-providers-openai'
    """
    return re.sub(r"[-_.]+", "-", distribution).lower()


@attrs.frozen(kw_only=True)
class PluginEntry:
    """An entry point that a distribution declares.

    Attributes:
        distribution: the distribution's name, in its canonical spelling.
        version: the distribution's version, or "" where it is not known.
        group: the entry point group, one of `GROUPS`; "" where the metadata could not be read.
        name: what a user writes.
        target: what is imported, ``"module:attribute"``.
        state: ``found`` (not needed so far), ``loaded``, ``failed`` (``error`` says why),
            ``blocked`` (by the environment; it is never imported), ``shadowed`` (a built-in has
            the name) or ``ambiguous`` (another distribution has the name too). The last two are
            reached by their ``qualified_name``.
        error: what went wrong, or what stands in the way, as one line; else "".
    """

    distribution: str = attrs.field(converter=canonical_name)
    version: str = ""
    group: str
    name: str
    target: str
    state: PluginState = "found"
    error: str = ""

    @property
    def qualified_name(self) -> str:
        """``distribution/name``, which is never ambiguous."""
        return f"{self.distribution}/{self.name}"
