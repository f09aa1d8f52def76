"""What the recorded model calls of a part of a run have used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from teff.messages import ModelUsage, Usage
from teff.runtime import ExecContext

__all__ = ["recorded_usage"]


def recorded_usage(ctx: ExecContext, *, without: Callable[[str], bool] | None = None) -> Usage:
    """Return what was used beneath a step before the run was resumed, as the journal has it.

    Args:
        ctx: of the step.
        without: says of a path beneath that of the step that it does not count.
    """
    used = Usage()
    journal = ctx.run.journal
    if journal is None:
        return used
    beneath = f"{ctx.path}/"
    for path, value in journal.values.items():
        if not path.startswith(beneath) or (without and without(path.removeprefix(beneath))):
            continue
        for answer in _answers(path, value):
            model, tokens = str(answer["asked"]), ModelUsage(**answer["usage"])
            used.add_model_tokens(model, tokens, ctx.run.cost(model, tokens))
    return used


def _answers(path: str, value: Any) -> Iterator[Mapping[str, Any]]:
    """Give the paid answers of a recorded call: the one that was taken, and those before it."""
    if path.rpartition("/")[2].startswith("llm:") and isinstance(value, Mapping):
        yield from value.get("before", ())
        if "asked" in value:
            yield value
