"""Kept connections: what becomes of them when nobody needs them, or the server closes them."""

from __future__ import annotations

import asyncio
import gc
import ssl
import threading
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

import pytest

from teff.errors import ProviderError
from teff.provider.http import HttpClient
from teff.provider.sse import SseParser
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer

PEM = Path(__file__).parent / "data" / "loopback.pem"

PLAIN = json_answer({"n": 1})
STREAM = stream_answer([b'data: {"n": 1}\n\n'])


async def post(client: HttpClient, url: str) -> None:
    assert await client.post_json(url, {}, timeout=20.0) == {"n": 1}


async def get(client: HttpClient, url: str) -> None:
    assert await client.get_json(url, timeout=20.0) == {"n": 1}


async def stream(client: HttpClient, url: str) -> None:
    parser = SseParser()
    events: list[str] = []
    async with client.stream(url, {}, timeout=20.0) as reply:
        while (read := await reply.read(parser)) is not None:
            events += [event.data for event in read]
    assert events == ['{"n": 1}']


Ask = Callable[[HttpClient, str], Awaitable[None]]
WAYS: dict[str, tuple[Ask, Answer]] = {
    "post": (post, PLAIN),
    "get": (get, PLAIN),
    "stream": (stream, STREAM),
}

each_way = pytest.mark.parametrize(("ask", "good"), WAYS.values(), ids=WAYS)


# --- Nobody needs them ---------------------------------------------------------------------------


class ThreadServer:
    """A server whose event loop lasts longer than that of the client."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server = ReplayServer(answer)

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self) -> Self:
        self._thread.start()
        self._wait_for(self._server.__aenter__())
        return self

    def all_closed(self) -> None:
        self._wait_for(self._server.all_closed())

    def __exit__(self, *failure: object) -> None:
        self._wait_for(self._server.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait_for(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10.0)


@contextmanager
def nothing_left(server: ThreadServer) -> Iterator[None]:
    """See that no socket is left open, and that nobody complains."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert not said, [str(each.message) for each in said]
    server.all_closed()


async def ask_at_once(ask: Ask, client: HttpClient, url: str, count: int = 4) -> None:
    await asyncio.gather(*(ask(client, url) for _ in range(count)))


async def ends_well(ask: Ask, url: str) -> None:
    await ask_at_once(ask, HttpClient("p"), url)


async def fails(ask: Ask, url: str) -> None:
    client = HttpClient("p")
    await ask_at_once(ask, client, url)
    raise LookupError


async def is_cancelled(ask: Ask, url: str) -> None:
    client = HttpClient("p")
    await ask_at_once(ask, client, url)
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def leaves_a_task(ask: Ask, url: str) -> None:
    client = HttpClient("p")
    await ask_at_once(ask, client, url)
    task = asyncio.ensure_future(ask_at_once(ask, client, url))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()


async def refers_to_itself(ask: Ask, url: str) -> None:
    client: Any = HttpClient("p")
    client.itself = client
    await ask_at_once(ask, client, url)


async def drops_many(ask: Ask, url: str) -> None:
    await asyncio.gather(*(ask(HttpClient("p"), url) for _ in range(4)))


async def begins_to_close(ask: Ask, url: str) -> None:
    client = HttpClient("p")
    await ask_at_once(ask, client, url)
    closing = asyncio.ensure_future(client.aclose())
    await asyncio.sleep(0)
    assert not closing.done()


@each_way
@pytest.mark.parametrize(
    "main",
    [
        ends_well,
        fails,
        is_cancelled,
        leaves_a_task,
        refers_to_itself,
        drops_many,
        begins_to_close,
    ],
)
def test_the_end_of_an_event_loop_closes_what_was_opened_in_it(
    main: Callable[[Ask, str], Any], ask: Ask, good: Answer
) -> None:
    with ThreadServer(good) as server:
        for _ in range(3):
            with nothing_left(server), suppress(LookupError, asyncio.CancelledError):
                asyncio.run(main(ask, server.url))


