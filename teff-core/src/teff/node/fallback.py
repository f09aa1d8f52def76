"""`Fallback`: fills one field of a dict where it is empty."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from teff.errors import ConfigError, StateError
from teff.node.base import Node, options
from teff.node.function import require_parameters
from teff.prompt import compile_template
from teff.runtime import ExecContext
from teff.state import is_filled
from teff.tool.threads import run_in_thread

__all__ = ["Fallback"]


@options
class Fallback(Node):
    """Fill ``field`` of the dict under ``input_key`` where it is not filled: missing, None, or empty.

    0 and False are values and stay. Where the state holds nothing under the key, a dict with the
    field is made. What ``fn`` gives is recorded: a run that is resumed does not call it again.

    Args:
        input_key: the state key of the dict.
        field: the key in the dict.
        fn: a function ``(state)`` that gives the value, plain or async; a plain one runs in a
            thread.
        value: the value itself in place of ``fn``; a text is a template, see `teff.prompt`.

    Raises:
        ConfigError: when it is made, without a ``field``, or not with one of ``fn`` and ``value``;
            in a run, a template key is missing.
        StateError: in a run, what is under the key is no dict.

    >>> import asyncio
    >>> node = Fallback(input_key="order", field="currency", fn=lambda state: state["home"])
    >>> asyncio.run(node.execute(ExecContext(), {"order": {"sum": 5, "currency": ""}, "home": "EUR"}))
    {'order': {'sum': 5, 'currency': 'EUR'}}
    """

    type = "fallback"

    input_key: str = "output"
    field: str = ""
    fn: Callable[..., Any] | None = None
    value: Any = None

    def __attrs_post_init__(self) -> None:
        what = self._described(self.id)
        for name in ("input_key", "field"):
            if not getattr(self, name):
                raise ConfigError(f"{what}: the option {name!r} is missing or empty.", path=name)
        if (self.fn is None) == (self.value is None):
            raise ConfigError(f"{what}: give one of 'fn' and 'value'.", path="fn")
        if self.fn is not None:
            require_parameters(self.fn, 1, "(state)")
        self._template = compile_template(self.value) if isinstance(self.value, str) else None

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return the dict with the field filled, or nothing where it is."""
        found = state.get(self.input_key)
        if found is None:
            found = {}
        if not isinstance(found, Mapping):
            raise StateError(
                f"{self._described(ctx.node_id or self.id)} fills the field {self.field!r} of the "
                f"dict under the state key {self.input_key!r}, and found {type(found).__name__}."
            )
        if is_filled(found.get(self.field)):
            return None
        return {self.input_key: {**found, self.field: await self._value(ctx, state)}}

    async def _value(self, ctx: ExecContext, state: dict[str, Any]) -> Any:
        if self._template is not None:
            node = ctx.node_id or self.id or ""
            return self._template.render(state, name="value", node=node)
        if self.fn is None:
            return self.value
        return await ctx.once("fallback", partial(_called, self.fn, dict(state)))

    def reads(self) -> Iterable[str]:
        """Return the key of the dict, and the keys that a template cannot do without."""
        return {self.input_key, *(self._template.root_keys if self._template else ())}

    def writes(self) -> Iterable[str]:
        """Return the key of the dict."""
        return [self.input_key]


async def _called(function: Callable[..., Any], state: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(state)
    result = await run_in_thread(partial(function, state), {})
    return await result if inspect.isawaitable(result) else result
