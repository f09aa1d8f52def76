from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import teff
from teff import errors

#: The packages whose names load their modules when they are first asked for.
LAZY = ["teff", "teff.flow", "teff.node", "teff.runtime", "teff.schema", "teff.state", "teff.tool"]


def homes(package: ModuleType) -> dict[str, str]:
    return {name: home for home, names in package._HOMES.items() for name in names}


def names_for_type_checkers(package: ModuleType) -> dict[str, str]:
    source = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    (block,) = [
        statement
        for statement in source.body
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
    ]
    return {
        alias.name: statement.module or ""
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


@pytest.mark.parametrize("name", LAZY)
def test_type_checkers_and_programs_are_offered_the_same(name):
    package = import_module(name)
    offered = names_for_type_checkers(package)
    assert offered == homes(package)
    assert offered.keys() <= set(package.__all__)
    assert len(set(package.__all__)) == len(package.__all__)


def test_everything_that_teff_offers_is_lazy():
    assert sorted([*homes(teff), "__version__"]) == sorted(teff.__all__)


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_is_there(package):
    module = import_module(package)
    for name, home in homes(module).items():
        assert getattr(module, name) is getattr(import_module(home), name)
        assert name in dir(module)
    for name in module.__all__:
        assert hasattr(module, name)


def test_every_error_is_public():
    known = {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    assert known <= set(teff.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'teff' has no attribute 'Grahp'"):
        teff.Grahp  # noqa: B018 - the access is what is tested
