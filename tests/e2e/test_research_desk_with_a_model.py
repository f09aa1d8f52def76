"""The research desk on a real model: in this process, and over HTTP on a llama.cpp server.

What bounds and guards promise is asserted, not what the model says: it has 135 million parameters.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from teff import RunResult
from teff.node.delegation import steps_record
from teff.provider import ChatDelta, ChatReply, ChatRequest, Provider, ProviderRegistry
from teff.runtime import StreamEvent

pytestmark = pytest.mark.e2e

PROGRAM = Path(__file__).parents[2] / "examples" / "research_desk" / "desk.py"
STATUSES = {"ok", "error", "blocked", "rejected", "refused", "invalid", "finished", "stopped"}


def ask(**options: Any) -> tuple[RunResult, list[StreamEvent]]:
    """Have the question of the example answered; return the result and the events."""
    spec = importlib.util.spec_from_file_location("example_research_with_a_model", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    events: list[StreamEvent] = []
    result = asyncio.run(module.research(module.QUESTION, emit=events.append, **options))
    return result, events


class Opened:
    """A real model whose first reply stands here, so that the agents get to work."""

    def __init__(self, model: Provider, first: str) -> None:
        self.name = "opened"
        self.capabilities = attrs.evolve(model.capabilities, streaming=False, tools=False)
        self._model, self._first = model, [first]

    async def chat(self, request: ChatRequest) -> ChatReply:
        if self._first:
            return ChatReply(text=self._first.pop(), model=request.model)
        return await self._model.chat(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        yield ChatDelta(reply=await self.chat(request))

    async def aclose(self) -> None:
        await self._model.aclose()


def assert_desk_is_within_its_bounds(result: RunResult, events: list[StreamEvent]) -> None:
    record = result["output_steps"]
    steps, by_agent = record["steps"], {"delegate_to_search": 4, "delegate_to_writer": 3}
    carried_out = [call["tool_name"] for call in record["tool_calls"]]
    # Bounded: tasks in all and of each agent, and rounds, each of which spends at least one of them.
    assert record["delegations"] == len(carried_out) <= 6
    assert all(carried_out.count(name) <= most for name, most in by_agent.items())
    assert steps[-1]["round"] <= 7
    # Known: how every step and the run ended.
    assert {step["status"] for step in steps} <= STATUSES
    assert [step["step_number"] for step in steps] == [*range(1, len(steps) + 1)]
    assert steps[-1]["action"] == "final_answer"
    if result["output_forced"]:
        assert (result.status, result.stop_reason) == ("stopped", "max_delegations")
    else:
        assert (result.status, result.stop_reason) == ("finished", "end")
    assert record["max_delegations_reached"] is result["output_forced"]
    assert record["status"] == result.status
    assert steps[-1]["observation"] == result["output"]
    # Consistent: the record is that of the events, and counts each call of the model.
    assert json.loads(json.dumps(steps_record(events, "desk/1"))) == record
    calls = sum(event.type == "llm" for event in events)
    assert result.usage.model_calls == record["tokens"]["model_calls"] == calls
    # Guarded: no address gets out of an agent.
    assert all("@leafandpot" not in step["observation"] for step in steps[:-1])
    assert events[-1].type == "run_end"


def test_a_question_is_answered_in_this_process(model_path: Path) -> None:
    assert_desk_is_within_its_bounds(*ask())


def test_a_question_is_answered_through_an_openai_compatible_server(llama_server: str) -> None:
    providers = ProviderRegistry({"openai": {"type": "openai", "base_url": llama_server}})
    options = {"providers": providers, "default_provider": "openai", "default_model": "local"}
    assert_desk_is_within_its_bounds(*ask(**options))


def test_agents_that_are_given_a_task_do_it_under_guard_and_review(llama_server: str) -> None:
    tasks = "".join(
        f'ACTION: delegate_to_{name}\nACTION_INPUT: {{"message": "Green tea: how hot?"}}\n'
        for name in ("search", "writer")
    )
    model = ProviderRegistry({"openai": {"type": "openai", "base_url": llama_server}})
    providers = {"opened": Opened(model.resolve("openai"), tasks)}
    options = {"default_provider": "opened", "default_model": "local", "providers": providers}
    result, events = ask(**options)
    assert_desk_is_within_its_bounds(result, events)
    search, writer = result["output_steps"]["steps"][:2]
    assert search["action"] == "delegate_to_search"
    assert search["status"] in {"ok", "blocked", "rejected", "error"}
    assert search["status"] != "ok" or ".md" in search["observation"]
    assert writer["action"] == "delegate_to_writer"
    assert writer["status"] in {"ok", "rejected", "error"}


def test_the_program_prints_its_steps_and_the_answer(model_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, "How hot is the water for green tea?"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1. ")
    assert "final_answer: " in done.stdout
    assert "Traceback" not in done.stderr
