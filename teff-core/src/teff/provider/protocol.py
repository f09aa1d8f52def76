"""What the harness asks of a provider, and what it gets back.

A provider plugin maps `ChatRequest` to one wire format and the reply to `ChatReply`, and nothing
more: retries, fallbacks, budgets and the tool loop are the harness's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from teff.messages import Message, ModelUsage, ToolCall

__all__ = [
    "Capabilities",
    "ChatDelta",
    "ChatReply",
    "ChatRequest",
    "ListsModels",
    "ModelInfo",
    "Provider",
    "ToolSpec",
]


@attrs.frozen(kw_only=True)
class ToolSpec:
    """What a model is told of a tool: name, description, and the JSON Schema of its arguments."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = attrs.field(factory=lambda: {"type": "object", "properties": {}})

    def as_function(self) -> dict[str, Any]:
        """Return the form in which the format of OpenAI, and others after it, name a tool.

        Source: https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools

        >>> ToolSpec(name="now").as_function()["function"]["name"]
        'now'
        """
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.schema),
        }
        return {"type": "function", "function": function}


@attrs.frozen(kw_only=True)
class ChatRequest:
    """One model call.

    Attributes:
        model: the model's name as the server knows it.
        messages: the conversation, in the stored form of `teff.messages.Message`; never empty.
        tools: what the model may call.
        choices: the only texts the answer may be; a provider that can enforce this
            (``capabilities.choices``) does, others ignore it.
        json_schema: a JSON Schema that the answer must fit, where the provider can enforce one.
        temperature: None leaves it to the server.
        max_tokens: the longest answer, in tokens; None leaves it to the server.
        stop: texts that end the answer.
        timeout: seconds for the whole call; for a stream, between two events. None leaves it to the
            provider.
        deadline: seconds for the whole call, a stream too, however lively it is. None sets no end.
        options: settings of this provider alone, sent as they are.
    """

    model: str
    messages: Sequence[Message | Mapping[str, Any]]
    tools: Sequence[ToolSpec] = ()
    choices: Sequence[str] | None = None
    json_schema: Mapping[str, Any] | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop: Sequence[str] = ()
    timeout: float | None = None
    deadline: float | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class ChatReply:
    """A whole answer.

    Attributes:
        text: the visible text; "" where the model only called tools.
        thinking: the reasoning text that some models send apart, or "".
        tool_calls: what the model wants called, in its order.
        finish_reason: ``stop``, ``length``, ``tool_calls``, ``content_filter``, or the server's word.
        usage: what the server counted.
        model: the name the server answered with, or that of the request.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: Sequence[ToolCall] = ()
    finish_reason: str = "stop"
    usage: ModelUsage = attrs.field(factory=ModelUsage)
    model: str = ""


@attrs.frozen(kw_only=True)
class ChatDelta:
    """A piece of a streamed answer. The last piece, and only it, carries the whole ``reply``."""

    text: str = ""
    thinking: str = ""
    reply: ChatReply | None = None


@attrs.frozen(kw_only=True)
class Capabilities:
    """What a provider can do, read before a request is made.

    Attributes:
        streaming: it gives answers piece by piece.
        tools: it takes tools.
        choices: it can hold an answer to `ChatRequest.choices`.
        json_schema: it can hold an answer to `ChatRequest.json_schema`.
        schema_with_tools: it can do so while tools are offered; else a schema keeps the model from
            calling them.
        alternating: turns must alternate between user and assistant, beginning and ending with the
            user's.
    """

    streaming: bool = True
    tools: bool = True
    choices: bool = False
    json_schema: bool = False
    schema_with_tools: bool = False
    alternating: bool = False


@attrs.frozen(kw_only=True)
class ModelInfo:
    """A model that a server offers: its name in requests, and what else is worth a line."""

    name: str
    details: str = ""


@runtime_checkable
class ListsModels(Protocol):
    """A provider that can say which models there are. Providers need not."""

    async def models(self) -> Sequence[ModelInfo]:
        """List the models, by name.

        Raises:
            ProviderError: the server cannot be reached, or refuses.
        """
        ...


@runtime_checkable
class Provider(Protocol):
    """A place that answers chat requests.

    ``name`` is how the workflow calls it. Both calls raise `teff.errors.ProviderError`, with the
    server's own words and never a key, or `teff.errors.ConfigError` where something is set up
    wrongly (a missing key, an unknown model); a stream that ends before the server said that it was
    whole raises `teff.errors.IncompleteStream`. A stream that is closed early frees its connection.
    """

    @property
    def name(self) -> str:
        """The name in the workflow, which events and errors carry."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of it."""
        ...

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer ``request`` at once."""
        ...

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Answer ``request`` piece by piece; the last piece carries the whole reply."""
        ...

    async def aclose(self) -> None:
        """Free every connection. The provider may be used again afterwards."""
        ...
