"""Stored runs as hostile users meet them: bad answers, odd ids, steps that break and go on."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from teff import Flow, Graph, GraphInterrupt
from teff.checkpoint import MemoryCheckpointer
from teff.cli import main
from teff.errors import ConfigError, TeffError
from teff.node import Retry
from teff.runtime import Limits
from teff.testing import ScriptedProvider, call_tool


def run(graph: Graph, store: Any, state: Mapping[str, Any] | None = None, **options: Any) -> Any:
    options.setdefault("checkpoint_id", "r")
    return asyncio.run(graph.run(state, checkpointer=store, **options))


def pause(graph: Graph, store: Any, **options: Any) -> None:
    with pytest.raises(GraphInterrupt):
        run(graph, store, **options)


def say(graph: Graph, store: Any, message: str, chat: str = "c") -> Any:
    return asyncio.run(graph.turn(message, checkpointer=store, checkpoint_id=chat))


def kinds(store: Any) -> list[str]:
    return [record.kind for record in asyncio.run(store.load("r"))]


def asking(**options: Any) -> Graph:
    async def ask(ctx: Any, state: Any) -> dict[str, Any]:
        return {"q": await ctx.interrupt("q", "?", **options)}

    return Flow().step(ask, id="ask").compile()


# Answers that nobody can use


@pytest.mark.xfail(
    strict=True,
    reason="the answer is recorded before the state schema is asked: the run fails forever",
)
def test_an_answer_that_the_state_schema_refuses_changes_nothing() -> None:
    store, graph = MemoryCheckpointer(), Flow(state={"q": str}).interrupt("q", "Name?").compile()
    pause(graph, store)
    before = kinds(store)
    with pytest.raises(TeffError, match="must be text"):
        run(graph, store, resume=5)
    assert kinds(store) == before
    assert run(graph, store, resume="Ada")["q"] == "Ada"


@pytest.mark.xfail(
    strict=True, reason="whatever is not True or 'approve' declines the call, and is recorded"
)
@pytest.mark.parametrize("answer", ["yes", "Approve", "maybe", 1])
def test_an_approval_that_is_neither_yes_nor_no_is_asked_for_again(answer: Any) -> None:
    calls = []

    def refund(amount: int) -> str:
        """Pay back."""
        calls.append(amount)
        return "paid"

    model = ScriptedProvider([call_tool("refund", {"amount": 5}), "done"])
    flow = Flow(providers={"s": model}, default_provider="s", default_model="m")
    flow.react(use_tools=["refund"], tool_approval="pause")
    store, graph = MemoryCheckpointer(), flow.compile()
    pause(graph, store, state={"input": "hi"}, tools=[refund])
    try:
        run(graph, store, resume=answer, tools=[refund])
    except ConfigError:  # refused: a clear answer can follow
        run(graph, store, resume=True, tools=[refund])
    assert calls == [5]


@pytest.mark.xfail(strict=True, reason="a stored choice is frozen, and a frozen list is no list")
@pytest.mark.parametrize("choice", [["a", "b"], {"a": 1}], ids=["list", "dict"])
def test_a_choice_that_is_a_list_or_a_dict_can_be_chosen(choice: Any) -> None:
    store, graph = MemoryCheckpointer(), asking(choices=[choice, "none"])
    pause(graph, store)
    assert run(graph, store, resume={"q": choice})["q"] == choice


@pytest.mark.xfail(strict=True, reason="a question without any choice pauses the run forever")
def test_a_question_that_no_answer_fits_is_refused_when_it_is_asked() -> None:
    with pytest.raises(ConfigError):
        run(asking(choices=[]), MemoryCheckpointer())


@pytest.mark.xfail(strict=True, reason="answers are compared with ==, and True == 1 == 1.0")
@pytest.mark.parametrize("other", [True, 1.0])
def test_an_answer_of_another_type_is_another_answer(other: Any) -> None:
    store, graph = MemoryCheckpointer(), asking()
    pause(graph, store)
    asyncio.run(graph.answer("r", "q", 1, checkpointer=store))
    with pytest.raises(ConfigError, match="answered already"):
        asyncio.run(graph.answer("r", "q", other, checkpointer=store))


@pytest.mark.xfail(strict=True, reason="an answer that was given is refused once the run has ended")
def test_the_same_answer_to_a_run_that_has_ended_gives_its_result() -> None:
    store, graph = MemoryCheckpointer(), asking()
    pause(graph, store)
    assert run(graph, store, resume="yes")["q"] == "yes"
    # Whoever did not hear of the end sends it again, as `Graph.answer` allows.
    assert run(graph, store, resume="yes")["q"] == "yes"


# The same input


@pytest.mark.xfail(strict=True, reason="inputs are compared with ==, and NaN != NaN")
def test_the_same_input_with_a_nan_gives_the_recorded_result() -> None:
    store = MemoryCheckpointer()
    graph = Flow().step(lambda ctx, state: {"done": True}).compile()
    run(graph, store, {"n": float("nan")})
    assert run(graph, store, {"n": float("nan")})["done"] is True


@pytest.mark.xfail(strict=True, reason="claiming an unknown run begins one, without a record")
def test_answering_an_unknown_run_leaves_nothing_behind() -> None:
    store = MemoryCheckpointer()
    with pytest.raises(TeffError, match="no run"):
        run(asking(), store, resume=1)
    assert asyncio.run(store.list()) == ()


# What a run is charged for


@pytest.mark.xfail(
    strict=True, reason="a step that is done again after a failure inside of it is counted again"
)
def test_a_run_that_failed_and_went_on_counts_its_steps_like_an_unbroken_one() -> None:
    failures = [1]

    async def breaks_once(ctx: Any, state: Any) -> dict[str, Any]:
        if failures and failures.pop():
            raise ValueError("no")
        return {"done": True}

    inner = Flow("inner").step(lambda ctx, state: {"a": 1}).step(breaks_once)
    graph = Flow().add_flow(Flow("middle").add_flow(inner)).compile()
    limits = Limits(max_steps=4)  # as many as an unbroken run takes
    store = MemoryCheckpointer()
    with pytest.raises(ValueError, match="no"):
        run(graph, store, {}, limits=limits)
    result = run(graph, store, {}, limits=limits)
    assert (result.status, result.steps) == ("finished", 4)


# Ids that chats use for themselves


@pytest.mark.xfail(strict=True, reason="a run's records are read as the list of a chat's turns")
def test_a_run_whose_id_is_the_list_of_a_chat_does_not_break_the_chat() -> None:
    store = MemoryCheckpointer()
    graph = Flow().step(lambda ctx, state: {"done": True}).compile()
    try:
        run(graph, store, {}, checkpoint_id="c#session")
    except TeffError:
        return  # such an id is refused
    assert say(graph, store, "hi").state["done"] is True


@pytest.mark.xfail(strict=True, reason="the list of a chat's turns is read as a run: KeyError")
def test_the_list_of_a_chat_is_refused_as_a_run_in_words() -> None:
    store = MemoryCheckpointer()
    graph = Flow().step(lambda ctx, state: {"done": True}).compile()
    say(graph, store, "hi")
    with pytest.raises(TeffError):
        run(graph, store, {}, checkpoint_id="c#session")


@pytest.mark.xfail(strict=True, reason="a run with the id of the next turn is taken for that turn")
def test_a_chat_keeps_its_conversation_beside_a_run_with_the_id_of_its_next_turn() -> None:
    store = MemoryCheckpointer()
    graph = Flow().step(lambda ctx, state: {"done": True}).compile()
    say(graph, store, "my name is Ada")
    with contextlib.suppress(TeffError):
        run(graph, store, {}, checkpoint_id="c#turn-2")
    said = say(graph, store, "who am I?").state["messages"]
    assert [message["content"] for message in said] == ["my name is Ada", "who am I?"]


# The command line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


CHAT = """\
steps:
  - transform: {action: render, template: "you said {input}", output_key: output}
  - append_assistant: {output_key: output}
