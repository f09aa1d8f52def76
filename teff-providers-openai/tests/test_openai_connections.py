"""Connections: shared, and given back however a call ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from teff.messages import user
from teff.provider.protocol import ChatRequest
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_openai import OpenAIProvider

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
ANSWER = json_answer({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]})


def events(*chunks: object, done: bool = True) -> Answer:
    """Return a stream of these chunks; texts are written as they are."""
    pieces = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return stream_answer([f"data: {each}\n\n".encode() for each in [*pieces, *["[DONE]"] * done]])


def delta(content: object = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content, **fields}, "finish_reason": finish}
    return {"choices": [choice]}


def test_all_calls_share_connections() -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url)
        for _ in range(20):
            await provider.chat(REQUEST)
            _ = [each async for each in provider.stream(REQUEST)]
        assert server.connections == 1

    run_with_server(ask, *[ANSWER, events(delta("a", finish="stop"))] * 20)


def test_a_stream_that_is_left_early_frees_its_connection() -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url)
        deltas = provider.stream(REQUEST)
        assert (await anext(deltas)).text == "a"
        await deltas.aclose()  # type: ignore[attr-defined]  # an async generator
        await server.all_closed()
        async for each in provider.stream(REQUEST):
            assert each.text == "a"
            break
        await server.all_closed()

    data = f"data: {json.dumps(delta('a'))}\n\n".encode()
    run_with_server(ask, stream_answer([data], then="hang"))


def test_a_stream_that_is_never_read_asks_nothing() -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url)
        await provider.stream(REQUEST).aclose()  # type: ignore[attr-defined]
        assert not server.requests

    run_with_server(ask, ANSWER)


def test_cancelled_calls_leave_no_connection_and_no_task() -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url)

        async def read() -> None:
            _ = [each async for each in provider.stream(REQUEST)]

        calls = [asyncio.create_task(read()), asyncio.create_task(provider.chat(REQUEST))]
        while len(server.requests) < 2:
            await asyncio.sleep(0.001)
        for call in calls:
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        await server.all_closed()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_with_server(ask, stream_answer([b": wait\n\n"], then="hang"))


def test_one_provider_works_in_one_event_loop_after_another() -> None:
    async def main(provider: OpenAIProvider) -> None:
        async with ReplayServer(ANSWER) as server:
            provider.base_url = server.url
            assert (await provider.chat(REQUEST)).text == "Hello"
            assert (await provider.chat(REQUEST)).text == "Hello"
            assert server.connections == 1

    provider = OpenAIProvider(base_url="http://127.0.0.1:1")
    asyncio.run(main(provider))
    asyncio.run(main(provider))
