"""What a model call costs above bare httpx, against a server on this machine that answers at once.

Run it with ``python benchmarks/providers.py``. Calls are measured against ``httpx`` posting and parsing
the same JSON, streams of 10,000 tokens against ``httpx`` reading the same bytes with ``json.loads`` for
each event. It exits with 1 where a call takes more than 1.5 times, or a stream more than 2.5 times, as
long as its rival. The server runs in a process of its own, so that its work is not counted; each figure
is taken in turn with its rival, in CPU time and by the clock, and the medians of the rounds are printed.
The bound holds for the median in CPU time, and by the clock for the least disturbed round: other
processes make it slower, and what is too slow is so in every round.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from teff.harness import Harness
from teff.provider import ChatRequest, Provider
from teff_providers_ollama import OllamaProvider
from teff_providers_openai import OpenAIProvider

ROUNDS = 7
CALLS = 400
TOKENS = 10_000
MOST_FOR_A_CALL = 1.5
MOST_FOR_A_STREAM = 2.5

QUESTION = [{"role": "user", "content": "Tell me about the sea."}]

Work = Callable[[httpx.AsyncClient], Awaitable[None]]


# --- The server ----------------------------------------------------------------------------------


def openai_chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    """Return an event of a chat completion."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    data = {
        "id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWx",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "m",
        "system_fingerprint": "fp_0123456789",
        "choices": [choice],
        "usage": None,
    }
    return b"data: %s\n\n" % json.dumps(data, separators=(",", ":")).encode()


def ollama_frame(text: str, **more: Any) -> bytes:
    """Return a frame of Ollama's chat."""
    data = {
        "model": "m",
        "created_at": "2026-01-01T00:00:00.000000000Z",
        "message": {"role": "assistant", "content": text},
        "done": False,
        **more,
    }
    return b"%s\n" % json.dumps(data, separators=(",", ":")).encode()


def pieces(kind: str) -> list[bytes]:
    """Return the events of a stream."""
    words = [f" word{number}" for number in range(TOKENS)]
    if kind == "openai":
        end = openai_chunk({}, "stop") + b"data: [DONE]\n\n"
        return [*(openai_chunk({"content": word}) for word in words), end]
    end = ollama_frame("", done=True, done_reason="stop", prompt_eval_count=9, eval_count=TOKENS)
    return [*(ollama_frame(word) for word in words), end]


def whole(kind: str) -> bytes:
    """Return an answer in one piece."""
    if kind == "ollama":
        counts = {"prompt_eval_count": 9, "eval_count": 7}
        return ollama_frame("The sea is wide.", done=True, done_reason="stop", **counts)
    data = {
        "id": "chatcmpl-AbCdEfGhIjKlMnOpQrStUvWx",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The sea is wide."},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16},
    }
    return json.dumps(data).encode()


