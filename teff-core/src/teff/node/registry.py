"""Node types by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from teff.errors import ConfigError
from teff.node.base import Node
from teff.node.function import FunctionNode, make_function_node, require_parameters
from teff.plugins import catalogue
from teff.schema.options import structure_fields

__all__ = ["NodeFactory", "NodeRegistry", "default_registry", "make_function_node", "node"]

#: Makes a node from options: a `Node` class, or a function that takes the options as keywords.
NodeFactory = Callable[..., Node]

_Function = TypeVar("_Function", bound=Callable[..., Any])


class NodeRegistry:
    """Node types by name: those registered here, the built-in ones, and those of plugins.

    >>> registry = NodeRegistry()
    >>> registry.create("transform", {"action": "trim", "id": "clean"}).id
    'clean'
    """

    def __init__(self, factories: Mapping[str, NodeFactory] | None = None) -> None:
        self._factories: dict[str, NodeFactory] = dict(factories or {})

    def register(self, name: str, factory: NodeFactory, *, replace: bool = False) -> None:
        """Add a node type.

        Raises:
            ConfigError: the name is taken, by a built-in type too, and ``replace`` is False.
        """
        if not replace and (name in self._factories or catalogue().is_builtin("teff.nodes", name)):
            raise ConfigError(
                f"node type {name!r} exists already; choose another name, or pass replace=True."
            )
        self._factories[name] = factory

    def create(self, name: str, config: Mapping[str, Any] | None = None, **given: Any) -> Node:
        """Make a node of the type ``name`` from options.

        Raises:
            ConfigError: an unknown type, an unknown option, or a value that does not fit.
            PluginLoadError: the plugin that offers the type cannot be loaded.
        """
        factory = self._factories.get(name)
        if factory is None:
            factory = cast("NodeFactory", catalogue().load("teff.nodes", name))
        merged = {**(config or {}), **given}
        made = factory(**_structured(factory, name, merged))
        if not isinstance(made, Node):
            raise ConfigError(f"node type {name!r} makes a {type(made).__name__}, not a Node.")
        return made

    def has_own(self, name: str) -> bool:
        """Say whether a type was registered here under ``name``, built in or not."""
        return name in self._factories

    def list(self) -> list[str]:
        """Return the names of all known types, without loading any."""
        return sorted({*self._factories, *catalogue().names("teff.nodes")})

    def copy(self) -> NodeRegistry:
        """Return a registry of its own with the same types."""
        return NodeRegistry(self._factories)


def _structured(factory: NodeFactory, name: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    # A class made with attrs alone has no check of its own, a class with Node.__init__ has.
    if (
        isinstance(factory, type)
        and issubclass(factory, Node)
        and factory.__init__ is not Node.__init__
        and "__attrs_attrs__" in vars(factory)
    ):
        return structure_fields(factory, given, what=factory._described(given.get("id")))
    return given


#: The registry that workflow files and `Flow` use; ``@node`` adds to it.
default_registry = NodeRegistry()


def node(
    name: str,
    *,
    config: type | None = None,
    registry: NodeRegistry = default_registry,
    replace: bool = False,
) -> Callable[[_Function], _Function]:
    """Register a function as a node type; the function itself is returned unchanged.

    Args:
        name: the type's name.
        config: an attrs class or dataclass with the options; the function is then called with
            ``(ctx, options, state)``, else with ``(ctx, state)``.
        registry: where to register.
        replace: whether a type of that name may be replaced.

    >>> registry = NodeRegistry()
    >>> @node("shout", registry=registry)
    ... async def shout(ctx, state):
    ...     return {"output": state["input"].upper()}
    >>> registry.create("shout").type
    'shout'

    Raises:
        ConfigError: the name is taken, or the function takes other arguments.
    """

    def register(function: _Function) -> _Function:
        if config is None:
            require_parameters(function, 2, "(ctx, state)")
        else:
            require_parameters(function, 3, "(ctx, options, state)")

        def make(id: str | None = None, **given: Any) -> Node:
            what = f"{name} {id!r}" if id else name
            typed = None
            if config is not None:
                typed = config(**structure_fields(config, given, what=what))
            elif given:
                raise ConfigError(f"{what} takes no options, but got {', '.join(sorted(given))}.")
            return FunctionNode(function, type_name=name, typed_options=typed, id=id)

        registry.register(name, make, replace=replace)
        return function

    return register