def test_a_client_that_outlives_its_event_loop_leaves_nothing_in_it() -> None:
    client = HttpClient("p")
    with ThreadServer(PLAIN) as server:
        for _ in range(3):
            with nothing_left(server):
                asyncio.run(ask_at_once(post, client, server.url))


@each_way
def test_a_client_that_nobody_has_any_more_closes_its_connections(ask: Ask, good: Answer) -> None:
    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        await ask_at_once(ask, client, server.url)
        assert server.open_connections == 4
        del client
        gc.collect()
        await server.all_closed()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_with_server(main, good)


def test_a_client_may_be_dropped_in_another_thread() -> None:
    async def main(server: ReplayServer) -> None:
        clients = [HttpClient("p")]
        await ask_at_once(post, clients[0], server.url)
        await asyncio.to_thread(clients.clear)
        gc.collect()
        await server.all_closed()

    run_with_server(main, PLAIN)


def test_a_dropped_client_leaves_others_their_connections() -> None:
    async def main(server: ReplayServer) -> None:
        kept, dropped = HttpClient("p"), HttpClient("p")
        await post(kept, server.url)
        await post(dropped, server.url)
        del dropped
        gc.collect()
        async with asyncio.timeout(5.0):
            while server.open_connections > 1:
                await asyncio.sleep(0)
        await post(kept, server.url)
        assert server.connections == 2

    run_with_server(main, PLAIN)


def test_a_client_that_is_dropped_after_its_event_loop_says_nothing() -> None:
    async def main(server: ReplayServer) -> HttpClient:
        client = HttpClient("p")
        await post(client, server.url)
        return client

    client = run_with_server(main, PLAIN)
    del client
    gc.collect()


@pytest.mark.parametrize("ends_properly", [True, False])
def test_an_event_loop_that_has_ended_is_not_kept(ends_properly: bool) -> None:
    async def main() -> None:
        async with ReplayServer(PLAIN) as server:
            client = HttpClient("p")
            await post(client, server.url)
            await client.aclose()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    if ends_properly:
        loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    ended = weakref.ref(loop)
    del loop
    asyncio.run(main())
    gc.collect()
    assert ended() is None


@pytest.mark.parametrize("steps", range(12))
def test_closing_may_be_cancelled_and_done_again(steps: int) -> None:
    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        await ask_at_once(post, client, server.url)
        closing = asyncio.ensure_future(client.aclose())
        for _ in range(steps):
            await asyncio.sleep(0)
        closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        await client.aclose()

    with ThreadServer(PLAIN) as server, nothing_left(server):
        asyncio.run(main(server._server))


# --- The server closes them ----------------------------------------------------------------------

#: What a server does that has received a request, and answers nothing.
Break = Literal["close", "reset"]
each_break = pytest.mark.parametrize("how", ["close", "reset"])


@each_break
@each_way
def test_a_kept_connection_that_was_closed_meanwhile_is_no_failure(
    ask: Ask, good: Answer, how: Break
) -> None:
    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        await ask(client, server.url)
        await ask(client, server.url)
        assert (len(server.requests), server.connections) == (3, 2)
        first, sent, again = server.requests
        assert sent.body == again.body == first.body
        assert sent.headers == again.headers
        await ask(client, server.url)
        assert server.connections == 2
        await client.aclose()
        await server.all_closed()

    run_with_server(main, good, Answer(chunks=[], then=how), good)


@each_way
def test_it_is_sent_again_on_a_new_connection_and_not_on_another_kept_one(
    ask: Ask, good: Answer
) -> None:
    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        await ask_at_once(ask, client, server.url)
        await ask(client, server.url)
        assert (len(server.requests), server.connections) == (6, 5)

    run_with_server(main, *[good] * 4, Answer(chunks=[], then="close"), good)


