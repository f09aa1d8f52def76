"""What a part of a run uses: counted where the calls are made, wherever in the run they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from teff.messages import ModelUsage, Usage

__all__ = ["count_metered", "metered"]

_METERS: ContextVar[tuple[Usage, ...]] = ContextVar("teff_meters", default=())


@contextmanager
def metered() -> Iterator[Usage]:
    """Count the tokens of the model calls that are answered within, also in tasks begun there.

    >>> with metered() as used:
    ...     count_metered("p/m", ModelUsage(prompt_tokens=3, completion_tokens=1))
    >>> used.total_tokens
    4
    """
    used = Usage()
    token = _METERS.set((*_METERS.get(), used))
    try:
        yield used
    finally:
        _METERS.reset(token)


def count_metered(model: str, used: ModelUsage, cost: float | None = None) -> None:
    """Add what one answered call used and cost; ``model`` is ``provider/model``."""
    for usage in _METERS.get():
        usage.add_model_tokens(model, used, cost)
