"""What becomes of a model call when its server fails, held against rules that are written here.

The rules are those of the project, not read off the code: what passes is tried again, twice; what
does not is handed to the fallback; 400, 401 and 403 are neither; and once a token was shown nobody
is asked again.
"""

from __future__ import annotations

from functools import cache

import pytest
from tests.faults.matrix import AFTER, BEFORE, NOTHING, Cell, Failure, Seen, seen
from tests.faults.write_matrix import PAGE, block_in, label, row, tables

WRITE = "write the page anew: python tests/faults/write_matrix.py"

AGAIN = {"once": "retry, then answer", "always": "fallback", "alone": "error"}
TO_THE_NEXT = {"once": "fallback", "always": "fallback", "alone": "error"}
NEVER = {"once": "error", "always": "error", "alone": "error"}

#: By the name of the failure; for those before a token was shown.
RULES = {
    "400": NEVER,
    "401": NEVER,
    "402": TO_THE_NEXT,
    "403": NEVER,
    "404": TO_THE_NEXT,
    "408": AGAIN,
    "409": AGAIN,
    "413": TO_THE_NEXT,
    "422": TO_THE_NEXT,
    "429 without Retry-After": AGAIN,
    "429 with Retry-After: 1": AGAIN,
    "429 insufficient_quota": TO_THE_NEXT,
    "429 with Retry-After: 600": TO_THE_NEXT,
    "500": AGAIN,
    "502": AGAIN,
    "503": AGAIN,
    "529": AGAIN,
    "connection refused": AGAIN,
    "connection reset": AGAIN,
    "no answer within the timeout": AGAIN,
    "200 with HTML": AGAIN,
    "200 with an empty body": AGAIN,
    "200 with an error in it": AGAIN,
    "200 with the error 503 in it": AGAIN,
    "200 with the error 401 in it": NEVER,
    "200 with the error insufficient_quota in it": TO_THE_NEXT,
    "200 cut off": AGAIN,
    "200, then the connection breaks": AGAIN,
    "200, then silence": AGAIN,
    "200 with broken JSON": AGAIN,
}

#: With which error each ends, after a token was shown. A stream that stops is incomplete.
ERRORS_AFTER = {
    "200 with an error in it": "ProviderError",
    "200 with the error 503 in it": "ProviderError",
    "200 with the error 429 in it": "ProviderError",
    "200 cut off": "IncompleteStream",
    "200, then the connection breaks": "IncompleteStream",
    "200, then silence": "IncompleteStream",
    "stream ended without its last event": "IncompleteStream",
    "200 with broken JSON": "ProviderError",
}

#: Failures that end a stream before it was whole; every other one is a `ProviderError` and no more.
CUT = {
    "200 with an empty body",
    "200 cut off",
    "200, then the connection breaks",
    "200, then silence",
}


def named(failure: Failure) -> str:
    return failure.name


def test_every_failure_has_a_rule() -> None:
    assert {failure.name for failure in BEFORE} == set(RULES)
    assert {failure.name for failure in AFTER} == set(ERRORS_AFTER)


def test_where_nothing_fails_there_is_an_answer_and_one_server_is_asked() -> None:
    for cell, found in seen(NOTHING).items():
        assert (found.outcome, found.first, found.second) == ("answer", cell.calls, 0)
        assert bool(found.shown) == (cell.way == "stream")
    assert row_of_the_page(NOTHING, False) == row(NOTHING, False), WRITE


@pytest.mark.parametrize("failure", BEFORE, ids=named)
def test_before_a_token_was_shown(failure: Failure) -> None:
    rule = RULES[failure.name]
    for cell, found in seen(failure).items():
        expected = rule[cell.situation]
        if expected == "error":
            assert found.outcome in errors_of(failure, cell), cell
            assert found.shown == ""
        else:
            assert found.outcome == expected, cell
        check_counts(failure, cell, found, passes=rule is AGAIN)
    assert row_of_the_page(failure, False) == row(failure, False), WRITE


def errors_of(failure: Failure, cell: Cell) -> set[str]:
    if cell.way == "stream" and failure.name in CUT:
        return {"error: IncompleteStream"}
    if cell.way == "stream" and failure.name == "200 with HTML":
        return {"error: ProviderError", "error: IncompleteStream"}
    return {"error: ProviderError"}


def check_counts(failure: Failure, cell: Cell, found: Seen, *, passes: bool) -> None:
    """Look at how often either server was asked: there is one owner of retries, and it tries twice."""
    tries = 3 if passes else 1
    if cell.situation == "once" and passes:
        asked = (cell.calls + 1, 0, 1, 0)
    elif found.outcome != "fallback":
        asked = (tries, 0, tries - 1, 0)
    else:
        # Who answered is asked in the rounds of tools that follow.
        asked = (tries if cell.situation == "always" else 1, cell.calls, tries - 1, 1)
    first, *others = asked
    if failure.refuses:
        first = cell.calls if cell.situation == "once" else 0
    assert (found.first, found.second, found.retries, found.fallbacks) == (first, *others), cell


@pytest.mark.parametrize("failure", AFTER, ids=named)
def test_after_a_token_was_shown_nobody_is_asked_again(failure: Failure) -> None:
    for cell, found in seen(failure, shown=True).items():
        assert found.outcome == f"error: {ERRORS_AFTER[failure.name]}", cell
        assert (found.first, found.second, found.retries, found.fallbacks) == (1, 0, 0, 0), cell
        assert found.shown == cell.begun, cell
    assert row_of_the_page(failure, True) == row(failure, True), WRITE


def test_what_the_server_asks_to_wait_is_waited_and_else_the_wait_doubles() -> None:
    by_name = {failure.name: failure for failure in BEFORE}
    for cell, found in seen(by_name["429 with Retry-After: 1"]).items():
        assert set(found.waits) == {1.0}, cell
    for cell, found in seen(by_name["503"]).items():
        if cell.situation == "alone":
            short, long = found.waits
            assert 0.375 <= short <= 0.5
            assert 0.75 <= long <= 1.0


@cache
def rows_of_the_page() -> tuple[list[str], list[str]]:
    """Return the rows of the two tables on the page."""
    before, _, after = block_in(PAGE.read_text(encoding="utf-8")).partition("\nAfter ")
    return before.splitlines(), after.splitlines()


def row_of_the_page(failure: Failure, shown: bool) -> str:
    lines = rows_of_the_page()[shown]
    return next((line for line in lines if line.startswith(label(failure))), label(failure))


def test_the_page_has_the_rows_of_every_failure_and_no_others() -> None:
    assert block_in(PAGE.read_text(encoding="utf-8")) == tables(row_of_the_page), WRITE
