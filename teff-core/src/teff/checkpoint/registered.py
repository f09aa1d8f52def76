"""The names of types in stored runs: `register_type`, and what a state schema declares."""

from __future__ import annotations

import enum
import threading
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import attrs

from teff.checkpoint.instances import has_fields, is_storable_class
from teff.checkpoint.plain import is_text
from teff.errors import ConfigError
from teff.schema.annotations import plain_type
from teff.state import StateSchema

__all__ = ["TypeNames", "full_name", "register_type", "types_of_schema"]

_lock = threading.Lock()
_types: dict[str, type] = {}
#: The name that is written; a class may have older ones, which are read only.
_names: dict[type, str] = {}


def register_type(cls: type, *, name: str) -> None:
    """Let instances of a class come back from stored runs, in this process and under this name.

    Classes that the state schema declares need no registration. It is for those that it does not
    name, as subclasses of the declared ones and what is under a key of the type ``Any``; for two
    classes with one name; and for a name that stays when the class is renamed. Register where the
    class is defined, so that it is done before a run is loaded.

    Registering a class again changes nothing, and under another name, changes what is written:
    values that were stored under the older name are still read.

    >>> import enum
    >>> class Colour(enum.Enum):
    ...     RED = 1
    >>> register_type(Colour, name="paint colour")
    >>> from teff.checkpoint import Encoder
    >>> Encoder().encode({"wall": Colour.RED})
    {'wall': {'!enum': ['paint colour', 'RED']}}

    Args:
        cls: an attrs class, a dataclass, a ``msgspec.Struct``, a ``NamedTuple`` or an ``Enum``.
        name: any text. It is stored with each value, and never looked up as a module.

    Raises:
        ConfigError: another class has the name, it is no text, or the class is none of these.
    """
    _check(cls, name)
    with _lock:
        known = _types.get(name)
        if known is not None and known is not cls:
            raise ConfigError(
                f"the name {name!r} is registered for {full_name(known)}; "
                f"give {full_name(cls)} another one.",
                path=name,
            )
        _types[name] = cls
        _names[cls] = name


def _check(cls: object, name: object) -> None:
    if not is_storable_class(cls):
        what = full_name(cls) if isinstance(cls, type) else repr(cls)
        raise ConfigError(
            f"{what} cannot be stored: it is no attrs class, dataclass, msgspec.Struct, NamedTuple "
            "or Enum."
        )
    if not isinstance(name, str) or not name.strip() or not is_text(name):
        raise ConfigError(f"the name of {getattr(cls, '__name__', cls)} is a text, not {name!r}.")


def full_name(cls: type) -> str:
    """Return how messages call a class: with its module, where it has one that tells something."""
    module = cls.__module__
    return (
        cls.__qualname__ if module in ("builtins", "__main__") else f"{module}.{cls.__qualname__}"
    )


class TypeNames:
    """The names of the types of one run: its own ones, and beside them those of the process.

    Args:
        types: by name, as `types_of_schema` gives them.

    Raises:
        ConfigError: a name is registered for another class, or a class cannot be stored.
    """

    def __init__(self, types: Mapping[str, type]) -> None:
        self._types = dict(types)
        self._names = {cls: name for name, cls in self._types.items()}
        for name, cls in self._types.items():
            _check(cls, name)
            known = _types.get(name)
            if known is not None and known is not cls:
                raise ConfigError(
                    f"the state declares {full_name(cls)}, and the name {name!r} is registered for "
                    f"{full_name(known)}.",
                    path=name,
                    hint=_way_out(cls),
                )

    def name_of(self, cls: type) -> str | None:
        """Return the name that instances of a class are stored under, or None."""
        return self._names.get(cls, _names.get(cls))

    def type_of(self, name: str) -> type | None:
        """Return the class that has a name, or None."""
        return self._types.get(name, _types.get(name))

    def known(self) -> list[str]:
        """Return all names."""
        return sorted({*self._types, *_types})


def _way_out(cls: type) -> str:
    return (
        f"Give one a name of its own: teff.checkpoint.register_type({cls.__name__}, name=...), "
        "before the graph is run."
    )


def types_of_schema(schema: object) -> dict[str, type]:
    """Return the types that a state schema declares, by the names that their values are stored under.

    They are the attrs classes, dataclasses, ``msgspec.Struct`` types, ``NamedTuple`` types and Enums
    in the annotations of the keys, also within ``list[...]``, ``X | None`` and the like, and within
    the fields of such classes. The name is that of `register_type`, else the ``__name__`` of the
    class.

    Args:
        schema: whatever `teff.state.StateSchema.of` takes, or None for no schema.

    Raises:
        ConfigError: two of the classes have one name, or an annotation cannot be resolved.
    """
    if schema is None:
        return {}
    declared = _Declared()
    for key in StateSchema.of(schema).keys.values():
        declared.add(key.type)
    return declared.types


class _Declared:
    """One walk over annotations; it knows the classes that refer to themselves."""

    def __init__(self) -> None:
        self.types: dict[str, type] = {}
        self.seen: set[type] = set()

    def add(self, annotation: Any) -> None:
        """Note the types in an annotation; what belongs to a class and not its instances has none."""
        annotation, _ = plain_type(annotation)
        if isinstance(annotation, list):  # the parameters of a Callable
            arguments: tuple[Any, ...] = tuple(annotation)
        elif isinstance(annotation, typing.TypeVar):
            arguments = (annotation.__bound__, *annotation.__constraints__)
        elif ClassVar in (annotation, typing.get_origin(annotation)):
            return
        else:
            arguments = typing.get_args(annotation)
        if typing.get_origin(annotation) is Literal:
            arguments = tuple(type(value) for value in arguments)
        for argument in arguments:
            self.add(argument)
        owner = typing.get_origin(annotation) or annotation
        if isinstance(owner, type) and owner not in self.seen:
            self.seen.add(owner)
            self.add_class(owner)

    def add_class(self, owner: type) -> None:
        """Note a class, and the types of its fields."""
        if issubclass(owner, enum.Enum):
            if owner.__members__:
                self.name(owner)
        elif has_fields(owner):
            self.name(owner)
            for hint in _hints(owner):
                self.add(hint)
        elif typing.is_typeddict(owner):
            for hint in _hints(owner):
                self.add(hint)

    def name(self, owner: type) -> None:
        """Give a class its name.

        Raises:
            ConfigError: another one has it.
        """
        name = _names.get(owner, owner.__name__)
        known = self.types.setdefault(name, owner)
        if known is not owner:
            raise ConfigError(
                f"the state declares two types of the name {name!r}, {full_name(known)} and "
                f"{full_name(owner)}, which a stored run could not tell apart.",
                path=name,
                hint=_way_out(owner),
            )


def _hints(owner: type) -> list[Any]:
    try:
        hints = typing.get_type_hints(owner, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise ConfigError(
            f"{full_name(owner)}, which the state declares, has an annotation that cannot be "
            f"resolved: {error}.",
            path=owner.__name__,
            hint="Import what it names outside `if TYPE_CHECKING:`, at the top of the module.",
        ) from error
    given = [field.type for field in attrs.fields(owner)] if attrs.has(owner) else []
    return [*hints.values(), *given]
