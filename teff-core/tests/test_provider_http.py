"""The HTTP client of a provider against a server that answers with given bytes."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from teff.errors import ConfigError, IncompleteStream, ProviderError
from teff.provider.http import HttpClient
from teff.provider.sse import NdjsonParser, SseParser
from teff.testing.server import Answer, ReplayServer, json_answer, stream_answer


async def post(client: HttpClient, url: str, body: Any = None, **options: Any) -> dict[str, Any]:
    return await client.post_json(url, body or {}, **{"timeout": 5.0, "model": "m", **options})


def with_server(
    test: Callable[[HttpClient, ReplayServer], Awaitable[None]], *answers: Answer | bytes
) -> ReplayServer:
    """Run ``test`` with a client and a server, and close both."""

    async def main() -> ReplayServer:
        async with ReplayServer(*answers) as server:
            client = HttpClient("p", hint="Start it.")
            try:
                await test(client, server)
            finally:
                await client.aclose()
        return server

    return asyncio.run(main())


def failure_of(*answers: Answer | bytes, **options: Any) -> ProviderError:
    """Return what a post to a server with these answers raises."""
    caught: list[ProviderError] = []

    async def test(client: HttpClient, server: ReplayServer) -> None:
        with pytest.raises(ProviderError) as info:
            await post(client, server.url, **options)
        caught.append(info.value)

    with_server(test, *answers)
    return caught[0]


def test_json_goes_out_and_comes_back() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        reply = await post(client, server.url + "/v1/x", {"t": "é"}, headers={"X-A": "b"})
        assert reply == {"ok": True}

    request = with_server(test, json_answer({"ok": True})).requests[0]
    assert (request.method, request.path) == ("POST", "/v1/x")
    assert request.body == '{"t":"é"}'.encode()
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-a"] == "b"


def test_json_can_be_got() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        reply = await client.get_json(server.url + "/v1/models", headers={"X-A": "b"}, timeout=5.0)
        assert reply == {"data": []}
        with pytest.raises(ProviderError, match=r"answered 404 .*/v1/models: no such page"):
            await client.get_json(server.url + "/v1/models", timeout=5.0, model="m")
        assert server.connections == 1

    refusal = json_answer({"error": "no such page"}, status=404)
    request = with_server(test, json_answer({"data": []}), refusal).requests[0]
    assert (request.method, request.path, request.body) == ("GET", "/v1/models", b"")
    assert request.headers["x-a"] == "b"
    assert "content-type" not in request.headers


def test_half_a_character_in_a_request_is_replaced() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        await post(client, server.url, {"t": "a\ud800b"})

    assert with_server(test, json_answer({})).requests[0].json() == {"t": "a?b"}


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_a_request_that_is_no_json_is_not_sent(value: object) -> None:
    error = failure_of(json_answer({}), body={"t": value})
    assert error.permanent
    assert "the request is no JSON" in str(error)


def test_blank_lines_before_a_reply_are_skipped() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        assert await post(client, server.url) == {"n": 1}

    with_server(test, json_answer(b'\n\n\r\n  \n{"n": 1}'))


def test_many_calls_use_one_connection() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        for _ in range(200):
            await post(client, server.url)
        assert server.connections == 1

    with_server(test, json_answer({}))


def test_calls_at_once_share_the_pool_and_leave_nothing_behind() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        for _ in range(3):
            await asyncio.gather(*(post(client, server.url) for _ in range(30)))
        assert server.connections <= 30
        await client.aclose()
        await server.all_closed()

    with_server(test, json_answer({}))


def test_refusals_keep_the_connection() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        for _ in range(5):
            with pytest.raises(ProviderError):
                await post(client, server.url)
            with pytest.raises(ProviderError):
                async with client.stream(server.url, {}, timeout=5.0):
                    pass
        assert server.connections == 1

    with_server(test, json_answer({"error": "busy"}, status=429))


def test_a_closed_client_opens_again() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        await post(client, server.url)
        await client.aclose()
        await server.all_closed()
        await post(client, server.url)
        assert server.connections == 2

    with_server(test, json_answer({}))


def test_one_client_works_in_one_event_loop_after_another() -> None:
    async def main(client: HttpClient) -> None:
        async with ReplayServer(json_answer({})) as server:
            await post(client, server.url)
            await post(client, server.url)
            assert server.connections == 1

    # Not closed: the end of each loop does it, else the collector would warn of open sockets.
    client = HttpClient("p")
    asyncio.run(main(client))
    asyncio.run(main(client))
    del client
    gc.collect()


def test_a_client_that_is_dropped_closes_its_connections() -> None:
    async def main() -> None:
        async with ReplayServer(json_answer({})) as server:
            client = HttpClient("p")
            await post(client, server.url)
            del client
            gc.collect()
            await server.all_closed()

    asyncio.run(main())


def test_a_server_that_is_not_there_is_named_with_what_to_do() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        with pytest.raises(ProviderError) as info:
            await post(client, "http://127.0.0.1:1/api/chat?x=1")
        message = str(info.value)
        assert message.startswith("p (m) cannot be reached at http://127.0.0.1:1/api/chat: ")
        assert message.endswith(". Start it.")
        assert not info.value.permanent

    with_server(test, json_answer({}))


def test_a_server_that_does_not_answer_is_left() -> None:
    error = failure_of(Answer(chunks=[], then="hang"), timeout=0.05)
    assert str(error) == "p (m) did not answer within 0.05 seconds"
    assert not error.permanent


def test_a_deadline_that_is_shorter_than_the_timeout_counts() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        with pytest.raises(ProviderError, match=r"did not answer within 0\.05 seconds"):
            await post(client, server.url, deadline=0.05)
        with pytest.raises(ProviderError, match=r"did not answer within 0\.05 seconds"):
            async with client.stream(server.url, {}, timeout=5.0, deadline=0.05):
                pass
        await server.all_closed()

    with_server(test, Answer(chunks=[], then="hang"))


def test_a_server_that_trickles_is_left_after_the_whole_time() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        with pytest.raises(ProviderError, match="did not answer within"):
            await post(client, server.url, timeout=0.1)
        await server.all_closed()

    with_server(test, stream_answer([b" "] * 1000, pause=0.01))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><title>Login</title></html>", "no JSON .* it says: Login"),
        (b"", "no JSON .* it is empty"),
        (b'{"a": ', "no JSON"),
        (b"[1]", r"no JSON object: \[1\]"),
        (b"null", "no JSON object"),
        (b'{"error": {"message": "no credit"}}', "sent an error: no credit"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "no JSON"),
    ],
)
def test_a_reply_that_is_no_answer_is_an_error_with_its_words(body: bytes, words: str) -> None:
    error = failure_of(json_answer(body))
    with pytest.raises(ProviderError, match=words):
        raise error


def test_a_reply_that_is_too_long_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teff.provider.call.MAX_BODY_BYTES", 1000)
    error = failure_of(stream_answer([b" " * 500] * 5, content_type="application/json"))
    assert "more than 1,000 bytes" in str(error)


def test_a_broken_encoding_is_an_error() -> None:
    broken = gzip.compress(b"{}")[:-6] + b"123456"
    error = failure_of(json_answer(broken, headers={"Content-Encoding": "gzip"}))
    assert "cannot be unpacked" in str(error)


@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_connection_that_breaks_is_an_error(then: Any) -> None:
    assert "broke the connection" in str(failure_of(Answer(chunks=[], then=then)))
    assert "broke the connection" in str(failure_of(stream_answer([b"{"], then=then)))


def test_a_refusal_that_breaks_off_still_has_its_status() -> None:
    head = b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nmodel is lo"
    error = failure_of(Answer(chunks=[head], then="close"))
    assert (error.status, error.body) == (503, "model is lo")


async def all_events(client: HttpClient, url: str, parser: Any, **options: Any) -> list[Any]:
    events: list[Any] = []
    async with client.stream(url, {}, **{"timeout": 5.0, "model": "m", **options}) as reply:
        while (batch := await reply.read(parser)) is not None:
            events += batch
    return events


def test_a_stream_is_read_as_events() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        assert await all_events(client, server.url, NdjsonParser()) == ['{"n":1}', '{"n":2}']
        assert await all_events(client, server.url, NdjsonParser()) == ['{"n":1}', '{"n":2}']
        assert server.connections == 1

    with_server(test, stream_answer([b'{"n"', b':1}\n{"n":2}']))


def test_bytes_that_only_keep_a_stream_alive_do_not_prolong_it() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        with pytest.raises(IncompleteStream, match=r"no event for 0\.1 seconds"):
            await all_events(client, server.url, SseParser(), timeout=0.1)
        await server.all_closed()

    with_server(test, stream_answer([b": keep-alive\n\n"] * 1000, pause=0.01))


def test_bytes_that_say_nothing_in_a_compressed_stream_do_not_prolong_it() -> None:
    zipped = gzip.compress(b"data: 1\n\n")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n"
    empty_blocks = [b"\x00\x00\x00\xff\xff"] * 1000

    async def test(client: HttpClient, server: ReplayServer) -> None:
        with pytest.raises(IncompleteStream, match=r"no event for 0\.1 seconds"):
            await all_events(client, server.url, SseParser(), timeout=0.1)

    with_server(test, Answer(chunks=[head + zipped[:10], *empty_blocks], pause=0.01))


@pytest.mark.parametrize("event", [b"data: 1\n\n", b": nothing\n\n"])
def test_a_deadline_ends_the_liveliest_stream(event: bytes) -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        with pytest.raises(IncompleteStream, match=r"p \(m\) did not end within 0\.1 seconds"):
            await all_events(client, server.url, SseParser(), deadline=0.1)
        await server.all_closed()

    with_server(test, stream_answer([event] * 1000, pause=0.01))


def test_a_deadline_counts_what_the_reader_takes_too() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        async with client.stream(server.url, {}, timeout=5.0, deadline=0.1) as reply:
            assert await reply.read(SseParser())
            await asyncio.sleep(0.15)
            with pytest.raises(IncompleteStream, match="did not end within"):
                await reply.read(SseParser())

    with_server(test, stream_answer([b"data: 1\n\n"], then="hang"))


def test_a_stream_that_ends_before_its_deadline_is_whole() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        assert len(await all_events(client, server.url, SseParser(), deadline=5.0)) == 3

    with_server(test, stream_answer([b"data: 1\n\n"] * 3))


def test_a_deadline_bounds_a_reply_that_is_no_stream() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        async with client.stream(server.url, {}, timeout=5.0, deadline=0.1) as reply:
            with pytest.raises(ProviderError, match="did not answer within"):
                await reply.json_object()

    with_server(test, stream_answer([b" "] * 1000, pause=0.01, content_type="application/json"))


def test_a_stream_may_last_longer_than_the_wait_for_one_event() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        assert len(await all_events(client, server.url, SseParser(), timeout=0.5)) == 40

    with_server(test, stream_answer([b"data: 1\n\n"] * 40, pause=0.02))


@pytest.mark.parametrize("then", ["close", "reset"])
def test_a_stream_that_breaks_off_is_incomplete(then: Any) -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        with pytest.raises(IncompleteStream, match="broke the connection"):
            await all_events(client, server.url, SseParser())

    with_server(test, stream_answer([b"data: 1\n\n"], then=then))


def test_an_endless_line_ends_the_stream() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        with pytest.raises(ProviderError, match=r"no readable stream: a line .* longer than 1,000"):
            await all_events(client, server.url, SseParser(max_bytes=1000))
        await server.all_closed()

    with_server(test, stream_answer([b"x" * 400] * 100))


def test_a_stream_that_is_left_early_closes_its_connection() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        async with client.stream(server.url, {}, timeout=5.0) as reply:
            assert await reply.read(SseParser())
        await server.all_closed()
        async with client.stream(server.url, {}, timeout=5.0):
            pass
        await server.all_closed()

    with_server(test, stream_answer([b"data: 1\n\n"], then="hang"))


def test_what_is_drained_keeps_its_connection() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        for _ in range(3):
            async with client.stream(server.url, {}, timeout=5.0) as reply:
                assert await reply.read(SseParser())
                await reply.drain()
        assert server.connections == 1

    with_server(test, stream_answer([b"data: 1\n\n", b": more\n\n"]))


def test_draining_gives_up_soon() -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        async with client.stream(server.url, {}, timeout=5.0) as reply:
            assert await reply.read(SseParser())
            await reply.drain()
        await server.all_closed()

    with_server(test, stream_answer([b"data: 1\n\n"], then="hang"))


@pytest.mark.parametrize("cancels", [1, 2])
def test_cancelled_calls_free_their_connections(cancels: int) -> None:
    async def test(client: HttpClient, server: ReplayServer) -> None:
        calls = [
            asyncio.create_task(post(client, server.url)),
            asyncio.create_task(all_events(client, server.url, SseParser())),
        ]
        while len(server.requests) < 2:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        for _ in range(cancels):
            for call in calls:
                call.cancel()
            await asyncio.sleep(0)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2
        await server.all_closed()

    with_server(test, stream_answer([b"data: 1\n\n"], then="hang"))


def test_cancelled_calls_leave_room_in_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teff.provider.pool._MAX_CONNECTIONS", 2)

    async def test(client: HttpClient, server: ReplayServer) -> None:
        for _ in range(10):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await all_events(client, server.url, SseParser())
        async with client.stream(server.url, {}, timeout=5.0) as reply:
            assert await reply.read(SseParser())

    with_server(test, stream_answer([b"data: 1\n\n"], then="hang"))


def test_the_module_can_be_imported_without_httpx() -> None:
    code = "import sys; sys.modules['httpx'] = None; import teff.provider.http"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_call_without_httpx_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match=r"needs the package httpx.*pip install 'teff-core"):
        asyncio.run(post(HttpClient("p"), "http://127.0.0.1:1"))


def test_answers_are_json_of_any_size_below_the_limit() -> None:
    long = {"t": "x" * 1_000_000}

    async def test(client: HttpClient, server: ReplayServer) -> None:
        assert await post(client, server.url) == long

    with_server(test, json_answer(json.dumps(long).encode()))
