"""Model calls and tool calls, done right once for every node."""

from teff.harness.harness import Harness, HarnessSettings, TokenCallback
from teff.harness.retry import RetryPolicy
from teff.harness.tool_calls import (
    ASK_HUMAN,
    ToolOptions,
    UseTools,
    named_tools,
    offered_tools,
    run_tool_calls,
    tools_in_scope,
)

__all__ = [
    "ASK_HUMAN",
    "Harness",
    "HarnessSettings",
    "RetryPolicy",
    "TokenCallback",
    "ToolOptions",
    "UseTools",
    "named_tools",
    "offered_tools",
    "run_tool_calls",
    "tools_in_scope",
]
