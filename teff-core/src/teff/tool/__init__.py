"""Tools: what a model can call, how they are found, and how one call is carried out."""

from typing import TYPE_CHECKING

from teff.lazy import lazy_names

if TYPE_CHECKING:
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

_HOMES = {
    "teff.tool.approval": ("ApprovalPolicy", "Decision", "check_policy", "decide"),
    "teff.tool.base": ("FunctionTool", "Tool"),
    "teff.tool.decorator": ("tool",),
    "teff.tool.execute": ("ToolResult", "execute_call"),
    "teff.tool.registry": ("ToolRegistry", "default_tool_registry"),
    "teff.tool.scope": ("scope_tools",),
}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
