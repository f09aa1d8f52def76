"""What ``nox -s build`` has built: each wheel and sdist holds what its user needs, and no more."""

from __future__ import annotations

import configparser
import os
import tarfile
import tomllib
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

if "TEFF_BUILT" not in os.environ:
    pytest.skip("reads the folder TEFF_BUILT: run `nox -s packaging`", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ["TEFF_BUILT"])
DISTRIBUTIONS = sorted(path.parent.name for path in ROOT.glob("teff-*/pyproject.toml"))

each_distribution = pytest.mark.parametrize("name", DISTRIBUTIONS)


def import_name(name: str) -> str:
    return "teff" if name == "teff-core" else name.replace("-", "_")


def project(name: str) -> dict[str, Any]:
    table = tomllib.loads((ROOT / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert isinstance(table, dict)
    return table


def built(name: str, ending: str) -> Path:
    found = list(BUILT.glob(f"{name.replace('-', '_')}-*{ending}"))
    assert len(found) == 1, f"expected one {ending} of {name} in {BUILT}, found {found}"
    return found[0]


def wheel_files(name: str) -> dict[PurePosixPath, bytes]:
    with ZipFile(built(name, ".whl")) as wheel:
        return {PurePosixPath(entry): wheel.read(entry) for entry in wheel.namelist()}


def wheel_information(name: str, file: str) -> str:
    """Return the text of a file of the wheel's dist-info folder, or ""."""
    texts = [
        text
        for path, text in wheel_files(name).items()
        if path.parts[0].endswith(".dist-info") and path.parts[1:] == PurePosixPath(file).parts
    ]
    return texts[0].decode() if texts else ""


def metadata(name: str) -> Message:
    return HeaderParser().parsestr(wheel_information(name, "METADATA"))


@each_distribution
def test_wheel_holds_exactly_the_files_of_its_source_folder(name: str) -> None:
    source = ROOT / name / "src"
    in_source = {
        PurePosixPath(path.relative_to(source).as_posix())
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    in_wheel = {path for path in wheel_files(name) if not path.parts[0].endswith(".dist-info")}
    assert in_wheel == in_source


@each_distribution
def test_wheel_has_one_top_level_package(name: str) -> None:
    tops = {path.parts[0] for path in wheel_files(name)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {import_name(name)}


@each_distribution
def test_wheel_is_typed(name: str) -> None:
    assert PurePosixPath(import_name(name), "py.typed") in wheel_files(name)


@each_distribution
def test_wheel_has_no_tests(name: str) -> None:
    tests = [
        str(path)
        for path in wheel_files(name)
        if "tests" in path.parts or path.name == "conftest.py" or path.name.startswith("test_")
    ]
    assert tests == []


@each_distribution
def test_wheel_carries_the_licence_of_the_project(name: str) -> None:
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert wheel_information(name, "licenses/LICENSE") == licence
    assert metadata(name)["License-Expression"] == "MIT"


@each_distribution
def test_wheel_shows_the_readme(name: str) -> None:
    readme = (ROOT / name / "README.md").read_text(encoding="utf-8")
    assert metadata(name).get_payload() == readme


@each_distribution
def test_wheel_runs_on_every_platform_from_the_oldest_supported_python(name: str) -> None:
    assert built(name, ".whl").name.endswith("-py3-none-any.whl")
    assert metadata(name)["Requires-Python"] == ">=3.11"


@each_distribution
def test_entry_points_in_the_wheel_are_those_of_the_project(name: str) -> None:
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment]  # names are case-sensitive
    parser.read_string(wheel_information(name, "entry_points.txt"))
    in_wheel = {group: dict(parser[group]) for group in parser.sections()}

    declared = dict(project(name).get("entry-points", {}))
    if scripts := project(name).get("scripts"):
        declared["console_scripts"] = scripts
    assert in_wheel == declared


def test_all_distributions_have_the_same_version() -> None:
    versions = {name: metadata(name)["Version"] for name in DISTRIBUTIONS}
    assert len(set(versions.values())) == 1, versions


@each_distribution
def test_requirements_on_siblings_allow_the_version_built_beside_them(name: str) -> None:
    required = [Requirement(line) for line in metadata(name).get_all("Requires-Dist", [])]
    siblings = [requirement for requirement in required if requirement.name in DISTRIBUTIONS]
    assert name == "teff-core" or [sibling.name for sibling in siblings] == ["teff-core"]
    for sibling in siblings:
        assert sibling.specifier.contains(metadata(sibling.name)["Version"]), str(sibling)


@each_distribution
def test_sdist_holds_sources_tests_readme_and_licence(name: str) -> None:
    with tarfile.open(built(name, ".tar.gz")) as sdist:
        inside = {PurePosixPath(*PurePosixPath(entry).parts[1:]) for entry in sdist.getnames()}
    for folder in ("src", "tests"):
        for path in (ROOT / name / folder).rglob("*.py"):
            assert PurePosixPath(path.relative_to(ROOT / name).as_posix()) in inside
    assert {PurePosixPath("README.md"), PurePosixPath("LICENSE")} <= inside
