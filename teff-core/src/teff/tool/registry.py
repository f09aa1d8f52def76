"""Tools by their names: those that a program registers, and those that are installed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

import attrs

from teff.errors import ConfigError, suggest
from teff.plugins import catalogue
from teff.schema.options import missing_fields, structure_fields
from teff.tool.base import FunctionTool, Tool, check_tool_name

__all__ = ["ToolRegistry", "default_tool_registry"]

_GROUP = "teff.tools"


class ToolRegistry:
    """Finds a tool by its name: first among those registered here, then among the installed.

    What is installed is imported when it is first asked for.

    >>> def add(a: int, b: int) -> int:
    ...     return a + b
    >>> registry = ToolRegistry([add])
    >>> registry.resolve("add")
    FunctionTool('add')

    Args:
        tools: what to register at once.
    """

    def __init__(self, tools: Iterable[Tool | type[Tool] | Callable[..., Any]] = ()) -> None:
        self._registered: dict[str, Tool | type[Tool]] = {}
        self._made: dict[str, Tool] = {}
        for tool in tools:
            self.register(tool)

    def register(
        self, tool: Tool | type[Tool] | Callable[..., Any], *, replace: bool = False
    ) -> None:
        """Make a tool known under its name.

        A function becomes a `FunctionTool`. A definition that is executed again (a module
        reloaded, a notebook cell run twice) takes the place of its older self.

        Raises:
            ConfigError: another tool has the name and ``replace`` is False, or it is no tool.
        """
        entry = _as_entry(tool)
        name = check_tool_name(entry.name)
        there = self._registered.get(name)
        if there is not None and not replace and not _is_same_definition(there, entry):
            raise ConfigError(
                f"another tool is registered as {name!r}.",
                path=name,
                hint="Give this one another name, or register it with replace=True.",
            )
        self._registered[name] = entry
        self._made.pop(name, None)

    def resolve(self, name: str) -> Tool:
        """Return the tool of this name (or ``distribution/name``), the same object each time.

        Raises:
            ConfigError: there is none; the message names the nearest, or what to install.
            AmbiguousName: two distributions offer it.
            PluginLoadError: it is installed, but it cannot be imported.
        """
        if name not in self._made:
            self._made[name] = self.create(name)
        return self._made[name]

    def registered(self, name: str) -> Tool | None:
        """Return the tool that was registered here under this name, or None; nothing is imported."""
        return self.resolve(name) if name in self._registered else None

    def create(self, name: str, config: Mapping[str, object] | None = None) -> Tool:
        """Make a tool with options of its own.

        Args:
            name: as for `resolve`.
            config: options of the tool; a tool class reads them into its constructor, strictly.

        Raises:
            ConfigError: there is no such tool, or it has no such option.
            AmbiguousName: two distributions offer it.
            PluginLoadError: it is installed, but it cannot be imported.
        """
        offered: object = self._registered.get(name)
        if offered is None:
            offered = catalogue().load(_GROUP, name, known=self._registered)
        tool = _make(offered, name, dict(config or {}))
        if not isinstance(tool, Tool):
            raise ConfigError(
                f"what is offered as the tool {name!r} is no tool, but a {type(tool).__name__}."
            )
        return tool

    def copy(self) -> ToolRegistry:
        """Return a registry of the same tools; changes to one do not reach the other."""
        copied = ToolRegistry()
        copied._registered = dict(self._registered)
        copied._made = dict(self._made)
        return copied

    def list(self) -> list[str]:
        """Return every name that can be resolved, sorted. Nothing is imported."""
        return sorted({*self._registered, *catalogue().names(_GROUP)})


#: Where ``@tool`` registers.
default_tool_registry = ToolRegistry()


def _as_entry(tool: Tool | type[Tool] | Callable[..., Any]) -> Tool | type[Tool]:
    if isinstance(tool, Tool) or _is_tool_class(tool):
        return tool
    if isinstance(tool, type) or not callable(tool):
        raise ConfigError(
            f"{getattr(tool, '__name__', type(tool).__name__)} is no tool.",
            hint="Register a Tool, a subclass of Tool, or a function.",
        )
    return FunctionTool(tool)


def _is_tool_class(value: object) -> TypeGuard[type[Tool]]:
    return isinstance(value, type) and issubclass(value, Tool)


def _is_same_definition(one: Tool | type[Tool], other: Tool | type[Tool]) -> bool:
    if one is other:
        return True
    both = (one, other)
    if all(isinstance(tool, FunctionTool) or _is_tool_class(tool) for tool in both):
        places = {(tool.__module__, getattr(tool, "__qualname__", None)) for tool in both}
        return len(places) == 1
    return False


def _make(offered: object, name: str, config: dict[str, object]) -> object:
    """Make a tool of what a registration or an entry point offers."""
    what = f"tool {name!r}"
    if isinstance(offered, Tool):
        if config:
            option = next(iter(config))
            raise ConfigError(f"{what}: unknown option {option!r}; it takes none.", path=option)
        return offered
    if not _is_tool_class(offered):
        return offered(config) if callable(offered) else offered
    tool_class: Any = offered
    if attrs.has(tool_class):
        options = structure_fields(tool_class, config, what=what)
        for missing in missing_fields(tool_class, options):
            raise ConfigError(f"{what}: the option {missing!r} is missing.", path=missing)
        return tool_class(**options)
    parameters = inspect.signature(tool_class).parameters
    if next(iter(parameters), None) == "config":
        return tool_class(config)
    for option in config:
        if option not in parameters:
            raise ConfigError(
                f"{what}: unknown option {option!r}.{suggest(option, parameters)}", path=option
            )
    try:
        inspect.signature(tool_class).bind(**config)
    except TypeError as error:
        raise ConfigError(f"{what}: {error}.") from error
    return tool_class(**config)
