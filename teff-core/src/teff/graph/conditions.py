"""Only re-exports: the condition language lives in `teff.conditions`."""

from teff.conditions import evaluate

__all__ = ["evaluate"]
