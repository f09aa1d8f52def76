"""Model calls and tool calls, done right once for every node."""

from teff.harness.harness import Harness, TokenCallback
from teff.harness.retry import RetryPolicy
from teff.harness.tool_calls import ToolOptions, named_tools, run_tool_calls, tools_in_scope

__all__ = [
    "Harness",
    "RetryPolicy",
    "TokenCallback",
    "ToolOptions",
    "named_tools",
    "run_tool_calls",
    "tools_in_scope",
]
