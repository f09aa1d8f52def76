"""The record of a delegation: a fold over its events, so that the two cannot disagree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from teff.runtime import StreamEvent

__all__ = ["FINAL", "INVALID", "is_of_agent", "steps_record"]

#: The actions of steps that call nothing.
FINAL, INVALID = "final_answer", "invalid"

#: Where agents work: what they use is told with their results.
_OF_AGENT = re.compile(r"call:[^/]+/agent(?:/|\Z)")

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "model_calls")


def steps_record(events: Iterable[StreamEvent], path: str) -> dict[str, Any]:
    """Fold the events of one visit of a `Delegate` into the record that it keeps.

    Args:
        events: any events; those of other nodes count for nothing.
        path: where the node ran.

    Returns:
        A JSON object. ``status``: ``finished``, ``stopped`` by a bound, ``blocked`` by a guard, or
        ``unfinished``. ``steps``: one for each decision, ``step_number``, ``round``, ``thought``,
        ``action`` (a tool, ``final_answer`` or ``invalid``), ``arguments``, ``observation``,
        ``status``, ``decided_by``, ``review``, ``duration_ms``. ``tool_calls``: one for each call
        that was carried out, ``tool_name``, ``arguments``, ``result``, ``error``, ``duration_ms``.
        ``delegations``: how many tasks agents were given. ``agents_used``: their names in the order
        of their first task. ``max_delegations_reached``. ``tokens``: ``prompt_tokens``,
        ``completion_tokens``, ``total_tokens``, ``model_calls`` and ``by_model``, the agents'
        included.
    """
    fold = _Fold()
    beneath = f"{path}/"
    for event in events:
        if event.path == path or event.path.startswith(beneath):
            fold.add(event, event.path.removeprefix(beneath) if event.path != path else "")
    return fold.record()


def is_of_agent(path: str) -> bool:
    """Say whether a path beneath that of the node is of an agent that it gave a task to."""
    return _OF_AGENT.match(path) is not None


class _Fold:
    def __init__(self) -> None:
        self.status = "unfinished"
        self.reached = False
        self.steps: list[dict[str, Any]] = []
        self.calls: dict[str, dict[str, Any]] = {}
        self.agents: list[str] = []
        self.by_model: dict[str, dict[str, Any]] = {}

    def add(self, event: StreamEvent, path: str) -> None:
        """Add an event of ``path``, which is beneath that of the node."""
        data = event.data
        if event.type == "llm":
            # What came from a cache was paid for when it was asked.
            if not (is_of_agent(path) or data.get("cached")):
                asked = data.get("asked") or f"{data['provider']}/{data['model']}"
                self.use(asked, {"model_calls": 1, **data})
        elif "/" in path:
            return
        elif event.type == "route":
            self.decide(data)
        elif event.type == "tool_call":
            self.calls[data["id"]] = {
                "tool_name": data["name"],
                "arguments": dict(data["arguments"]),
                "result": "",
                "error": "",
                "duration_ms": 0.0,
            }
            if agent := data.get("agent"):
                self.agents.append(agent)
        elif event.type == "tool_result":
            self.observe(data)

    def decide(self, data: Mapping[str, Any]) -> None:
        if data["decided_by"] == "review":
            self.step(data["call"])["review"] = data["proposal"]
        if data["decided_by"] != "review" or data["proposal"] == "revise":
            self.steps.append(
                {
                    "step_number": len(self.steps) + 1,
                    "round": data["round"],
                    "thought": data["thought"],
                    "action": data["action"],
                    "arguments": dict(data["arguments"]),
                    "observation": data["observation"],
                    "status": data["status"],
                    "decided_by": data["decided_by"],
                    "review": "",
                    "duration_ms": 0.0,
                    "call": data["next"],
                }
            )
        elif data["observation"]:
            step = self.step(data["call"])
            step["observation"], step["status"] = data["observation"], data["status"]
        if data["action"] == FINAL:
            self.status = data["status"]
        self.reached = self.reached or data["decided_by"] == "max_delegations"

    def observe(self, data: Mapping[str, Any]) -> None:
        call, step = self.calls[data["id"]], self.step(data["id"])
        call["duration_ms"] = step["duration_ms"] = data["duration_ms"]
        call["error" if data["error"] else "result"] = data["text"]
        step["observation"] = data["text"]
        step["status"] = data.get("status") or ("error" if data["error"] else "ok")
        for model, counts in (data.get("usage") or {}).items():
            self.use(model, counts)

    def step(self, call: str) -> dict[str, Any]:
        return next(step for step in reversed(self.steps) if step["call"] == call)

    def use(self, model: str, counts: Mapping[str, Any]) -> None:
        entry = self.by_model.setdefault(model, dict.fromkeys(_COUNTS, 0))
        for name in _COUNTS:
            entry[name] += counts.get(name) or 0
        if counts.get("cost") is not None:
            entry["cost"] = entry.get("cost", 0.0) + counts["cost"]

    def record(self) -> dict[str, Any]:
        totals = {name: sum(counts[name] for counts in self.by_model.values()) for name in _COUNTS}
        steps = [{k: v for k, v in step.items() if k != "call"} for step in self.steps]
        return {
            "status": self.status,
            "steps": steps,
            "tool_calls": list(self.calls.values()),
            "delegations": len(self.agents),
            "agents_used": list(dict.fromkeys(self.agents)),
            "max_delegations_reached": self.reached,
            "tokens": {**totals, "by_model": self.by_model},
        }
