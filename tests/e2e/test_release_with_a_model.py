"""The release coordinator on a real model: in this process, and over HTTP on a llama.cpp server.

What policy and guards promise is asserted, not what the model says: it has 135 million parameters.
"""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from teff import RunResult
from teff.provider import ProviderRegistry
from teff.runtime import StreamEvent

pytestmark = pytest.mark.e2e

PROGRAM = Path(__file__).parents[2] / "examples" / "release_coordinator" / "coordinator.py"
ALLOWED_AFTER = {
    "plan": {"test"},
    "test": {"fix", "plan", "notes"},
    "fix": {"test"},
    "notes": {"notes", "approve"},
    "approve": {"plan", "release"},
    "release": set[str](),
}


def release(*answers: str, **options: Any) -> tuple[RunResult, list[StreamEvent], list[str]]:
    """Run a release; return its result, its events, and the answers that nobody asked for."""
    spec = importlib.util.spec_from_file_location("example_release_with_a_model", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    events: list[StreamEvent] = []
    left = list(answers)
    options["emit"] = events.append
    run = module.release(module.REQUEST, lambda question: left.pop(0), **options)
    return asyncio.run(run), events, left


def assert_release_is_within_its_bounds(
    result: RunResult, events: list[StreamEvent], left: list[str]
) -> None:
    routes = [event.data["route"] for event in events if event.type == "route"]
    ran, last = routes[:-1], routes[-1]
    assert last == "finish"
    assert ran[0] == "plan"
    assert len(routes) <= 20
    # An agent may come again where it wrote nothing; else the policy says what follows.
    steps = zip(ran, ran[1:], strict=False)
    assert all(after == before or after in ALLOWED_AFTER[before] for before, after in steps)
    if "released" in result:
        assert (result.status, result.stop_reason) == ("finished", "done_keys")
        assert ran[-2:] == ["approve", "release"]
        assert left == []
        rejected = ran.index("approve")
        assert ran[rejected + 1] == "plan"
    else:
        assert result.status == "stopped"
        assert result.stop_reason in {"max_rounds", "no_progress"}
    # Every model call is told of; those of resumed stretches count in one and the same run.
    calls = [event for event in events if event.type in ("llm", "llm_retry")]
    assert result.usage.model_calls == len(calls)


def test_a_release_is_led_in_this_process(model_path: Path) -> None:
    assert_release_is_within_its_bounds(*release("Leave the login out.", "ship"))


def test_a_release_is_led_through_an_openai_compatible_server(llama_server: str) -> None:
    providers = ProviderRegistry(
        {
            "openai": {
                "type": "openai",
                "base_url": llama_server,
                "quirks": {"choices": "grammar"},
            }
        }
    )
    options = {"providers": providers, "default_provider": "openai", "default_model": "local"}
    assert_release_is_within_its_bounds(*release("Leave the login out.", "ship", **options))


def test_the_program_asks_on_the_terminal(model_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, "Release 3.0: dark mode."],
        input="Mention the printer.\n" + "ship\n" * 2,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "] released: " in done.stdout
    assert "Traceback" not in done.stderr
