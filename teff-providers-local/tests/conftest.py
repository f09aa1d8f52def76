"""A stand-in for the engine, so that the provider is tested without a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from teff_providers_local import LocalProvider, worker
from teff_providers_local.engine import EngineSettings
from teff_providers_local.model import ENVIRONMENT_VARIABLE

Event = Mapping[str, Any]
OnEvent = Callable[[Event], bool]
Script = Callable[[Event, OnEvent], None]


def text_event(text: str) -> Event:
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}]}


def end_event(reason: str = "stop") -> Event:
    return {"choices": [{"delta": {}, "finish_reason": reason}]}


def usage_event(prompt: int, completion: int) -> Event:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"choices": [], "usage": {**usage, "total_tokens": prompt + completion}}


def say(*words: str) -> Script:
    """An engine that answers with these words, each an event, and ends as llama.cpp does."""

    def script(request: Event, on_event: OnEvent) -> None:
        events = [*map(text_event, words), end_event(), usage_event(7, len(words))]
        for event in events:
            if on_event(event):
                return

    return script


class FakeEngines:
    """Loads fake engines in place of real ones, and records what happens to them."""

    def __init__(self) -> None:
        self.loaded: list[EngineSettings] = []
        self.closed: list[EngineSettings] = []
        self.requests: list[Event] = []
        self.script: Script = say("Hello", " there", ".")
        self.load_error: Exception | None = None
        self.said_stop = threading.Event()

    def load(self, settings: EngineSettings) -> FakeEngine:
        if self.load_error is not None:
            raise self.load_error
        self.loaded.append(settings)
        return FakeEngine(self, settings)

    def endless(self, request: Event, on_event: OnEvent) -> None:
        """A script that goes on until it is told to stop."""
        while not on_event(text_event("and ")):
            self.said_stop.wait(0.001)
        self.said_stop.set()


class FakeEngine:
    def __init__(self, engines: FakeEngines, settings: EngineSettings) -> None:
        self.engines = engines
        self.settings = settings

    def complete(self, request: Event, on_event: OnEvent) -> None:
        self.engines.requests.append(request)
        self.engines.script(request, on_event)

    def close(self) -> None:
        self.engines.closed.append(self.settings)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngines]:
    fakes = FakeEngines()
    monkeypatch.setattr(worker, "load_engine", fakes.load)
    yield fakes
    worker._close_all()


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """A file that looks like a model."""
    path = tmp_path / "Tiny-Model.Q4_0.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00")
    return path


@pytest.fixture
def provider(engines: FakeEngines, gguf: Path, monkeypatch: pytest.MonkeyPatch) -> LocalProvider:
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    return LocalProvider(model_path=str(gguf))
