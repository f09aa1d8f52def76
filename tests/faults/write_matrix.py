"""Write the fault matrix into the page on providers: ``python tests/faults/write_matrix.py``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.faults.matrix import Cell, Failure, Seen

__all__ = ["PAGE", "block_in", "label", "row", "tables", "with_block"]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "providers.md"
BEGIN, END = "<!-- fault matrix: begin -->", "<!-- fault matrix: end -->"

_PREFACE = (
    "The runs are those of a node with `openai` and with `ollama`, of streams and of whole answers, for a text,",
    "with tools and with a schema, with the default of two retries; where they differ, the table says so.",
    "`python tests/faults/write_matrix.py` writes it.",
)
_HEADS = {
    "once": "it fails once",
    "always": "it goes on, and there is a fallback",
    "alone": "it goes on, without a fallback",
}
#: By what outcomes may differ, in the order in which the table tries to tell them apart.
_DIMENSIONS: Sequence[tuple[Callable[[Cell], str], Mapping[str, str]]] = (
    (lambda cell: cell.way, {"stream": "in a stream", "plain": "for a whole answer"}),
    (lambda cell: cell.dialect.name, {"openai": "with `openai`", "ollama": "with `ollama`"}),
    (
        lambda cell: f"{cell.way}, {cell.dialect.name}",
        {
            "stream, openai": "in a stream of `openai`",
            "stream, ollama": "in a stream of `ollama`",
            "plain, openai": "for a whole answer of `openai`",
            "plain, ollama": "for a whole answer of `ollama`",
        },
    ),
    (
        lambda cell: cell.request,
        {"plain": "for a text", "tools": "with tools", "schema": "with a schema"},
    ),
)


def tables(row_of: Callable[[Failure, bool], str]) -> str:
    """Return what stands between the marks, with the rows that ``row_of`` gives.

    Args:
        row_of: takes a failure, and whether it comes after a token was shown.
    """
    from tests.faults.matrix import AFTER, BEFORE, NOTHING

    lines = [
        *_PREFACE,
        "",
        "Before a token was shown, and whenever the answer is not streamed:",
        "",
        f"| the server | {' | '.join(_HEADS.values())} |",
        "|---|" + "---|" * len(_HEADS),
        *(row_of(failure, False) for failure in (NOTHING, *BEFORE)),
        "",
        "After a token of a stream was shown nobody is asked again, with a fallback or without:",
        "",
        "| the server | what comes of it |",
        "|---|---|",
        *(row_of(failure, True) for failure in AFTER),
    ]
    return "\n".join(lines)


def row(failure: Failure, shown: bool) -> str:
    """Run a failure, and return the row that tells of it."""
    from tests.faults.matrix import seen

    found = seen(failure, shown=shown)
    if shown:
        return f"{label(failure)} {_outcome(found)} |"
    texts = [_outcome({c: s for c, s in found.items() if c.situation == one}) for one in _HEADS]
    return f"{label(failure)} {' | '.join(texts)} |"


def label(failure: Failure) -> str:
    """Return how the row of a failure begins."""
    return f"| {failure.name}{f' (`{failure.only}`)' if failure.only else ''} |"


def block_in(page: str) -> str:
    """Return what a page has between the two marks."""
    return page.partition(BEGIN)[2].partition(END)[0].strip()


def with_block(page: str, tables: str) -> str:
    """Return a page with ``tables`` between the two marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{rest.partition(END)[2]}"


def _outcome(found: Mapping[Cell, Seen]) -> str:
    """Say what became of some cells: in a word, or by that in which they differ."""
    outcomes = {cell: _written(seen.outcome) for cell, seen in found.items()}
    usual, *others = [outcome for outcome, _ in Counter(outcomes.values()).most_common()]
    if not others:
        return usual
    for value_of, words in _DIMENSIONS:
        groups: dict[str, set[str]] = {}
        for cell, outcome in outcomes.items():
            groups.setdefault(value_of(cell), set()).add(outcome)
        if all(len(group) == 1 for group in groups.values()):
            told = {value: outcome for value, (outcome,) in groups.items()}
            parts = [f"{told[v]} {words[v]}" for v in told if told[v] != usual]
            return f"{', '.join(parts)}, else {usual}"
    raise AssertionError(f"these outcomes differ by more than the table can say: {outcomes}")


def _written(outcome: str) -> str:
    kind, _, name = outcome.partition(": ")
    return f"`{name}`" if name else kind


def main() -> None:
    sys.path.insert(0, str(ROOT))
    target = Path(sys.argv[1]) if sys.argv[1:] else PAGE
    page = target.read_text(encoding="utf-8") if target.exists() else f"{BEGIN}\n{END}\n"
    target.write_text(with_block(page, tables(row)), encoding="utf-8")


if __name__ == "__main__":
    main()