def answer_bytes(kind: str, *, stream: bool) -> bytes:
    """Return all that the server sends for a request."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: {}\r\n{}\r\n\r\n"
    if not stream:
        body = whole(kind)
        return head.format("application/json", f"Content-Length: {len(body)}").encode() + body
    media = "text/event-stream" if kind == "openai" else "application/x-ndjson"
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces(kind))
    return head.format(media, "Transfer-Encoding: chunked").encode() + chunks + b"0\r\n\r\n"


class Answering(asyncio.Protocol):
    """Sends the answer as soon as a request has come."""

    answers: dict[tuple[str, bool], bytes]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection."""
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request, and answer it when it is whole."""
        self.received += data
        head, found, body = self.received.partition(b"\r\n\r\n")
        if not found:
            return
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if len(body) < int(length):
            return
        self.received = b""
        kind = "ollama" if b"/api/chat " in head else "openai"
        stream = b'"stream":true' in body.replace(b" ", b"")
        assert isinstance(self.transport, asyncio.WriteTransport)
        self.transport.write(self.answers[kind, stream])


async def serve() -> None:
    """Answer until the process is ended; the port is printed."""
    Answering.answers = {
        (kind, stream): answer_bytes(kind, stream=stream)
        for kind in ("openai", "ollama")
        for stream in (False, True)
    }
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def server() -> Iterator[str]:
    """Run the server in a process of its own; yield its address."""
    with subprocess.Popen(
        [sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


# --- The work ------------------------------------------------------------------------------------


def body(kind: str, *, stream: bool) -> dict[str, Any]:
    """Return the least request."""
    usage = {"stream_options": {"include_usage": True}} if stream and kind == "openai" else {}
    return {"model": "m", "messages": QUESTION, "stream": stream, **usage}


async def bare_calls(client: httpx.AsyncClient, url: str, kind: str) -> None:
    """Post and parse, with httpx alone."""
    for _ in range(CALLS):
        response = await client.post(url, json=body(kind, stream=False))
        response.raise_for_status()
        assert response.json()


async def bare_stream(client: httpx.AsyncClient, url: str, kind: str) -> None:
    """Read the bytes of a stream, and parse each event, with httpx and ``json.loads`` alone."""
    mark, unfinished, events = b"data: " if kind == "openai" else b"", b"", 0
    async with client.stream("POST", url, json=body(kind, stream=True)) as response:
        async for chunk in response.aiter_bytes():
            *lines, unfinished = (unfinished + chunk).split(b"\n")
            for line in lines:
                if line and not line.endswith(b"[DONE]"):
                    json.loads(line[len(mark) :])
                    events += 1
    assert events == TOKENS + 1


async def provider_calls(provider: Provider) -> None:
    """Ask a provider."""
    for _ in range(CALLS):
        reply = await provider.chat(ChatRequest(model="m", messages=QUESTION))
        assert reply.text


async def provider_stream(provider: Provider) -> None:
    """Take a stream from a provider."""
    deltas = [delta async for delta in provider.stream(ChatRequest(model="m", messages=QUESTION))]
    assert len(deltas) == TOKENS + 1


async def harness_calls(provider: Provider) -> None:
    """Ask through the harness."""
    harness = Harness(model="m", provider=provider.name, providers={provider.name: provider})
    for _ in range(CALLS):
        reply = await harness.call(QUESTION)
        assert reply.text


async def harness_stream(provider: Provider) -> None:
    """Take a stream through the harness."""
    harness = Harness(model="m", provider=provider.name, providers={provider.name: provider})
    tokens: list[str] = []
    await harness.call(QUESTION, stream=True, on_token=tokens.append)
    assert len(tokens) == TOKENS


# --- The measuring -------------------------------------------------------------------------------


@asynccontextmanager
async def opened(kind: str, url: str) -> AsyncIterator[Provider]:
    """Open a provider for the server."""
    provider: Provider = (
        OpenAIProvider(base_url=f"{url}/v1") if kind == "openai" else OllamaProvider(base_url=url)
    )
    try:
        yield provider
    finally:
        await provider.aclose()


async def costs(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return the seconds of CPU time and by the clock that ``work`` takes."""
    cpu, clock = time.process_time(), time.perf_counter()
    await work()
    return time.process_time() - cpu, time.perf_counter() - clock


async def measure(
    url: str,
    kind: str,
    rival: Callable[[httpx.AsyncClient, str, str], Awaitable[None]],
    ours: Callable[[Provider], Awaitable[None]],
) -> tuple[list[float], list[float], list[float]]:
    """Return the ratios of each round in CPU time and by the clock, and our seconds of CPU time."""
    path = url + ("/v1/chat/completions" if kind == "openai" else "/api/chat")
    in_cpu, by_clock, seconds = [], [], []
    async with httpx.AsyncClient(trust_env=False) as client, opened(kind, url) as provider:
        await rival(client, path, kind)  # opens the connections, and loads what is loaded once
        await ours(provider)
        for _ in range(ROUNDS):
            bare_cpu, bare_clock = await costs(lambda: rival(client, path, kind))
            our_cpu, our_clock = await costs(lambda: ours(provider))
            in_cpu.append(our_cpu / bare_cpu)
            by_clock.append(our_clock / bare_clock)
            seconds.append(our_cpu)
    return in_cpu, by_clock, seconds


def main() -> int:
    """Measure, print a line for each scenario, and return the exit code."""
    scenarios = [
        ("call", bare_calls, provider_calls, CALLS, MOST_FOR_A_CALL),
        ("call, harness", bare_calls, harness_calls, CALLS, MOST_FOR_A_CALL),
        ("stream", bare_stream, provider_stream, TOKENS, MOST_FOR_A_STREAM),
        ("stream, harness", bare_stream, harness_stream, TOKENS, MOST_FOR_A_STREAM),
    ]
    print(f"python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}, {ROUNDS} rounds")
    print(f"{'scenario':24}{'us each':>9}{'x bare':>9}{'clock':>8}{'low':>7}{'high':>7}{'most':>7}")
    holds = True
    with server() as url:
        for kind in ("openai", "ollama"):
            for name, rival, ours, count, most in scenarios:
                in_cpu, by_clock, seconds = asyncio.run(measure(url, kind, rival, ours))
                middle, clock = statistics.median(in_cpu), statistics.median(by_clock)
                each = statistics.median(seconds) / count * 1e6
                print(
                    f"{kind + ' ' + name:24}{each:9.1f}{middle:9.2f}{clock:8.2f}"
                    f"{min(in_cpu):7.2f}{max(in_cpu):7.2f}{most:7.1f}"
                )
                holds = holds and middle <= most and min(by_clock) <= most
    bounds = f"a call at most {MOST_FOR_A_CALL:g} times, a stream {MOST_FOR_A_STREAM:g} times bare"
    print(f"{'holds' if holds else 'DOES NOT HOLD'}: {bounds}")
    return 0 if holds else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        sys.exit(main())
