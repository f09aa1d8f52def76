"""`teff chat`: a conversation on standard input and output."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from teff.errors import ProviderError

ASK = """
steps:
  - interrupt: {key: seats, prompt: "How many seats?", choices: [1, 2]}
  - transform: {action: render, template: "{seats} seats for {input}", output_key: output}
"""
HARNESS = """
default_provider: scripted
default_model: small
steps:
  - harness: {system: You help.}
"""


@pytest.fixture
def chat(teff, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Say lines to a chat."""

    def say(*arguments: str, said: list[str]) -> object:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in said)))
        return teff("chat", *arguments)

    return say


def test_each_line_is_a_message_of_one_conversation(chat, flow, models):
    provider = models("Hello.", "Fine.")
    done = chat(flow(HARNESS), said=["hi", "how are you?"])
    assert (done.code, done.out) == (0, "Hello.\nFine.\n")
    assert [message["content"] for message in provider.requests[1].messages[-3:]] == [
        "hi",
        "Hello.",
        "how are you?",
    ]


def test_a_question_is_asked_and_answered_in_place(chat, flow):
    done = chat(flow(ASK), said=["the opera", "2", "the zoo", "1"])
    assert done.code == 0
    assert done.out == (
        "How many seats? (1, 2)\n2 seats for the opera\n"
        "How many seats? (1, 2)\n1 seats for the zoo\n"
    )


def test_a_bad_answer_is_refused_and_the_question_stays_open(chat, flow):
    done = chat(flow(ASK), said=["the opera", "three", "2"])
    assert (done.code, done.out) == (0, "How many seats? (1, 2)\n2 seats for the opera\n")
    assert "error: 'three' is no answer to 'seats'; choose one of: 1, 2." in done.err


def test_with_an_id_the_chat_goes_on_later(chat, flow):
    file = flow(ASK)
    done = chat(file, "--checkpoint-id", "ada", said=["the opera"])
    assert (done.code, done.out) == (3, "How many seats? (1, 2)\n")
    assert done.err.splitlines()[-1] == "go on with: teff chat flow.yaml --checkpoint-id ada"
    done = chat(file, "--checkpoint-id", "ada", said=["1"])
    assert (done.code, done.out) == (0, "How many seats? (1, 2)\n1 seats for the opera\n")


def test_with_an_id_it_knows_what_was_said(chat, flow, models):
    provider = models("Hello.", "You said hi.")
    file = flow(HARNESS)
    chat(file, "--checkpoint-id", "ada", said=["hi"])
    chat(file, "--checkpoint-id", "ada", said=["what did I say?"])
    assert [message["content"] for message in provider.requests[1].messages[-3:]] == [
        "hi",
        "Hello.",
        "what did I say?",
    ]


def test_without_an_id_nothing_is_recorded(chat, flow):
    done = chat(flow(ASK), said=["the opera"])
    assert done.code == 3
    assert "go on with" not in done.err
    assert {path.name for path in Path().iterdir()} == {"flow.yaml"}


def test_empty_lines_say_nothing(chat, flow):
    assert chat(flow(ASK), said=["", "  "]).out == ""
    assert chat(flow(ASK), said=[]).code == 0


def test_a_turn_that_failed_goes_on_with_the_same_message(chat, flow, models):
    provider = models(ProviderError("scripted (small) is down", permanent=True), "Hello.")
    done = chat(flow(HARNESS), "--checkpoint-id", "ada", said=["hi", "hi"])
    assert (done.code, done.out) == (0, "Hello.\n")
    assert "error: " in done.err
    assert "the same message again goes on with this turn" in done.err
    roles = [message["role"] for message in provider.requests[1].messages]
    assert roles.count("user") == 1


def test_it_ends_with_the_code_of_the_last_turn(chat, flow, models):
    models("Hello.", ProviderError("scripted (small) is down", permanent=True))
    assert chat(flow(HARNESS), said=["hi", "and?"]).code == 1


