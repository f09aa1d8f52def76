"""A key appears in nothing that a failing call leaves behind, whatever the server does with it.

The server of these tests repeats the key in every place where servers have been seen to. Looked at are
the exception with all that hangs on it, every log record, what is written and warned of, and for calls
in a run its events, its trace and its result.
"""

from __future__ import annotations

import asyncio
import html
import json
import logging
import socket
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

import attrs
import pytest

from teff.errors import ConfigError, ProviderError
from teff.flow import Flow
from teff.messages import user
from teff.provider import Capabilities, ChatDelta, ChatReply, ChatRequest, Provider
from teff.provider.http import HttpClient
from teff.provider.keys import find_key
from teff.provider.sse import SseParser
from teff.runtime import RunTracer, StreamEvent
from teff.testing.server import Answer, ReplayServer, json_answer, stream_answer

#: With characters that JSON, HTML, URLs and ``repr`` write in other ways.
KEY = "sk-canary/<0123>&\"4567'\\89"
REQUEST = ChatRequest(model="m", messages=[user("Hi")], timeout=2.0)
FORMS = [
    KEY[:12],  # no half of it either
    KEY[-8:],
    json.dumps(KEY)[1:-1],
    html.escape(KEY)[:20],
    quote(KEY, safe="")[:16],
]


@attrs.define(kw_only=True)
class Plain:
    """The least provider on top of `HttpClient`."""

    base_url: str = attrs.field(repr=False)
    name: str = "plain"
    api_key_env: str = ""
    api_key: Callable[[], str] | None = attrs.field(default=None, repr=False)
    headers: dict[str, str] = attrs.field(factory=dict, repr=False)
    http: HttpClient = attrs.field(factory=lambda: HttpClient("plain"))

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def _headers(self) -> dict[str, str]:
        key = find_key(self.api_key_env, self.api_key, provider=self.name)
        return {**self.headers, **({"X-Api-Key": key} if key else {})}

    async def chat(self, request: ChatRequest) -> ChatReply:
        data = await self.http.post_json(
            self.base_url,
            dict(request.options),
            headers=self._headers(),
            timeout=request.timeout or 2.0,
        )
        raise self.http.error(f"sent a reply that cannot be read: {data}", model="m")

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        parser = SseParser()
        async with self.http.stream(
            self.base_url,
            dict(request.options),
            headers=self._headers(),
            timeout=request.timeout or 2.0,
        ) as reply:
            while (events := await reply.read(parser)) is not None:
                for event in events:
                    reply.parse(event.data)
            raise reply.incomplete()
        yield ChatDelta()

    async def aclose(self) -> None:
        await self.http.aclose()


def make(kind: str, **options: Any) -> Provider:
    """Return a provider of a kind; where its distribution is not installed, the test is skipped."""
    if kind == "plain":
        return Plain(**options)
    module = pytest.importorskip(f"teff_providers_{kind}")
    made: Provider = getattr(
        module, {"openai": "OpenAIProvider", "ollama": "OllamaProvider"}[kind]
    )(**options)
    return made


