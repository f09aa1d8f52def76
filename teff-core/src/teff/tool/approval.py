"""Whether a tool call may run: asked before each call, and no unless somebody says yes."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from teff.errors import ConfigError, suggest
from teff.messages import ToolCall
from teff.tool.threads import run_in_thread

__all__ = ["ApprovalPolicy", "Decision", "check_policy", "decide"]

Decision: TypeAlias = Literal["approve", "deny", "pause"]

#: How calls are approved: None or ``"auto"`` approves every call, ``"deny"`` none, ``"pause"`` asks
#: a person; a function ``(name, arguments)``, sync or async, answers True, False, or a `Decision`.
ApprovalPolicy: TypeAlias = (
    Literal["auto", "deny", "pause"]
    | Callable[[str, dict[str, Any]], bool | str | Awaitable[bool | str]]
    | None
)

_POLICIES: dict[str, Decision] = {"auto": "approve", "deny": "deny", "pause": "pause"}
_ANSWERS: dict[object, Decision] = {"approve": "approve", "deny": "deny", "pause": "pause"}


def check_policy(policy: object) -> None:
    """Refuse a policy that nobody could follow, when a workflow is built.

    Raises:
        ConfigError: it is neither a known word nor a function.
    """
    if policy is None or callable(policy) or (isinstance(policy, str) and policy in _POLICIES):
        return
    if not isinstance(policy, str):
        raise ConfigError(
            "tool_approval must be 'auto', 'deny', 'pause' or a function.", path="tool_approval"
        )
    raise ConfigError(
        f"unknown tool_approval {policy!r}.{suggest(policy, _POLICIES)}", path="tool_approval"
    )


async def decide(policy: ApprovalPolicy, call: ToolCall) -> Decision:
    """Say what becomes of one call.

    A function gets a copy of the arguments, and runs in a thread where it is not async. Whatever
    it answers but True, ``"approve"`` or ``"pause"`` is a denial.

    Raises:
        ConfigError: the policy is none (see `check_policy`).
        Exception: whatever the function raises; the call has then not been approved.
    """
    check_policy(policy)
    if policy is None:
        return "approve"
    if isinstance(policy, str):
        return _POLICIES[policy]
    question = {"name": call.name, "arguments": copy.deepcopy(dict(call.arguments))}
    answer = await run_in_thread(lambda name, arguments: policy(name, arguments), question)
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, bool):
        return "approve" if answer else "deny"
    return _ANSWERS.get(answer, "deny") if isinstance(answer, str) else "deny"