def test_a_bound_counts_for_one_message(chat, flow):
    text = "steps: [transform: {action: now}, transform: {action: now, output_key: output}]"
    done = chat(flow(text), "--max-steps", "1", said=["a", "b"])
    assert done.code == 4
    assert done.err.count("stopped: max_steps") == 2
    done = chat(flow(text), "--max-steps", "2", said=["a", "b"])
    assert (done.code, len(done.out.splitlines())) == (0, 2)


def test_an_answer_is_not_that_of_the_turn_before(chat, flow):
    text = """
steps:
  - {id: read, type: transform, config: {action: trim, input_key: input, output_key: word}}
  - {id: say, type: transform, config: {action: render, template: "I said {word}", output_key: output}}
edges: [{from: read, to: say, condition: "word=speak"}]
"""
    done = chat(flow(text), said=["speak", "be quiet"])
    assert done.code == 0
    assert done.out == "I said speak\nbe quiet\n"


def test_the_state_and_the_models_may_be_given(chat, flow, models):
    provider = models("Hello.")
    text = HARNESS.replace("You help.", '"You help {who}."')
    options = ("--input", "who=Ada", "--model", "large", "--provider", "scripted")
    assert chat(flow(text), *options, said=["hi"]).out == "Hello.\n"
    assert provider.requests[0].model == "large"
    assert provider.requests[0].messages[0]["content"] == "You help Ada."


def test_a_wrong_workflow_or_wrong_use_ends_with_2(chat, teff, flow):
    assert chat("nope.yaml", said=["hi"]).code == 2
    assert chat(flow("steps: []"), said=["hi"]).code == 2
    assert chat(flow(HARNESS.replace("scripted", "unknown")), said=["hi"]).code == 2
    done = chat(flow(ASK), "--checkpoint", "x.db", said=["hi"])
    assert done.code == 2
    assert "--checkpoint needs --checkpoint-id, the id of the chat." in done.err
    assert teff("chat").code == 2


def test_a_closed_standard_input_is_wrong_use(teff, flow, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    done = teff("chat", flow(ASK))
    assert done.code == 2
    assert "standard input is closed" in done.err


def test_a_chat_is_neither_run_nor_resumed(chat, teff, flow):
    file = flow(ASK)
    chat(file, "--checkpoint-id", "ada", said=["the opera"])
    for command in (
        ["run", file, "--checkpoint-id", "ada"],
        ["resume", "ada"],
        ["resume", "ada#turn-1", "--answer", "2"],
    ):
        done = teff(*command)
        assert done.code == 2
        assert "'ada' is a chat: go on with teff chat FILE --checkpoint-id ada." in done.err
    for command in (["show", "ada"], ["fork", "ada", "--at", "0"]):
        done = teff(*command)
        assert done.code == 2
        assert "'ada' is a chat. Each turn is a run: ada#turn-1, ada#turn-2, …" in done.err
    steps = json.loads(teff("show", "ada#turn-1", "--json").out)
    assert steps["interrupts"][0]["key"] == "seats"


def test_it_works_in_a_pipe(flow, tmp_path):
    flow(ASK)
    done = subprocess.run(
        [sys.executable, "-m", "teff", "chat", "flow.yaml"],
        cwd=tmp_path,
        input="caf\xe9\r\n2\n".encode("latin-1"),
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == (
        "How many seats? (1, 2)\n2 seats for caf\N{REPLACEMENT CHARACTER}\n"
    )


@pytest.mark.skipif(os.name == "nt", reason="a terminal of POSIX")
def test_a_terminal_is_asked_for_each_line(flow, tmp_path):
    import pty

    flow(ASK)
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "teff", "chat", "flow.yaml"],
        cwd=tmp_path,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(follower)
    shown = b""
    try:
        for said, until in (
            (b"", b"> "),
            (b"the opera\n", b"(1, 2)\r\n> "),
            (b"2\n", b"opera\r\n> "),
        ):
            os.write(leader, said)
            while until not in shown:
                shown += os.read(leader, 1000)
            shown = b""
        os.write(leader, b"\x04")
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(leader)
