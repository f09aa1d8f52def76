"""Model calls and tool calls, done right once for every node."""

from teff.harness.harness import Harness, HarnessSettings, TokenCallback
from teff.harness.retry import RetryPolicy
from teff.harness.structured import StructuredOutput, settle
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
    "StructuredOutput",
    "TokenCallback",
    "ToolOptions",
    "UseTools",
    "named_tools",
    "offered_tools",
    "run_tool_calls",
    "settle",
    "tools_in_scope",
]
