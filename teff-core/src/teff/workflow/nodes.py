"""The idioms that are one node, and may stand anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from teff.errors import ConfigError, suggest
from teff.flow import agent_step
from teff.node import (
    LLM,
    AppendAssistant,
    CommandNode,
    ContextBuilder,
    Interrupt,
    ModelNode,
    Node,
    ReActAgent,
    ToolExec,
    Transform,
    default_registry,
)
from teff.node.transform_actions import ACTIONS
from teff.workflow.options import as_written, fields_of, plugin_class
from teff.workflow.part import Part
from teff.workflow.references import References

__all__ = ["AGENT_STEP", "NODES", "TOOL_LOOP", "NodeMaker", "described"]

#: Makes a node from the options of an idiom.
NodeMaker: TypeAlias = Callable[[Part, References], Node]

#: The options of both nodes of a tool loop.
TOOL_LOOP = fields_of(ToolExec, ReActAgent)

#: The options of an agent with a conversation of its own.
AGENT_STEP = {
    **{name: hint for name, hint in TOOL_LOOP.items() if name != "input_key"},
    **fields_of(agent_step, without=["config"]),
}


def described(part: Part) -> str:
    """Return how messages call a step: its idiom, with its id where it has one.

    The part is that of the options, so that the last word of its path is the idiom.
    """
    idiom = part.path.rpartition(".")[2]
    given = part.find("id")
    return idiom if given is None else f"{idiom} {given.text()!r}"


def _of(cls: type[Node]) -> NodeMaker:
    """Return how a node of a built-in type is made."""
    fields = fields_of(cls)

    def make(part: Part, references: References) -> Node:
        what = described(part)
        options = references.read(part, fields, what=what)
        if issubclass(cls, ModelNode):
            references.expect_model(part, options, what=what)
        return cls(**options)

    return make


def _agent_step(part: Part, references: References) -> Node:
    what = described(part)
    options = references.read(part, AGENT_STEP, what=what)
    references.expect_model(part, options, what=what)
    if not options.get("output_key"):
        raise part.error(f"{what}: the option 'output_key' is missing; it names a state key.")
    return agent_step(options.pop("system", ""), **options)


def _transform(part: Part, references: References) -> Node:
    """Make a transform; an option that is like none of them is answered with those of the action."""
    action = part.find("action")
    known = fields_of(Transform)
    if action is not None and isinstance(action.value, str) and action.value in ACTIONS:
        takes = ", ".join((*ACTIONS[action.value].options, "output_key"))
        for name, option in part.entries().items():
            if name not in known and not suggest(name, known):
                raise option.error(
                    f"{described(part)}: unknown option {name!r}.",
                    f"The action {action.value!r} takes {takes}.",
                )
    return _of(Transform)(part, references)


def _type(part: Part, references: References) -> Node:
    """Make a node of any type, also one that a plugin brings."""
    part.check_keys(["type", "config", "id"], what="type")
    if "type" not in part:
        raise part.error("type: the key 'type' is missing; it names the type of the node.")
    type_part, config = part["type"], part.find("config")
    name = type_part.text()
    options: dict[str, Any] = {}
    if config is not None:
        config.entries()
        node_class = plugin_class("teff.nodes", name)
        options = as_written(config.written, node_class)
        # Only of these it is known what their options mean.
        if isinstance(node_class, type) and issubclass(node_class, (ModelNode, CommandNode)):
            references.note(config, options)
    if "id" in part:
        options["id"] = part["id"].text()
    try:
        return default_registry.create(name, options)
    except ConfigError as error:
        raise (config if error.path and config is not None else type_part).located(error) from None
    except (TypeError, ValueError) as error:  # from the code of a plugin
        raise type_part.error(f"node type {name!r} refuses its options: {error}.") from error


#: Idioms by name.
NODES: Mapping[str, NodeMaker] = {
    "agent_step": _agent_step,
    "append_assistant": _of(AppendAssistant),
    "command": _of(CommandNode),
    "context_builder": _of(ContextBuilder),
    "interrupt": _of(Interrupt),
    "llm": _of(LLM),
    "route": _of(CommandNode),
    "transform": _transform,
    "type": _type,
}
