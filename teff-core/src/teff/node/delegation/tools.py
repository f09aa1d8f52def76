"""Agents as a model is told of them, and tools whose results guards look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from teff.errors import GraphInterrupt, ToolError
from teff.messages import ToolCall
from teff.node.delegation.agents import SubAgent
from teff.provider import ToolSpec
from teff.tool import Tool
from teff.tool.text import result_text

if TYPE_CHECKING:
    from teff.node.delegate import Delegate

__all__ = ["GuardedTool", "agent_spec", "message_of"]


def agent_spec(agent: SubAgent) -> ToolSpec:
    """Return what a model is told of an agent."""
    message = {"type": "string", "description": "The whole task: the agent sees nothing else."}
    return ToolSpec(
        name=agent.tool_name,
        description=agent.description,
        schema={"type": "object", "properties": {"message": message}, "required": ["message"]},
    )


def message_of(call: ToolCall) -> str:
    """Return the task in a call of an agent; "" where there is none.

    Where there is no ``message``, the only text among the arguments is it.
    """
    given = call.arguments.get("message")
    if given is None:
        texts = [value for value in call.arguments.values() if isinstance(value, str)]
        given = texts[0] if len(texts) == 1 else None
    return result_text(given).strip() if isinstance(given, str) else ""


class GuardedTool(Tool):
    """A tool as the node offers it: what it gives, or says when it fails, passes the guards."""

    def __init__(self, tool: Tool, node: Delegate) -> None:
        self.name = tool.name
        self._tool = tool
        self._node = node

    def spec(self) -> ToolSpec:
        """Return that of the tool."""
        return self._tool.spec()

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Read arguments as the tool does."""
        return self._tool.read(arguments)

    async def invoke(
        self, values: Mapping[str, Any], *, state: Any = None, ctx: Any = None
    ) -> object:
        """Run the tool; return its result as the guards leave it.

        Raises:
            ToolError: the tool failed, in the words that the guards leave.
        """
        try:
            text = result_text(await self._tool.invoke(values, state=state, ctx=ctx))
        except GraphInterrupt:
            raise
        except Exception as failure:
            words = f"{type(failure).__name__}: {failure}"
            verdict = await self._node.judge(ctx, "tool_result", words, name=self.name)
            if verdict.action == "allow":
                raise
            told = verdict.reason if verdict.action == "block" else result_text(verdict.value)
            raise ToolError(told, tool=self.name) from None
        verdict = await self._node.judge(ctx, "tool_result", text, name=self.name)
        if verdict.action == "block":
            if self._node.tool_error_mode == "raise":
                return f"The result was withheld: {verdict.reason}"
            raise ToolError(f"the result was withheld: {verdict.reason}", tool=self.name)
        return text if verdict.action == "allow" else result_text(verdict.value)