"""


def chat(monkeypatch: pytest.MonkeyPatch, said: str, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(said))
    return main(["chat", "chat.yaml", *arguments])


@pytest.mark.xfail(
    strict=True, reason="a JSON object is taken for answers by key, not for the answer"
)
def test_an_object_alone_answers_the_one_open_question(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "ask.yaml").write_text(
        "steps:\n"
        '  - interrupt: {key: place, prompt: "Where?", schema: {type: object}}\n'
        '  - transform: {action: render, template: "{place}", output_key: output}\n'
    )
    assert main(["run", "ask.yaml", "--checkpoint-id", "r"]) == 3
    assert main(["resume", "r", "--answer", '{"x": 1}']) == 0


@pytest.mark.xfail(strict=True, raises=KeyError, reason="the command ends with a traceback")
def test_a_chat_beside_a_run_with_the_id_of_its_list_ends_with_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "chat.yaml").write_text(CHAT)
    main(["run", "chat.yaml", "-m", "hi", "--checkpoint-id", "c#session"])
    assert chat(monkeypatch, "hi\n", "--checkpoint-id", "c") in (0, 2)


@pytest.mark.xfail(strict=True, reason="the id made up for the fork looks like a turn of the chat")
def test_a_fork_of_a_turn_goes_on_as_the_command_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "chat.yaml").write_text(CHAT)
    assert chat(monkeypatch, "hi\n", "--checkpoint-id", "c") == 0
    assert main(["fork", "c#turn-1", "--at", "1"]) == 0
    assert main(["resume", "c#turn-1-at-1"]) == 0


@pytest.mark.xfail(strict=True, reason="the fork of a turn is counted as a turn of its chat")
def test_a_fork_of_a_turn_is_no_turn_of_the_chat(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "chat.yaml").write_text(CHAT)
    assert chat(monkeypatch, "hi\n", "--checkpoint-id", "c") == 0
    assert main(["fork", "c#turn-1", "--at", "1"]) == 0
    capsys.readouterr()
    assert main(["runs", "--json"]) == 0
    turns = {row["run_id"]: row["turns"] for row in json.loads(capsys.readouterr().out)}
    assert turns["c"] == 1


# What holds


@pytest.mark.parametrize("run_id", ["../..", "a\nb", "ünï 😀", " ", "-x", "a=b", "x" * 5000])
def test_any_text_is_an_id(run_id: str) -> None:
    store = MemoryCheckpointer()
    graph = Flow().step(lambda ctx, state: {"id": ctx.run_id}).compile()
    assert run(graph, store, {}, checkpoint_id=run_id)["id"] == run_id
    assert run(graph, store, {}, checkpoint_id=run_id)["id"] == run_id


def test_a_question_within_an_attempt_is_asked_once_however_often_the_run_is_taken_up() -> None:
    asked = []

    async def ask(ctx: Any, state: Any) -> dict[str, Any]:
        await ctx.once("asked", lambda: asked.append(1))
        return {"q": await ctx.interrupt("q")}

    store, graph = MemoryCheckpointer(), Flow().step(Retry(ask, max_retries=3, delay=0)).compile()
    for _ in range(3):
        pause(graph, store)
    assert run(graph, store, resume=0)["q"] == 0
    assert asked == [1]
