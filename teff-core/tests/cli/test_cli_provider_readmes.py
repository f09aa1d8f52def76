"""The workflows in the READMEs of the providers work with ``--message``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teff.workflow import loads

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", ["local", "ollama", "openai"])
def test_a_readme_shows_a_workflow_that_a_message_is_enough_for(name):
    readme = (ROOT / f"teff-providers-{name}" / "README.md").read_text(encoding="utf-8")
    texts = re.findall(r"```yaml\n(.*?)```", readme, flags=re.DOTALL)
    assert texts
    for text in texts:
        workflow = loads(text, environment=dict.fromkeys(re.findall(r"\$\{(\w+)", text), "x"))
        assert "{input}" in text
        assert workflow.check() == []
