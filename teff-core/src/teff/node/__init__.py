"""The node types, one file each, and what is needed to write more.

Each type is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING

from teff.errors import GraphInterrupt, StructuredOutputError
from teff.lazy import lazy_names
from teff.messages import last_user_message
from teff.node.base import Node, options
from teff.node.function import FunctionNode
from teff.node.registry import NodeRegistry, default_registry, make_function_node
from teff.runtime import Command, ExecContext

if TYPE_CHECKING:
    from teff.node.append_assistant import AppendAssistant
    from teff.node.ask import Ask
    from teff.node.command import CommandNode
    from teff.node.context_builder import ContextBuilder
    from teff.node.delegate import Delegate
    from teff.node.extract import Extract
    from teff.node.fallback import Fallback
    from teff.node.gate import Gate
    from teff.node.interrupt import Interrupt
    from teff.node.llm import LLM
    from teff.node.loop import Loop
    from teff.node.map import Map
    from teff.node.model import ModelNode
    from teff.node.parallel import Parallel
    from teff.node.react_agent import ReActAgent
    from teff.node.retry import Retry
    from teff.node.supervisor import Supervisor
    from teff.node.tool_call import ToolCall
    from teff.node.tool_exec import ToolExec
    from teff.node.transform import Transform
    from teff.node.validate import Validate

__all__ = [
    "LLM",
    "AppendAssistant",
    "Ask",
    "Command",
    "CommandNode",
    "ContextBuilder",
    "Delegate",
    "ExecContext",
    "Extract",
    "Fallback",
    "FunctionNode",
    "Gate",
    "GraphInterrupt",
    "Interrupt",
    "Loop",
    "Map",
    "ModelNode",
    "Node",
    "NodeRegistry",
    "Parallel",
    "ReActAgent",
    "Retry",
    "StructuredOutputError",
    "Supervisor",
    "ToolCall",
    "ToolExec",
    "Transform",
    "Validate",
    "default_registry",
    "last_user_message",
    "make_function_node",
    "options",
]

_HOMES = {
    "teff.node.append_assistant": ("AppendAssistant",),
    "teff.node.ask": ("Ask",),
    "teff.node.command": ("CommandNode",),
    "teff.node.context_builder": ("ContextBuilder",),
    "teff.node.delegate": ("Delegate",),
    "teff.node.extract": ("Extract",),
    "teff.node.fallback": ("Fallback",),
    "teff.node.gate": ("Gate",),
    "teff.node.interrupt": ("Interrupt",),
    "teff.node.llm": ("LLM",),
    "teff.node.loop": ("Loop",),
    "teff.node.map": ("Map",),
    "teff.node.model": ("ModelNode",),
    "teff.node.parallel": ("Parallel",),
    "teff.node.react_agent": ("ReActAgent",),
    "teff.node.retry": ("Retry",),
    "teff.node.supervisor": ("Supervisor",),
    "teff.node.tool_call": ("ToolCall",),
    "teff.node.tool_exec": ("ToolExec",),
    "teff.node.transform": ("Transform",),
    "teff.node.validate": ("Validate",),
}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
