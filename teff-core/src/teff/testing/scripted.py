"""`ScriptedProvider`: a model whose answers the test writes."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from teff.messages import ModelUsage, ToolCall, message_text
from teff.provider import Capabilities, ChatDelta, ChatReply, ChatRequest

__all__ = ["ScriptedAnswer", "ScriptedProvider", "call_tool"]

#: What a script says to one request: a text, a whole reply, an error to raise, or a function of the
#: request that gives one of these.
ScriptedAnswer = (
    str | ChatReply | BaseException | Callable[[ChatRequest], "str | ChatReply | BaseException"]
)


def call_tool(name: str, arguments: Mapping[str, Any] | None = None, *, id: str = "") -> ChatReply:
    """Return a reply that calls one tool.

    >>> call_tool("add", {"a": 1}).tool_calls[0].name
    'add'
    """
    call = ToolCall(id=id or f"call_{name}", name=name, arguments=dict(arguments or {}))
    return ChatReply(tool_calls=(call,), finish_reason="tool_calls")


class ScriptedProvider:
    """Answers from a script, in order; keeps the requests that it was sent.

    A text streams word by word. A request after the last answer fails the test that made it, and
    `assert_done` fails where answers were left over.

    Args:
        answers: the script; see `ScriptedAnswer`.
        name: the provider's name.
        capabilities: what it says it can do; everything by default.

    >>> import asyncio
    >>> provider = ScriptedProvider(["Hello."])
    >>> asyncio.run(provider.chat(ChatRequest(model="m", messages=[]))).text
    'Hello.'
    """

    def __init__(
        self,
        answers: Iterable[ScriptedAnswer] = (),
        *,
        name: str = "scripted",
        capabilities: Capabilities | None = None,
    ) -> None:
        self.name = name
        self.capabilities = capabilities or Capabilities(choices=True, json_schema=True)
        self.requests: list[ChatRequest] = []
        self.closed = False
        self._answers: deque[ScriptedAnswer] = deque(answers)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Give the next answer."""
        return self._next(request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the next answer word by word."""
        reply = self._next(request)
        for piece in _words(reply.text):
            yield ChatDelta(text=piece)
        yield ChatDelta(reply=reply)

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    def assert_done(self) -> None:
        """Fail where answers were not asked for."""
        if self._answers:
            raise AssertionError(f"{len(self._answers)} scripted answers were never asked for")

    def _next(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if not self._answers:
            raise AssertionError(
                f"the script has no answer left for request {len(self.requests)}, "
                f"which ends with {message_text(request.messages[-1])!r}"
            )
        answer = self._answers.popleft()
        if callable(answer) and not isinstance(answer, BaseException):
            answer = answer(request)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            return ChatReply(
                text=answer,
                usage=ModelUsage(prompt_tokens=10, completion_tokens=len(answer.split())),
                model=request.model,
            )
        return answer


def _words(text: str) -> list[str]:
    pieces = [f"{word} " for word in text.split(" ")]
    pieces[-1] = pieces[-1][:-1]
    return [piece for piece in pieces if piece]