@pytest.fixture(params=["plain", "openai", "ollama"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# --- Looking for the key -------------------------------------------------------------------------


def assert_hidden(*texts: object) -> None:
    for text in texts:
        shown = text if isinstance(text, str) else repr(text)
        for form in FORMS:
            if form in shown:  # not as an `assert`: explaining it takes long
                pytest.fail(f"the key is in …{shown[max(0, shown.index(form) - 300) :][:600]}…")


def chained(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and all that led to it, what is not shown too."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting += [current.__cause__, current.__context__]


def assert_hidden_in(error: BaseException) -> None:
    assert_hidden(*traceback.format_exception(error))
    for each in chained(error):
        assert_hidden(str(each), repr(each), each.args, vars(each))
        assert_hidden(getattr(each, "__notes__", []))


@pytest.fixture
def watched(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Look through what a test has logged, written and warned of."""
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield
    assert (
        any(record.name.startswith("httpcore") for record in caplog.records) or not caplog.records
    )
    for record in caplog.records:
        assert_hidden(record.getMessage(), str(vars(record)))
    assert_hidden(caplog.text, *capsys.readouterr(), [str(each.message) for each in warned])


async def failures(
    make_provider: Callable[[], Provider], *, runs: bool = True
) -> list[BaseException]:
    """Return what goes wrong in a plain call, a stream, and in runs that make these calls."""
    provider = make_provider()
    assert_hidden(repr(provider), str(provider))
    found: list[BaseException] = []

    async def stream() -> None:
        async for _ in provider.stream(REQUEST):
            pass

    asked: list[Callable[[], Awaitable[Any]]] = [lambda: provider.chat(REQUEST), stream]
    if runs:
        asked += [lambda: run(provider, stream=False), lambda: run(provider, stream=True)]
    try:
        for ask in asked:
            with pytest.raises((ProviderError, ConfigError)) as info:
                await ask()
            found.append(info.value)
    finally:
        await provider.aclose()
    return found


async def run(provider: Provider, *, stream: bool) -> None:
    """Let a node ask, and look through the events, the trace and the result."""
    events: list[StreamEvent] = []
    tracer = RunTracer()
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    graph = flow.llm(prompt="Hi", stream=stream, http_max_retries=0).compile()
    try:
        await graph.run(tracer=tracer, emit=events.append)
    finally:
        assert [event.type for event in events][-1] == "run_end"
        assert_hidden(events, tracer.events, tracer.timeline(), tracer.summary())
        assert_hidden(json.dumps(events, default=repr))


# --- What servers send ---------------------------------------------------------------------------

STATUSES = [
    300, 301, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 407, 408, 409, 410, 413, 415, 422,
    425, 429, 431, 451, 499, 500, 501, 502, 503, 504, 507, 511, 520, 529, 599,
]  # fmt: skip

ECHOES = {"X-Your-Key": KEY, "WWW-Authenticate": f"Bearer {KEY}", "Set-Cookie": f"k={quote(KEY)}"}


def refusal(status: int, body: object) -> Answer:
    return json_answer(body, status=status, headers={"Retry-After": "60", **ECHOES})


def raw(text: str, then: Any = "close") -> Answer:
    return Answer(chunks=[text.encode()], then=then)


def event(data: object) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n{text}\n".encode()


WRONG_KEY = {"error": {"message": f"Incorrect API key provided: {KEY}.", "code": KEY, "param": KEY}}
HEAD = "HTTP/1.1 200 OK\r\n"

ANSWERS: dict[str, Answer] = {
    **{f"status {status}": refusal(status, WRONG_KEY) for status in STATUSES},
    "error is a text": refusal(401, {"error": f"{KEY} is wrong"}),
    "error is a list": refusal(401, {"error": [KEY, {"message": KEY}]}),
    "errors in a list": refusal(401, [{"error": {"message": KEY}}]),
    "detail": refusal(422, {"detail": [{"loc": ["header", KEY], "msg": KEY}]}),
    "no error": refusal(401, {"key": KEY, "headers": {"authorization": f"Bearer {KEY}"}}),
    "plain text": refusal(401, f"Bearer {KEY} is wrong".encode()),
    "html": refusal(502, f"<html><title>{html.escape(KEY)}</title>{KEY}</html>".encode()),
    "html without a title": refusal(502, f"<p>{html.escape(KEY)}</p>".encode()),
    "an address": refusal(401, f"see https://x/?key={quote(KEY, safe='')}".encode()),
    "as python writes it": refusal(500, repr({"Authorization": f"Bearer {KEY}"}).encode()),
    "long, cut off inside": refusal(500, b"x" * (64 * 1024 - 18) + KEY.encode() * 2),
    "cut off inside": raw(f"HTTP/1.1 401 No\r\nContent-Length: 999\r\n\r\n{KEY[:-2]}"),
    "redirect": refusal(302, b"").__class__(
        chunks=[f"HTTP/1.1 302 {KEY}\r\nLocation: http://x/?k={KEY}\r\n\r\n".encode()],
        then="close",
    ),
    "reason": raw(f"HTTP/1.1 401 {KEY}\r\nContent-Length: 0\r\n\r\n"),
    "status line": raw(f"HTTP/1.1 {KEY} No\r\n\r\n"),
    "no http": raw(f"{KEY}\r\n\r\n"),
    "header line": raw(f"{HEAD}{KEY}\r\n\r\n"),
    "length": raw(f"{HEAD}Content-Length: {KEY}\r\n\r\n"),
    "transfer": raw(f"{HEAD}Transfer-Encoding: {KEY}\r\n\r\n"),
    "chunk size": raw(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{KEY}\r\n"),
    "encoding": raw(f"{HEAD}Content-Encoding: gzip\r\nContent-Length: 40\r\n\r\n{KEY * 2}"),
    "no json": json_answer(f"Bearer {KEY}".encode()),
    "half of json": json_answer(f'{{"key": "{KEY}'.encode()),
    "a list": json_answer([KEY]),
    "an empty object": json_answer({}),
    "an error in an answer": json_answer(WRONG_KEY),
    "an error in an answer, in html": json_answer(KEY.encode(), content_type="text/html"),
    "object error": json_answer({"object": "error", "message": KEY, "code": 401}),
    "choices": json_answer({"choices": KEY, "message": KEY}),
    "an error in a stream": stream_answer([event(WRONG_KEY)]),
    "an error text in a stream": stream_answer([event({"error": KEY})]),
    "an error event": stream_answer([f"event: error\ndata: {json.dumps(KEY)}\n\n".encode()]),
    "junk in a stream": stream_answer([event(KEY)]),
    "a list in a stream": stream_answer([event([KEY])]),
    "a stream of nothing": stream_answer([f": {KEY}\n\n".encode()]),
    "a cut stream": stream_answer([f": {KEY}\n\n".encode()], then="close"),
    "a cut error": stream_answer([event(WRONG_KEY)[:60]], then="close"),
    "a reset stream": stream_answer([f": {KEY}\n\n".encode()], then="reset"),
    "nothing": Answer(chunks=[], then="close"),
    "reset": Answer(chunks=[], then="reset"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_key_is_in_nothing_that_a_refused_call_leaves(
    case: str, kind: str, watched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> list[BaseException]:
        async with ReplayServer(ANSWERS[case]) as server:
            found = await failures(lambda: make(kind, base_url=server.url, api_key_env="MY_KEY"))
            for request in server.requests:
                assert any(value.endswith(KEY) for value in request.headers.values())
            return found

    monkeypatch.setenv("MY_KEY", KEY)
    for error in asyncio.run(main()):
        assert_hidden_in(error)


# --- Calls that never get an answer --------------------------------------------------------------

NO_WAY = [
    "refused",
    "no such name",
    "wrong proxy",
    "refusing proxy",
    "no tls",
    "hanging",
    "not json",
]


@pytest.fixture(params=["variable", "function", "headers", "address"])
def with_key(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], dict[str, Any]]:
    """Return what makes the options of a provider at a URL, with the key in one of its places."""
    monkeypatch.setenv("MY_KEY", KEY)

    def options(url: str) -> dict[str, Any]:
        if request.param == "address":
            scheme, _, rest = url.partition("://")
            return {"base_url": f"{scheme}://me:{quote(KEY, safe='')}@{rest}"}
        given: dict[str, dict[str, Any]] = {
            "variable": {"api_key_env": "MY_KEY"},
            "function": {"api_key": lambda: KEY},
            "headers": {"headers": {"X-Secret": KEY}},
        }
        return {"base_url": url, **given[request.param]}

    return options


def way_to_fail(case: str, url: str, environment: pytest.MonkeyPatch) -> str:
    """Prepare a failure, and return the address to ask."""
    if case == "no such name":

        def unknown(*args: object, **options: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        environment.setattr(socket, "getaddrinfo", unknown)
        return "http://nowhere.teff.test/v1"
    if case in ("wrong proxy", "refusing proxy"):
        at = "127.0.0.1:1" if case == "wrong proxy" else url.removeprefix("http://")
        environment.setenv("HTTPS_PROXY", f"http://me:{quote(KEY, safe='')}@{at}")
        return "https://api.teff.test/v1"
    return {"refused": "http://127.0.0.1:1", "no tls": url.replace("http", "https")}.get(case, url)


@pytest.mark.parametrize("case", NO_WAY)
def test_a_key_is_in_nothing_that_an_unanswered_call_leaves(
    case: str,
    kind: str,
    with_key: Callable[[str], dict[str, Any]],
    watched: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> list[BaseException]:
        hanging = Answer(chunks=[], then="hang")
        refusing = json_answer({"key": KEY}, status=407, headers=ECHOES)
        async with ReplayServer(hanging if case == "hanging" else refusing) as server:
            options = with_key(way_to_fail(case, server.url, monkeypatch))
            monkeypatch.setattr(f"{__name__}.REQUEST", attrs.evolve(REQUEST, timeout=0.05))
            if case == "not json":
                bad = attrs.evolve(REQUEST, options={"temperature": float("nan")})
                monkeypatch.setattr(f"{__name__}.REQUEST", bad)
            return await failures(lambda: make(kind, **options), runs=case == "refused")

    for error in asyncio.run(main()):
        assert_hidden_in(error)
        assert_hidden_in_variables(error)


def assert_hidden_in_variables(error: BaseException) -> None:
    """Look into the variables of the frames, which some tools show with a traceback."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    assert_hidden(*shown.format())


@pytest.mark.parametrize("moment", [0, 1, 3, 10, 40])
def test_a_key_is_in_nothing_that_a_cancelled_call_leaves(
    moment: int, kind: str, with_key: Callable[[str], dict[str, Any]], watched: None
) -> None:
    async def main() -> list[BaseException]:
        found: list[BaseException] = []
        async with ReplayServer(Answer(chunks=[], then="hang")) as server:
            provider = make(kind, **with_key(server.url))
            for ask in (provider.chat(REQUEST), anext(aiter(provider.stream(REQUEST)))):
                task = asyncio.ensure_future(ask)
                for _ in range(moment):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError) as info:
                    await task
                found.append(info.value)
            await provider.aclose()
        return found

    for error in asyncio.run(main()):
        assert_hidden_in(error)
        assert_hidden_in_variables(error)


@pytest.mark.parametrize("key", ["", f"{KEY}\n{KEY}", f"“{KEY}”", 7])
def test_a_key_that_cannot_be_sent_is_refused_unseen(
    key: Any, kind: str, watched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", str(key))
    sources: list[dict[str, Any]] = [{"api_key": lambda: key}]
    if key != 7:
        sources.append({"api_key_env": "MY_KEY"})
    for source in sources:
        options = {"base_url": "http://127.0.0.1:1", **source}
        for error in asyncio.run(failures(partial(make, kind, **options))):
            assert isinstance(error, ConfigError)
            assert_hidden_in(error)
            assert_hidden_in_variables(error)
