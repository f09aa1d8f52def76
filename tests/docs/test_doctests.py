"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def module_names() -> list[str]:
    """Return every module of the distributions but those that run when imported."""
    names = []
    for source in ROOT.glob("teff-*/src"):
        for path in source.rglob("*.py"):
            parts = path.relative_to(source).with_suffix("").parts
            if parts[-1] != "__main__":
                names.append(".".join(part for part in parts if part != "__init__"))
    return sorted(names)


def load(name: str) -> ModuleType:
    """Import a module; skip the test where a package is missing that is not ours or not here."""
    if find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"the distribution of {name} is not installed")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing.startswith("teff"):
            raise
        pytest.skip(f"{name} needs {missing}, which is not installed")


@pytest.mark.parametrize("name", module_names())
def test_docstring_examples(name: str) -> None:
    module = load(name)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in doctest.DocTestFinder().find(module, name):
        runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)
