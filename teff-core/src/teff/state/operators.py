"""Update operators: values that say how they change a key, whatever reducer the key has."""

from __future__ import annotations

from typing import Any, Final, final

__all__ = ["DELETE", "Append", "Overwrite"]


class Append(list[Any]):
    """Items to append to the list under a key.

    A missing key, or None, counts as an empty list.

    >>> from teff.state import merge
    >>> merge({"log": [1]}, {"log": Append([2, 3])})
    {'log': [1, 2, 3]}
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Append({super().__repr__()})"


@final
class Overwrite:
    """A value that replaces what a key holds, also where the key has a reducer."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Overwrite) and self.value == other.value

    def __hash__(self) -> int:
        return hash((Overwrite, self.value))

    def __repr__(self) -> str:
        return f"Overwrite({self.value!r})"


@final
class _Delete:
    """The type of `DELETE`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DELETE"

    def __reduce__(self) -> str:
        return "DELETE"


#: Removes a key from the state; a key that is not there stays so.
DELETE: Final = _Delete()
