"""The idioms that are one node, and may stand anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from teff.errors import ConfigError, suggest
from teff.flow import agent_step
from teff.node import (
    LLM,
    AppendAssistant,
    CommandNode,
    ContextBuilder,
    Fallback,
    Gate,
    ModelNode,
    Node,
    ReActAgent,
    Supervisor,
    ToolCall,
    ToolExec,
    Transform,
    Validate,
    default_registry,
)
from teff.node.transform_actions import ACTIONS
from teff.workflow.idiom import Idiom, described, node_maker
from teff.workflow.options import as_written, fields_of, plugin_class
from teff.workflow.part import Part
from teff.workflow.references import goto

if TYPE_CHECKING:
    from teff.workflow.steps import Steps

__all__ = ["AGENT_STEP", "NODES", "PLAIN_TYPES", "TOOL_LOOP", "command_options", "typed_node"]

#: The options of both nodes of a tool loop.
TOOL_LOOP = fields_of(ToolExec, ReActAgent)

#: The options of an agent with a conversation of its own.
AGENT_STEP = {
    **{name: hint for name, hint in TOOL_LOOP.items() if name != "input_key"},
    **fields_of(agent_step, without=["config"]),
}

_COMMAND = fields_of(CommandNode)


def _of(cls: type[Node], *needed: str) -> Idiom:
    """Return the idiom of a class whose options are all plain."""
    return Idiom(make=node_maker(cls), fields=fields_of(cls), about=(cls,), needed=needed)


def _agent_step(part: Part, steps: Steps) -> Node:
    what = described(part)
    options = steps.references.read(part, AGENT_STEP, what=what)
    steps.references.expect_model(part, options, what=what)
    if not options.get("output_key"):
        raise part.error(f"{what}: the option 'output_key' is missing; it names a state key.")
    return agent_step(options.pop("system", ""), **options)


def command_options(part: Part, steps: Steps) -> dict[str, Any]:
    """Return the options of a `CommandNode`; targets have the prefix of an included file."""
    options = steps.references.read(part, _COMMAND, what=described(part))
    if isinstance(options.get("goto"), str):
        options["goto"] = goto(part["goto"])
    if "routes" in part:
        options["routes"] = [
            {**route, "goto": goto(written["goto"])}
            for route, written in zip(options["routes"], part["routes"].elements(), strict=True)
        ]
    return options


def _command(part: Part, steps: Steps) -> Node:
    return CommandNode(**command_options(part, steps))


def _transform(part: Part, steps: Steps) -> Node:
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
    return node_maker(Transform)(part, steps)


def _tool_call(part: Part, steps: Steps) -> Node:
    node = node_maker(ToolCall)(part, steps)
    if "tool" in part and part["tool"].value is not None:
        steps.references.tools.append((part["tool"].text(), part["tool"]))
    return node


def _type(part: Part, steps: Steps) -> Node:
    """Make a node of any type, also one that a plugin brings."""
    part.check_keys(["type", "config", "id"], what="type")
    if "type" not in part:
        raise part.error("type: the key 'type' is missing; it names the type of the node.")
    return typed_node(part, steps)


def typed_node(part: Part, steps: Steps) -> Node:
    """Make the node of a mapping of ``type``, ``config`` and ``id``.

    Raises:
        ConfigError: an unknown type, or an option that is wrong.
    """
    name, config = part["type"].text(), part.find("config")
    given = part["id"].id() if "id" in part else None
    if config is None:
        config = part.empty("config")
    config.entries()
    if given is not None and "id" in config:
        raise config["id"].error("the id stands here and beside 'type'.")
    known = steps.maker(name)
    # A type that somebody has registered in place of a built-in one is not known here.
    if known is not None and not default_registry.has_own(name):
        label = name if given is None else f"{name} {part['id'].text()!r}"
        with config.errors_here():
            node = known(config.labelled(label), steps)
        node.id = given or node.id
        return node
    return _plugin_node(name, given, part, config, steps)


def _plugin_node(name: str, given: str | None, part: Part, config: Part, steps: Steps) -> Node:
    node_class = plugin_class("teff.nodes", name)
    options = as_written(config.written, node_class)
    # Only of these it is known what their options mean.
    if isinstance(node_class, type) and issubclass(node_class, (ModelNode, CommandNode)):
        steps.references.note(config, options)
    if given is not None:
        options["id"] = given
    try:
        return default_registry.create(name, options)
    except ConfigError as error:
        wrong = config if error.path and "config" in part else part["type"]
        idiom = NODES.get(name)
        made = idiom.about[0] if idiom is not None and idiom.about else None
        if wrong is not config and isinstance(made, type) and issubclass(made, Node):
            hint = f"The idiom {name!r} has the type {made.type!r}."
            raise wrong.error(error.message, hint) from None
        raise wrong.located(error) from None
    except (TypeError, ValueError) as error:  # from the code of a plugin
        raise part["type"].error(f"node type {name!r} refuses its options: {error}.") from error


_ROUTE = Idiom(
    make=_command,
    fields=_COMMAND,
    parts={"routes": "routes"},
    about=(CommandNode,),
    when="never",
)

#: Idioms by name.
NODES: Mapping[str, Idiom] = {
    "agent_step": Idiom(
        make=_agent_step,
        fields=AGENT_STEP,
        about=(agent_step, ReActAgent, ToolExec),
        needed=["output_key"],
    ),
    "append_assistant": _of(AppendAssistant),
    "command": _ROUTE,
    "context_builder": _of(ContextBuilder),
    "fallback": _of(Fallback, "field"),
    "gate": _of(Gate),
    "llm": _of(LLM),
    "route": _ROUTE,
    "tool_call": Idiom(
        make=_tool_call, fields=fields_of(ToolCall), about=(ToolCall,), needed=["tool"]
    ),
    "transform": Idiom(
        make=_transform, fields=fields_of(Transform), about=(Transform,), needed=["action"]
    ),
    "type": Idiom(
        make=_type,
        parts={"type": "node_type", "config": "any_mapping", "id": "text"},
        needed=["type"],
    ),
    "validate": _of(Validate),
}

#: Node types whose options are all plain, beside those of the idioms.
PLAIN_TYPES: Mapping[str, type[Node]] = {
    cls.type: cls for cls in (ReActAgent, Supervisor, ToolExec)
}
