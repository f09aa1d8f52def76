"""Faults of servers and other clients that were reported in public, as whole runs against a server.

The number in a name is that of the report in the project's list of provider faults. Here are those
that take the harness: what one provider has to do about its own format is tested beside it.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import attrs
import pytest
from tests.faults.asking import ask, flow_for
from tests.faults.exchange import DIALECTS, Dialect, answer

from teff.errors import IncompleteStream, ProviderError
from teff.messages import ToolCall, assistant, tool_result, user
from teff.provider import ChatRequest, pool
from teff.runtime import StreamEvent
from teff.testing.replay import Answer, ReplayServer, json_answer, run_with_server, stream_answer

OPENAI, OLLAMA = DIALECTS
HELLO = "Hello there"
REQUEST = ChatRequest(model="m", messages=[user("Hi")])

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


class Shell:
    """A tool that remembers what it was told to do."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def run(self, command: str) -> str:
        """Run a command."""
        self.done.append(command)
        return "ok"


@pytest.fixture
def shell() -> Shell:
    return Shell()


def tool_of(shell: Shell) -> Any:
    def run(command: str) -> str:
        """Run a command."""
        return shell.run(command)

    return run


def streamed(dialect: Dialect, *pieces: bytes, then: Any = "keep", pause: float = 0.0) -> Answer:
    return stream_answer(pieces, content_type=dialect.content_type, then=then, pause=pause)


def written(dialect: Dialect, text: str) -> Answer:
    """Stream a text in pieces of three characters, as models do."""
    parts = [text[start : start + 3] for start in range(0, len(text), 3)]
    return streamed(dialect, *(dialect.piece(part) for part in parts), dialect.end())


def refusal(dialect: Dialect, status: int, words: str = "no", **headers: str) -> Answer:
    return json_answer(dialect.error(words), status=status, headers=headers)


def good(dialect: Dialect, *, stream: bool = True) -> Answer:
    return answer(dialect, HELLO, stream=stream)


# Tool calls.


def piece_of_call(arguments: str) -> bytes:
    call = {"index": 0, "id": "c1", "function": {"name": "run", "arguments": arguments}}
    return OPENAI.event({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": None}]})


def test_fault_13_a_tool_runs_although_the_last_brace_of_its_arguments_is_missing(
    shell: Shell,
) -> None:
    cut = streamed(OPENAI, piece_of_call('{"command": "ls"'), OPENAI.end("tool_calls"))
    assert ask(OPENAI, cut, good(OPENAI), tools=[tool_of(shell)]).output == HELLO
    assert shell.done == ["ls"]


def test_fault_13_a_tool_does_not_run_with_arguments_that_the_limit_cut_off(shell: Shell) -> None:
    cut = streamed(OPENAI, piece_of_call('{"command": "rm -rf /tm'), OPENAI.end("length"))
    asked = ask(OPENAI, cut, good(OPENAI), tools=[tool_of(shell)])
    assert asked.output == HELLO
    assert shell.done == []
    (told,) = asked.told("tool_result")
    assert told["error"]


@each_dialect
def test_fault_15_a_call_with_braces_that_the_server_left_in_the_text_is_carried_out(
    dialect: Dialect, shell: Shell
) -> None:
    command = "awk '{print $1}' f | sed 's/}/{/'"
    call = json.dumps({"name": "run", "arguments": {"command": command}})
    text = written(dialect, f"<tool_call>\n{call}\n</tool_call>")
    asked = ask(dialect, text, good(dialect), tools=[tool_of(shell)])
    assert shell.done == [command]
    assert "".join(asked.tokens).strip() == HELLO, "nothing of the call is shown"
    assert asked.output == HELLO


def test_fault_16_calls_in_tags_without_the_opening_one_are_read(shell: Shell) -> None:
    call = "<function=run>\n<parameter=command>\nls -la\n</parameter>\n</function>\n</tool_call>"
    asked = ask(OLLAMA, written(OLLAMA, call), good(OLLAMA), tools=[tool_of(shell)])
    assert shell.done == ["ls -la"]
    assert "".join(asked.tokens).strip() == HELLO


@each_dialect
def test_fault_17_bare_json_is_a_call_of_an_offered_tool_only(
    dialect: Dialect, shell: Shell
) -> None:
    offered = '{"name": "run", "arguments": {"command": "ls"}}'
    asked = ask(dialect, written(dialect, offered), good(dialect), tools=[tool_of(shell)])
    assert (asked.output, shell.done) == (HELLO, ["ls"])
    other = offered.replace("run", "format_disk")
    asked = ask(dialect, written(dialect, other), tools=[tool_of(shell)])
    assert (asked.output, shell.done) == (other, ["ls"])
    assert "".join(asked.tokens) == other


# Arguments and history.


@pytest.mark.parametrize("begun", [False, True], ids=["as a status", "in the stream"])
def test_fault_20_a_call_that_the_server_could_not_parse_is_asked_for_again(
    begun: bool, shell: Shell
) -> None:
    words = "error parsing tool call: raw='{\"command\": ', err=unexpected end of JSON input"
    failed = refusal(OLLAMA, 500, words)
    if begun:
        failed = streamed(OLLAMA, OLLAMA.piece(), OLLAMA.event(OLLAMA.error(words)))
    call = answer(OLLAMA, "", [("run", {"command": "ls"})], stream=True)
    asked = ask(OLLAMA, failed, call, good(OLLAMA), tools=[tool_of(shell)])
    assert (asked.output, shell.done, len(asked.requests)) == (HELLO, ["ls"], 3)


@each_dialect
def test_fault_21_a_history_with_broken_arguments_goes_out_repaired_and_not_for_ever(
    dialect: Dialect,
) -> None:
    call = ToolCall(id="t1", name="run")
    stored = {**assistant(""), "tool_calls": [{**call.to_json(), "arguments": '{"command": '}]}
    history = [user("Go."), stored, tool_result(call, "failed"), user("And now?")]
    asked = ask(
        dialect, refusal(dialect, 500), state={"messages": history}, messages_key="messages"
    )
    assert isinstance(asked.error, ProviderError)
    assert len(asked.requests) == 3
    for request in asked.requests:
        (sent,) = [call for m in request.json()["messages"] for call in m.get("tool_calls") or ()]
        arguments = sent["function"]["arguments"]
        assert json.loads(arguments) == {} if dialect is OPENAI else arguments == {}


# Timeouts, streams, connections.


async def pieces_of(dialect: Dialect, server: ReplayServer, request: ChatRequest) -> str:
    provider = dialect.provider("p", server.url)
    return "".join([piece.text async for piece in provider.stream(request)])


@each_dialect
def test_fault_48_a_deadline_ends_a_stream_that_never_falls_silent(dialect: Dialect) -> None:
    lively = streamed(dialect, *[dialect.piece("a")] * 60, pause=0.02, then="hang")
    request = attrs.evolve(REQUEST, timeout=10.0, deadline=0.1)
    with pytest.raises(IncompleteStream, match="did not end within 0.1 seconds"):
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
    assert isinstance(asked.error, IncompleteStream)
    assert "sent no event for 0.1 seconds" in str(asked.error)


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


# Retries and fallbacks.


@each_dialect
@pytest.mark.parametrize("stream", [True, False])
def test_fault_66_retries_have_one_owner(dialect: Dialect, stream: bool) -> None:
    schema = {"type": "object"}
    asked = ask(
        dialect,
        refusal(dialect, 503),
        stream=stream,
        http_max_retries=2,
        max_retries=2,
        json_schema=schema,
        fallbacks=["other"],
    )
    assert [request.json()["model"] for request in asked.requests] == ["m"] * 3 + ["other"] * 3
    assert len(asked.told("llm_retry")) == 4


@each_dialect
@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "Retry-After": "7"}, 1.5),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_fault_67_what_the_server_asks_to_wait_is_waited_and_passed_on(
    dialect: Dialect, headers: dict[str, str], wait: float
) -> None:
    asked = ask(dialect, refusal(dialect, 429, **headers))
    assert [told["wait"] for told in asked.told("llm_retry")] == [wait, wait]
    assert isinstance(asked.error, ProviderError)
    assert asked.error.retry_after == wait


