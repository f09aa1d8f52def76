"""Carrying out the tool calls of one reply: approval, limits, events, the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from teff.errors import GraphInterrupt
from teff.messages import ToolCall
from teff.provider import ToolSpec
from teff.runtime import ExecContext, LimitSignal, Question, Signal
from teff.tool import Tool, ToolResult, default_tool_registry, execute_call, scope_tools
from teff.tool.approval import ApprovalPolicy, decide
from teff.tool.text import DEFAULT_MAX_CHARS

__all__ = [
    "ASK_HUMAN",
    "ToolOptions",
    "UseTools",
    "named_tools",
    "offered_tools",
    "run_tool_calls",
    "tools_in_scope",
]


#: Which tools a node may use: a name or several; True, ``"all"`` or ``"*"`` for those of the run;
#: None or False for none.
UseTools: TypeAlias = str | Sequence[str] | bool | None

#: The tool that asks a person; a call of it pauses the run.
ASK_HUMAN = ToolSpec(
    name="ask_human",
    description="Ask the person you work for a question, and wait for the answer.",
    schema={
        "type": "object",
        "properties": {"question": {"type": "string", "description": "What you want to know."}},
        "required": ["question"],
    },
)


_NOT_RUN = "The call was not carried out: the run has reached a limit."


@attrs.frozen(kw_only=True)
class ToolOptions:
    """How tool calls are carried out.

    Attributes:
        error_mode: ``message`` tells the model what went wrong; ``raise`` ends the step.
        timeout: seconds for one call, or None.
        approval: who says whether a call may run; see `teff.tool.approval`.
        human_key: the name of the tool that asks a person.
        max_parallel: how many calls run at once.
        max_chars: the longest text of a result, in characters; longer ones are shortened.
    """

    error_mode: Literal["message", "raise"] = "message"
    timeout: float | None = None
    approval: ApprovalPolicy = None
    human_key: str = "ask_human"
    max_parallel: int = 8
    max_chars: int = DEFAULT_MAX_CHARS


def tools_in_scope(ctx: ExecContext, use_tools: UseTools) -> list[Tool]:
    """Return the tools that a node may use: those of the run, and by name the installed ones too.

    Raises:
        ConfigError: an unknown name.
    """
    if use_tools is None or isinstance(use_tools, bool) or use_tools in ("all", "*"):
        return scope_tools(ctx.tools, use_tools)
    names, pool = named_tools(use_tools), dict(ctx.tools)
    for name in names:
        if name not in pool:
            pool[name] = default_tool_registry.resolve(name)
    return scope_tools(pool, names)


def named_tools(use_tools: UseTools) -> list[str]:
    """Return the tools that a ``use_tools`` option names; what ``all`` means is known in a run.

    `ASK_HUMAN` is no tool: whoever carries the calls out asks a person.
    """
    return [name for name in _written_names(use_tools) if name != ASK_HUMAN.name]


def offered_tools(tools: Iterable[Tool], use_tools: UseTools) -> list[ToolSpec]:
    """Return what a model is told of its tools; ``ask_human`` too where it is named."""
    specs = [tool.spec() for tool in tools if tool.name != ASK_HUMAN.name]
    if ASK_HUMAN.name in _written_names(use_tools):
        specs.append(ASK_HUMAN)
    return specs


def _written_names(use_tools: UseTools) -> Sequence[str]:
    if use_tools is None or isinstance(use_tools, bool) or use_tools in ("all", "*"):
        return ()
    return (use_tools,) if isinstance(use_tools, str) else use_tools


async def run_tool_calls(
    ctx: ExecContext,
    calls: Sequence[ToolCall],
    tools: Iterable[Tool],
    *,
    state: Mapping[str, Any],
    options: ToolOptions,
    keep: Callable[[list[ToolResult]], None] | None = None,
) -> list[ToolResult]:
    """Carry out ``calls`` at once and return their results in the same order.

    A call that was finished before a pause or a crash is not run again. Several calls may pause in
    one round: all of their questions are open together, and what can run has run.

    Args:
        ctx: the step.
        calls: what the model wants.
        tools: what it may call.
        state: for tools that read it.
        options: how.
        keep: called with a result for every call where a limit ends the run among them.

    Raises:
        ToolError: a call failed and ``error_mode`` is ``raise``; the others were finished first.
        Signal: the run has paused or reached a limit.
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
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if not failures:
        return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    # A signal (a pause, a limit) says more about the run than an error beside it.
    failure = min(failures, key=lambda failure: not isinstance(failure, Signal))
    if isinstance(failure, LimitSignal) and keep is not None:
        keep(
            [
                ToolResult(call=call, text=_NOT_RUN, error=True)
                if isinstance(outcome, BaseException)
                else outcome
                for call, outcome in zip(calls, outcomes, strict=True)
            ]
        )
    raise failure


async def _carry_out(
    ctx: ExecContext,
    call: ToolCall,
    tools: Mapping[str, Tool],
    *,
    state: Mapping[str, Any],
    options: ToolOptions,
) -> ToolResult:
    """Carry out one call; ``ctx`` is its own, so its keys and questions reach no other call."""
    if call.name == options.human_key:
        answer = await ctx.ask(_question(ctx, options.human_key, _asked(call)))
        return ToolResult(call=call, text=str(answer))
    if not await _is_approved(ctx, call, options.approval):
        return ToolResult(call=call, text=f"The call of {call.name!r} was declined.", error=True)
    await ctx.emit(
        "tool_call", {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    )

    async def run() -> dict[str, Any]:
        ctx.count_tool_call()
        try:
            result = await execute_call(
                call,
                tools,
                state=state,
                ctx=ctx,
                error_mode=options.error_mode,
                timeout=options.timeout,
                max_chars=options.max_chars,
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

    if callable(policy):
        # Decided once: a policy that changes its mind cannot overrule a person's answer.
        decision = await ctx.once("approval", ask_policy)
    else:
        decision = await ask_policy()
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
