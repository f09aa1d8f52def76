"""What Teff itself brings under a name, and which distribution owns which well-known name.

Both are tables, so that a built-in name costs no look at what is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

__all__ = ["BUILTINS", "CORE", "OFFICIAL", "part"]

#: The distribution that the built-in names come from.
CORE = "teff-core"

BUILTINS: Mapping[str, Mapping[str, str]] = {
    "teff.nodes": {
        "append_assistant": "teff.node.append_assistant:AppendAssistant",
        "command": "teff.node.command:CommandNode",
        "context_builder": "teff.node.context_builder:ContextBuilder",
        "delegate": "teff.node.delegate:Delegate",
        "fallback": "teff.node.fallback:Fallback",
        "gate": "teff.node.gate:Gate",
        "interrupt": "teff.node.interrupt:Interrupt",
        "llm_chat": "teff.node.llm:LLM",
        "loop": "teff.node.loop:Loop",
        "map": "teff.node.map:Map",
        "parallel": "teff.node.parallel:Parallel",
        "react_agent": "teff.node.react_agent:ReActAgent",
        "retry": "teff.node.retry:Retry",
        "subflow": "teff.flow.sub_flow:SubFlow",
        "supervisor": "teff.node.supervisor:Supervisor",
        "tool_call": "teff.node.tool_call:ToolCall",
        "tool_exec": "teff.node.tool_exec:ToolExec",
        "transform": "teff.node.transform:Transform",
        "validate": "teff.node.validate:Validate",
    },
    "teff.memory": {
        "in_memory": "teff.memory.in_memory:InMemoryStore",
    },
    "teff.checkpointers": {
        "file": "teff.checkpoint.file:FileCheckpointer",
        "memory": "teff.checkpoint.memory:MemoryCheckpointer",
        "sqlite": "teff.checkpoint.sqlite:SQLiteCheckpointer",
    },
}

#: Names that users know, and the distribution that provides each.
OFFICIAL: Mapping[str, Mapping[str, str]] = {
    "teff.providers": {
        "azure": "teff-providers-openai",
        "deepseek": "teff-providers-openai",
        "gemini": "teff-providers-openai",
        "groq": "teff-providers-openai",
        "litellm": "teff-providers-openai",
        "llamacpp": "teff-providers-openai",
        "lmstudio": "teff-providers-openai",
        "local": "teff-providers-local",
        "mistral": "teff-providers-openai",
        "ollama": "teff-providers-ollama",
        "openai": "teff-providers-openai",
        "openrouter": "teff-providers-openai",
        "together": "teff-providers-openai",
        "vllm": "teff-providers-openai",
    },
    "teff.tools": {
        "fetch_url": "teff-tools-web",
    },
}

#: What a lower floor reaches by name, since it may not import upward.
PARTS: Mapping[str, str] = {
    "agent_role": "teff.flow.agent:AgentRole",
    "harness": "teff.harness:Harness",
}


def part(name: str) -> Any:
    """Return a part of Teff from a floor above the caller's, importing it on its first use."""
    module, _, attribute = PARTS[name].partition(":")
    return getattr(import_module(module), attribute)
