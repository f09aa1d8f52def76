"""Keys and connections: shown nowhere, and given back however a call ends."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback

import pytest

from teff.errors import ConfigError, ProviderError
from teff.messages import user
from teff.provider.protocol import ChatRequest
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_ollama import OllamaProvider

CANARY = "sk-canary-0123456789"
REQUEST = ChatRequest(model="m", messages=[user("Hi")])
ANSWER = json_answer({"message": {"content": "Hello"}, "done": True})
FRAME = json.dumps({"message": {"content": "a"}, "done": False}).encode() + b"\n"
END = json.dumps({"message": {"content": ""}, "done": True}).encode() + b"\n"


def test_a_key_is_sent_where_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", CANARY)

    async def ask(server: ReplayServer) -> None:
        await OllamaProvider(base_url=server.url).chat(REQUEST)
        await OllamaProvider(base_url=server.url, api_key_env="MY_KEY").chat(REQUEST)
        first, second = server.requests
        assert "authorization" not in first.headers
        assert second.headers["authorization"] == f"Bearer {CANARY}"
        monkeypatch.delenv("MY_KEY")
        with pytest.raises(ConfigError, match="MY_KEY is not set"):
            await OllamaProvider(base_url=server.url, api_key_env="MY_KEY").chat(REQUEST)

    run_with_server(ask, ANSWER)


def everything_said(error: BaseException) -> str:
    shown = [str(error), repr(error), repr(error.args), repr(vars(error))]
    return "\n".join([*shown, *traceback.format_exception(error)])


@pytest.mark.parametrize(
    "answer",
    [
        json_answer({"error": f"wrong key {CANARY}"}, status=401),
        json_answer({"error": f"model {CANARY} not found"}, status=404),
        json_answer({"error": f"wrong key {CANARY}"}),
        stream_answer([f"no json {CANARY}\n".encode()]),
        stream_answer([FRAME], then="close"),
    ],
)
def test_a_password_in_the_address_appears_nowhere(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def ask(server: ReplayServer) -> None:
        monkeypatch.setenv("OLLAMA_HOST", server.url.replace("http://", f"http://me:{CANARY}@"))
        provider = OllamaProvider()
        with pytest.raises(ProviderError) as info:
            await provider.chat(REQUEST)
        assert CANARY not in everything_said(info.value)
        with pytest.raises(ProviderError) as info:
            _ = [each async for each in provider.stream(REQUEST)]
        assert CANARY not in everything_said(info.value)
        assert CANARY not in repr(provider)
        assert all(request.headers["authorization"][:6] == "Basic " for request in server.requests)

    run_with_server(ask, answer)
    assert CANARY not in "\n".join(f"{line.getMessage()} {line.args}" for line in caplog.records)


def test_all_calls_share_connections() -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OllamaProvider(base_url=server.url)
        for _ in range(20):
            await provider.chat(REQUEST)
            _ = [each async for each in provider.stream(REQUEST)]
        assert server.connections == 1
        await provider.aclose()
        await server.all_closed()

    run_with_server(ask, *[ANSWER, stream_answer([FRAME, END])] * 20)


def test_a_stream_that_is_left_early_frees_its_connection() -> None:
    async def ask(server: ReplayServer) -> None:
        provider = OllamaProvider(base_url=server.url)
        async for each in provider.stream(REQUEST):
            assert each.text == "a"
            break
        await server.all_closed()

    run_with_server(ask, stream_answer([FRAME], then="hang"))


def test_a_cancelled_call_leaves_no_connection_and_no_task() -> None:
    async def ask(server: ReplayServer) -> None:
        call = asyncio.create_task(OllamaProvider(base_url=server.url).chat(REQUEST))
        while not server.requests:
            await asyncio.sleep(0.001)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.all_closed()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_with_server(ask, Answer(chunks=[], then="hang"))


def test_one_provider_works_in_one_event_loop_after_another() -> None:
    provider = OllamaProvider(base_url="http://127.0.0.1:1")

    async def ask(server: ReplayServer) -> None:
        provider.base_url = server.url
        assert (await provider.chat(REQUEST)).text == "Hello"
        assert (await provider.chat(REQUEST)).text == "Hello"
        assert server.connections == 1

    run_with_server(ask, ANSWER)
    run_with_server(ask, ANSWER)
