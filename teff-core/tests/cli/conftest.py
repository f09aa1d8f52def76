"""A folder with a workflow in it, and models whose answers the test writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from teff.cli import main
from teff.plugins import catalogue
from teff.testing.scripted import ScriptedAnswer, ScriptedProvider


class Done(NamedTuple):
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str


Teff = Callable[..., Done]


@pytest.fixture
def teff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Teff:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        written = capsys.readouterr()
        assert "Traceback" not in written.err
        return Done(code, written.out, written.err)

    return run


@pytest.fixture
def flow(tmp_path: Path) -> Callable[[str], str]:
    """Write a workflow file, and return its name."""

    def write(text: str) -> str:
        (tmp_path / "flow.yaml").write_text(text, encoding="utf-8")
        return "flow.yaml"

    return write


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ScriptedProvider]]:
    """Install the provider type ``scripted`` with the answers that are given."""
    providers: list[ScriptedProvider] = []

    def install(*answers: ScriptedAnswer) -> ScriptedProvider:
        provider = ScriptedProvider(answers)
        providers.append(provider)

        def make(name: str, base_url: str = "") -> ScriptedProvider:
            provider.name = name
            if base_url:
                provider.asked_at = f"{name}@{base_url}"
            return provider

        monkeypatch.setitem(catalogue()._objects, ("teff.providers", "scripted"), make)
        return provider

    yield install
    for provider in providers:
        provider.assert_done()
