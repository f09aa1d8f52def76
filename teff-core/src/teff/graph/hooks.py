"""Telling plugins what happens: a listener that turns events into hook calls."""

from __future__ import annotations

from teff.plugins import Hooks, NodeInfo, Outcome, RunInfo
from teff.runtime import Listener, StreamEvent

__all__ = ["hook_listener"]

_HOOKS = (
    "teff_run_started",
    "teff_run_finished",
    "teff_node_started",
    "teff_node_finished",
)


def hook_listener(hooks: Hooks, run_id: str, graph_name: str) -> Listener | None:
    """Return a listener that tells plugins of runs and nodes; None where no plugin listens."""
    if not any(hooks.listens(name) for name in _HOOKS):
        return None
    run = RunInfo(run_id=run_id, graph=graph_name)

    def tell(event: StreamEvent) -> None:
        data = event.data
        if event.type == "run_start":
            hooks.tell("teff_run_started", run=run)
        elif event.type == "run_end":
            outcome = Outcome(
                status=data["status"], stop_reason=data["stop_reason"], steps=data["steps"]
            )
            hooks.tell("teff_run_finished", run=run, outcome=outcome)
        elif event.type == "node_start":
            hooks.tell("teff_node_started", run=run, node=_node(event))
        elif event.type == "node_end":
            seconds = data["duration_ms"] / 1000.0
            hooks.tell("teff_node_finished", run=run, node=_node(event), seconds=seconds)

    return tell


def _node(event: StreamEvent) -> NodeInfo:
    return NodeInfo(id=event.node_id, type=event.node_type, path=event.path)
