"""The one way in which plugins are complained about: a line on standard error.

Applications that configure structlog get the line as a structured event. Otherwise it goes
through ``logging.getLogger("teff")``, because structlog prints to standard output until it is
configured, and that belongs to the result.
"""

from __future__ import annotations

import logging
import sys

__all__ = ["warn"]


def warn(message: str, **details: object) -> None:
    """Log ``message``, a whole sentence; ``details`` reach structured logs only."""
    # Whoever configured structlog has imported it: not being there means not configured.
    structlog = sys.modules.get("structlog")
    if structlog is not None and structlog.is_configured():
        structlog.get_logger("teff").warning(message, **details)
    else:
        logging.getLogger("teff").warning("%s", message)
