"""Only re-exports: events live in `teff.runtime`."""

from teff.runtime import StreamEvent

__all__ = ["StreamEvent"]
