"""Only re-exports: the agents live in `teff.node.react_agent` and `teff.node.tool_exec`."""

from teff.node.react_agent import ReActAgent
from teff.node.tool_exec import ToolExec

__all__ = ["ReActAgent", "ToolExec"]
