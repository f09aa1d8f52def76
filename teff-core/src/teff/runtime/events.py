"""What a run tells while it goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

from teff.state import FrozenDict

__all__ = ["NOTHING", "EventType", "Listener", "StreamEvent", "new_event", "tell_all"]

#: Every event type; what its ``data`` holds:
#:
#: - ``run_start``: ``run_id``, ``resumed``. ``run_end``: ``status``, ``stop_reason``, ``usage``,
#:   ``steps``, ``duration_ms``, ``state``, and ``error`` where there was one; exactly one a run.
#: - ``node_start``: nothing. ``node_end``: ``duration_ms``, ``keys`` (those it updated).
#:   ``node_error``: ``error``, ``type``, ``duration_ms``, ``caught`` (an error edge takes it).
#: - ``edge``: ``target`` (None at the end), ``condition`` (its text, or None).
#: - ``token``: ``token``, ``provider``, ``model``. ``llm``: ``provider``, ``model``,
#:   ``prompt_tokens``, ``completion_tokens``, ``total_tokens``, ``cost`` (None
#:   without a price), ``duration_ms``, ``finish_reason``, ``cached``.
#:   ``llm_retry``: ``provider``, ``model``, ``attempt``, ``wait``, ``error``.
#:   ``llm_fallback``: ``provider``, ``model``, ``to_provider``, ``to_model``, ``error``.
#: - ``tool_call``: ``id``, ``name``, ``arguments``. ``tool_result``: ``id``, ``name``, ``text``,
#:   ``error``, ``duration_ms``.
#: - ``structured``: ``errors``, ``attempt``, and ``max_tokens`` where the next answer gets more room.
#: - ``route``: ``proposal``, ``reply``, ``route``, ``decided_by``, ``round``, ``max_rounds``.
#: - ``limit``: ``reason``, and what it is about: ``scope`` (the path of a part of the run), ``rounds``,
#:   ``depth``, ``branches`` (those that were late), ``node`` and ``forced`` (a decision that it made).
#:   ``retry``: ``attempt``, ``of``, ``delay``, ``error``, ``type``.
#: - ``checkpoint``: ``path``, ``kind``.
#: - ``interrupt``: ``id``, ``key``, ``prompt``, ``choices``. ``interrupt_resume``: ``keys``.
#: - ``custom``: ``name``, ``data``.
EventType = Literal[
    "run_start",
    "run_end",
    "node_start",
    "node_end",
    "node_error",
    "edge",
    "token",
    "llm",
    "llm_retry",
    "llm_fallback",
    "tool_call",
    "tool_result",
    "structured",
    "route",
    "limit",
    "retry",
    "checkpoint",
    "interrupt",
    "interrupt_resume",
    "custom",
]


class StreamEvent(NamedTuple):
    """One event of a run.

    Attributes:
        type: see `EventType`.
        node_id, node_type: the node that it is about; "" for events of the run.
        path: where that node runs: ``"plan/3"`` is the third visit of ``plan``,
            ``"team/1/billing/2"`` the second visit of ``billing`` inside ``team``.
        data: what happened; the keys depend on the type.
        time: seconds since the epoch.
    """

    type: EventType
    node_id: str
    node_type: str
    path: str
    data: Mapping[str, Any]
    time: float


def new_event(fields: tuple[EventType, str, str, str, Mapping[str, Any], float]) -> StreamEvent:
    """Return an event from its fields in order; three times as fast as calling the class."""
    return tuple.__new__(StreamEvent, fields)


#: The data of an event that has none.
NOTHING: Mapping[str, Any] = FrozenDict()

#: What hears events: a plain function, or one whose result is awaited before the run goes on.
Listener = Callable[[StreamEvent], Awaitable[None] | None]


def tell_all(listeners: list[Listener]) -> Listener | None:
    """Return one listener that tells all of ``listeners`` in their order; None for none."""
    if not listeners:
        return None
    if len(listeners) == 1:
        return listeners[0]

    async def tell_in_turn(event: StreamEvent, rest: list[Listener], first: Any) -> None:
        await first
        for listener in rest:
            waiting = listener(event)
            if waiting is not None:
                await waiting

    def tell(event: StreamEvent) -> Awaitable[None] | None:
        for place, listener in enumerate(listeners, 1):
            waiting = listener(event)
            if waiting is not None:
                return tell_in_turn(event, listeners[place:], waiting)
        return None

    return tell
