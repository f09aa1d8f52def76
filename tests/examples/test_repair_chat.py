"""The repair chat, with a model whose answers stand here: who acts, and what each turn begins with."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from teff import TurnResult
from teff.checkpoint import MemoryCheckpointer
from teff.messages import message_text
from teff.runtime import StreamEvent
from teff.testing import ScriptedProvider
from teff.workflow import load

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "repair_chat"
BRAKES = ["diagnose", "The pads are worn.", "Brake pads, 12 EUR.", "Worn pads: 32 EUR."]


def load_chat() -> Any:
    spec = importlib.util.spec_from_file_location("example_repair_chat", EXAMPLE / "chat.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.chat


class Desk:
    """A chat that is stored; each call of `say` is a program of its own that goes on with it."""

    def __init__(self, *script: Any) -> None:
        self.model = ScriptedProvider(script)
        self.events: list[StreamEvent] = []
        self._store = MemoryCheckpointer()

    def say(self, *messages: str) -> list[TurnResult]:
        async def turns() -> list[TurnResult]:
            chat = load_chat()
            options = {"checkpointer": self._store, "providers": {"local": self.model}}
            return [turn async for turn in chat(messages, emit=self.events.append, **options)]

        return asyncio.run(turns())

    def told(self, request: int) -> str:
        return "\n".join(map(message_text, self.model.requests[request].messages))

    @property
    def routes(self) -> list[str]:
        return [event.data["route"] for event in self.events if event.type == "route"]


def test_check_of_the_repair_chat_has_nothing_to_say() -> None:
    pytest.importorskip("teff_providers_local")
    assert load(EXAMPLE / "flow.yaml").check() == []


def test_a_question_is_answered_by_one_agent() -> None:
    desk = Desk("direct", "From 9 to 18.")
    (turn,) = desk.say("When do you open?")
    assert (turn.reply, turn.stop_reason) == ("From 9 to 18.", "done_keys")
    assert desk.routes == ["direct", "finish"]
    desk.model.assert_done()


def test_a_repair_goes_through_the_pipeline_and_the_model_is_asked_for_the_way_once() -> None:
    desk = Desk(*BRAKES)
    (turn,) = desk.say("My brakes squeak.")
    assert (turn.reply, turn.stop_reason) == ("Worn pads: 32 EUR.", "fill_order")
    assert desk.routes == ["diagnose", "parts", "quote", "finish"]
    assert '"brake pads": "12 EUR"' in desk.told(2)
    assert "Diagnosis:\nThe pads are worn." in desk.told(2)
    assert "Parts:\nBrake pads, 12 EUR." in desk.told(3)
    desk.model.assert_done()


def test_every_turn_begins_clean_and_remembers_the_conversation() -> None:
    desk = Desk("direct", "At 9.", *BRAKES, "direct", "32 EUR.", *BRAKES)
    messages = ["When do you open?", "My brakes squeak.", "How much was that?", "They do it again."]
    turns = desk.say(*messages)
    assert [turn.stop_reason for turn in turns] == ["done_keys", "fill_order"] * 2
    assert [turn.state["supervisor_rounds"] for turn in turns] == [2, 4, 2, 4]
    assert ["answer" in turn.state for turn in turns] == [True, False, True, False]
    assert ["quote" in turn.state for turn in turns] == [False, True, False, True]
    assert "Worn pads: 32 EUR." in desk.told(7)  # the third turn's direct agent
    assert "The pads are worn." not in desk.told(9)  # the fourth turn's mechanic
    assert all(turn.state["catalogue"]["chain"] == "25 EUR" for turn in turns)
    said = [message_text(m) for m in turns[-1].state["messages"] if m["role"] == "user"]
    assert said == messages
    desk.model.assert_done()


def test_the_turns_of_two_programs_are_one_chat() -> None:
    desk = Desk(*BRAKES, "direct", "32 EUR.")
    desk.say("My brakes squeak.")
    (turn,) = desk.say("How much was that?")
    assert (turn.reply, turn.stop_reason) == ("32 EUR.", "done_keys")
    assert "Worn pads: 32 EUR." in desk.told(5)


def test_the_same_message_goes_on_with_a_turn_that_broke_off() -> None:
    diagnose, diagnosis, parts, quote = BRAKES
    desk = Desk(diagnose, diagnosis, RuntimeError("the power went"), parts, quote)
    with pytest.raises(RuntimeError, match="power"):
        desk.say("My brakes squeak.")
    (turn,) = desk.say("My brakes squeak.")
    assert turn.reply == quote
    assert desk.routes == ["diagnose", "parts", "quote", "finish"]
    desk.model.assert_done()


def test_a_model_that_is_done_too_early_leaves_the_customer_to_the_direct_agent() -> None:
    desk = Desk("finish", "You are welcome.")
    (turn,) = desk.say("Thank you!")
    assert turn.reply == "You are welcome."
    decided = [event.data["decided_by"] for event in desk.events if event.type == "route"]
    assert decided == ["fallback", "done_keys"]


def test_an_agent_that_says_nothing_does_not_hold_up_the_turn() -> None:
    desk = Desk(*["diagnose", ""] * 3, "diagnose")
    (turn,) = desk.say("My brakes squeak.")
    assert (turn.reply, turn.stop_reason) == ("", "no_progress")
    assert desk.routes == ["diagnose", "diagnose", "diagnose", "finish"]
    desk.model.assert_done()
