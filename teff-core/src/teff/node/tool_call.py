"""`ToolCall`: calls one tool, without a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import attrs

from teff import messages
from teff.errors import ConfigError, ToolError, suggest
from teff.harness import ToolOptions, run_tool_calls
from teff.node.arguments import Arguments
from teff.node.base import Node, options
from teff.runtime import ExecContext
from teff.tool import FunctionTool, Tool, default_tool_registry

__all__ = ["ToolCall"]


@options
class ToolCall(Node):
    """Call a tool with arguments from the state, and keep its result as text.

    Texts in ``args``, also those in lists and dicts, are templates. One that is a single placeholder
    such as ``{cart}`` stands for the value itself, unless the tool takes text there. The arguments
    are then read by the types of the tool, as strictly as those of a model: ``"3"`` is a whole
    number, ``"1.9"`` is none.

    The result is text as the tool returned it, or the JSON of anything else. It is recorded: a run
    that is resumed does not call the tool again. A tool may pause the run and is bound by its limits.

    Args:
        tool: the name of a tool of the run, or of one that is registered or installed; in Python
            also a `Tool`, its class or a typed function. Also as the first argument.
        args: its arguments by name.
        output_key: the state key of the result.
        on_error: what becomes of a failure of the tool, or of arguments that it does not take:
            ``raise`` fails the node with a `ToolError`, ``message`` keeps ``error: …`` as the result.
        max_chars: the longest result; the middle of a longer one gives way to a note that says how
            long it was. None for no bound.
        timeout: seconds for the call; None waits for ever. A tool that is not async cannot be
            stopped: it is only no longer waited for.

    Raises:
        ConfigError: the tool is unknown, or an argument is one that it does not have or is missing
            (when the node is made where the tool is known then); in a run, a template key is missing.

    >>> import asyncio
    >>> def add(a: int, b: int = 1) -> int:
    ...     return a + b
    >>> node = ToolCall(add, args={"a": "{count}"}, output_key="sum")
    >>> asyncio.run(node.execute(ExecContext(), {"count": "41"}))
    {'sum': '42'}
    """

    type = "tool_call"

    tool: str | Tool | Callable[..., Any]
    args: Mapping[str, Any] = attrs.field(factory=dict)
    output_key: str = "output"
    on_error: Literal["raise", "message"] = "raise"
    max_chars: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    timeout: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )

    def __init__(self, tool: Any = None, **given: Any) -> None:
        """See the class; a mapping in the place of the tool holds all options."""
        if tool is None or isinstance(tool, Mapping):
            super().__init__(tool, **given)
        else:
            super().__init__(tool=tool, **given)

    def __attrs_post_init__(self) -> None:
        self._arguments = Arguments(self.args)
        for name in ("tool", "output_key"):
            if getattr(self, name) == "":
                raise self._wrong(f"the option {name!r} is empty", name)
        self._given_tool = None if isinstance(self.tool, str) else _as_tool(self.tool)
        known = self._given_tool or default_tool_registry.registered(str(self.tool))
        if known is not None:
            self._check_arguments(known)

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Call the tool; return its result under ``output_key``."""
        tool = self._find_tool(ctx)
        schema = tool.spec().schema
        node = ctx.node_id or self.id or ""
        arguments = self._arguments.fill(state, schema=schema, node=node)
        try:
            tool.read(arguments)
        except ToolError as misfit:
            problem = f"wrong arguments for {tool.name!r}: {misfit}"
            if self.on_error == "raise":
                raise ToolError(f"{self._described(node)}: {problem}", tool=tool.name) from None
            return {self.output_key: f"error: {problem}"}
        (result,) = await run_tool_calls(
            ctx,
            [messages.ToolCall(id=tool.name, name=tool.name, arguments=arguments)],
            [tool],
            state=state,
            options=ToolOptions(
                error_mode=self.on_error,
                timeout=self.timeout,
                human_key="",
                max_chars=self.max_chars or sys.maxsize,
            ),
        )
        text = result.text
        if result.error:
            text = f"error: {text.removeprefix(f'Error calling {tool.name!r}: ')}"
        return {self.output_key: text}

    def reads(self) -> Iterable[str]:
        """Return the keys that the templates cannot do without."""
        return self._arguments.root_keys

    def writes(self) -> Iterable[str]:
        """Return the key of the result."""
        return [self.output_key]

    def uses_tools(self) -> Iterable[str]:
        """Return the name of the tool, where it is known by name alone."""
        return [self.tool] if isinstance(self.tool, str) else []

    def _find_tool(self, ctx: ExecContext) -> Tool:
        if self._given_tool is not None:
            return self._given_tool
        name = str(self.tool)
        return ctx.tools.get(name) or default_tool_registry.resolve(name)

    def _check_arguments(self, tool: Tool) -> None:
        """Refuse arguments that the tool does not have, or not enough of them."""
        schema = tool.spec().schema
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is False:
            for name in self._arguments.names:
                if name not in properties:
                    hint = suggest(name, properties) if properties else "It takes none."
                    raise self._wrong(
                        f"the tool {tool.name!r} has no argument {name!r}", f"args.{name}", hint
                    )
        for name in schema.get("required", ()):
            if name not in self._arguments.names:
                raise self._wrong(f"the tool {tool.name!r} needs the argument {name!r}", "args")
        if self._arguments.is_constant:
            try:
                tool.read(self._arguments.fill({}, schema=schema))
            except ToolError as misfit:
                raise self._wrong(
                    f"wrong arguments for the tool {tool.name!r}", "args", str(misfit)
                ) from None

    def _wrong(self, problem: str, path: str, hint: str = "") -> ConfigError:
        return ConfigError(f"{self._described(self.id)}: {problem}.", path=path, hint=hint.strip())


def _as_tool(given: Any) -> Tool:
    if isinstance(given, type) and issubclass(given, Tool):
        return given()
    return given if isinstance(given, Tool) else FunctionTool(given)
