"""What a run returns: the final state, and how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from teff.messages import Usage

__all__ = ["RunResult", "Status"]

Status = Literal["finished", "stopped", "paused", "failed", "cancelled"]


class RunResult(dict[str, Any]):
    """The final state, as ordinary dicts and lists, with what is to be known of the run.

    Attributes:
        run_id: the checkpoint id, or a made-up one.
        status: ``finished``; ``stopped`` by a bound or a command; ``paused``, ``failed``,
            ``cancelled`` on results that an exception carries.
        stop_reason: why it ended: ``end``, ``no_edge_matched``, ``command_stop``, the reason of a
            supervisor or the name of a limit; see the documentation for the whole list.
        usage: model calls, tool calls and tokens.
        steps: executions of nodes, those of sub-flows included.
        duration_ms: milliseconds of running.
        durable: whether the run is recorded in a checkpointer that outlives the process.
        error: what failed, or None.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        *,
        run_id: str,
        status: Status,
        stop_reason: str,
        usage: Usage,
        steps: int = 0,
        duration_ms: float = 0.0,
        durable: bool = False,
        error: BaseException | None = None,
    ) -> None:
        super().__init__(state)
        self.run_id = run_id
        self.status = status
        self.stop_reason = stop_reason
        self.usage = usage
        self.steps = steps
        self.duration_ms = duration_ms
        self.durable = durable
        self.error = error
