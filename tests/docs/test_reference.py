"""The reference in docs/ is complete, and its examples do what they say."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import attrs
import click
import pytest

from teff.cli.app import app
from teff.flow import agent_step
from teff.node.transform_actions import ACTIONS
from teff.plugins import hookspecs
from teff.runtime import Limits
from teff.runtime.events import EventType
from teff.workflow import loads
from teff.workflow.classic import EDGE, NODE
from teff.workflow.document import KEYS
from teff.workflow.hooks import HOOKS
from teff.workflow.pieces import LEADER
from teff.workflow.sections import STATE
from teff.workflow.steps import IDIOMS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
WORKFLOW_FILES = PAGES["workflow_files.md"]
COMMAND_LINE = PAGES["command_line.md"]

#: Idioms that have the options of others, and a table of their own only for the rest.
OTHERS = {"extract": "llm", "harness": "agent"}

_BLOCK = re.MULTILINE | re.DOTALL


def section(text: str, title: str) -> str:
    """Return what stands under a heading, up to the next one of its level or above."""
    found = re.search(rf"^(#+) `?{re.escape(title)}`?\n", text, flags=re.MULTILINE)
    assert found, f"there is no heading {title!r}"
    after = text[found.end() :]
    # A comment in an example is no heading.
    prose = re.sub(r"^```.*?^```$", lambda block: " " * len(block[0]), after, flags=_BLOCK)
    end = re.search(rf"^#{{1,{len(found[1])}}} ", prose, flags=re.MULTILINE)
    return after[: end.start() if end else len(after)]


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells of the tables in ``text`` by each name in backticks of their first cell.

    Where a name stands twice, the first row counts.
    """
    found: dict[str, list[str]] = {}
    for line in re.findall(r"^\| (`.*) \|$", text, flags=re.MULTILINE):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        for name in re.findall(r"`([^`]+)`", cells[0]):
            found.setdefault(name, cells)
    return found


def option_rows(idiom: str) -> dict[str, list[str]]:
    """Return the rows of an idiom's options, with those of the tables that it points to."""
    text = section(WORKFLOW_FILES, idiom)
    found = rows(text)
    if "(#options-of-a-model-call)" in text:
        found = rows(section(WORKFLOW_FILES, "Options of a model call")) | found
    if "(#options-of-tool-calls)" in text:
        found = rows(section(WORKFLOW_FILES, "Options of tool calls")) | found
    return found


