"""The repair chat on a real model: in this process, and over HTTP on a llama.cpp server.

What the guards promise is asserted, not what the model says: it has 135 million parameters.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from teff import TurnResult
from teff.checkpoint import MemoryCheckpointer
from teff.provider import ProviderRegistry
from teff.runtime import StreamEvent
from teff.workflow import load

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[2] / "examples" / "repair_chat"
MESSAGES = ["When do you open?", "My brakes squeak and do not stop.", "How much was that?"]
PIPELINE = ["diagnose", "parts", "quote"]


def turns_of(**options: Any) -> list[tuple[TurnResult, list[StreamEvent]]]:
    """Return what came of each message, and the events of its turn."""

    async def chat() -> list[tuple[TurnResult, list[StreamEvent]]]:
        workflow, store = load(EXAMPLE / "flow.yaml"), MemoryCheckpointer()
        turns = []
        async with workflow.graph as graph:
            for message in MESSAGES:
                events: list[StreamEvent] = []
                turn = await graph.turn(
                    message,
                    checkpointer=store,
                    checkpoint_id="chat",
                    state=workflow.initial,
                    emit=events.append,
                    **options,
                )
                turns.append((turn, events))
        return turns

    return asyncio.run(chat())


def assert_turn_is_within_its_bounds(turn: TurnResult, events: list[StreamEvent]) -> None:
    routes = [event.data["route"] for event in events if event.type == "route"]
    ran, last = routes[:-1], routes[-1]
    assert last == "finish"
    assert 1 <= len(ran) <= 4
    assert {*ran} <= {"direct", *PIPELINE}
    assert [event.data["round"] for event in events if event.type == "route"] == [
        *range(1, len(routes) + 1)
    ]
    assert turn.state["supervisor_rounds"] == len(routes)
    if turn.stop_reason == "done_keys":
        assert "direct" in ran
        assert turn.state["answer"]
    elif turn.stop_reason == "fill_order" and turn.state.get("diagnosis"):
        # An agent may come again where it wrote nothing; from the last diagnosis on there is an order.
        begun = len(ran) - 1 - ran[::-1].index("diagnose")
        assert [*dict.fromkeys(ran[begun:])] == PIPELINE
    else:
        assert turn.stop_reason in {"fill_order", "max_rounds", "no_progress"}
    calls = sum(event.type in ("llm", "llm_retry") for event in events)
    assert turn.usage.model_calls == calls <= 12
    assert events[-1].type == "run_end"


def assert_chat_is_within_its_bounds(turns: list[tuple[TurnResult, list[StreamEvent]]]) -> None:
    assert len(turns) == len(MESSAGES)
    for turn, events in turns:
        assert_turn_is_within_its_bounds(turn, events)
    state = turns[-1][0].state
    assert [m["content"] for m in state["messages"] if m["role"] == "user"] == MESSAGES
    assert state["catalogue"]["chain"] == "25 EUR"


def test_the_workshop_chats_in_this_process(model_path: Path) -> None:
    assert_chat_is_within_its_bounds(turns_of())


def test_the_workshop_chats_through_an_openai_compatible_server(llama_server: str) -> None:
    providers = ProviderRegistry(
        {
            "openai": {
                "type": "openai",
                "base_url": llama_server,
                "quirks": {"choices": "grammar"},
            }
        }
    )
    turns = turns_of(providers=providers, default_provider="openai", default_model="local")
    assert_chat_is_within_its_bounds(turns)


def test_the_program_replies_to_each_line(model_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE / "chat.py"],
        input="\n\n".join(MESSAGES),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert sum(line.startswith("[") for line in done.stdout.splitlines()) >= len(MESSAGES)
    assert "Traceback" not in done.stderr
