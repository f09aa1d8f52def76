"""Connections: no more than the pool may have, and none left behind, whatever becomes of the calls."""

from __future__ import annotations

import asyncio
import gc
import random
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.errors import IncompleteStream, ProviderError
from teff.provider.http import HttpClient
from teff.provider.sse import SseParser

PEM = Path(__file__).parent / "data" / "loopback.pem"

EVENT = b"b\r\ndata: 123\n\n\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

#: What is sent for a path, one after the other; None waits until the client goes.
ANSWERS: dict[str, list[bytes | None]] = {
    "/plain": [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"{}"],
    "/stream": [STREAM, EVENT, EVENT, EVENT, b"0\r\n\r\n"],
    "/busy": [b"HTTP/1.1 429 Busy\r\nContent-Length: 4\r\n\r\n", b"busy"],
    "/endless": [STREAM, *[EVENT] * 50, None],
    "/silent": [None],
    "/half": [b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\n", b"bu", None],
}


class Server:
    """Answers by path, and counts connections.

    Attributes:
        opened: how many connections there were.
        most: how many were open at once.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.url = ""
        self._tls = tls
        self.opened = 0
        self.most = 0
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, backlog=1000, ssl=self._tls
        )
        self.url = (
            f"http{'s' if self._tls else ''}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        )
        return self

    async def __aexit__(self, *failure: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def all_closed(self) -> None:
        async with asyncio.timeout(5.0):
            while self._serving:
                await asyncio.wait(set(self._serving))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        self.opened += 1
        self.most = max(self.most, len(self._serving))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    await reader.readexactly(2)
                    for chunk in ANSWERS[head.split(b" ")[1].decode()]:
                        if chunk is None:
                            await reader.read()
                            return
                        writer.write(chunk)
                        await writer.drain()
                        await asyncio.sleep(0)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


# --- Calls ---------------------------------------------------------------------------------------


async def plain(client: HttpClient, url: str, path: str = "/plain") -> None:
    assert await client.post_json(url + path, {}, timeout=20.0) == {}


async def stream(
    client: HttpClient, url: str, path: str = "/stream", reads: int | None = None
) -> None:
    """Read a stream to its end, or leave it after so many reads."""
    parser = SseParser()
    async with client.stream(url + path, {}, timeout=20.0) as reply:
        while reads is None or reads > 0:
            if await reply.read(parser) is None:
                return
            reads = None if reads is None else reads - 1


async def refused(
    call: Callable[[HttpClient, str, str], Awaitable[None]], client: HttpClient, url: str
) -> None:
    with pytest.raises(ProviderError) as info:
        await call(client, url, "/busy")
    assert info.value.status == 429


KINDS: dict[str, Callable[[HttpClient, str], Awaitable[None]]] = {
    "plain": plain,
    "stream": stream,
    "plain, refused": partial(refused, plain),
    "stream, refused": partial(refused, stream),
    "stream, left early": lambda client, url: stream(client, url, "/endless", reads=1),
    "stream, never read": lambda client, url: stream(client, url, "/stream", reads=0),
}

#: These end by cancellation only.
ENDLESS: dict[str, Callable[[HttpClient, str], Awaitable[None]]] = {
    "plain, silent": lambda client, url: plain(client, url, "/silent"),
    "stream, silent": lambda client, url: stream(client, url, "/silent"),
    "stream, endless": lambda client, url: stream(client, url, "/endless"),
    "stream, refused by half": lambda client, url: stream(client, url, "/half"),
}


def run(
    test: Callable[[HttpClient, Server], Awaitable[None]], *, tls: ssl.SSLContext | None = None
) -> None:
    """Run ``test`` with a client and a server, then see that all is closed and nothing was said."""
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, said: complaints.append(said))
        async with Server(tls) as server:
            client = HttpClient("p", ca_file=str(PEM))
            try:
                await test(client, server)
            finally:
                await client.aclose()
            await server.all_closed()
            del client
            gc.collect()
            for _ in range(20):  # what closes behind a cancelled call comes to its end
                await asyncio.sleep(0)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not others, others

    asyncio.run(main())
    assert not complaints, complaints


async def still_works(client: HttpClient, server: Server, calls: int) -> None:
    """See that the pool has room for as many calls as ever."""
    async with asyncio.timeout(10.0):
        await asyncio.gather(*(plain(client, server.url) for _ in range(calls)))


# --- Tests ---------------------------------------------------------------------------------------


def test_a_thousand_calls_open_no_more_than_the_pool() -> None:
    async def test(client: HttpClient, server: Server) -> None:
        await asyncio.gather(*(plain(client, server.url) for _ in range(1000)))
        assert server.opened <= 100
        await asyncio.gather(*(stream(client, server.url) for _ in range(1000)))
        assert server.opened <= 100

    run(test)


def test_a_thousand_calls_of_every_kind_have_no_more_open_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("teff.provider.pool._MAX_CONNECTIONS", 20)

    async def test(client: HttpClient, server: Server) -> None:
        calls = list(KINDS.values())
        await asyncio.gather(*(calls[n % len(calls)](client, server.url) for n in range(1000)))
        assert server.most <= 20
        await still_works(client, server, 20)

    run(test)


def test_refused_streams_use_one_connection() -> None:
    async def test(client: HttpClient, server: Server) -> None:
        for _ in range(200):
            await refused(stream, client, server.url)
        assert server.opened == 1

    run(test)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("cancels", [1, 2])
def test_a_thousand_calls_that_are_cancelled_at_any_moment_leave_nothing(
    monkeypatch: pytest.MonkeyPatch, cancels: int, secure: bool
) -> None:
    monkeypatch.setattr("teff.provider.pool._MAX_CONNECTIONS", 20)
    chance = random.Random(cancels)
    kinds = [*KINDS.values(), *ENDLESS.values()]

    async def cancelled(client: HttpClient, server: Server) -> None:
        call = asyncio.ensure_future(chance.choice(kinds)(client, server.url))
        await asyncio.sleep(chance.random() * 0.01)
        for _ in range(cancels):
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            call.cancel()
        with suppress(asyncio.CancelledError):
            await call

    async def test(client: HttpClient, server: Server) -> None:
        for _ in range(10):
            await asyncio.gather(*(cancelled(client, server) for _ in range(100)))
        assert server.most <= 20
        await still_works(client, server, 60)

    tls = None
    if secure:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(PEM)
    run(test, tls=tls)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted({**KINDS, **ENDLESS})),
            st.lists(st.integers(0, 40), min_size=1, max_size=3),
        ),
        max_size=12,
    )
)
def test_no_cancellation_takes_a_place_of_the_pool(
    plan: list[tuple[str, list[int]]],
) -> None:
    async def cancelled(client: HttpClient, server: Server, kind: str, waits: list[int]) -> None:
        call = asyncio.ensure_future({**KINDS, **ENDLESS}[kind](client, server.url))
        for wait in waits:
            for _ in range(wait):
                await asyncio.sleep(0)
            call.cancel()
        with suppress(asyncio.CancelledError):
            await call

    async def test(client: HttpClient, server: Server) -> None:
        await asyncio.gather(*(cancelled(client, server, *each) for each in plan))
        assert server.most <= 2
        await still_works(client, server, 3)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("teff.provider.pool._MAX_CONNECTIONS", 2)
        run(test)


def test_an_outer_timeout_on_the_first_event_leaves_no_complaint_behind() -> None:
    async def test(client: HttpClient, server: Server) -> None:
        for path in ("/silent", "/half", "/endless"):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream(client, server.url, path), 0.03)
        await still_works(client, server, 1)

    run(test)


def test_a_generator_that_nobody_closes_frees_its_connection() -> None:
    async def pieces(client: HttpClient, url: str) -> AsyncIterator[Any]:
        parser = SseParser()
        async with client.stream(url, {}, timeout=5.0) as reply:
            while (events := await reply.read(parser)) is not None:
                yield events

    async def test(client: HttpClient, server: Server) -> None:
        async for _ in pieces(client, server.url + "/endless"):
            break
        gc.collect()
        await server.all_closed()

    run(test)


def test_calls_that_are_under_way_when_a_client_is_closed_end_well_and_close_after_it() -> None:
    async def test(client: HttpClient, server: Server) -> None:
        parser = SseParser()
        async with client.stream(server.url + "/stream", {}, timeout=5.0) as reply:
            assert await reply.read(parser)
            await client.aclose()
            while await reply.read(parser) is not None:
                pass
        await server.all_closed()
        await still_works(client, server, 1)

    run(test)


def test_connections_that_were_long_idle_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: HttpClient, server: Server) -> None:
        await still_works(client, server, 5)
        monkeypatch.setattr("teff.provider.pool._SECONDS_KEPT_IDLE", -1.0)
        await plain(client, server.url)
        await server.all_closed()

    run(test)


def test_several_servers_share_the_places_of_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teff.provider.pool._MAX_CONNECTIONS", 3)

    async def test(client: HttpClient, server: Server) -> None:
        async with Server() as other:
            await still_works(client, server, 3)
            await still_works(client, other, 3)
            await server.all_closed()
            await asyncio.gather(
                *(plain(client, each.url) for _ in range(20) for each in (server, other))
            )
            await client.aclose()
            await other.all_closed()

    run(test)


def test_one_client_works_in_many_event_loops_at_once() -> None:
    problems: list[BaseException] = []

    def work(client: HttpClient) -> None:
        async def main() -> None:
            async with Server() as server:
                for _ in range(5):
                    await asyncio.gather(*(plain(client, server.url) for _ in range(10)))
                    await stream(client, server.url)
                assert server.opened <= 10

        try:
            asyncio.run(main())
        except BaseException as error:  # told by the test's own thread
            problems.append(error)

    client = HttpClient("p")
    threads = [threading.Thread(target=work, args=[client]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    del client, threads
    gc.collect()


@pytest.mark.parametrize("path", ["/half", "/silent"])
def test_a_call_waits_for_a_place_no_longer_than_its_timeout(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("teff.provider.pool._MAX_CONNECTIONS", 1)

    async def test(client: HttpClient, server: Server) -> None:
        first = asyncio.ensure_future(stream(client, server.url, path))
        await asyncio.sleep(0.01)
        with pytest.raises(ProviderError, match=r"did not answer within 0\.05 seconds"):
            await client.post_json(server.url + "/plain", {}, timeout=0.05)
        with pytest.raises(ProviderError, match=r"did not answer within 0\.05 seconds"):
            async with client.stream(server.url + "/plain", {}, timeout=0.05):
                pass
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        await still_works(client, server, 2)

    run(test)


def test_a_stream_that_ends_too_early_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teff.provider.pool._MAX_CONNECTIONS", 1)

    async def test(client: HttpClient, server: Server) -> None:
        parser = SseParser()
        for _ in range(3):
            with pytest.raises(IncompleteStream):
                async with client.stream(server.url + "/endless", {}, timeout=0.05) as reply:
                    while await reply.read(parser) is not None:
                        pass
        await still_works(client, server, 2)

    run(test)


def test_a_slow_reader_makes_the_server_wait() -> None:
    pieces = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal pieces
        piece = b"data: %s\n\n" % (b"x" * 500_000)
        with suppress(ConnectionError):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            for _ in range(400):
                writer.write(piece)
                await writer.drain()
                pieces += 1
        writer.close()

    async def test(client: HttpClient, server: Server) -> None:
        flooding = await asyncio.start_server(flood, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{flooding.sockets[0].getsockname()[1]}"
        async with flooding, client.stream(url, {}, timeout=5.0) as reply:
            assert await reply.read(SseParser())
            await asyncio.sleep(0.1)
            assert pieces < 100

    run(test)
