"""The release coordinator, with a model whose answers stand here: the policy, the gate, the bound."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from teff import RunResult, Supervisor
from teff.checkpoint import MemoryCheckpointer
from teff.messages import message_text, user
from teff.runtime import StreamEvent
from teff.testing import ScriptedProvider

PROGRAM = (
    Path(__file__).resolve().parents[2] / "examples" / "release_coordinator" / "coordinator.py"
)
AGENTS = ["plan", "test", "fix", "notes", "approve", "release"]


def load_coordinator() -> Any:
    spec = importlib.util.spec_from_file_location("example_release_coordinator", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Release:
    """A release that is stored, the model that leads it, and the person who is asked."""

    def __init__(self, *script: Any, answers: tuple[Any, ...] = ()) -> None:
        self.model = ScriptedProvider(script)
        self.events: list[StreamEvent] = []
        self.questions: list[str] = []
        self._answers = list(answers)
        self._store = MemoryCheckpointer()

    def run(self) -> RunResult:
        result: RunResult = asyncio.run(
            load_coordinator().release("Release 2.1", self._answer, **self.options)
        )
        return result

    def _answer(self, question: str) -> str:
        self.questions.append(question)
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return str(answer)

    @property
    def options(self) -> dict[str, Any]:
        return {
            "providers": {"local": self.model},
            "checkpointer": self._store,
            "emit": self.events.append,
        }

    @property
    def routes(self) -> list[str]:
        return [event.data["route"] for event in self.events if event.type == "route"]

    def told(self, request: int) -> str:
        return "\n".join(map(message_text, self.model.requests[request].messages))


def lead() -> Supervisor:
    node = load_coordinator().release_flow().nodes["lead"]
    assert isinstance(node, Supervisor)
    return node


def states() -> list[dict[str, Any]]:
    values: dict[str, tuple[Any, ...]] = {
        "plan": (None, "Search."),
        "tests": (None, "green", "test_login failed"),
        "notes": (None, "New: search."),
        "approval": (None, "", "Ship!", "leave the login out"),
        "released": (None, "New: search."),
    }
    combinations = itertools.product(*values.values())
    pairs = [zip(values, combination, strict=True) for combination in combinations]
    return [{key: value for key, value in pair if value is not None} for pair in pairs]


@pytest.mark.parametrize("proposal", [*AGENTS, "finish", "", "nobody"])
def test_no_proposal_gets_past_the_policy(proposal: str) -> None:
    node = lead()
    for state in states():
        before = dict(state)
        route = node.decide(state, proposal)
        assert state == before
        assert route in node.vocabulary
        if state.get("released"):
            assert route == "finish"
            continue
        assert route != "finish"
        if route in {"notes", "approve", "release"}:
            assert state["tests"] == "green"
        if route in {"approve", "release"}:
            assert state["notes"]
        if route == "release":
            assert state["approval"] == "Ship!"
        if state.get("approval") in {"", "leave the login out"}:
            assert route == "plan"


def test_the_flow_has_no_problems() -> None:
    pytest.importorskip("teff_providers_local")
    graph = load_coordinator().release_flow().compile()
    assert graph.check(known_keys=["messages"]) == []


def test_a_rejection_leads_back_to_planning_and_ship_to_the_release() -> None:
    first = ["Search and login.", "fix", "Close the session.", "New: search and login.", "approve"]
    second = ["Search alone.", "New: search.", "approve"]
    release = Release(*first, *second, answers=("Leave the login out.", "Ship!"))
    result = release.run()
    assert (result["released"], result.stop_reason) == ("New: search.", "done_keys")
    before = ["plan", "test", "fix", "test", "notes", "approve"]
    after = ["plan", "test", "notes", "approve", "release", "finish"]
    assert release.routes == before + after
    assert [question.partition("\n")[0] for question in release.questions] == [first[3], second[1]]
    assert "Remark of the approver:\nLeave the login out." in release.told(5)
    release.model.assert_done()


def test_the_model_chooses_where_the_policy_leaves_a_choice() -> None:
    script = ["All.", "plan", "Without the login.", "fix", "Repair.", "Short.", "notes", "Better."]
    release = Release(*script, "approve", answers=("ship",))
    assert release.run()["released"] == "Better."
    chosen = [
        event.data["route"]
        for event in release.events
        if event.type == "route" and event.data["decided_by"] == "model"
    ]
    assert chosen == ["plan", "fix", "notes", "approve"]


def test_what_the_policy_forbids_is_not_done() -> None:
    release = Release("All.", "release", "Repair.", "Notes.", "release", answers=("ship",))
    assert release.run()["released"] == "Notes."
    way = ["plan", "test", "fix", "test", "notes", "approve", "release", "finish"]
    assert release.routes == way
    decided = [event.data["decided_by"] for event in release.events if event.type == "route"]
    assert decided == ["policy"] * 7 + ["done_keys"]


def test_a_release_that_waits_goes_on_in_another_program() -> None:
    script = ["All.", "fix", "Repair.", "Notes.", "approve"]
    release = Release(*script, answers=(EOFError("nobody is there"), "ship"))
    with pytest.raises(EOFError):
        release.run()
    asked = len(release.model.requests)
    assert release.run()["released"] == "Notes."
    assert len(release.model.requests) == asked
    assert release.questions[0] == release.questions[1]
    assert release.routes[-2:] == ["release", "finish"]


def test_tests_that_never_pass_end_it_without_a_release() -> None:
    def red(ctx: object, state: Mapping[str, Any]) -> dict[str, Any]:
        return {"tests": "test_login failed"}

    release = Release("All.", *["fix", "Repair."] * 9)
    graph = load_coordinator().release_flow(test=red).compile()
    state = {"messages": [user("Release 2.1")]}
    result = asyncio.run(graph.run(state, checkpoint_id="red", **release.options))
    assert (result.status, result.stop_reason) == ("stopped", "max_rounds")
    assert "released" not in result
    assert len(release.routes) == 20
    release.model.assert_done()
