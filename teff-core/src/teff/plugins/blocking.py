"""Which distributions the environment forbids to load.

``TEFF_DISABLE_PLUGINS=1`` forbids all of them. ``TEFF_PLUGINS`` is a list of distributions,
separated by commas: only these may load; empty or ``none`` allows none. Names of distributions
count, not names of entry points, because those are chosen by whoever wrote the plugin. What is
built into Teff is never blocked.
"""

from __future__ import annotations

import os

from teff.plugins.entry import canonical_name

__all__ = ["blocked_by"]

_OFF = {"", "0", "false", "no", "off"}


def blocked_by(distribution: str) -> str:
    """Say which setting forbids ``distribution`` to load, or return "" where none does."""
    disabled = os.environ.get("TEFF_DISABLE_PLUGINS", "")
    if disabled.strip().lower() not in _OFF:
        return f"TEFF_DISABLE_PLUGINS={disabled} blocks every plugin"
    allowed = os.environ.get("TEFF_PLUGINS")
    if allowed is None:
        return ""
    listed = {canonical_name(part.strip()) for part in allowed.split(",")} - {"none"}
    if canonical_name(distribution) in listed:
        return ""
    return "TEFF_PLUGINS does not list it"
