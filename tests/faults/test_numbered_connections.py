"""The numbered faults about timeouts, streams and connections, as whole runs against a server.

The number in a name is that of the report in the project's list of provider faults.
"""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest
from tests.faults.asking import ask, flow_for
from tests.faults.exchange import DIALECTS, HELLO, Dialect, good, refusal, streamed

from teff.errors import IncompleteStream, ProviderError
from teff.messages import user
from teff.provider import ChatRequest, pool
from teff.runtime import StreamEvent
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server

OPENAI, OLLAMA = DIALECTS
REQUEST = ChatRequest(model="m", messages=[user("Hi")])

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


async def pieces_of(dialect: Dialect, server: ReplayServer, request: ChatRequest) -> str:
    provider = dialect.provider("p", server.url)
    return "".join([piece.text async for piece in provider.stream(request)])


@each_dialect
def test_fault_48_a_deadline_ends_a_stream_that_never_falls_silent(dialect: Dialect) -> None:
    lively = streamed(dialect, *[dialect.piece("a")] * 60, pause=0.02, then="hang")
    request = attrs.evolve(REQUEST, timeout=10.0, deadline=0.1)
    # On a machine that is slow enough it ends before the stream has begun.
    with pytest.raises(ProviderError, match=r"within 0\.1 seconds"):
        run_with_server(lambda server: pieces_of(dialect, server, request), lively)


@each_dialect
def test_fault_48_the_timeout_of_a_whole_answer_counts_from_its_beginning(
    dialect: Dialect,
) -> None:
    (content,) = json_answer(dialect.body(HELLO)).chunks
    trickling = Answer(chunks=[content[n : n + 2] for n in range(0, len(content), 2)], pause=0.02)
    asked = ask(dialect, trickling, stream=False, timeout=0.1, http_max_retries=0)
    assert "did not answer within 0.1 seconds" in str(asked.error)


@each_dialect
def test_fault_49_bytes_that_only_keep_a_stream_alive_are_no_events(dialect: Dialect) -> None:
    nothing = b": keep-alive\n\n" if dialect is OPENAI else b"\n"
    idle = streamed(dialect, *[nothing] * 40, pause=0.02, then="hang")
    asked = ask(dialect, idle, timeout=0.1, http_max_retries=0)
    assert "0.1 seconds" in str(asked.error)


@each_dialect
def test_fault_50_a_connection_that_breaks_in_a_stream_is_a_provider_error_with_the_text(
    dialect: Dialect,
) -> None:
    asked = ask(dialect, streamed(dialect, dialect.piece("Hel"), then="reset"))
    assert isinstance(asked.error, IncompleteStream)
    assert asked.error.partial == "Hel"


@each_dialect
def test_fault_54_streams_that_ended_give_the_only_connection_back(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_MAX_CONNECTIONS", 1)

    async def main(server: ReplayServer) -> int:
        graph = flow_for(dialect, server.url).llm(input_key="input").compile()
        for _ in range(3):
            await graph.run({"input": "Hi"}, emit=lambda event: None)
        return server.connections

    assert run_with_server(main, good(dialect)) == 1


@each_dialect
def test_fault_55_refused_streams_leave_the_only_connection_to_the_next_try(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_MAX_CONNECTIONS", 1)
    busy = refusal(dialect, 429, "slow down")
    asked = ask(dialect, *[busy] * 5, good(dialect), http_max_retries=5)
    assert (asked.output, len(asked.requests)) == (HELLO, 6)


@each_dialect
def test_fault_56_cancelled_runs_hold_no_connection(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_MAX_CONNECTIONS", 1)

    async def main(server: ReplayServer) -> Any:
        graph = flow_for(dialect, server.url).llm(input_key="input").compile()
        for _ in range(3):
            shown = asyncio.Event()
            listen = on_token(shown)
            task = asyncio.create_task(graph.run({"input": "Hi"}, emit=listen))
            await shown.wait()
            # Twice: the second one comes while the connection is being closed.
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await server.all_closed()
        return (await graph.run({"input": "Hi"}, emit=lambda event: None))["output"]

    hanging = streamed(dialect, dialect.piece("Hel"), then="hang")
    assert run_with_server(main, *[hanging] * 3, good(dialect)) == HELLO


def on_token(shown: asyncio.Event) -> Any:
    def listen(event: StreamEvent) -> None:
        if event.type == "token":
            shown.set()

    return listen


@each_dialect
def test_fault_57_a_stream_that_is_left_closes_quietly(dialect: Dialect) -> None:
    async def main(server: ReplayServer) -> list[Any]:
        complaints: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, about: complaints.append(about))
        stream = (
            flow_for(dialect, server.url).llm(input_key="input").compile().stream({"input": "Hi"})
        )
        async for event in stream:
            if event.type == "token":
                break
        await stream.aclose()  # type: ignore[attr-defined]
        await server.all_closed()
        return complaints

    hanging = streamed(dialect, dialect.piece("Hel"), then="hang")
    assert run_with_server(main, hanging) == []


@each_dialect
def test_fault_58_another_task_ends_a_stream_by_cancelling_its_reader(dialect: Dialect) -> None:
    async def main(server: ReplayServer) -> list[str]:
        read: list[str] = []
        shown = asyncio.Event()
        stream = (
            flow_for(dialect, server.url).llm(input_key="input").compile().stream({"input": "Hi"})
        )

        async def reader() -> None:
            async for event in stream:
                read.append(event.type)
                on_token(shown)(event)

        task = asyncio.create_task(reader())
        await shown.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stream.aclose()  # type: ignore[attr-defined]
        await server.all_closed()
        assert asyncio.all_tasks() - {asyncio.current_task()} == set()
        return read

    hanging = streamed(dialect, dialect.piece("Hel"), then="hang")
    assert run_with_server(main, hanging)[-1] == "token"


@each_dialect
def test_fault_59_one_provider_answers_in_one_event_loop_after_another(dialect: Dialect) -> None:
    provider = dialect.provider("p", "http://127.0.0.1:9")

    async def main(server: ReplayServer) -> Any:
        complaints: list[Any] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, about: complaints.append(about))
        provider.base_url = server.url  # type: ignore[attr-defined]
        texts = [(await provider.chat(REQUEST)).text for _ in range(2)]
        return texts, server.connections, complaints

    for _ in range(3):
        texts, connections, complaints = run_with_server(main, good(dialect, stream=False))
        assert (texts, connections, complaints) == ([HELLO, HELLO], 1, [])
