"""The fault matrix: what becomes of a model call when a server fails in each of many ways.

Every run is that of an `LLM` node with real providers against servers on this machine, which send
what the failure says. What became of it is read off the requests that the servers received, the
events, and the result or the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, Literal

import attrs
from tests.faults.asking import without_waiting
from tests.faults.exchange import DIALECTS, HELLO, Dialect, LateServer, answer

from teff.errors import TeffError
from teff.flow import Flow
from teff.graph import Graph
from teff.provider import Provider
from teff.runtime import StreamEvent
from teff.testing.server import Answer, json_answer, stream_answer

__all__ = [
    "AFTER",
    "BEFORE",
    "NOTHING",
    "REQUESTS",
    "SITUATIONS",
    "WAYS",
    "Cell",
    "Failure",
    "Seen",
    "seen",
]

Way = Literal["stream", "plain"]
Request = Literal["plain", "tools", "schema"]
#: The first server fails once and then answers, with a fallback at hand; or it always fails.
Situation = Literal["once", "always", "alone"]

WAYS: tuple[Way, ...] = ("stream", "plain")


def _heard(token: str) -> None:
    """Hear a piece of an answer."""


REQUESTS: tuple[Request, ...] = ("plain", "tools", "schema")
SITUATIONS: tuple[Situation, ...] = ("once", "always", "alone")

RIGA = {"city": "Riga"}
RIGA_TEXT = '{"city": "Riga"}'
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@attrs.frozen
class Failure:
    """One way to fail.

    Attributes:
        name: what is said of it in the table.
        sends: what the server sends; given the format, the way, and what has been shown before.
        refuses: it does not listen.
        is_silent: the server says nothing until the timeout has passed.
        only: the format that knows of it, or "" for both.
    """

    name: str
    sends: Callable[[Dialect, Way, str], Answer]
    refuses: bool = False
    is_silent: bool = False
    only: str = ""


@attrs.frozen(kw_only=True)
class Cell:
    """Where a failure happens."""

    dialect: Dialect
    way: Way
    request: Request
    situation: Situation

    @property
    def calls(self) -> int:
        """How many requests a run takes where nothing fails."""
        return 2 if self.request == "tools" else 1

    @property
    def begun(self) -> str:
        """What is shown of an answer before it fails, where something is."""
        return RIGA_TEXT[:8] if self.request == "schema" else HELLO[:5]


@attrs.frozen(kw_only=True)
class Seen:
    """What became of a run.

    Attributes:
        outcome: ``answer``, ``retry, then answer``, ``fallback``, or ``error: `` and its type.
        first, second: how many requests either server received.
        retries, fallbacks: how many were told as events.
        shown: the text of the token events.
        waits: the seconds that were to be waited.
    """

    outcome: str
    first: int
    second: int
    retries: int
    fallbacks: int
    shown: str
    waits: Sequence[float]


def status(
    code: int, what: str = "", *, headers: dict[str, str] | None = None, error: str = ""
) -> Failure:
    def sends(dialect: Dialect, way: Way, shown: str) -> Answer:
        refusal = dialect.error("refused for this test", code=error)
        return json_answer(refusal, status=code, headers=headers)

    return Failure(f"{code} {what}".strip(), sends)


def _html(dialect: Dialect, way: Way, shown: str) -> Answer:
    page = b"<html><title>Sign in</title><body>Welcome to our network</body></html>"
    return json_answer(page, content_type="text/html")


def _nothing(dialect: Dialect, way: Way, shown: str) -> Answer:
    kind = dialect.content_type if way == "stream" else "application/json"
    return json_answer(b"", content_type=kind)


def _error(dialect: Dialect, way: Way, shown: str) -> Answer:
    failure = dialect.error("the model crashed")
    if way == "plain":
        return json_answer(failure)
    return _begun(dialect, shown, dialect.event(failure))


def coded(code: int | str) -> Failure:
    """Return a failure that comes with status 200 and names its code in the error."""

    def sends(dialect: Dialect, way: Way, shown: str) -> Answer:
        failure = dialect.error("refused for this test", code=code)
        if way == "plain":
            return json_answer(failure)
        return _begun(dialect, shown, dialect.event(failure))

    return Failure(f"200 with the error {code} in it", sends, only="openai")


def _quota(dialect: Dialect, way: Way, shown: str) -> Answer:
    return status(429, error="insufficient_quota").sends(dialect, way, shown)


def _reset(dialect: Dialect, way: Way, shown: str) -> Answer:
    return Answer(chunks=[], then="reset")


def _silence(dialect: Dialect, way: Way, shown: str) -> Answer:
    return Answer(chunks=[], then="hang")


def stopping(name: str, then: Any, *, is_silent: bool = False) -> Failure:
    """Return a failure amid an answer that has begun."""

    def sends(dialect: Dialect, way: Way, shown: str) -> Answer:
        if way == "stream":
            return _begun(dialect, shown, dialect.piece(), then=then)
        whole = json_answer(dialect.body(HELLO)).chunks[0]
        return Answer(chunks=[whole[:-20]], then=then)

    return Failure(name, sends, is_silent=is_silent)


def _broken(dialect: Dialect, way: Way, shown: str) -> Answer:
    if way == "plain":
        return json_answer(b'{"choices": [{')
    return _begun(dialect, shown, dialect.event(b'{"choices": [{'))


def _ended(dialect: Dialect, way: Way, shown: str) -> Answer:
    return _begun(dialect, shown, dialect.piece(), then="keep")


def _begun(dialect: Dialect, shown: str, *more: bytes, then: Any = "keep") -> Answer:
    pieces = [*([dialect.piece(shown)] if shown else []), *more]
    return stream_answer(pieces, content_type=dialect.content_type, then=then)


#: For comparison.
NOTHING = Failure("nothing goes wrong", _error)
ERROR = Failure("200 with an error in it", _error)
CUT = stopping("200 cut off", "close")
BREAK = stopping("200, then the connection breaks", "reset")
PAUSE = stopping("200, then silence", "hang", is_silent=True)
BROKEN = Failure("200 with broken JSON", _broken)

#: What can happen before a token was shown.
BEFORE = (
    status(400),
    status(401),
    status(402),
    status(403),
    status(404),
    status(408),
    status(409),
    status(413),
    status(422),
    status(429, "without Retry-After"),
    status(429, "with Retry-After: 1", headers={"Retry-After": "1"}),
    Failure("429 insufficient_quota", _quota, only="openai"),
    status(429, "with Retry-After: 600", headers={"Retry-After": "600"}),
    status(500),
    status(502),
    status(503),
    status(529),
    Failure("connection refused", _reset, refuses=True),
    Failure("connection reset", _reset),
    Failure("no answer within the timeout", _silence, is_silent=True),
    Failure("200 with HTML", _html),
    Failure("200 with an empty body", _nothing),
    ERROR,
    coded(503),
    coded(401),
    coded("insufficient_quota"),
    CUT,
    BREAK,
    PAUSE,
    BROKEN,
)

#: What can happen after one was. There is no status any more.
AFTER = (
    ERROR,
    coded(503),
    coded(429),
    CUT,
    BREAK,
    PAUSE,
    Failure("stream ended without its last event", _ended),
    BROKEN,
)


def _cells(failure: Failure, ways: Sequence[Way]) -> Iterator[Cell]:
    for dialect, way, request, situation in product(DIALECTS, ways, REQUESTS, SITUATIONS):
        if failure.only in ("", dialect.name):
            yield Cell(dialect=dialect, way=way, request=request, situation=situation)


@cache
def seen(failure: Failure, *, shown: bool = False) -> dict[Cell, Seen]:
    """Run every cell of one failure, and return what became of each; nothing is really waited."""

    async def main() -> dict[Cell, Seen]:
        where = _cells(failure, ("stream",) if shown else WAYS)
        return {cell: await _run(failure, cell, shown=shown) for cell in where}

    with without_waiting(), asyncio.Runner(loop_factory=HastyLoop) as runner:
        return runner.run(main())


class HastyLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward, so that timeouts pass without being waited for."""

    _ahead = 0.0

    def time(self) -> float:
        return super().time() + self._ahead

    def put_forward(self, seconds: float) -> None:
        self._ahead += seconds