@each_break
@each_way
def test_a_new_connection_that_breaks_is_a_failure(ask: Ask, good: Answer, how: Break) -> None:
    async def main(server: ReplayServer) -> None:
        with pytest.raises(ProviderError, match="broke the connection"):
            await ask(HttpClient("p"), server.url)
        assert len(server.requests) == 1

    run_with_server(main, Answer(chunks=[], then=how), good)


@each_break
@each_way
def test_a_request_is_sent_again_but_once(ask: Ask, good: Answer, how: Break) -> None:
    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        await ask(client, server.url)
        with pytest.raises(ProviderError, match="broke the connection"):
            await ask(client, server.url)
        assert (len(server.requests), server.connections) == (3, 2)
        await server.all_closed()
        await ask(client, server.url)

    broken = Answer(chunks=[], then=how)
    run_with_server(main, good, broken, broken, good)


@each_break
@pytest.mark.parametrize("beginning", [b"H", b"HTTP/1.1 200 OK\r\nContent-Le"])
@each_way
def test_a_reply_that_has_begun_is_not_asked_for_again(
    ask: Ask, good: Answer, beginning: bytes, how: Break
) -> None:
    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        await ask(client, server.url)
        with pytest.raises(ProviderError, match="broke the connection"):
            await ask(client, server.url)
        assert len(server.requests) == 2

    # The pause lets the client read the beginning before the connection is reset.
    run_with_server(main, good, Answer(chunks=[beginning], then=how, pause=0.02), good)


@each_way
def test_a_connection_that_had_to_be_opened_anew_is_a_new_one(ask: Ask, good: Answer) -> None:
    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        await ask(client, server.url)
        await server.all_closed()
        await asyncio.sleep(0.01)  # the client hears of it
        with pytest.raises(ProviderError, match="broke the connection"):
            await ask(client, server.url)
        assert (len(server.requests), server.connections) == (2, 2)

    closed = Answer(chunks=[*good.chunks], then="close")
    run_with_server(main, closed, Answer(chunks=[], then="close"), good)


@each_way
def test_what_the_server_says_that_it_closes_is_not_kept(ask: Ask, good: Answer) -> None:
    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        for _ in range(3):
            await ask(client, server.url)
        assert (len(server.requests), server.connections) == (3, 3)
        await server.all_closed()

    (head, *rest) = good.chunks
    closing = head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    run_with_server(main, Answer(chunks=[closing, *rest]))


@each_way
def test_a_refusal_on_a_kept_connection_is_not_asked_for_again(ask: Ask, good: Answer) -> None:
    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        await ask(client, server.url)
        with pytest.raises(ProviderError, match="slow down"):
            await ask(client, server.url)
        assert len(server.requests) == 2

    run_with_server(main, good, json_answer({"error": "slow down"}, status=503), good)


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_a_call_that_is_cancelled_while_it_is_sent_again_leaves_nothing(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teff.provider.pool._MAX_CONNECTIONS", 1)

    async def main(server: ReplayServer) -> None:
        client = HttpClient("p")
        await post(client, server.url)
        call = asyncio.ensure_future(post(client, server.url))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        async with asyncio.timeout(5.0):
            # The server may not have heard of the cancelled call, and break off this one.
            with suppress(ProviderError):
                await post(client, server.url)
            await post(client, server.url)
        await client.aclose()
        await server.all_closed()

    run_with_server(main, PLAIN, Answer(chunks=[], then="close"), PLAIN)


@pytest.mark.parametrize("beginning", [b"", b"H"])
def test_connections_with_tls_are_no_different(beginning: bytes) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(PEM)
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n{}")
                asked += 1
                writer.write(beginning if asked == 2 else PLAIN.chunks[0])
                await writer.drain()
                if asked == 2:
                    break
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client = HttpClient("p", ca_file=str(PEM))
        async with server:
            await post(client, url)
            if beginning:
                with pytest.raises(ProviderError, match="broke the connection"):
                    await post(client, url)
            else:
                await post(client, url)
            await client.aclose()
        assert asked == (2 if beginning else 3)

    asyncio.run(main())
