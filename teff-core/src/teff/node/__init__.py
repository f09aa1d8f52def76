"""The node types, one file each, and what is needed to write more."""

from teff.errors import GraphInterrupt, StructuredOutputError
from teff.messages import last_user_message
from teff.node.append_assistant import AppendAssistant
from teff.node.base import Node, options
from teff.node.command import CommandNode
from teff.node.context_builder import ContextBuilder
from teff.node.function import FunctionNode
from teff.node.interrupt import Interrupt
from teff.node.llm import LLM
from teff.node.model import ModelNode
from teff.node.react_agent import ReActAgent
from teff.node.registry import NodeRegistry, default_registry, make_function_node
from teff.node.supervisor import Supervisor
from teff.node.tool_exec import ToolExec
from teff.node.transform import Transform
from teff.runtime import Command, ExecContext

__all__ = [
    "LLM",
    "AppendAssistant",
    "Command",
    "CommandNode",
    "ContextBuilder",
    "ExecContext",
    "FunctionNode",
    "GraphInterrupt",
    "Interrupt",
    "ModelNode",
    "Node",
    "NodeRegistry",
    "ReActAgent",
    "StructuredOutputError",
    "Supervisor",
    "ToolExec",
    "Transform",
    "default_registry",
    "last_user_message",
    "make_function_node",
    "options",
]
