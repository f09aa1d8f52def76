"""Skills and memories in workflow files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.testing import ScriptedProvider
from teff.workflow import load, loads


def skill(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(f"---\ndescription: About {name}.\n---\nText.")


@pytest.mark.parametrize(
    "step",
    [
        "llm: {prompt: Hi, skills: [tone]}",
        "llm: {prompt: Hi, skills: tone, skill_dir: skills}",
        "agent_step: {output_key: answer, system: Hi, skills: [tone]}",
        "type: {type: llm_chat, config: {prompt: Hi, skills: [tone]}}",
        "team: {max_rounds: 1, roles: {a: {system: Hi, skills: [tone]}}}",
    ],
)
def test_the_folder_of_skills_is_looked_for_beside_the_file(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill(tmp_path / "flows" / "skills", "tone")
    (tmp_path / "flows" / "flow.yaml").write_text(f"steps:\n  - {step}\n")
    monkeypatch.chdir(tmp_path)
    assert load("flows/flow.yaml").graph.nodes


def test_a_skill_that_is_not_there_has_its_place(tmp_path: Path) -> None:
    skill(tmp_path / "skills", "tone")
    with pytest.raises(ConfigError, match="no skill 'tome'.*'tone'") as caught:
        loads("steps:\n  - llm:\n      prompt: Hi\n      skills: [tome]\n", tmp_path)
    assert caught.value.line == 4


def test_memory_is_an_option_with_options() -> None:
    text = """\
steps:
  - llm:
      prompt: "{question}"
      memory: {store: in_memory, namespace: [users, "{user}"], k: 2}
"""
    workflow = loads(text)
    (node,) = workflow.graph.nodes.values()
    memory: Any = node.config["memory"]
    asyncio.run(memory.store.put(["users", "ada"], "1", {"text": "Ada likes green tea."}))
    model = ScriptedProvider(["Green."])
    asyncio.run(
        workflow.run(
            state={"question": "Which tea?", "user": "ada"},
            providers={"scripted": model},
            default_provider="scripted",
            default_model="m",
        )
    )
    assert "green tea" in str(model.requests[0].messages[0])
    with pytest.raises(ConfigError, match="namespce"):
        loads(text.replace("namespace", "namespce"))
