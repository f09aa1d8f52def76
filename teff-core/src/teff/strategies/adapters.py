"""What callers of a strategy bring, as what a `Delegate` works with: clients, tools, history, guards."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from teff.errors import ProviderError, ToolError
from teff.messages import Message, ModelUsage, assistant, message_text, system, user
from teff.node.delegation import Verdict, allow, block, replace
from teff.provider import Capabilities, ChatDelta, ChatReply, ChatRequest, ToolSpec
from teff.strategies.values import AgentError
from teff.tool import FunctionTool, Tool
from teff.tool.text import result_text, shorten

__all__ = [
    "Client",
    "as_guards",
    "as_message",
    "as_tool",
    "description_of",
    "text_of",
    "unwrapped",
]


class Client:
    """A language-model client as a provider that can do nothing but answer."""

    name = "llm"
    capabilities = Capabilities(streaming=False, tools=False)

    def __init__(self, llm: Any) -> None:
        self._llm = llm

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Ask the client.

        Raises:
            ProviderError: it failed, in its own words.
        """
        try:
            answer = self._llm.complete([dict(message) for message in request.messages])
            if inspect.isawaitable(answer):
                answer = await answer
            completion = unwrapped(answer)
        except Exception as error:
            words = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise ProviderError(words, provider="llm", permanent=True) from error
        return ChatReply(text=text_of(completion), usage=_usage_of(completion))

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the whole answer at once."""
        yield ChatDelta(reply=await self.chat(request))

    async def aclose(self) -> None:
        """Do nothing: the client belongs to somebody else."""


class _ForeignTool(Tool):
    """A tool of another library."""

    def __init__(self, tool: Any) -> None:
        self._tool = tool
        self.name = str(tool.name)
        self.description = _field(tool, "description") or ""
        schemas = (_field(tool, name) for name in ("parameters", "schema", "input_schema"))
        found = next((schema for schema in schemas if isinstance(schema, Mapping)), None)
        self.schema = found or {"type": "object", "properties": {}}

    def spec(self) -> ToolSpec:
        """Return its name, its description and its schema."""
        schema = self.schema or {}
        return ToolSpec(name=self.name, description=str(self.description), schema=schema)

    async def arun(self, **arguments: Any) -> Any:
        """Call its ``execute``, ``arun`` or ``run``, or the tool itself."""
        ways = (getattr(self._tool, name, None) for name in ("execute", "arun", "run"))
        work = next((way for way in ways if callable(way)), self._tool)
        found = work(**arguments)
        return unwrapped(await found if inspect.isawaitable(found) else found)


def as_tool(tool: Any) -> Tool:
    """Return a tool, a typed function or a tool of another library as a `Tool`.

    Raises:
        ToolError: it is none of these.
    """
    if isinstance(tool, Tool):
        return tool
    if inspect.isfunction(tool) or inspect.iscoroutinefunction(tool):
        return FunctionTool(tool)
    if not isinstance(getattr(tool, "name", None), str):
        raise ToolError(f"{tool!r} is no tool: it has no name")
    return _ForeignTool(tool)


def description_of(name: str, agent: Any) -> str:
    """Return what a model is told of an agent: its description, else how its instructions begin."""
    if isinstance(agent, str):
        return agent or f"The agent {name}."
    for told in ("description", "system_prompt"):
        text = getattr(agent, told, None)
        if isinstance(text, str) and text.strip():
            return shorten(text.strip(), 300)
    return f"The agent {name}."


def unwrapped(result: Any) -> Any:
    """Return what a result holds; anything else is the value itself.

    Raises:
        AgentError: it holds an error.
    """
    if not callable(getattr(result, "is_ok", None)):
        return result
    if result.is_ok() is True:
        return result.unwrap()
    error = result.unwrap_err() if callable(getattr(result, "unwrap_err", None)) else result
    raise AgentError(str(error))


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def text_of(value: Any) -> str:
    """Return the text of a completion, a response, or anything else."""
    if isinstance(value, str):
        return value
    for name in ("message", "content", "text", "output"):
        found = _field(value, name)
        if isinstance(found, str):
            return found
        if isinstance(found, Mapping) and (text := message_text(found)):
            return text
    if value is None:
        return ""
    return result_text(value)


def _usage_of(completion: Any) -> ModelUsage:
    usage = _field(completion, "usage")

    def count(*names: str) -> int | None:
        counts = (_field(usage, name) for name in names)
        return next((c for c in counts if isinstance(c, int) and not isinstance(c, bool)), None)

    if usage is None:
        return ModelUsage()
    return ModelUsage(
        prompt_tokens=count("prompt_tokens", "input_tokens"),
        completion_tokens=count("completion_tokens", "output_tokens"),
        total_tokens=count("total_tokens"),
    )


def as_message(entry: Any) -> Message:
    """Return an entry of a history as a message; an unknown role counts as the user's."""
    role, content = _field(entry, "role"), _field(entry, "content")
    role = getattr(role, "value", role)
    text = content if isinstance(content, str) else message_text({"content": content})
    if not text and content is not None and not isinstance(content, str):
        text = result_text(content)
    makers = {"system": system, "assistant": assistant}
    maker: Callable[[str], Message] = makers.get(str(role), user)
    return maker(text)


def as_guards(pipeline: Any) -> Mapping[str, Any]:
    """Return a guard pipeline as the guards of a `Delegate`."""
    if pipeline is None:
        return {}
    if isinstance(pipeline, Mapping):
        return pipeline
    checks = {
        "input": "check_input",
        "output": "check_output",
        "agent_result": "check_output",
        "tool_result": "check_output",
    }
    return {
        point: _guard(getattr(pipeline, check))
        for point, check in checks.items()
        if callable(getattr(pipeline, check, None))
    }


def _guard(check: Callable[[str], Any]) -> Callable[[Any], Any]:
    async def guard(value: Any) -> Verdict:
        found = check(value if isinstance(value, str) else result_text(value))
        found = unwrapped(await found if inspect.isawaitable(found) else found)
        action = _field(found, "action")
        word = str(getattr(action, "value", action)).casefold()
        if word == "block" or (action is None and _field(found, "passed") is False):
            reason = _field(found, "reason") or _field(found, "message")
            return block(str(reason or "This was blocked by a guard."))
        if word == "redact":
            texts = (_field(found, name) for name in ("content", "redacted_content", "text"))
            text = next((text for text in texts if isinstance(text, str)), None)
            return block("This was blocked by a guard.") if text is None else replace(text)
        return allow()

    return guard
