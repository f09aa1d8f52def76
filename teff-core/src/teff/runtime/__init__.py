"""What a node sees while it runs, and what a run is made of."""

from teff.runtime.channel import EventChannel
from teff.runtime.command import Command
from teff.runtime.context import ExecContext, StepContext
from teff.runtime.events import EventType, Listener, StreamEvent, tell_all
from teff.runtime.frame import Frame, ModelDefaults
from teff.runtime.journal import Journal, open_journal
from teff.runtime.limits import Limits
from teff.runtime.place import Executable, Place
from teff.runtime.question import Question, match_answers
from teff.runtime.result import RunResult, Status
from teff.runtime.run import Run, new_run_id
from teff.runtime.signals import LimitSignal, PauseSignal, Signal
from teff.runtime.steps import as_failure, read_result, uninterrupted

__all__ = [
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
    "PauseSignal",
    "Place",
    "Question",
    "Run",
    "RunResult",
    "Signal",
    "Status",
    "StepContext",
    "StreamEvent",
    "as_failure",
    "match_answers",
    "new_run_id",
    "open_journal",
    "read_result",
    "tell_all",
    "uninterrupted",
]
