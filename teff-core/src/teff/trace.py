"""Only re-exports: the tracer lives in `teff.runtime`."""

from teff.runtime.trace import ModelTotals, RunSummary, RunTracer, TraceEvent, TraceSpan

__all__ = ["ModelTotals", "RunSummary", "RunTracer", "TraceEvent", "TraceSpan"]
