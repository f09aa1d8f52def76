"""Values of the state as JSON, and back: what goes into a stored run.

JSON values are stored as they are. A value that JSON does not have is an object of one key, a tag
that begins with ``!``: ``{"!date": "2024-05-01"}``. `Encoder` says which types come back, and how.

Nothing is ever looked up, imported or called by what a store says but the readers of the tags, and
the constructors of classes that the state schema declares or `teff.checkpoint.register_type` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.checkpoint.plain import MAX_DEPTH, TOO_DEEP, is_plain
from teff.checkpoint.reading import Reader
from teff.checkpoint.registered import TypeNames
from teff.checkpoint.writing import Writer
from teff.errors import CheckpointCorrupt, CheckpointError, StateError

__all__ = ["Encoder"]

#: How many levels there may be around what was encoded, in a record that is read as a whole.
_AROUND = 20


class Encoder:
    """Writes values as JSON that any JSON library keeps, and reads them as the state holds them.

    What comes back is equal to what went in, and of the same type:

    - ``None``, ``bool``, ``int``, ``float``, ``str``, ``dict`` and ``list``. Whole numbers of more
      than 64 bits, NaN, the infinities, and texts with lone surrogates are tagged; so is a dict
      with keys that are not text.
    - ``tuple``, ``set``, ``frozenset``, ``bytes``, ``bytearray``, ``complex``, ``Decimal``,
      ``Fraction``, ``UUID``, ``datetime``, ``date``, ``time``, ``timedelta``, and the paths of
      `pathlib`. A time zone is a ``datetime.timezone`` or a ``ZoneInfo``, which is stored by its
      key. A ``Path`` is one of the machine that reads it.
    - Attrs classes, dataclasses, ``msgspec.Struct`` types, ``NamedTuple`` types and Enums that
      ``types`` or `teff.checkpoint.register_type` name. An instance is its fields, an Enum its
      member's name.

    As in the state itself, dicts, lists and sets come back frozen, and their subclasses as plain
    ones; within an instance, where nothing is frozen, they come back as ordinary ones. A dict whose
    one key begins with ``!`` is written with a second ``!`` in front. Everything else is refused.

    >>> encoder = Encoder()
    >>> data = encoder.encode({"sizes": {2, 1}, "note": {"!date": "mine"}, "n": 1})
    >>> data
    {'sizes': {'!set': [1, 2]}, 'note': {'!!date': 'mine'}, 'n': 1}
    >>> encoder.decode(data) == {"sizes": {1, 2}, "note": {"!date": "mine"}, "n": 1}
    True

    Args:
        types: by the names they are stored under, as `types_of_schema` gives them; None for only
            those of `teff.checkpoint.register_type`.

    Raises:
        ConfigError: a name is registered for another class, or a class cannot be stored.
    """

    def __init__(self, types: Mapping[str, type] | None = None) -> None:
        self._names = TypeNames(types or {})

    def encode(self, value: Any, *, where: str = "") -> Any:
        """Return a value as JSON; the very same object where it is JSON already.

        What would fail when the run is loaded fails here: instances are put together once, to see
        that their class takes what it gave.

        Args:
            value: is not changed.
            where: what the value is, for errors, as in ``"node 'plan': state.cfg"``.

        Raises:
            StateError: something in it cannot be stored; the message names its place, its type, and
                the way out.
        """
        try:
            if is_plain(value):
                return value
            writer = Writer(self._names)
            data = writer.write(value, (where,), MAX_DEPTH, frozen=True)
            if writer.has_instances:
                Reader(self._names).read(data, MAX_DEPTH, frozen=True)
        except RecursionError:
            raise StateError(f"{where or 'the value'} {TOO_DEEP}: return plain data") from None
        except CheckpointError as error:
            raise StateError(
                f"{where or 'the value'} would not come back from a store: {error}. "
                "The constructor of a class must take what its own fields hold"
            ) from error
        return data

    def decode(self, data: Any) -> Any:
        """Return the value that was written as ``data``, frozen as the state's values are.

        ``data`` may also be plain JSON around such values, no object of which looks like a tag.

        Raises:
            CheckpointCorrupt: it is nothing that `encode` writes.
            CheckpointError: it needs a type that has no name here, or that has changed since.
        """
        try:
            return Reader(self._names).read(data, MAX_DEPTH + _AROUND, frozen=True)
        except RecursionError:
            raise CheckpointCorrupt(f"a stored value {TOO_DEEP}") from None
