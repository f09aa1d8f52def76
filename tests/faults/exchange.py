"""What the two kinds of servers send, and a server that can be away at first."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from teff.provider import Provider
from teff.testing.server import Answer, ReplayServer, json_answer, stream_answer
from teff_providers_ollama import OllamaProvider
from teff_providers_openai import OpenAIProvider

__all__ = [
    "DIALECTS",
    "HELLO",
    "Call",
    "Dialect",
    "LateServer",
    "answer",
    "good",
    "refusal",
    "streamed",
    "written",
]

HELLO = "Hello there"

#: The name of a tool, and what it is called with.
Call = tuple[str, Mapping[str, Any]]


class Dialect(Protocol):
    """How a kind of server writes answers and errors."""

    name: str
    content_type: str

    def provider(self, name: str, url: str, **options: Any) -> Provider:
        """Return the provider for a server at ``url``."""
        ...

    def body(self, text: str = "", calls: Sequence[Call] = ()) -> dict[str, Any]:
        """Return the body of a whole answer."""
        ...

    def piece(self, text: str = "", calls: Sequence[Call] = ()) -> bytes:
        """Return a piece of a streamed answer."""
        ...

    def end(self, reason: str = "stop") -> bytes:
        """Return how a streamed answer ends."""
        ...

    def error(self, words: str, *, code: int | str = "") -> dict[str, Any]:
        """Return the body of a refusal."""
        ...

    def event(self, data: object) -> bytes:
        """Write one event of a stream; bytes stay as they are."""
        ...


class OpenAI:
    """The chat-completions format."""

    name = "openai"
    content_type = "text/event-stream"

    def provider(self, name: str, url: str, **options: Any) -> Provider:
        return OpenAIProvider(name=name, base_url=url, **options)

    def body(self, text: str = "", calls: Sequence[Call] = ()) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "tool_calls": self._calls(calls)}
        reason = "tool_calls" if calls else "stop"
        return {"model": "m", "choices": [{"message": message, "finish_reason": reason}]}

    def piece(self, text: str = "", calls: Sequence[Call] = ()) -> bytes:
        delta = {"content": text, "tool_calls": self._calls(calls)}
        return self.event({"choices": [{"delta": delta, "finish_reason": None}]})

    def end(self, reason: str = "stop") -> bytes:
        last = self.event({"choices": [{"delta": {}, "finish_reason": reason}]})
        return last + self.event(b"[DONE]")

    def error(self, words: str, *, code: int | str = "") -> dict[str, Any]:
        return {"error": {"message": words, "type": "error", "code": code or None}}

    def event(self, data: object) -> bytes:
        return b"data: %s\n\n" % (data if isinstance(data, bytes) else json.dumps(data).encode())

    def _calls(self, calls: Sequence[Call]) -> list[dict[str, Any]] | None:
        return [
            {
                "index": index,
                "id": f"call_{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for index, (name, arguments) in enumerate(calls)
        ] or None


class Ollama:
    """Ollama's own format."""

    name = "ollama"
    content_type = "application/x-ndjson"

    def provider(self, name: str, url: str, **options: Any) -> Provider:
        return OllamaProvider(name=name, base_url=url, **options)

    def body(self, text: str = "", calls: Sequence[Call] = ()) -> dict[str, Any]:
        return {"model": "m", "message": self._message(text, calls), "done": True}

    def piece(self, text: str = "", calls: Sequence[Call] = ()) -> bytes:
        return self.event({"model": "m", "message": self._message(text, calls), "done": False})

    def end(self, reason: str = "stop") -> bytes:
        return self.event({**self.body(), "done_reason": reason})

    def error(self, words: str, *, code: int | str = "") -> dict[str, Any]:
        return {"error": f"{code}: {words}" if code else words}

    def event(self, data: object) -> bytes:
        return b"%s\n" % (data if isinstance(data, bytes) else json.dumps(data).encode())

    def _message(self, text: str, calls: Sequence[Call]) -> dict[str, Any]:
        called = [{"function": {"name": name, "arguments": given}} for name, given in calls]
        return {"role": "assistant", "content": text, **({"tool_calls": called} if calls else {})}


DIALECTS: tuple[Dialect, ...] = (OpenAI(), Ollama())


def answer(dialect: Dialect, text: str, calls: Sequence[Call] = (), *, stream: bool) -> Answer:
    """Return a whole answer, in one of the two ways; a text streams in two pieces."""
    if not stream:
        return json_answer(dialect.body(text, calls))
    half = len(text) // 2
    texts = [dialect.piece(part) for part in (text[:half], text[half:]) if part]
    pieces = [*texts, *([dialect.piece(calls=calls)] if calls else []), dialect.end()]
    return stream_answer(pieces, content_type=dialect.content_type)


def good(dialect: Dialect, *, stream: bool = True) -> Answer:
    """Return an answer that says `HELLO`."""
    return answer(dialect, HELLO, stream=stream)


def streamed(dialect: Dialect, *pieces: bytes, then: Any = "keep", pause: float = 0.0) -> Answer:
    """Return a stream of what `Dialect.piece` and the like gave."""
    return stream_answer(pieces, content_type=dialect.content_type, then=then, pause=pause)


def written(dialect: Dialect, text: str) -> Answer:
    """Stream a text in pieces of three characters, as models do."""
    parts = [text[start : start + 3] for start in range(0, len(text), 3)]
    return streamed(dialect, *(dialect.piece(part) for part in parts), dialect.end())


def refusal(dialect: Dialect, status: int, words: str = "no", **headers: str) -> Answer:
    """Return an answer with an HTTP status that is none."""
    return json_answer(dialect.error(words), status=status, headers=headers)


class LateServer(ReplayServer):
    """A server whose address is known before anybody listens there.

    Args:
        answers: as for `ReplayServer`.
        away: whether connections are refused until `arrive` is called.
    """

    def __init__(self, *answers: Answer | bytes, away: bool = False) -> None:
        super().__init__(*answers)
        self._away = away
        # A port that is bound and not listened at refuses connections, and nobody else gets it.
        self._socket = socket.socket()

    async def __aenter__(self) -> Self:
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        if not self._away:
            await self.arrive()
        return self

    async def arrive(self) -> None:
        """Begin to listen."""
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, sock=self._socket)

    async def __aexit__(self, *failure: object) -> None:
        if self._server is None:
            self._socket.close()
        else:
            await super().__aexit__(*failure)
