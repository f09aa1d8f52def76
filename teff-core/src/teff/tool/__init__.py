"""Tools: what a model can call, how they are found, and how one call is carried out."""

from __future__ import annotations

from teff.tool.approval import ApprovalPolicy, Decision, check_policy, decide
from teff.tool.base import FunctionTool, Tool
from teff.tool.decorator import tool
from teff.tool.execute import ToolResult, execute_call
from teff.tool.registry import ToolRegistry, default_tool_registry
from teff.tool.scope import scope_tools

__all__ = [
    "ApprovalPolicy",
    "Decision",
    "FunctionTool",
    "Tool",
    "ToolRegistry",
    "ToolResult",
    "check_policy",
    "decide",
    "default_tool_registry",
    "execute_call",
    "scope_tools",
    "tool",
]
