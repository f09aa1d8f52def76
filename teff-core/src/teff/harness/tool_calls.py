"""Carrying out the tool calls of one reply: approval, limits, events, the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from teff.errors import GraphInterrupt
from teff.messages import ToolCall
from teff.runtime import ExecContext, Question, Signal
from teff.tool import Tool, ToolResult, default_tool_registry, execute_call, scope_tools
from teff.tool.approval import ApprovalPolicy, decide

__all__ = ["ToolOptions", "named_tools", "run_tool_calls", "tools_in_scope"]


@attrs.frozen(kw_only=True)
class ToolOptions:
    """How tool calls are carried out.

    Attributes:
        error_mode: ``message`` tells the model what went wrong; ``raise`` ends the step.
        timeout: seconds for one call, or None.
        approval: who says whether a call may run; see `teff.tool.approval`.
        human_key: the name of the tool that asks a person.
        max_parallel: how many calls run at once.
    """

    error_mode: Literal["message", "raise"] = "message"
    timeout: float | None = None
    approval: ApprovalPolicy = None
    human_key: str = "ask_human"
    max_parallel: int = 8


def tools_in_scope(ctx: ExecContext, use_tools: str | Sequence[str] | bool | None) -> list[Tool]:
    """Return the tools that a node may use: those of the run, and by name the installed ones too.

    Raises:
        ConfigError: an unknown name.
    """
    pool = dict(ctx.tools)
    for name in named_tools(use_tools):
        if name not in pool:
            pool[name] = default_tool_registry.resolve(name)
    return scope_tools(pool, use_tools)


def named_tools(use_tools: str | Sequence[str] | bool | None) -> list[str]:
    """Return the names in a ``use_tools`` option; what ``all`` means is only known in a run."""
    if use_tools is None or isinstance(use_tools, bool) or use_tools in ("all", "*"):
        return []
    return [use_tools] if isinstance(use_tools, str) else list(use_tools)


async def run_tool_calls(
    ctx: ExecContext,
    calls: Sequence[ToolCall],
    tools: Iterable[Tool],
    *,
    state: Mapping[str, Any],
    options: ToolOptions,
) -> list[ToolResult]:
    """Carry out ``calls`` at once and return their results in the same order.

    A call that was finished before a pause or a crash is not run again. Several calls may pause in
    one round: all of their questions are open together, and what can run has run.

    Raises:
        ToolError: a call failed and ``error_mode`` is ``raise``; the others were finished first.
    """
    by_name = {tool.name: tool for tool in tools}
    # Servers may use an id twice, so the round and the place of a call are part of its key.
    round_number = ctx.number("tool_round")
    gate = asyncio.Semaphore(options.max_parallel)

    async def carry_out(number: int, call: ToolCall) -> ToolResult:
        async with gate:
            part = ctx.part(f"tool:{round_number}.{number}:{call.id}")
            return await _carry_out(part, call, by_name, state=state, options=options)

    outcomes = await asyncio.gather(
        *(carry_out(number, call) for number, call in enumerate(calls, 1)),
        return_exceptions=True,
    )
    results: list[ToolResult] = []
    failures: list[BaseException] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            failures.append(outcome)
        else:
            results.append(outcome)
    if failures:
        # A signal (a pause, a limit) says more about the run than an error beside it.
        raise min(failures, key=lambda failure: not isinstance(failure, Signal))
    return results


async def _carry_out(
    ctx: ExecContext,
    call: ToolCall,
    tools: Mapping[str, Tool],
    *,
    state: Mapping[str, Any],
    options: ToolOptions,
) -> ToolResult:
    """Carry out one call; ``ctx`` is its own, so its keys and questions reach no other call."""
    if call.name == options.human_key and call.name not in tools:
        answer = await ctx.ask(_question(ctx, options.human_key, _asked(call)))
        return ToolResult(call=call, text=str(answer))
    if not await _is_approved(ctx, call, options.approval):
        return ToolResult(call=call, text=f"The call of {call.name!r} was declined.", error=True)
    await ctx.emit(
        "tool_call", {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    )

    async def run() -> dict[str, Any]:
        ctx.run.count_tool_call()
        try:
            result = await execute_call(
                call,
                tools,
                state=state,
                ctx=ctx,
                error_mode=options.error_mode,
                timeout=options.timeout,
            )
        except GraphInterrupt as asked:
            result = ToolResult(call=call, text=str(await ctx.answer_to(asked)))
        if (pending := ctx.pending()) is not None:
            raise pending  # the tool has caught a pause or a limit
        return {"text": result.text, "error": result.error, "duration": result.duration}

    result = ToolResult(call=call, **await ctx.once("result", run))
    await ctx.emit(
        "tool_result",
        {
            "id": call.id,
            "name": call.name,
            "text": result.text,
            "error": result.error,
            "duration_ms": result.duration * 1000.0,
        },
    )
    return result


async def _is_approved(ctx: ExecContext, call: ToolCall, policy: ApprovalPolicy) -> bool:
    async def ask_policy() -> str:
        return await decide(policy, call)

    # Decided once: a policy that changes its mind cannot overrule a person's answer.
    decision = await ctx.once("approval", ask_policy)
    if decision == "pause":
        prompt = f"May {call.name!r} be called with {dict(call.arguments)!r}?"
        answer = await ctx.ask(_question(ctx, "tool_approval", prompt))
        # Whatever is no clear yes is a no.
        return answer is True or (isinstance(answer, str) and answer.strip() == "approve")
    return decision == "approve"


def _question(ctx: ExecContext, key: str, prompt: str) -> Question:
    return Question(
        id=f"{ctx.path}:{key}", key=key, prompt=prompt, path=ctx.path, node_id=ctx.node_id
    )


def _asked(call: ToolCall) -> str:
    for name in ("question", "prompt", "message"):
        if isinstance(text := call.arguments.get(name), str):
            return text
    return ", ".join(str(value) for value in call.arguments.values())
