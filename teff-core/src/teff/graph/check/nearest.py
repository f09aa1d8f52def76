"""`NearestNames`: which name was meant, asked many times about the same names."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from teff.errors import suggest

__all__ = ["NearestNames"]

#: How many names are compared to the letter on either side, where there are many.
_BESIDE = 16


class NearestNames:
    """What `suggest` says, for one wrong name after another.

    Comparing every wrong name with every known one costs the product of both. Of many names only
    those are compared that stand next to the wrong one in the order of their beginnings, or of their
    endings: a slip of the pen leaves one of the two as it is.

    >>> names = NearestNames(f"{word}_{number}" for word in ("price", "total") for number in range(99))
    >>> names.suggest("prise_12"), names.suggest("unknown")
    (" Did you mean 'price_12'?", '')

    Args:
        names: the known ones.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = names
        self._orders: tuple[Sequence[tuple[str, str]], ...] | None = None
        self._said: dict[str, str] = {}

    def suggest(self, name: str) -> str:
        """Return what `teff.errors.suggest` returns for it."""
        if name not in self._said:
            self._said[name] = suggest(name, self._candidates(name))
        return self._said[name]

    def _candidates(self, name: str) -> Iterable[str]:
        if self._orders is None:  # made where something is wrong, so seldom
            names = dict.fromkeys(self._names)
            self._orders = (
                sorted((each.casefold(), each) for each in names),
                sorted((each.casefold()[::-1], each) for each in names),
            )
        found: dict[str, None] = {}
        for order, sought in zip(
            self._orders, (name.casefold(), name.casefold()[::-1]), strict=True
        ):
            place = bisect_left(order, (sought, ""))
            beside = order[max(0, place - _BESIDE) : place + _BESIDE]
            found |= dict.fromkeys(each for _, each in beside)
        return found
