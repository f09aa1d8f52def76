"""What a node sees while it runs, and what a run is made of."""

from typing import TYPE_CHECKING

from teff.lazy import lazy_names
from teff.runtime.channel import EventChannel
from teff.runtime.command import Command
from teff.runtime.context import ExecContext, StepContext
from teff.runtime.events import EventType, Listener, StreamEvent, tell_all
from teff.runtime.frame import Frame, ModelDefaults
from teff.runtime.journal import Journal, open_journal
from teff.runtime.limits import Limits
from teff.runtime.node_hooks import NodeHook, NodeHooks, PayloadCallback, tell_payload
from teff.runtime.place import Executable, Place
from teff.runtime.prices import Price, Prices, read_prices
from teff.runtime.question import Question, match_answers
from teff.runtime.result import RunResult, Status
from teff.runtime.run import Run, new_run_id
from teff.runtime.signals import AbortSignal, LimitSignal, PauseSignal, Signal
from teff.runtime.steps import as_failure, read_result, uninterrupted

if TYPE_CHECKING:
    from teff.runtime.trace import RunSummary, RunTracer, TraceEvent, TraceSpan

__all__ = [
    "AbortSignal",
    "Command",
    "EventChannel",
    "EventType",
    "ExecContext",
    "Executable",
    "Frame",
    "Journal",
    "LimitSignal",
    "Limits",
    "Listener",
    "ModelDefaults",
    "NodeHook",
    "NodeHooks",
    "PauseSignal",
    "PayloadCallback",
    "Place",
    "Price",
    "Prices",
    "Question",
    "Run",
    "RunResult",
    "RunSummary",
    "RunTracer",
    "Signal",
    "Status",
    "StepContext",
    "StreamEvent",
    "TraceEvent",
    "TraceSpan",
    "as_failure",
    "match_answers",
    "new_run_id",
    "open_journal",
    "read_prices",
    "read_result",
    "tell_all",
    "tell_payload",
    "uninterrupted",
]

_HOMES = {
    "teff.runtime.trace": ("RunSummary", "RunTracer", "TraceEvent", "TraceSpan"),
}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
