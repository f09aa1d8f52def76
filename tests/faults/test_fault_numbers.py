"""Every reported fault that the project knows by a number has a test under it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: The reports on providers and their servers. All of them concern a client: where the fault is the
#: server's, the client has to live with what it sends.
NUMBERS = range(1, 78)

#: The reports on structured output, streams and conversations.
IDS = [
    "sto_01",
    "sto_03",
    "sto_05",
    "sto_07",
    "sto_09",
    "sto_10",
    "sto_12",
    "sto_13",
    "sto_15",
    "str_01",
    "str_04",
    "str_05",
    "str_07",
    "str_09",
    "msg_01",
    "msg_02",
    "msg_04",
    "msg_05",
    "msg_07",
    "msg_09",
]


@cache
def names_of_tests() -> frozenset[str]:
    """Return the names of all test functions of the workspace."""
    files = [*ROOT.glob("teff-*/tests/**/test_*.py"), *ROOT.glob("tests/**/test_*.py")]
    return frozenset(
        name
        for file in files
        for name in re.findall(
            r"^(?:async )?def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE
        )
    )


@cache
def numbers() -> frozenset[int]:
    """Return the numbers in names like ``test_fault_19_and_21_…``."""
    told = [re.match(r"test_fault((?:_(?:and_)?\d\d(?!\d))+)_", name) for name in names_of_tests()]
    return frozenset(int(n) for match in told if match for n in re.findall(r"\d\d", match[1]))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_numbered_fault_has_a_test(number: int) -> None:
    assert number in numbers(), f"no test is called test_fault_{number:02}_…"


@pytest.mark.parametrize("name", IDS)
def test_a_reported_fault_has_a_test(name: str) -> None:
    assert any(re.match(rf"test_(?:\w+_and_)?{name}_", each) for each in names_of_tests())


def test_no_test_has_a_number_that_nobody_gave() -> None:
    assert numbers() <= set(NUMBERS)
    told = {
        found for each in names_of_tests() for found in re.findall(r"(?:sto|str|msg)_\d\d", each)
    }
    assert told <= set(IDS)
