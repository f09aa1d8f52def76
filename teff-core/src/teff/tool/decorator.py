"""The decorator that makes a tool of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from teff.tool.base import FunctionTool
from teff.tool.registry import default_tool_registry

__all__ = ["tool"]

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    name: str = "", *, description: str = "", register: bool = True
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    name: Any = "", *, description: str = "", register: bool = True
) -> FunctionTool[..., Any] | Callable[[Callable[..., Any]], FunctionTool[..., Any]]:
    """Make a tool of a typed function, sync or async; the function can still be called as before.

    >>> @tool("weather", register=False)
    ... def say_weather(city: str, days: int = 1) -> str:
    ...     '''Say what the weather will be.'''
    ...     return f"rain in {city} for {days} days"
    >>> say_weather("Riga")
    'rain in Riga for 1 days'
    >>> say_weather.spec().description
    'Say what the weather will be.'

    Args:
        name: how the model calls it; the function's name by default.
        description: what the model is told; the docstring up to its first section by default.
        register: whether `default_tool_registry` shall know it, so that a workflow finds it by
            its name.

    Raises:
        ConfigError: another tool has the name, or the signature cannot be told to a model.
    """
    if callable(name):
        return tool()(name)

    def decorate(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        made = FunctionTool(function, name=name, description=description)
        if register:
            default_tool_registry.register(made)
        return made

    return decorate