@each_dialect
def test_fault_67_a_wait_beyond_all_patience_is_not_waited(dialect: Dialect) -> None:
    asked = ask(dialect, refusal(dialect, 429, **{"Retry-After": "600"}))
    assert (len(asked.requests), asked.told("llm_retry")) == (1, [])
    assert isinstance(asked.error, ProviderError)
    assert asked.error.retry_after == 600.0


@each_dialect
def test_fault_68_a_stream_that_opens_with_an_error_is_tried_again_and_falls_back(
    dialect: Dialect,
) -> None:
    failed = streamed(dialect, dialect.piece(), dialect.event(dialect.error("overloaded")))
    asked = ask(dialect, failed, good(dialect))
    assert (asked.output, len(asked.requests)) == (HELLO, 2)
    asked = ask(dialect, failed, good(dialect), http_max_retries=0, fallbacks=["other"])
    assert (asked.output, len(asked.told("llm_fallback"))) == (HELLO, 1)
    shown = streamed(dialect, dialect.piece("Hel"), dialect.event(dialect.error("overloaded")))
    asked = ask(dialect, shown, good(dialect), fallbacks=["other"])
    assert "overloaded" in str(asked.error)
    assert (asked.tokens, len(asked.requests)) == (["Hel"], 1)


@each_dialect
@pytest.mark.parametrize("stream", [True, False])
def test_fault_69_an_empty_answer_falls_back(dialect: Dialect, stream: bool) -> None:
    empty = answer(dialect, "", stream=stream)
    asked = ask(dialect, empty, good(dialect, stream=stream), stream=stream, fallbacks=["other"])
    assert asked.output == HELLO
    assert [request.json()["model"] for request in asked.requests] == ["m", "other"]


@each_dialect
def test_fault_70_the_answer_of_a_fallback_streams_too(dialect: Dialect) -> None:
    asked = ask(dialect, refusal(dialect, 404), good(dialect), fallbacks=["other"])
    assert asked.tokens == ["Hello", " there"]


@each_dialect
@pytest.mark.parametrize("bound", [True, False])
def test_fault_71_an_answer_streams_where_tools_are_bound(
    dialect: Dialect, bound: bool, shell: Shell
) -> None:
    asked = ask(dialect, good(dialect), tools=[tool_of(shell)] if bound else [])
    assert asked.tokens == ["Hello", " there"]
    assert asked.requests[0].json()["stream"] is True
    assert ("tools" in asked.requests[0].json()) == bound
