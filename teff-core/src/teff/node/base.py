"""`Node`: what a graph is made of, and how a node declares its options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import attrs

from teff.errors import ConfigError
from teff.runtime import Command, ExecContext
from teff.schema.options import missing_fields, structure_fields

__all__ = ["Node", "is_composite", "options"]

_NodeType = TypeVar("_NodeType", bound="type[Node]")


@dataclass_transform(kw_only_default=True, field_specifiers=(attrs.field,))
def options(cls: _NodeType) -> _NodeType:
    """Make a node class whose annotated attributes are its options.

    Options are attrs fields: keyword-only, converted and checked when a node is made and when one is
    set. Unknown names are refused, with the nearest known one.

    >>> @options
    ... class Greet(Node):
    ...     type = "greet"
    ...     name: str = "world"
    ...
    ...     async def execute(self, ctx, state):
    ...         return {"greeting": f"Hello, {self.name}!"}
    >>> Greet(name="Ada").config["name"], Greet({"name": "Ada"}).name
    ('Ada', 'Ada')
    """
    return attrs.define(cls, init=False, kw_only=True, slots=False, eq=False, repr=False)


@options
class Node:
    """One step of a graph: reads the state, returns what changes.

    Subclass it, set ``type`` (the name in workflow files) and write `execute`. Declare options with
    the decorator `options` or `attrs.define`, or take whatever is given from ``self.config``.

    Args:
        config: options as a mapping; keywords win over it.
        id: the node's id in a graph; a `Flow` makes one up where it is None.

    Raises:
        ConfigError: an unknown option, or a value that does not fit.
    """

    type: ClassVar[str] = ""

    if TYPE_CHECKING:
        # The first argument of every node, for type checkers: see `config` below.
        config: MutableMapping[str, Any] = attrs.field(factory=dict, kw_only=False)

    id: str | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Give every node an id and options, also one whose ``__init__`` does not call ours."""
        node = super().__new__(cls)
        node.__dict__.update(id=None, _config={})
        return node

    def __init__(self, config: Mapping[str, Any] | None = None, **given: Any) -> None:
        if not (config is None or isinstance(config, Mapping)):
            raise ConfigError(
                f"{self._described(given.get('id'))}: the options are a mapping or keywords, not "
                f"{type(config).__name__}.",
                path="config",
            )
        merged = {**(config or {}), **given}
        if _declares_options(type(self)):
            self._set_options(merged)
        else:
            self.id = merged.get("id")
            self._config = merged

    def _set_options(self, given: Mapping[str, Any]) -> None:
        what = self._described(given.get("id"))
        undeclared = vars(type(self)).get("__annotations__", {}).keys() & given.keys()
        if undeclared and "__attrs_attrs__" not in vars(type(self)):
            raise ConfigError(
                f"{what}: {', '.join(sorted(undeclared))} is annotated in {type(self).__name__}, "
                "which is not decorated: put @options above the class.",
                path=min(undeclared),
            )
        fields = structure_fields(type(self), given, what=what)
        for name in missing_fields(type(self), fields):
            raise ConfigError(f"{what}: the option {name!r} is missing.", path=name)
        with _named_by(what):
            self.__attrs_init__(**fields)  # type: ignore[attr-defined]  # made by attrs

    if not TYPE_CHECKING:

        @property
        def config(self) -> MutableMapping[str, Any]:
            """The options as a mapping that can be read and set."""
            return _OptionsView(self) if _declares_options(type(self)) else self._config

        @config.setter
        def config(self, options: Mapping[str, Any]) -> None:
            if _declares_options(type(self)):
                _OptionsView(self).update(options)
            else:
                self._config = dict(options)

    async def execute(
        self, ctx: ExecContext, state: dict[str, Any]
    ) -> Mapping[str, Any] | Command | None:
        """Do the node's work.

        Args:
            ctx: tools, model calls, events, questions to a person.
            state: a dict of the node's own. Its keys may be rebound; the values in it cannot be
                changed in place.

        Returns:
            What changes: a dict of updates; or ``state`` itself, which means the keys that were
            rebound; or a `Command` that also says where to go; or None for no change.
        """
        raise TypeError(f"{type(self).__name__} has no execute(self, ctx, state): write one")

    def reads(self) -> Iterable[str] | None:
        """Return the state keys that this node reads, or None where that cannot be known."""
        return None

    def writes(self) -> Iterable[str] | None:
        """Return the state keys that this node may update, or None where that cannot be known."""
        return None

    def targets(self) -> Iterable[str]:
        """Return the ids of the nodes that this node may send the run to by a `Command`."""
        return ()

    def outcomes(self) -> Mapping[str, Iterable[str]] | None:
        """Return the state keys that every visit sets to one of a few texts, with these; or None."""
        return None

    def bounds_rounds(self) -> bool:
        """Say whether a cycle through this node ends in time: it counts rounds, or asks a person."""
        return False

    def asks_model(self) -> tuple[str | None, str | None] | None:
        """Return the provider and the model that this node asks (None: the default); or None."""
        return None

    def model_fallbacks(self) -> Iterable[Any]:
        """Return what is asked where that model fails; see `teff.harness.Fallback`."""
        return ()

    def uses_tools(self) -> Iterable[str]:
        """Return the names of the tools that this node needs."""
        return ()

    def children(self) -> Iterable[Node]:
        """Return the nodes that this node runs itself."""
        return ()

    def turn_keys(self) -> Iterable[str]:
        """Return the state keys that belong to one turn of a chat; those of the children by default.

        Counters, scratch, the slots that say what is done: `Graph.turn` deletes them before the next
        turn. A name that ends with ``*`` stands for every key that begins so.
        """
        return tuple(key for child in self.children() for key in child.turn_keys())

    def signature(self) -> Any:
        """Return what a stored run must find unchanged here when it goes on, as plain data."""
        return self.type or type(self).__qualname__

    def to_config(self) -> dict[str, Any]:
        """Return the options, without the id, that are not what they are by default."""
        if not _declares_options(type(self)):
            return {name: value for name, value in self._config.items() if name != "id"}
        fields = attrs.fields(cast("Any", type(self)))
        options = {field.name: getattr(self, field.name) for field in fields if field.init}
        defaults = {field.name: _default_of(field, self) for field in fields}
        options.pop("id")
        return {name: value for name, value in options.items() if value != defaults[name]}

    @classmethod
    def _described(cls, id: object = None) -> str:
        name = cls.type or cls.__name__
        return f"{name} {id!r}" if id else name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}>" if self.id else f"<{type(self).__name__}>"