async def _let_time_pass(server: LateServer, times: int) -> None:
    """Put the clock forward whenever the server has received a request and fallen silent."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, HastyLoop)
    for number in range(1, times + 1):
        while len(server.requests) < number:
            await asyncio.sleep(0)
        for _ in range(200):  # what was sent before is read meanwhile
            await asyncio.sleep(0)
        loop.put_forward(1_000.0)


async def _run(failure: Failure, cell: Cell, *, shown: bool) -> Seen:
    begun = cell.begun if shown else ""
    fails = failure.sends(cell.dialect, cell.way, begun)
    good = _good(cell)
    script = [fails, *good] if cell.situation == "once" else [fails]
    # One that refuses connections sends nothing, and answers when it listens at last.
    script = good if failure is NOTHING or failure.refuses else script
    first, second = LateServer(*script, away=failure.refuses), LateServer(*good)
    heard: list[StreamEvent] = []

    async def hear(event: StreamEvent) -> None:
        heard.append(event)
        if event.type == "llm_retry" and cell.situation == "once":
            await first.arrive()

    async with first, second:
        silences = 1 if cell.situation == "once" else 100
        clock = asyncio.create_task(_let_time_pass(first, silences if failure.is_silent else 0))
        a = cell.dialect.provider("a", first.url)
        b = cell.dialect.provider("b", second.url)
        graph = _graph(cell, a, b)
        try:
            result = await graph.run({"input": "Hi"}, emit=hear, tools=[add])
        except TeffError as error:
            outcome = f"error: {type(error).__name__}"
        else:
            assert result["output"] == (RIGA if cell.request == "schema" else HELLO)
            tried_again = any(event.type == "llm_retry" for event in heard)
            outcome = "retry, then answer" if tried_again else "answer"
            outcome = "fallback" if second.requests else outcome
        clock.cancel()
        await a.aclose()
        await b.aclose()
    told = [event.type for event in heard]
    return Seen(
        outcome=outcome,
        first=len(first.requests),
        second=len(second.requests),
        retries=told.count("llm_retry"),
        fallbacks=told.count("llm_fallback"),
        shown="".join(event.data["token"] for event in heard if event.type == "token"),
        waits=[event.data["wait"] for event in heard if event.type == "llm_retry"],
    )


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _good(cell: Cell) -> list[Answer]:
    stream = cell.way == "stream"
    if cell.request == "tools":
        call = answer(cell.dialect, "", [("add", {"a": 1, "b": 2})], stream=stream)
        return [call, answer(cell.dialect, HELLO, stream=stream)]
    text = RIGA_TEXT if cell.request == "schema" else HELLO
    return [answer(cell.dialect, text, stream=stream)]


def _graph(cell: Cell, first: Provider, second: Provider) -> Graph:
    options: dict[str, Any] = {}
    if cell.situation != "alone":
        options["fallbacks"] = ["b/other"]
    if cell.request == "tools":
        options["use_tools"] = ["add"]
    if cell.request == "schema":
        options["json_schema"] = SCHEMA
        # Without somebody who wants the pieces, those of a structured answer are not shown.
        options["on_token"] = _heard
    flow = Flow(providers={"a": first, "b": second}, default_provider="a", default_model="m")
    return flow.llm(input_key="input", stream=cell.way == "stream", **options).compile()
