"""What the terminal shows of a run while it goes on.

The answer is the product and goes to standard output, piece by piece as it comes; everything else
goes to standard error. So ``teff run flow.yaml -m "…" > answer.txt`` keeps the answer alone.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from teff.cli.messages import harmless, in_color, say
from teff.runtime import StreamEvent

__all__ = ["Live", "outermost"]

#: What decided a route, in plain words.
_REASONS = {
    "model": "model",
    "last_word": "model, by the last name in its reply",
    "done_keys": "guard: done_keys are filled",
    "fill_order": "guard: the next in fill_order",
    "route_keys": "guard: its answer is there already",
    "fallback": "guard: fallback",
    "max_rounds": "guard: max_rounds is reached",
    "no_progress": "guard: no progress",
    "no_decision": "guard: the model named nobody",
}
_VISIT = re.compile(r"/\d+(?:/|$)")
_LONGEST_DETAIL = 100


class Live:
    """Hears the events of one run and shows them.

    Args:
        show_answer: whether pieces of answers go to standard output.
    """

    def __init__(self, *, show_answer: bool = True) -> None:
        self.run_id = ""
        self.steps = 0
        self.model_calls = 0
        self.rounds = 0
        self.last_node = ""
        #: The innermost node that failed, and the path to it; "" where none did.
        self.failed_node = ""
        self.failed_path = ""
        #: What ``run_end`` told, or nothing while the run goes on.
        self.end: Mapping[str, Any] = {}
        #: The keys that the outermost nodes wrote, in order, and those of the last one.
        self.written: dict[str, None] = {}
        self.last_written: tuple[str, ...] = ()
        #: Called once when standard output cannot be written any more.
        self.on_closed_output: Callable[[], object] = lambda: None
        #: Why it cannot be written.
        self.output_error: OSError | None = None
        self._started = time.monotonic()
        self._show_answer = show_answer
        # A file or a pipe gets the answer as it is; a terminal would act on what is in it.
        self._to_terminal = sys.stdout.isatty()
        self._streamed: list[str] = []
        self._speaker = ""
        self._shown = {
            "route": self._route,
            "token": self._token,
            "tool_call": self._tool_call,
            "llm_retry": self._retry,
            "llm_fallback": self._fallback,
            "limit": self._limit,
            "node_error": self._node_error,
        }

    @property
    def streamed(self) -> str:
        """Everything that was shown piece by piece."""
        return "".join(self._streamed)

    @property
    def seconds(self) -> float:
        """Seconds since the run started."""
        return time.monotonic() - self._started

    def hear(self, event: StreamEvent) -> None:
        """Take one event of the run."""
        match event.type:
            case "run_start":
                self.run_id = event.data["run_id"]
                self._started = time.monotonic()
            case "run_end":
                self.end = event.data
            case "node_start":
                self.steps += 1
                self.last_node = event.node_id
            case "node_end":
                self._node_end(event)
            case "llm":
                self.model_calls += 1
            case _ if show := self._shown.get(event.type):
                show(event)

    def recall(self, written: Iterable[Iterable[str]]) -> None:
        """Take what the outermost nodes of the run wrote before, step by step."""
        for keys in written:
            self.last_written = tuple(keys)
            self.written |= dict.fromkeys(self.last_written)

    def answer(self, text: str) -> None:
        """Show an answer that did not come piece by piece."""
        self.end_line()
        self._write(text if text.endswith("\n") else f"{text}\n")

    def end_line(self) -> None:
        """End the line of the answer that is being shown."""
        if self._speaker and self._streamed and not self._streamed[-1].endswith("\n"):
            self._write("\n")
        self._speaker = ""

    def _note(self, text: str) -> None:
        self.end_line()
        say(text)

    def _route(self, event: StreamEvent) -> None:
        data = event.data
        self.rounds += 1
        reason = _REASONS.get(data["decided_by"], data["decided_by"])
        if data["decided_by"] == "fallback" and data.get("reply"):
            reason += f", the model said {_shorten(data['reply'], 40)!r}"
        most = f" of {data['max_rounds']}" if data.get("max_rounds") else ""
        route = in_color(f"→ {data['route']}", fg="cyan", bold=True)
        self._note(f"{route}   ({reason}, round {data['round']}{most})")

    def _token(self, event: StreamEvent) -> None:
        if not self._show_answer:
            return
        if event.path != self._speaker:
            self._note(in_color(f"{outermost(event.path)}:", bold=True))
            self._speaker = event.path
        self._streamed.append(event.data["token"])
        self._write(event.data["token"])

    def _tool_call(self, event: StreamEvent) -> None:
        arguments = _shorten(str(event.data["arguments"]), _LONGEST_DETAIL)
        self._note(in_color(f"  tool {event.data['name']} {arguments}", dim=True))

    def _retry(self, event: StreamEvent) -> None:
        error, wait = _shorten(event.data["error"], _LONGEST_DETAIL), event.data["wait"]
        self._note(in_color(f"  {error} (trying again in {wait:.1f} s)", fg="yellow"))

    def _fallback(self, event: StreamEvent) -> None:
        error = _shorten(event.data["error"], _LONGEST_DETAIL)
        following = f"{event.data['to_provider']}/{event.data['to_model']}"
        self._note(in_color(f"  {error} (asking {following} instead)", fg="yellow"))

    def _limit(self, event: StreamEvent) -> None:
        # A bound of the whole run is what the last line says.
        if scope := event.data.get("scope"):
            told = f"  {outermost(scope)} reached its {event.data['reason']} (going on without it)"
            self._note(in_color(told, fg="yellow"))

    def _node_end(self, event: StreamEvent) -> None:
        # What the nodes inside of a sub-flow write is its own until it ends.
        if _VISIT.split(event.path)[1:] == [""]:
            self.last_written = event.data["keys"]
            self.written |= dict.fromkeys(self.last_written)

    def _node_error(self, event: StreamEvent) -> None:
        if not event.data["caught"]:
            self.failed_node = self.failed_node or event.node_id
            self.failed_path = self.failed_path or event.path
        else:
            # Whatever failed inside has been dealt with here.
            self.failed_node = self.failed_path = ""
            error = _shorten(event.data["error"], _LONGEST_DETAIL)
            self._note(in_color(f"  {event.node_id} failed: {error} (going on)", fg="yellow"))

    def _write(self, text: str) -> None:
        if self.output_error is not None:
            return
        try:
            click.echo(harmless(text) if self._to_terminal else text, nl=False)
        except OSError as error:
            self.output_error = error
            self.on_closed_output()


def outermost(path: str) -> str:
    """Return the first node of a path: ``billing`` of ``billing/1/billing/agent/2``."""
    return _VISIT.split(path)[0] or path


def _shorten(text: str, length: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 1]}…"
