"""The numbered faults about keys that others let out: in errors, in logs, in what is told of a run."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from typing import Any

import pytest
from tests.faults.asking import ask, without_waiting
from tests.faults.exchange import DIALECTS, Dialect, answer

from teff import RunTracer
from teff.errors import ConfigError, ProviderError
from teff.flow import Flow
from teff.runtime import Limits, StreamEvent
from teff.testing.server import ReplayServer, json_answer

KEYS = ("sk-first-canary-4711", "sk-second-canary-0815")

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def everything_said(error: BaseException | None) -> str:
    assert error is not None
    return "\n".join([repr(error), repr(vars(error)), *traceback.format_exception(error)])


def assert_hidden(*said: object) -> None:
    text = "\n".join(one if isinstance(one, str) else json.dumps(one, default=repr) for one in said)
    assert [key for key in KEYS if key in text] == []


@each_dialect
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [401, 403, 429, 500])
def test_fault_72_a_key_is_in_no_error_and_no_log(
    dialect: Dialect, status: int, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = json_answer(dialect.error(f"the key {KEYS[0]} is wrong"), status=status)
    asked = ask(dialect, echo, stream=stream, provider={"api_key": lambda: KEYS[0]})
    assert asked.requests[0].headers["authorization"] == f"Bearer {KEYS[0]}"
    assert isinstance(asked.error, ProviderError)
    assert_hidden(everything_said(asked.error), caplog.text, list(asked.events))


@each_dialect
def test_fault_72_a_key_in_the_address_is_refused_unseen(dialect: Dialect) -> None:
    with pytest.raises(ConfigError) as info:
        dialect.provider("p", f"http://127.0.0.1:9/v1?api_key={KEYS[0]}")
    assert_hidden(str(info.value), repr(info.value))


@each_dialect
def test_fault_73_the_error_after_all_fallbacks_shows_the_key_of_none(
    dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    events: list[StreamEvent] = []

    async def main() -> ProviderError:
        echoes = [json_answer(dialect.error(f"busy; key: {key}"), status=503) for key in KEYS]
        async with ReplayServer(echoes[0]) as first, ReplayServer(echoes[1]) as second:
            flow = Flow(
                providers={
                    "a": dialect.provider("a", first.url, api_key=lambda: KEYS[0]),
                    "b": dialect.provider("b", second.url, api_key=lambda: KEYS[1]),
                },
                default_provider="a",
                default_model="m",
            )
            graph = flow.llm(input_key="input", fallbacks=["b/m"]).compile()
            with pytest.raises(ProviderError) as info:
                await graph.run({"input": "Hi"}, emit=events.append)
            sent = [server.requests[0].headers["authorization"] for server in (first, second)]
            assert sent == [f"Bearer {key}" for key in KEYS], "each key went to its own server"
            return info.value

    with without_waiting():
        error = asyncio.run(main())
    assert any("Before it, a/m was asked" in note for note in error.__notes__)
    assert_hidden(everything_said(error), caplog.text, events)


@each_dialect
def test_fault_74_a_run_that_its_budget_ends_logs_no_key(
    dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tracer = RunTracer()
    calls = answer(dialect, "", [("look", {})], stream=True)

    def look() -> str:
        """Look."""
        return "there"

    asked = ask(
        dialect,
        calls,
        tools=[look],
        provider={"api_key": lambda: KEYS[0]},
        run={"limits": Limits(max_model_calls=1), "tracer": tracer},
    )
    assert asked.result.stop_reason == "max_model_calls"
    assert len(asked.requests) == 1
    kept: list[Any] = [tracer.timeline(), tracer.summary(), repr(asked.result)]
    assert_hidden(caplog.text, list(asked.events), *kept)
