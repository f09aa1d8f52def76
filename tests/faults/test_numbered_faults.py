"""Faults of servers and other clients that were reported in public, as whole runs against a server.

The number in a name is that of the report in the project's list of provider faults. Here are those
that take the harness: what one provider has to do about its own format is tested beside it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.faults.asking import ask
from tests.faults.exchange import DIALECTS, HELLO, Dialect, answer, good, refusal, streamed, written

from teff.errors import ProviderError
from teff.messages import ToolCall, assistant, tool_result, user
from teff.provider import ChatRequest

OPENAI, OLLAMA = DIALECTS
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


def test_fault_68_a_schema_that_is_blamed_amid_an_answer_is_no_reason_to_ask_again() -> None:
    blamed = {"error": {"message": "failed to parse grammar", "code": 500}}
    shown = streamed(OPENAI, OPENAI.piece('{"n"'), OPENAI.event(blamed))
    whole = answer(OPENAI, '{"n": 1}', stream=True)
    heard: list[str] = []
    asked = ask(OPENAI, shown, whole, json_schema={"type": "object"}, on_token=heard.append)
    assert (asked.tokens, len(asked.requests)) == (['{"n"'], 1)
    assert "failed to parse grammar" in str(asked.error)


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
