"""The support desk on a real model: in this process, and over HTTP on a llama.cpp server.

Shapes are asserted, not wording: the model has 135 million parameters.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from teff.messages import last_assistant_message
from teff.provider import ProviderRegistry
from teff.runtime import StreamEvent
from teff.workflow import load

pytestmark = pytest.mark.e2e

FLOW = Path(__file__).parents[2] / "examples" / "support_desk" / "flow.yaml"
QUESTION = "I was charged twice on my last invoice"
AGENTS = {"billing", "technical"}


def events_of(**options: Any) -> list[StreamEvent]:
    async def collect() -> list[StreamEvent]:
        workflow = load(FLOW)
        async with workflow.graph as graph:
            state = workflow.start(QUESTION, None)
            return [event async for event in graph.stream(state, **options)]

    return asyncio.run(collect())


def assert_desk_answered(events: list[StreamEvent]) -> None:
    end = events[-1]
    assert end.type == "run_end"
    assert end.data["status"] == "finished"
    assert end.data["stop_reason"] == "done_keys"
    state = end.data["state"]

    routes = [event.data for event in events if event.type == "route"]
    assert routes[0]["route"] in AGENTS
    assert routes[-1]["route"] == "finish"
    assert len(routes) <= 4
    assert all(route["round"] <= 4 for route in routes)

    tokens = [event for event in events if event.type == "token"]
    assert len(tokens) > 1
    assert "".join(event.data["token"] for event in tokens) == state["answer"]
    assert state["answer"].strip()
    assert last_assistant_message(state["messages"]) == state["answer"]

    calls = [event for event in events if event.type == "llm"]
    assert end.data["usage"].model_calls == len(calls) == 2
    assert end.data["usage"].total_tokens > 0


def test_the_desk_answers_in_this_process() -> None:
    assert_desk_answered(events_of())


def test_the_desk_answers_through_an_openai_compatible_server(llama_server: str) -> None:
    providers = ProviderRegistry(
        {
            "openai": {
                "type": "openai",
                "base_url": llama_server,
                "quirks": {"choices": "grammar"},
            }
        }
    )
    events = events_of(providers=providers, default_provider="openai", default_model="local")
    assert_desk_answered(events)
    assert {event.data["provider"] for event in events if event.type == "llm"} == {"openai"}


def test_the_command_line_answers_through_the_server(llama_server: str) -> None:
    command = [sys.executable, "-m", "teff", "run", str(FLOW), "--message", QUESTION, "--json"]
    options = ["--provider", "openai", "--base-url", llama_server, "--model", "local"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "finished"
    assert result["state"]["answer"].strip()
    assert "Traceback" not in done.stderr
