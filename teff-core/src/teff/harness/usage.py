"""What the recorded model calls of a part of a run have used."""

from __future__ import annotations

from collections.abc import Callable

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
        if "asked" in _reply(path, value):
            model, tokens = str(value["asked"]), ModelUsage(**value["usage"])
            used.add_model_tokens(model, tokens, ctx.run.cost(model, tokens))
    return used


def _reply(path: str, value: object) -> dict[str, object]:
    is_reply = path.rpartition("/")[2].startswith("llm:")
    return value if is_reply and isinstance(value, dict) else {}
