"""The steps of a workflow file: each is one idiom with its options.

An idiom is either a node, or a piece of a flow that may hold several. Adding one is a function and
a row in `NODES` or `PIECES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from teff.errors import ConfigError, suggest
from teff.flow import AgentRole, Case, Flow, agent_step
from teff.node import (
    LLM,
    AppendAssistant,
    CommandNode,
    ContextBuilder,
    Interrupt,
    Node,
    ReActAgent,
    Supervisor,
    ToolExec,
    Transform,
    default_registry,
)
from teff.plugins import catalogue
from teff.workflow.options import fields_of, read_options
from teff.workflow.part import Part
from teff.workflow.steps import Steps, described

__all__ = ["NODES", "PIECES"]

#: The options of both nodes of a tool loop.
_TOOL_LOOP = fields_of(ToolExec, ReActAgent)
_AGENT = _TOOL_LOOP
_AGENT_STEP = {
    **fields_of(agent_step, without=["config"]),
    **{name: hint for name, hint in _TOOL_LOOP.items() if name != "input_key"},
}
_ROLE = {
    "tools": _TOOL_LOOP["use_tools"],
    **{name: hint for name, hint in _AGENT_STEP.items() if name != "id"},
}
#: What a supervisor is told, but for its agents and how it ends, which a piece of a flow wires.
_LEADER = {**fields_of(Supervisor, without=["id", "agents", "finish"]), "fallback": str}
_SUPERVISOR = {**fields_of(Supervisor), "key": str, "fallback": str}


def _node_of(cls: type[Node]) -> Callable[[Part, Steps], Node]:
    """Return how a node of a built-in type is made from its options."""
    fields = fields_of(cls)

    def make(part: Part, steps: Steps) -> Node:
        options = read_options(part, fields, what=described(part))
        steps.note(part, options)
        return cls(**options)

    return make


def _agent_step(part: Part, steps: Steps) -> Node:
    options = read_options(part, _AGENT_STEP, what=described(part))
    steps.note(part, options)
    if not options.get("output_key"):
        raise part.error(f"{described(part)}: the option 'output_key' is missing.")
    return agent_step(options.pop("system", ""), **options)


def _type(part: Part, steps: Steps) -> Node:
    """Make a node of any type, also one that a plugin brings."""
    part.check_keys(["type", "config", "id"], what="type")
    if "type" not in part:
        raise part.error("type: the key 'type' is missing; it names the type of the node.")
    name = part["type"].text()
    with part["type"].errors_here():
        default_registry_knows(name)
    config = part.get("config")
    given: dict[str, Any] = {"id": part["id"].text()} if "id" in part else {}
    if config is None:
        return default_registry.create(name, given)
    with config.errors_here():
        options = _options_of_type(name, config)
        steps.note(config, options)
        return default_registry.create(name, {**options, **given})
