"""A loopback HTTP server that answers with given bytes, for tests of providers.

It runs in the event loop of the test, sends exactly the bytes it is given, cut where the test wants
them cut, and records what was asked::

    async def ask(server: ReplayServer) -> ChatReply:
        provider = OpenAIProvider(base_url=server.url)
        reply = await provider.chat(request)
        assert server.requests[0].json()["model"] == "m"
        return reply

    reply = run_with_server(ask, json_answer({"choices": [...]}))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Self, TypeVar

import attrs

__all__ = [
    "Answer",
    "ReceivedRequest",
    "ReplayServer",
    "cut_at",
    "json_answer",
    "run_with_server",
    "stream_answer",
]

Result = TypeVar("Result")


@attrs.frozen(kw_only=True)
class Answer:
    """What the server sends for one request.

    Attributes:
        chunks: bytes from the status line on, each written by itself.
        pause: seconds between two chunks.
        then: what happens after the last one: the connection is kept for the next request,
            closed, reset, or left hanging until the client goes.
    """

    chunks: Sequence[bytes]
    pause: float = 0.0
    then: Literal["keep", "close", "reset", "hang"] = "keep"


@attrs.frozen(kw_only=True)
class ReceivedRequest:
    """A request as it came in. Names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Parse the body."""
        return json.loads(self.body)


def json_answer(
    body: object,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
) -> Answer:
    """Return an answer with a body of known length; what is not bytes is written as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Type": content_type, "Content-Length": str(len(content)), **(headers or {})}
    return Answer(chunks=[_head(status, lines) + content])


def stream_answer(
    pieces: Iterable[bytes],
    *,
    content_type: str = "text/event-stream",
    pause: float = 0.0,
    then: Literal["keep", "close", "reset", "hang"] = "keep",
) -> Answer:
    """Return an answer in chunked encoding, one chunk for each piece.

    The body is ended properly where the connection is to be kept, and else breaks off.
    """
    head = _head(200, {"Content-Type": content_type, "Transfer-Encoding": "chunked"})
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece]
    end = [b"0\r\n\r\n"] if then == "keep" else []
    return Answer(chunks=[head, *chunks, *end], pause=pause, then=then)


def cut_at(response: bytes, positions: Iterable[int]) -> Answer:
    """Return an answer that sends a recorded response cut at ``positions``, and then closes."""
    borders = [0, *sorted({place for place in positions if 0 < place < len(response)})]
    ends = [*borders[1:], len(response)]
    pieces = [response[start:end] for start, end in zip(borders, ends, strict=True)]
    return Answer(chunks=pieces, then="close")


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Replayed", *(f"{name}: {headers[name]}" for name in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class ReplayServer:
    """Answers the first request with the first answer, and so on; the last answer repeats.

    Args:
        answers: what to send; bytes are a whole response, after which the connection is closed.

    Attributes:
        url: where it listens, without a slash at the end.
        requests: what was asked so far.
        connections: how many connections were opened so far.
    """

    def __init__(self, *answers: Answer | bytes) -> None:
        self.url = ""
        self.requests: list[ReceivedRequest] = []
        self.connections = 0
        self._answers = [
            Answer(chunks=[answer], then="close") if isinstance(answer, bytes) else answer
            for answer in answers
        ]
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        return len(self._open)

    async def all_closed(self) -> None:
        """Wait until the clients have closed their connections; at most five seconds.

        Raises:
            TimeoutError: they have not.
        """
        async with asyncio.timeout(5.0):
            while self._open:
                await asyncio.wait(set(self._open))

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *failure: object) -> None:
        assert self._server is not None  # noqa: S101
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._answer_one(reader, writer):
                    pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read_request(reader)
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        self.requests.append(request)
        for chunk in answer.chunks:
            writer.write(chunk)
            await writer.drain()
            # The client gets to read before the next chunk is written.
            await asyncio.sleep(answer.pause)
            await asyncio.sleep(0)
        if answer.then == "hang":
            await reader.read()
        elif answer.then == "reset":
            writer.transport.abort()
        return answer.then == "keep"


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return ReceivedRequest(method=method, path=path, headers=headers, body=body)


def run_with_server(
    test: Callable[[ReplayServer], Awaitable[Result]], *answers: Answer | bytes
) -> Result:
    """Run a coroutine function with a server, in an event loop of its own; return its result."""

    async def main() -> Result:
        async with ReplayServer(*answers) as server:
            return await test(server)

    return asyncio.run(main())
