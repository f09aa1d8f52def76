"""What the READMEs promise is so: their examples run, their commands are those of CI."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETUP = "python3 -m venv .venv && .venv/bin/pip install nox && .venv/bin/nox"
READMES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("teff-*/README.md"))
TEXTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *READMES]


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of ``language``."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def examples(language: str) -> list[object]:
    """Return the blocks of ``language`` in every text, each under the text's name."""
    return [
        pytest.param(block, id=name)
        for name in TEXTS
        for block in blocks((ROOT / name).read_text(encoding="utf-8"), language)
    ]


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_readme_shows_a_workflow_and_a_program() -> None:
    assert len(blocks(README, "yaml")) == 1
    assert len(blocks(README, "python")) == 1


@pytest.mark.parametrize("program", examples("python"))
def test_python_examples_print_what_their_comments_say(program: str, tmp_path: Path) -> None:
    expected = re.findall(r"^print\(.*\)  # (.*)$", program, flags=re.MULTILINE)
    done = run(tmp_path, sys.executable, "-W", "error", "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize("workflow", examples("yaml"))
def test_workflow_examples_are_sound(workflow: str, tmp_path: Path) -> None:
    (tmp_path / "flow.yaml").write_text(workflow, encoding="utf-8")
    done = run(tmp_path, Path(sys.executable).with_name("teff"), "check", "flow.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_two_commands_stand_in_the_readme_as_ci_runs_them() -> None:
    commands = [block.strip() for block in blocks(README, "sh")]
    assert f'{SETUP} -s demo -- "I was charged twice on my last invoice"' in commands
    assert f"{SETUP} -s tests" in commands
    assert f"bash -c '{SETUP} -s tests'" in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_readme_lists_every_distribution() -> None:
    distributions = {path.parent.name for path in ROOT.glob("teff-*/pyproject.toml")}
    assert set(re.findall(r"^\| \[`(teff-[a-z-]+)`\]", README, flags=re.MULTILINE)) == distributions


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", text)
    missing = [target for target in targets if not (ROOT / name).parent.joinpath(target).exists()]
    assert missing == []
