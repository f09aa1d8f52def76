"""A server on this machine that answers with whatever bytes a test wants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import attrs
import pytest

Respond = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@attrs.define
class Server:
    """A server that is running; ``requests`` holds what it was sent, head by head."""

    port: int
    requests: list[bytes] = attrs.field(factory=list)

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(
    respond: Respond | bytes, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    handlers: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                server.requests.append(head)
                if isinstance(respond, bytes):
                    writer.write(respond)
                else:
                    await respond(head, writer)
                await writer.drain()
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    server = Server(port=listening.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listening.close()
        await asyncio.sleep(0)
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await listening.wait_closed()


@pytest.fixture
def serve() -> Callable[..., object]:
    return serving


@pytest.fixture
def page() -> Callable[..., bytes]:
    """Make a response: its head, and a body that ends with the connection."""

    def make(body: bytes | str = b"", kind: str = "text/html", *headers: str) -> bytes:
        body = body.encode() if isinstance(body, str) else body
        lines = ["HTTP/1.1 200 OK", *headers, "Connection: close"]
        if kind:
            lines.append(f"Content-Type: {kind}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    return make
