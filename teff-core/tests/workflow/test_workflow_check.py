"""What `Workflow.check` says of files: the place of each finding, and nothing of good files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teff.workflow import CODES, Finding, load, loads

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted(ROOT.glob("examples/**/*.yaml"))
PAGES = [page for page in [*ROOT.glob("docs/*.md"), *ROOT.glob("*.md")] if page.is_file()]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in sorted(PAGES)
    for number, block in enumerate(
        re.findall(
            r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
        )
    )
    if "steps:" in block and "include:" not in block  # the others are parts of a file
]


def findings(text: str) -> list[Finding]:
    found = loads(text, environment={}).check()
    assert {finding.code for finding in found} <= CODES.keys()
    return found


def only(text: str) -> Finding:
    (finding,) = findings(text)
    return finding


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.parent.name))
def test_examples_are_clean(path: Path) -> None:
    assert load(path, environment={}).check() == []


@pytest.mark.parametrize("block", BLOCKS)
def test_what_the_documentation_shows_is_clean(block: str) -> None:
    # Some of them read what is given on the command line.
    assert {finding.code for finding in findings(block)} <= {"unwritten-key"}


def test_a_dead_end_has_the_place_of_the_step_that_it_follows() -> None:
    finding = only(
        """
steps:
  - transform: {id: sort, action: lowercase, input_key: input, output_key: kind}
  - branch:
      key: kind
      cases:
        - {value: bill, steps: [transform: {action: now}]}
"""
    )
    assert (finding.code, finding.severity, finding.node) == ("missing-default", "warning", "sort")
    assert (finding.line, finding.column) == (3, 5)
    assert "'kind' is missing" in finding.message


def test_what_is_wrong_with_an_edge_has_the_place_of_the_edge() -> None:
    text = """
steps:
  - {id: a, type: transform, config: {action: now, output_key: kind}}
  - {id: b, type: transform, config: {action: now}}
  - {id: c, type: transform, config: {action: now}}
edges:
  - {from: a, to: b, condition: knid=x}
  - from: a
    to: b
    condition: kind!=null
  - {from: a, to: c}
  - {from: a, to: b}
"""
    found = {finding.code: (finding.line, finding.column) for finding in findings(text)}
    assert found == {
        "unwritten-condition-key": (7, 22),
        "condition-trap": (10, 5),
        "shadowed-edge": (12, 5),
    }


def test_a_branch_with_a_default_is_no_dead_end() -> None:
    assert not findings(
        """
steps:
  - transform: {id: sort, action: lowercase, input_key: input, output_key: kind}
  - branch:
      key: kind
      cases:
        - {value: bill, steps: [transform: {action: now}]}
      default: [transform: {action: now}]
"""
    )


def test_two_cases_that_are_told_apart_by_case_alone() -> None:
    finding = only(
        """
steps:
  - transform: {id: sort, action: lowercase, input_key: input, output_key: kind}
  - branch:
      key: kind
      cases:
        - {value: bill, steps: [transform: {action: now}]}
        - {value: Bill, steps: [transform: {action: now}]}
      default: [transform: {action: now}]
"""
    )
    assert finding.code == "shadowed-edge"


def test_a_model_that_is_sent_the_whole_state() -> None:
    finding = only("default_provider: ollama\ndefault_model: m\nsteps:\n  - llm: {}\n")
    assert (finding.code, finding.line) == ("whole-state-prompt", 4)
    assert finding.node in str(finding)


def test_every_missing_model_is_told_of() -> None:
    text = "steps:\n  - llm: {id: a, prompt: x}\n  - llm: {id: b, prompt: x, provider: ollama}\n"
    assert [finding.line for finding in findings(text)] == [2, 2, 3]


def test_a_tool_that_asks_a_person_is_always_there() -> None:
    text = "default_provider: ollama\ndefault_model: m\nsteps:\n  - agent: {use_tools: [ask_human]}"
    assert findings(text) == []


def test_branches_that_write_one_key() -> None:
    finding = only(
        """
steps:
  - parallel:
      id: both
      branches:
        - [transform: {action: now, output_key: x}]
        - [transform: {action: now, output_key: x}]
"""
    )
    assert (finding.code, finding.node, finding.line) == ("colliding-writes", "both", 3)


def test_a_team_and_an_agent_are_clean() -> None:
    assert not findings(
        """
default_provider: ollama
default_model: m
steps:
  - team:
      roles:
        a: {system: Help., output_key: one}
        b: {system: Help., output_key: two}
  - agent: {use_tools: []}
"""
    )


def test_checking_asks_nobody_and_changes_nothing() -> None:
    workflow = loads("state: {initial: {log: []}}\nsteps: [transform: {action: now}]")
    assert workflow.check() == workflow.check() == []
    assert workflow.initial == {"log": []}


def test_codes_are_explained() -> None:
    assert all(line.endswith(".") for line in CODES.values())
