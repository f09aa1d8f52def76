from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pathlib import Path

import pytest

import teff
from teff import errors

SOURCE = ast.parse(Path(teff.__file__).read_text(encoding="utf-8"))


def names_for_type_checkers() -> dict[str, str]:
    (block,) = [
        statement
        for statement in SOURCE.body
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
    ]
    return {
        alias.name: statement.module or ""
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def test_type_checkers_and_programs_are_offered_the_same():
    offered = names_for_type_checkers()
    assert offered == teff._HOME_OF
    assert sorted([*offered, "__version__"]) == sorted(teff.__all__)
    assert len(set(teff.__all__)) == len(teff.__all__)


@pytest.mark.parametrize("name", [name for name in teff.__all__ if name != "__version__"])
def test_every_public_name_is_there(name):
    value = getattr(teff, name)
    assert value is getattr(import_module(teff._HOME_OF[name]), name)
    assert name in dir(teff)


def test_every_error_is_public():
    known = {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    assert known <= set(teff.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'teff' has no attribute 'Grahp'"):
        teff.Grahp  # noqa: B018 - the access is what is tested