def blocks(language: str) -> list[Any]:
    """Return the fenced blocks of ``language`` in every page."""
    return [
        pytest.param(block, id=f"{name}-{number}")
        for name, text in PAGES.items()
        for number, block in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```$", text, flags=_BLOCK), 1
        )
    ]


def as_written(default: object) -> str:
    """Return how a table writes a default."""
    if default is None:
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, str | tuple | dict | list) and not default:
        return "empty"
    return f"`{default}`"


def defaults_of(*classes: type) -> dict[str, str]:
    """Return the defaults of options as a table writes them."""
    found = {}
    for field in (field for cls in classes for field in attrs.fields(cls)):
        default = field.default
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class at run time
            default = default.factory()
        found[field.name] = "required" if default is attrs.NOTHING else as_written(default)
    return found | {"id": "made up"}


# Workflow files.


@pytest.mark.parametrize("idiom", IDIOMS)
def test_every_idiom_has_a_section_with_an_example(idiom: str) -> None:
    assert re.search(rf"^  - {idiom}:", section(WORKFLOW_FILES, idiom), flags=re.MULTILINE)


@pytest.mark.parametrize("idiom", IDIOMS)
def test_the_table_of_an_idiom_has_its_options_and_no_others(idiom: str) -> None:
    options = set(IDIOMS[idiom].keys)
    listed = set(option_rows(idiom))
    if idiom in OTHERS:
        listed |= set(option_rows(OTHERS[idiom]))
    if idiom == "transform":
        listed -= set(ACTIONS) - options
    if idiom == "team":  # its leader's options may stand there too
        options -= set(LEADER) - {"finish", "finish_token"}
    if idiom == "extract":  # they are what `schema` stands for
        listed -= {"json_schema", "output_type"}
    assert listed == options


@pytest.mark.parametrize(
    "idiom", [name for name, idiom in IDIOMS.items() if name != "team" and idiom.about]
)
def test_the_defaults_of_options_are_those_of_the_code(idiom: str) -> None:
    listed = option_rows(idiom)
    classes = [source for source in reversed(IDIOMS[idiom].about) if isinstance(source, type)]
    defaults = defaults_of(*(cls for cls in classes if attrs.has(cls)))
    for option in listed.keys() & defaults.keys() - set(IDIOMS[idiom].parts):
        own = (idiom, option) in {("extract", "input_key"), ("interrupt_loop", "id")}
        if not own and listed[option][-1] != "required" and idiom not in ("extract", "agent_step"):
            assert listed[option][-1] == defaults[option], option


def test_the_defaults_of_agent_step_are_those_of_the_function() -> None:
    listed = option_rows("agent_step")
    for option, parameter in inspect.signature(agent_step).parameters.items():
        default = parameter.default
        if default not in (None, inspect.Parameter.empty) and option != "config":
            assert listed[option][-1] == as_written(default), option


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_of_transform_is_listed(action: str) -> None:
    assert action in rows(section(WORKFLOW_FILES, "transform"))


def test_every_key_of_a_workflow_file_is_listed() -> None:
    assert set(rows(section(WORKFLOW_FILES, "Top level"))) == set(KEYS)
    assert set(rows(section(WORKFLOW_FILES, "Nodes and edges"))) == {*NODE, *EDGE}
    assert set(rows(section(WORKFLOW_FILES, "State"))) >= set(STATE)


def test_every_hook_of_a_workflow_file_is_listed() -> None:
    assert set(rows(section(WORKFLOW_FILES, "Hooks"))) == set(HOOKS)


def test_every_limit_is_listed() -> None:
    assert set(rows(section(WORKFLOW_FILES, "Limits"))) == Limits.names()


@pytest.mark.parametrize("text", blocks("yaml"))
def test_workflows_load(text: str) -> None:
    assert re.search("^steps:", text, flags=re.MULTILINE)
    for package, plugin in (
        ("teff_providers_openai", "type: openai"),
        ("teff_tools_web", "fetch_url"),
    ):
        if plugin in text:
            pytest.importorskip(package)
    loads(text)


# Python.


@pytest.mark.parametrize("program", blocks("python"))
def test_programs_print_what_their_comments_say(program: str, tmp_path: Path) -> None:
    expected = re.findall(r"^(?: *print\(.*\)  )?# (.*)$", program, flags=re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == expected


def test_every_event_is_listed() -> None:
    listed = rows(section(PAGES["python.md"], "Stream"))
    assert set(listed) == set(typing.get_args(EventType))


def test_every_hook_is_listed_with_its_arguments() -> None:
    listed = rows(section(PAGES["python.md"], "Write a hook plugin"))
    hooks = {name for name in hookspecs.__all__ if name.startswith("teff_")}
    assert set(listed) == hooks
    for name in hooks:
        arguments = list(inspect.signature(getattr(hookspecs, name)).parameters)
        assert re.findall(r"`(\w+)`", listed[name][-1]) == arguments


# The command line.


def commands() -> dict[str, click.Command]:
    """Return every command by its name."""
    context = click.Context(app)
    assert isinstance(app, click.Group)
    found = {name: app.get_command(context, name) for name in app.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_is_described_with_all_of_its_options(name: str) -> None:
    listed = set(rows(section(COMMAND_LINE, f"teff {name}")))
    options = {
        word
        for parameter in commands()[name].params
        if isinstance(parameter, click.Option)
        for word in parameter.opts
    }
    assert {word for word in listed if word.startswith("-")} == options
    assert f"\n| [`{name}`](#teff-{name}) |" in COMMAND_LINE


def test_every_option_of_the_command_itself_is_described() -> None:
    before = COMMAND_LINE.partition("\n## ")[0]
    options = {word for parameter in app.params for word in parameter.opts}
    assert {"-h", "--help", *options} == {word for word in rows(before) if word.startswith("-")}


# Links.


@pytest.mark.parametrize("name", sorted(PAGES))
def test_links_lead_to_pages_and_headings(name: str) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)]+)\)", PAGES[name]):
        file, _, anchor = target.partition("#")
        path = DOCS / file if file else DOCS / name
        assert path.exists(), target
        headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}
        assert not anchor or anchor in anchors, target


def test_the_readme_names_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in PAGES if f"](docs/{name})" not in readme] == []
