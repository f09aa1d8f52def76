"""`AgentTool`: a flow, a node or a role as a tool."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from teff.errors import ConfigError, ToolError
from teff.flow.agent import AgentRole
from teff.messages import user
from teff.node.delegation import SubAgent
from teff.runtime import ExecContext, Limits
from teff.schema.problems import Misfit
from teff.schema.shape import Shape, shape_of
from teff.schema.validate import SchemaValidator
from teff.tool import Tool

__all__ = ["AgentTool"]


class AgentTool(Tool):
    """An agent that any model with tools can call; it runs inside the run of whoever calls it.

    Limits, events, questions to a person and the journal are those of the run. The agent sees what it
    is called with, and of the caller's state the keys in ``context``. With a message it has it as the
    user's under ``messages`` and as text under ``input``; with an input type it has each field under
    its own name too, and the whole as JSON text.

    An agent that fails, or that gives no answer, is a failure of the tool.

    Args:
        agent: a node, a function ``(ctx, state)``, a flow, a graph, an `AgentRole` or its mapping.
        name: how the model calls it.
        description: what the model is told; it chooses by it.
        input_type: what it is called with: a TypedDict, dataclass, attrs class, ``msgspec.Struct``
            or a map of fields, see `teff.schema.shape.shape_of`; by default one text, ``message``.
        output_key: where the answer is; see `teff.node.delegation.SubAgent`.
        context: keys of the caller's state that it sees; a mapping gives them other names inside.
        limits: bounds of each call, beside those around it; a mapping will do. Reaching one is a
            failure of the tool.

    Raises:
        ConfigError: a name that no model could call, no description, an input that is no object, or
            nothing that can run.

    >>> import asyncio
    >>> async def translate(ctx, state):
    ...     return {"output": {"hello": "sveiki"}[state["word"]]}
    >>> tool = AgentTool(
    ...     translate,
    ...     name="translate",
    ...     description="Translates into Latvian.",
    ...     input_type={"word": "string"},
    ... )
    >>> asyncio.run(tool.call({"word": "hello"}))
    'sveiki'
    """

    def __init__(
        self,
        agent: Any,
        *,
        name: str,
        description: str,
        input_type: Any = None,
        output_key: str = "",
        context: Mapping[str, str] | Sequence[str] = (),
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(agent, Mapping):
            agent = AgentRole.from_mapping(agent, name=name)
        if isinstance(agent, AgentRole):
            output_key = output_key or agent.output_key
            agent = agent.build(id=name)
        self.agent = SubAgent(
            name=name,
            description=description,
            node=agent,
            output_key=output_key,
            context=context,
            limits=limits,
        )
        self.name, self.description = name, description
        self._shape = None if input_type is None else _object_shape(name, input_type)
        self.schema = _MESSAGE if self._shape is None else self._shape.schema
        self._validator = SchemaValidator(self.schema, what="input_type")

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the input type has them.

        Raises:
            ToolError: they do not fit, in words for the model.
        """
        given = dict(arguments)
        if problems := self._validator.problems(given):
            raise ToolError(" ".join(f"{problem}." for problem in problems), tool=self.name)
        if self._shape is None:
            return given
        try:
            read: dict[str, Any] = self._shape.read(given)
        except Misfit as misfit:
            told = "; ".join(f"{one.path} {one.text}".strip() for one in misfit.problems)
            raise ToolError(told, tool=self.name) from None
        return read

    async def arun(
        self, *, __state__: Any = None, __ctx__: ExecContext | None = None, **arguments: Any
    ) -> Any:
        """Run the agent as a child of the calling node's step; return its answer.

        Raises:
            ToolError: the agent failed, or gave no answer.
        """
        ctx = __ctx__ if __ctx__ is not None else ExecContext(node_id=self.name)
        around = __state__ if isinstance(__state__, Mapping) else {}
        if self._shape is None:
            state = self.agent.state(arguments["message"], around)
        else:
            text = json.dumps(arguments, ensure_ascii=False)
            whole = self.agent.state(text, around)
            state = {**whole, "messages": [user(text)], **arguments}
        number = ctx.number(f"agent:{self.name}")
        key = self.name if number == 1 else f"{self.name}-{number}"
        result = await self.agent.run(ctx, key, state)
        if result.status != "ok":
            raise ToolError(f"the agent {self.name!r} failed: {result.error}", tool=self.name)
        return result.output


_MESSAGE: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "description": "The whole task: the agent sees nothing else."}
    },
    "required": ["message"],
    "additionalProperties": False,
}


def _object_shape(name: str, input_type: Any) -> Shape:
    shape = shape_of(input_type)
    properties = shape.schema.get("properties")
    if shape.schema.get("type") != "object" or not isinstance(properties, Mapping):
        raise ConfigError(
            f"agent {name!r}: the input must be an object with fields.",
            path="input_type",
            hint="Give a TypedDict, a dataclass or a map of fields.",
        )
    if "messages" in properties:
        raise ConfigError(
            f"agent {name!r}: a field of the input cannot be called 'messages', which holds the "
            "task.",
            path="input_type",
        )
    return shape
