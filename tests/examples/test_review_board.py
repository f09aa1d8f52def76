"""The review board, with a model whose answers stand here: what a person is asked, and when."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import GraphInterrupt
from teff.messages import message_text
from teff.provider import ChatRequest
from teff.runtime import RunResult, StreamEvent
from teff.testing import ScriptedProvider
from teff.workflow import load

FLOW = Path(__file__).resolve().parents[2] / "examples" / "review_board" / "flow.yaml"
ASPECTS = ["clarity", "correctness", "tone"]


def review(request: ChatRequest) -> str:
    """Answer as the reviewer who is asked: only a text that says thanks has the right tone."""
    asked = " ".join(map(message_text, request.messages))
    aspect = next(aspect for aspect in ASPECTS if f"Aspect: {aspect}" in asked)
    ok = aspect != "tone" or "thank you" in asked
    return json.dumps({"aspect": aspect, "ok": ok, "remark": "" if ok else "Say thanks."})


def verdict(request: ChatRequest) -> str:
    """Answer as the chair, from the reviews."""
    reviews = json.loads(message_text(request.messages[-1]))
    remarks = [review["remark"] for review in reviews if not review["ok"]]
    return json.dumps({"ok": not remarks, "message": " ".join(remarks)})


BOARD = [review, review, review, verdict]


class Chat:
    """A run of the example that is stored, so that it can be answered."""

    def __init__(self, *script: Any) -> None:
        self.model = ScriptedProvider(script)
        self.events: list[StreamEvent] = []
        self._store = MemoryCheckpointer()

    def run(self, message: str | None = None, **answers: Any) -> RunResult:
        return asyncio.run(
            load(FLOW).run(
                message,
                providers={"local": self.model},
                checkpointer=self._store,
                checkpoint_id="text-1",
                emit=self.events.append,
                **answers,
            )
        )

    def asked(self, message: str) -> tuple[str, Mapping[str, Any]]:
        """Run to the question; return it, and the state so far."""
        with pytest.raises(GraphInterrupt) as pause:
            self.run(message)
        assert pause.value.key == "answer"
        assert list(pause.value.interrupts[0].choices) == ["publish", "hold"]
        assert pause.value.result is not None
        return pause.value.prompt, pause.value.result


def test_check_has_nothing_to_say() -> None:
    pytest.importorskip("teff_providers_local")
    assert load(FLOW).check() == []


def test_a_text_that_all_approve_goes_to_the_person_at_once() -> None:
    chat = Chat(*BOARD)
    prompt, state = chat.asked("The line works again, thank you for waiting.")
    assert "Rounds: 1. The budget is used up: false." in prompt
    assert [review["aspect"] for review in state["reviews"]] == ASPECTS
    chat.model.assert_done()


def test_the_answer_decides_and_no_model_is_asked_again() -> None:
    for answer, output in (
        ("publish", "All well, thank you."),
        ("hold", "Held: All well, thank you."),
    ):
        chat = Chat(*BOARD)
        chat.asked("All well, thank you.")
        assert chat.run(resume=answer)["output"] == output
        assert len(chat.model.requests) == 4


def test_a_remark_sends_the_text_back_to_the_author() -> None:
    chat = Chat(*BOARD, "The line works again, thank you.", *BOARD)
    prompt, state = chat.asked("The line works again.")
    assert prompt.startswith("The line works again, thank you.")
    assert state["rounds"] == 2
    told = message_text(chat.model.requests[4].messages[-1])
    assert "What must change: Say thanks." in told
    chat.model.assert_done()


def test_the_third_round_ends_it_and_the_person_is_told() -> None:
    chat = Chat(*BOARD, "Works.", *BOARD, "Works again.", *BOARD)
    prompt, state = chat.asked("The line works again.")
    assert state["decision_forced"] is True
    assert "Rounds: 3. The budget is used up: true. The chair said: Say thanks." in prompt
    assert [event.data["rounds"] for event in chat.events if event.type == "limit"] == [3]
    chat.model.assert_done()


def test_an_answer_that_is_no_review_is_asked_for_again() -> None:
    chat = Chat("Looks fine to me.", review, review, review, verdict)
    chat.asked("All well, thank you.")
    assert [event.type for event in chat.events].count("structured") == 1
    chat.model.assert_done()
