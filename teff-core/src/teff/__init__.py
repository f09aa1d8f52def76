"""Teff: workflows and agents as graphs.

Everything that a program needs most stands here, and is loaded when it is first used::

    from teff import Flow, Graph, Node, from_yaml

``import teff`` itself imports nothing else.
"""

from __future__ import annotations

__version__ = "0.1.0"

# Type checkers take this name for true; `typing` would cost more than the whole module.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from teff.errors import (
        AmbiguousName,
        CheckpointCorrupt,
        CheckpointError,
        ConfigError,
        ContextLimitError,
        GraphChanged,
        GraphInterrupt,
        IncompleteStream,
        LeaseLost,
        LimitReached,
        NodeError,
        PluginError,
        PluginLoadError,
        ProviderError,
        RunFinished,
        RunLocked,
        StateError,
        StructuredOutputError,
        TeffError,
        ToolError,
        TruncatedOutput,
        WorkflowError,
    )
    from teff.flow import AgentRole, AgentTool, Case, Flow, SubFlow, agent_step
    from teff.graph import Edge, Graph, TurnResult
    from teff.harness import Harness
    from teff.node import (
        LLM,
        AppendAssistant,
        Command,
        ContextBuilder,
        Delegate,
        ExecContext,
        Interrupt,
        Node,
        NodeRegistry,
        ReActAgent,
        Supervisor,
        ToolExec,
        Transform,
        default_registry,
    )
    from teff.prompt import render_template
    from teff.provider import Provider, ProviderRegistry
    from teff.runtime import (
        Limits,
        Price,
        Prices,
        RunResult,
        RunSummary,
        RunTracer,
        StreamEvent,
    )
    from teff.state import (
        DELETE,
        Append,
        Overwrite,
        State,
        StateSchema,
        state_schema_to_jsonschema,
        validate_state,
    )
    from teff.strategies import SupervisorStrategy
    from teff.tool import Tool, ToolRegistry, default_tool_registry
    from teff.workflow import from_yaml

__all__ = [
    "DELETE",
    "LLM",
    "AgentRole",
    "AgentTool",
    "AmbiguousName",
    "Append",
    "AppendAssistant",
    "Case",
    "CheckpointCorrupt",
    "CheckpointError",
    "Command",
    "ConfigError",
    "ContextBuilder",
    "ContextLimitError",
    "Delegate",
    "Edge",
    "ExecContext",
    "Flow",
    "Graph",
    "GraphChanged",
    "GraphInterrupt",
    "Harness",
    "IncompleteStream",
    "Interrupt",
    "LeaseLost",
    "LimitReached",
    "Limits",
    "Node",
    "NodeError",
    "NodeRegistry",
    "Overwrite",
    "PluginError",
    "PluginLoadError",
    "Price",
    "Prices",
    "Provider",
    "ProviderError",
    "ProviderRegistry",
    "ReActAgent",
    "RunFinished",
    "RunLocked",
    "RunResult",
    "RunSummary",
    "RunTracer",
    "State",
    "StateError",
    "StateSchema",
    "StreamEvent",
    "StructuredOutputError",
    "SubFlow",
    "Supervisor",
    "SupervisorStrategy",
    "TeffError",
    "Tool",
    "ToolError",
    "ToolExec",
    "ToolRegistry",
    "Transform",
    "TruncatedOutput",
    "TurnResult",
    "WorkflowError",
    "__version__",
    "agent_step",
    "default_registry",
    "default_tool_registry",
    "from_yaml",
    "render_template",
    "state_schema_to_jsonschema",
    "validate_state",
]

_HOMES = {
    "teff.errors": (
        "AmbiguousName",
        "CheckpointCorrupt",
        "CheckpointError",
        "ConfigError",
        "ContextLimitError",
        "GraphChanged",
        "GraphInterrupt",
        "IncompleteStream",
        "LeaseLost",
        "LimitReached",
        "NodeError",
        "PluginError",
        "PluginLoadError",
        "ProviderError",
        "RunFinished",
        "RunLocked",
        "StateError",
        "StructuredOutputError",
        "TeffError",
        "ToolError",
        "TruncatedOutput",
        "WorkflowError",
    ),
    "teff.flow": ("AgentRole", "AgentTool", "Case", "Flow", "SubFlow", "agent_step"),
    "teff.graph": ("Edge", "Graph", "TurnResult"),
    "teff.harness": ("Harness",),
    "teff.node": (
        "LLM",
        "AppendAssistant",
        "Command",
        "ContextBuilder",
        "Delegate",
        "ExecContext",
        "Interrupt",
        "Node",
        "NodeRegistry",
        "ReActAgent",
        "Supervisor",
        "ToolExec",
        "Transform",
        "default_registry",
    ),
    "teff.prompt": ("render_template",),
    "teff.provider": ("Provider", "ProviderRegistry"),
    "teff.runtime": (
        "Limits",
        "Price",
        "Prices",
        "RunResult",
        "RunSummary",
        "RunTracer",
        "StreamEvent",
    ),
    "teff.state": (
        "DELETE",
        "Append",
        "Overwrite",
        "State",
        "StateSchema",
        "state_schema_to_jsonschema",
        "validate_state",
    ),
    "teff.strategies": ("SupervisorStrategy",),
    "teff.tool": ("Tool", "ToolRegistry", "default_tool_registry"),
    "teff.workflow": ("from_yaml",),
}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        from teff.lazy import lazy_names

        return lazy_names(__name__, globals(), _HOMES)(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
