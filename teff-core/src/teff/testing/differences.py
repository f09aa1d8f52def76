"""Whether a JSON value fits a recorded one, which one is nearest, and what differs between two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from teff.provider.keys import MASK

__all__ = ["differences", "fits", "nearest"]

_MISSING = object()
_CONTEXT = 20
_LENGTH = 60
_MOST = 4


def fits(recorded: Any, asked: Any) -> bool:
    """Say whether two JSON values are equal, where ``***`` in a recorded text may be any text.

    >>> fits(["use ***, please"], ["use sk-1, please"]), fits(["***"], [7])
    (True, False)
    """
    before, now = dict(_leaves(recorded)), dict(_leaves(asked))
    return not _differing(before, now)


def _leaf_fits(recorded: Any, asked: Any) -> bool:
    if not (isinstance(recorded, str) and isinstance(asked, str) and MASK in recorded):
        return bool(recorded == asked)
    first, *middle, last = recorded.split(MASK)
    place = len(first)
    for part in middle:
        found = asked.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return asked.startswith(first) and asked.endswith(last) and len(asked) >= place + len(last)


def nearest(value: Any, candidates: Sequence[Any]) -> int:
    """Return the place of the candidate that differs from ``value`` in the fewest places."""
    wanted = dict(_leaves(value))
    return min(
        range(len(candidates)),
        key=lambda place: len(_differing(dict(_leaves(candidates[place])), wanted)),
    )


def differences(recorded: Any, asked: Any) -> str:
    """Say where two JSON values differ, the first few places, each with both values.

    >>> differences({"messages": [{"content": "Hi"}]}, {"messages": [{"content": "Ho"}]})
    "messages[0].content was 'Hi' and is 'Ho'"
    """
    before, now = dict(_leaves(recorded)), dict(_leaves(asked))
    places = _differing(before, now)
    told = []
    for place in places[:_MOST]:
        old, new = _around(before.get(place, _MISSING), now.get(place, _MISSING))
        told.append(f"{place} was {old} and is {new}")
    if len(places) > _MOST:
        told.append(f"{len(places) - _MOST} more places differ")
    return "; ".join(told)


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key in value:
            yield from _leaves(value[key], f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def _differing(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    return [
        path
        for path in dict.fromkeys([*recorded, *asked])
        if not _leaf_fits(recorded.get(path, _MISSING), asked.get(path, _MISSING))
    ]


def _around(old: Any, new: Any) -> tuple[str, str]:
    """Return both values as they are shown: long texts from shortly before they part."""
    start = 0
    if isinstance(old, str) and isinstance(new, str) and max(len(old), len(new)) > _LENGTH:
        start = max(0, _length_in_common(old, new) - _CONTEXT)
    return _excerpt(old, start), _excerpt(new, start)


def _length_in_common(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    parted = (place for place, (left, right) in enumerate(pairs) if left != right)
    return next(parted, min(len(one), len(other)))


def _excerpt(value: Any, start: int) -> str:
    if value is _MISSING:
        return "not there"
    if not isinstance(value, str):
        return repr(value)
    end = "…" if len(value) > start + _LENGTH else ""
    return repr(f"{'…' if start else ''}{value[start : start + _LENGTH]}{end}")
