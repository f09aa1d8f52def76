"""The page of the node types has them all, and the page of the Python side every way to add them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teff import Flow
from teff.graph import RunOptions
from teff.plugins.builtin import BUILTINS

DOCS = Path(__file__).resolve().parents[2] / "docs"
NODES = (DOCS / "nodes.md").read_text(encoding="utf-8")
PYTHON = (DOCS / "python.md").read_text(encoding="utf-8")

#: The sections of the page by their titles.
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!^## ).*\n)*)", NODES, flags=re.MULTILINE))


def section_of(node_type: str) -> str:
    """Return the title of the section on a node type, or ""."""
    return next((title for title in SECTIONS if f"`{node_type}`" in title), "")


@pytest.mark.parametrize("node_type", sorted(BUILTINS["teff.nodes"]))
def test_every_node_type_has_a_section_with_one_program(node_type: str) -> None:
    title = section_of(node_type)
    assert title, f"docs/nodes.md has no section on {node_type!r}"
    assert SECTIONS[title].count("\n```python\n") == 1


@pytest.mark.parametrize("title", SECTIONS)
def test_options_are_left_to_the_page_of_workflow_files(title: str) -> None:
    assert "\n|" not in SECTIONS[title]


def test_the_contents_name_every_section() -> None:
    contents = NODES.partition("\n## ")[0]
    anchors = set(re.findall(r"\]\(#([^)]+)\)", contents))
    assert anchors == {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in SECTIONS
    }


def first_cells(text: str, head: str) -> str:
    """Return the first column of the table that begins with a head."""
    table = text.partition(f"| {head} |")[2].partition("\n\n")[0]
    return "\n".join(re.findall(r"^\| (.+?) \|", table, flags=re.MULTILINE))


def test_every_method_of_a_flow_is_listed() -> None:
    methods = {
        name for name in dir(Flow) if not name.startswith("_") and callable(getattr(Flow, name))
    }
    assert set(re.findall(r"`(\w+)", first_cells(PYTHON, "method"))) == methods


def test_every_option_of_a_run_is_listed() -> None:
    listed = set(re.findall(r"`(\w+)`", first_cells(PYTHON, "option")))
    assert listed == set(RunOptions.__annotations__)
