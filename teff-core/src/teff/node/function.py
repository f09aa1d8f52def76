"""Plain functions as nodes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from teff.errors import ConfigError
from teff.node.base import Node
from teff.runtime import ExecContext
from teff.tool.threads import run_in_thread

__all__ = ["FunctionNode", "make_function_node", "took_too_long"]


class FunctionNode(Node):
    """A function ``(ctx, state)``, or ``(ctx, options, state)`` with typed options, as a node.

    A function without ``async`` runs in a worker thread, so that it cannot hold up other runs.

    >>> make_function_node(lambda ctx, state: {"n": state["n"] + 1}, "increment").type
    'increment'
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        type_name: str | None = None,
        typed_options: object = None,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        own_name: str = getattr(function, "__name__", type(function).__name__)
        self.type = type_name or own_name  # type: ignore[misc]  # the type of this one node
        #: What is called.
        self.function = function
        self._arguments = () if typed_options is None else (typed_options,)
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # a callable object with an async __call__
        )

    @property
    def runs_in_thread(self) -> bool:
        """Whether the function runs in a thread, which nothing can stop once it runs."""
        return not self._is_async

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Any:
        """Call the function; what it returns is read like any node's result."""
        if self._is_async:
            return await self.function(ctx, *self._arguments, state)
        call = functools.partial(self.function, ctx, *self._arguments, state)
        result = await run_in_thread(call, {})
        return await result if inspect.isawaitable(result) else result


def make_function_node(
    function: Callable[..., Any], type_name: str | None = None, *, id: str | None = None
) -> FunctionNode:
    """Return a node that calls ``function(ctx, state)``.

    Args:
        function: plain or async; returns a dict of updates, a `Command`, or None.
        type_name: the node's type; the function's name where it is not given.
        id: the node's id.

    Raises:
        ConfigError: it is not callable, or does not take two arguments.
    """
    if not callable(function):
        raise ConfigError(f"a step must be a Node or a function, not {type(function).__name__}.")
    require_parameters(function, 2, "(ctx, state)")
    return FunctionNode(function, type_name=type_name, id=id)


def took_too_long(what: str, node: object, seconds: float) -> str:
    """Return what is said where a node was still at work after ``seconds``.

    Threads cannot be stopped, so nothing may claim that one was.

    >>> took_too_long("node 'a'", make_function_node(print), 2.5)
    "node 'a' took longer than 2.5 seconds; its thread was abandoned and goes on"
    """
    is_thread = isinstance(node, FunctionNode) and node.runs_in_thread
    abandoned = "; its thread was abandoned and goes on" if is_thread else ""
    return f"{what} took longer than {seconds:g} seconds{abandoned}"


def require_parameters(function: Callable[..., Any], count: int, expected: str) -> None:
    """Refuse a function that cannot be called with ``count`` positional arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a built-in without a signature is only known when it is called
    try:
        signature.bind(*range(count))
    except TypeError as error:
        name = getattr(function, "__name__", repr(function))
        raise ConfigError(f"function {name!r} must take {expected}: {error}.") from None