def is_composite(node: Node) -> bool:
    """Say whether a node runs others, so that the time a run gives to each node is theirs."""
    return next(iter(node.children()), None) is not None


def _declares_options(cls: Any) -> bool:
    return any("__attrs_attrs__" in vars(base) for base in cls.__mro__[: cls.__mro__.index(Node)])


def _default_of(field: attrs.Attribute[Any], node: Node) -> Any:
    if not isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]  # a class for isinstance
        return field.default
    factory: Any = field.default
    return factory.factory(node) if factory.takes_self else factory.factory()


@contextmanager
def _named_by(what: str) -> Iterator[None]:
    """Turn what a validator raises into an error that names the node and the option."""
    try:
        yield
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        reason = str(error.args[0] if error.args else error)
        # The validators of attrs begin with the option's name in quotes.
        named = re.match(r"'(\w+)' ", reason)
        path = named[1] if named else ""
        raise ConfigError(f"{what}: option {reason}.", path=path) from error


class _OptionsView(MutableMapping[str, Any]):
    """The attrs fields of a node as a mapping."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._names = [field.name for field in attrs.fields(cast("Any", type(node)))]

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return getattr(self._node, name)

    def __setitem__(self, name: str, value: Any) -> None:
        node = self._node
        what = node._described(node.id)
        checked = structure_fields(type(node), {name: value}, what=what)
        with _named_by(what):
            setattr(node, name, checked[name])
            # What a node prepares from its options is prepared anew.
            prepare = getattr(node, "__attrs_post_init__", None)
            if prepare is not None:
                prepare()

    def __delitem__(self, name: str) -> None:
        raise ConfigError(f"option {name!r} cannot be removed; set it to another value.", path=name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
