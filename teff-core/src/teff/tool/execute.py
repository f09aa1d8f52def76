"""One tool call of a model, carried out: whatever happens, there is a text to answer it with."""

from __future__ import annotations

import asyncio
import difflib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from teff.errors import ConfigError, GraphInterrupt, ToolError, error_text
from teff.messages import ToolCall
from teff.tool.base import Tool
from teff.tool.text import DEFAULT_MAX_CHARS, result_text, shorten

__all__ = ["ToolResult", "execute_call"]


@attrs.frozen(kw_only=True)
class ToolResult:
    """The answer to one call.

    Attributes:
        call: the call that this answers.
        text: what the model is told.
        error: whether the call failed; ``text`` then says how.
        duration: seconds.
    """

    call: ToolCall
    text: str
    error: bool = False
    duration: float = 0.0


async def execute_call(
    call: ToolCall,
    tools: Mapping[str, Tool],
    *,
    state: Any = None,
    ctx: Any = None,
    error_mode: Literal["message", "raise"] = "message",
    timeout: float | None = None,  # noqa: ASYNC109  # running out of it is a result, no error
    max_chars: int = DEFAULT_MAX_CHARS,
) -> ToolResult:
    """Carry out one call, once.

    A call of a tool that is not there, or with arguments that are no JSON or do not fit, runs
    nothing; its answer says what would have been right. These are the model's mistakes, for it to
    repair, in either ``error_mode``.

    Args:
        call: what the model wants.
        tools: what it may call, by name.
        state: for tools that declare ``__state__``.
        ctx: for tools that declare ``__ctx__``.
        error_mode: what becomes of a failure of the tool: ``message`` tells the model, ``raise``
            raises.
        timeout: seconds; None waits for ever. A tool that is not async cannot be stopped, only
            no longer waited for.
        max_chars: the longest text, in characters; the middle of a longer one is left out.

    Raises:
        ToolError: the tool failed or took too long, with ``error_mode="raise"``; the exception of
            the tool is its cause.
        GraphInterrupt: the tool pauses the run. A signal derived from ``BaseException`` passes
            through too, as does a cancellation of this task; a ``CancelledError`` that the tool
            raises by itself is a failure of the tool.
    """
    if error_mode not in ("message", "raise"):
        raise ConfigError(
            f"unknown error mode {error_mode!r}; it is 'message' or 'raise'.",
            path="tool_error_mode",
        )
    started = time.perf_counter()
    error = True
    prepared = _prepare(call, tools)
    if isinstance(prepared, str):
        text = prepared
    else:
        tool, arguments = prepared
        try:
            text = await _run(tool, arguments, state=state, ctx=ctx, seconds=timeout)
            error = False
        except GraphInterrupt:
            raise
        except Exception as failure:
            if error_mode == "raise":
                raise _as_tool_error(failure, call.name) from failure
            text = f"Error calling {call.name!r}: {_words(failure)}"
    return ToolResult(
        call=call,
        text=shorten(text, max_chars),
        error=error,
        duration=time.perf_counter() - started,
    )


def _prepare(call: ToolCall, tools: Mapping[str, Tool]) -> tuple[Tool, dict[str, Any]] | str:
    """Return what to run and with which arguments, or what to answer where nothing may run."""
    tool = tools.get(call.name)
    if tool is None:
        return _unknown_tool(call.name, tools)
    if call.error:
        problem = f"Error: invalid JSON arguments for {call.name!r}: {call.error}."
    else:
        try:
            return tool, tool.read(call.arguments)
        except ToolError as misfit:
            problem = f"Error: wrong arguments for {call.name!r}: {misfit}"
    schema = json.dumps(tool.spec().schema, ensure_ascii=False)
    return f"{problem} The tool was not run. It expects: {schema}"


def _unknown_tool(name: str, tools: Iterable[str]) -> str:
    def likeness(known: str) -> float:
        return difflib.SequenceMatcher(None, name.casefold(), known.casefold()).ratio()

    names = sorted(sorted(tools), key=likeness, reverse=True)
    if not names:
        return f"Error: unknown tool {name!r}. There are no tools; answer without one."
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"Error: unknown tool {name!r}. Available, closest first: {', '.join(names[:20])}{more}."


async def _run(
    tool: Tool, arguments: Mapping[str, Any], *, state: Any, ctx: Any, seconds: float | None
) -> str:
    task = asyncio.current_task()
    cancellations = task.cancelling() if task else 0
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            result = await tool.invoke(arguments, state=state, ctx=ctx)
        return result_text(result)
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling() > cancellations:
            raise
        raise ToolError("it was cancelled", tool=tool.name) from error
    except Exception as error:
        if limit.expired():
            raise ToolError(f"timed out after {seconds:g} s", tool=tool.name) from error
        raise


def _as_tool_error(failure: Exception, name: str) -> ToolError:
    return ToolError(f"the tool {name!r} failed: {_words(failure)}", tool=name)


def _words(failure: Exception) -> str:
    if isinstance(failure, ToolError):
        return str(failure)
    return f"{type(failure).__name__}: {error_text(failure)}".removesuffix(": ")
