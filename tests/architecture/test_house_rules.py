"""What every distribution and every module of the workspace keeps to."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = sorted(path.parent.name for path in ROOT.glob("teff-*/pyproject.toml"))
MODULES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("teff-*/src/**/*.py"))
LONGEST_FILE = 450

each_distribution = pytest.mark.parametrize("name", DISTRIBUTIONS)


def project(name: str) -> dict[str, Any]:
    table = tomllib.loads((ROOT / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert isinstance(table, dict)
    return table


def import_name(name: str) -> str:
    return "teff" if name == "teff-core" else name.replace("-", "_")


def package(name: str) -> Path:
    return ROOT / name / "src" / import_name(name)


def parse(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"), str(module))


def assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield name and value of what a module assigns at its top level."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from (
                    (name.id, statement.value)
                    for name in ast.walk(target)
                    if isinstance(name, ast.Name)
                )
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.value


def version(name: str) -> str:
    values = dict(assignments(parse(package(name) / "__init__.py")))
    found = values["__version__"]
    assert isinstance(found, ast.Constant)
    return str(found.value)


def test_the_workspace_has_its_distributions() -> None:
    assert {
        "teff-core",
        "teff-providers-local",
        "teff-providers-ollama",
        "teff-providers-openai",
        "teff-tools-web",
    } <= set(DISTRIBUTIONS)


@each_distribution
def test_each_distribution_is_typed(name: str) -> None:
    assert (package(name) / "py.typed").is_file()


@each_distribution
def test_each_distribution_holds_one_package(name: str) -> None:
    folders = [path.name for path in (ROOT / name / "src").iterdir() if path.is_dir()]
    assert [folder for folder in folders if folder != "__pycache__"] == [import_name(name)]


@each_distribution
def test_each_distribution_supports_the_same_pythons_under_the_same_licence(name: str) -> None:
    assert project(name)["requires-python"] == ">=3.11"
    assert project(name)["license"] == "MIT"
    ours, theirs = ROOT / "LICENSE", ROOT / name / "LICENSE"
    assert theirs.read_text(encoding="utf-8") == ours.read_text(encoding="utf-8")


@each_distribution
def test_versions_move_together(name: str) -> None:
    assert project(name)["dynamic"] == ["version"]
    assert version(name) == version("teff-core")


def requirements(name: str) -> list[Requirement]:
    """Return what a distribution requires, with what its extras require."""
    lines = [*project(name)["dependencies"]]
    for extra in project(name).get("optional-dependencies", {}).values():
        lines += extra
    return [Requirement(line) for line in lines]


def imported(name: str) -> Iterator[tuple[str, str]]:
    """Yield place and top-level package of all that a distribution imports."""
    for module in package(name).rglob("*.py"):
        for node in ast.walk(parse(module)):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                targets = [node.module or ""]
            else:
                continue
            place = f"{module.relative_to(ROOT)}:{node.lineno}"
            yield from ((place, target.partition(".")[0]) for target in targets)


@each_distribution
def test_siblings_meet_only_through_the_core(name: str) -> None:
    siblings = [required for required in requirements(name) if required.name in DISTRIBUTIONS]
    assert {required.name for required in siblings} == ({"teff-core"} - {name})
    for required in siblings:
        assert required.specifier.contains(version("teff-core"))


@each_distribution
def test_each_distribution_imports_only_what_it_requires(name: str) -> None:
    offered = {"pyyaml": "yaml", "teff-core": "teff"}
    known = {offered.get(required.name, required.name) for required in requirements(name)}
    known |= {import_name(name), *sys.stdlib_module_names}
    assert [f"{place}: {top}" for place, top in imported(name) if top not in known] == []


@pytest.mark.parametrize("module", MODULES)
def test_each_module_says_what_it_is_for(module: str) -> None:
    assert ast.get_docstring(parse(ROOT / module)), f"{module} has no docstring"


@pytest.mark.parametrize("module", MODULES)
def test_each_module_names_what_it_offers(module: str) -> None:
    tree = parse(ROOT / module)
    assigned = [name for name, _ in assignments(tree)]
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = [node.name for node in tree.body if isinstance(node, definitions)]
    public = [name for name in (*defined, *assigned) if not name.startswith("_")]
    assert not public or "__all__" in assigned, f"{module} defines {public} but no __all__"


@pytest.mark.parametrize("module", MODULES)
def test_each_module_has_one_subject(module: str) -> None:
    lines = len((ROOT / module).read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST_FILE, f"{module} has {lines} lines: is there a second subject in it?"
