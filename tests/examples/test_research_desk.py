"""The research desk, with a model whose answers stand here: guards, reviews, bounds, and the record."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from teff import RunResult
from teff.checkpoint import MemoryCheckpointer
from teff.messages import message_text
from teff.node.delegation import Guarded, steps_record
from teff.provider import Capabilities
from teff.runtime import StreamEvent
from teff.testing import ScriptedProvider, call_tool

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "research_desk" / "desk.py"
ACCEPT = '{"verdict": "accept"}'
FOUND = "deliveries.md: Send a picture to mara.lind@leafandpot.example within two weeks."
#: One task of the search.
SEARCHED = (
    call_tool("delegate_to_search", {"message": "a tin that arrives wet"}, id="s"),
    FOUND,
)
WRITE = call_tool("delegate_to_writer", {"message": "A wet tin: send a picture."}, id="w")


def load_desk() -> Any:
    spec = importlib.util.spec_from_file_location("example_research_desk", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Desk:
    """One question, and the model that answers it."""

    def __init__(self, *script: Any, **capabilities: bool) -> None:
        able = Capabilities(**capabilities) if capabilities else None
        self.model = ScriptedProvider(script, capabilities=able)
        self.events: list[StreamEvent] = []

    def ask(self, **options: Any) -> RunResult:
        providers = {"local": self.model}
        result: RunResult = asyncio.run(
            load_desk().research(
                "A tin came wet.", providers=providers, emit=self.events.append, **options
            )
        )
        self.model.assert_done()
        return result

    def told(self, request: int) -> str:
        return "\n".join(map(message_text, self.model.requests[request].messages))

    @property
    def routes(self) -> list[tuple[str, str]]:
        return [
            (event.data["route"], event.data["decided_by"])
            for event in self.events
            if event.type == "route"
        ]


def outline(result: RunResult) -> list[tuple[str, str, str]]:
    steps = result["output_steps"]["steps"]
    return [(step["action"], step["status"], step["review"]) for step in steps]


def test_the_flow_has_no_problems() -> None:
    pytest.importorskip("teff_providers_local")
    graph = load_desk().desk_flow().compile()
    assert graph.check(known_keys=["input", "messages"]) == []


def test_texts_are_searched_a_report_is_written_and_the_desk_answers() -> None:
    desk = Desk(*SEARCHED, ACCEPT, WRITE, "Send a picture.", ACCEPT, "Please send a picture.")
    result = desk.ask()
    assert result["output"] == "Please send a picture."
    assert (result.status, result.stop_reason) == ("finished", "end")
    assert outline(result) == [
        ("delegate_to_search", "ok", "accept"),
        ("delegate_to_writer", "ok", "accept"),
        ("final_answer", "finished", ""),
    ]
    assert "If a tin arrives open or wet" in desk.told(1)
    assert result["output_steps"]["agents_used"] == ["search", "writer"]


def test_addresses_are_seen_by_the_search_alone() -> None:
    result = (desk := Desk(*SEARCHED, ACCEPT, "Send a picture.")).ask()
    seeing = [number for number in range(4) if "mara.lind@" in desk.told(number)]
    assert seeing == [1]
    assert "[address] within two weeks" in desk.told(2)
    assert "[address] within two weeks" in desk.told(3)
    assert "@" not in json.dumps(result["output_steps"])
    assert all(
        "@" not in event.data["text"]
        for event in desk.events
        if "agent" in event.data and "text" in event.data
    )


def test_what_names_no_text_is_blocked_and_not_reviewed() -> None:
    search = call_tool("delegate_to_search", {"message": "wet tins"})
    desk = Desk(search, "I think it is fine.", "I could not find anything.")
    result = desk.ask()
    assert outline(result) == [
        ("delegate_to_search", "blocked", ""),
        ("final_answer", "finished", ""),
    ]
    assert "I think it is fine." not in desk.told(2)
    assert "It does not name the text that it is from: one of brewing.md" in desk.told(2)


def test_a_report_is_sent_back_with_feedback() -> None:
    revise = '{"verdict": "revise", "feedback": "Say how long there is time."}'
    better = "Send a picture within two weeks."
    desk = Desk(WRITE, "Send a picture.", revise, better, ACCEPT, better)
    result = desk.ask()
    assert result["output"] == better
    assert outline(result) == [
        ("delegate_to_writer", "ok", "revise"),
        ("delegate_to_writer", "ok", "accept"),
        ("final_answer", "finished", ""),
    ]
    assert "Say how long there is time." in desk.told(3)
    assert result["output_steps"]["delegations"] == 2


def test_a_report_that_is_rejected_is_no_answer() -> None:
    reject = '{"verdict": "reject", "feedback": "It is about coffee."}'
    desk = Desk(WRITE, "Coffee keeps.", reject, "I cannot say.")
    assert outline(desk.ask())[0] == ("delegate_to_writer", "rejected", "reject")
    assert "Coffee keeps." not in desk.told(3)


def test_a_desk_that_never_answers_is_stopped() -> None:
    desk = Desk(*[""] * 6, "The best that I have.")
    result = desk.ask()
    assert (result["output"], result["output_forced"]) == ("The best that I have.", True)
    assert (result.status, result.stop_reason) == ("stopped", "max_delegations")
    assert result["output_steps"]["max_delegations_reached"] is True
    assert desk.routes == [("", "no_decision")] * 6 + [("finish", "max_delegations")]


def test_an_agent_is_given_no_more_than_its_tasks() -> None:
    desk = Desk(*[WRITE, "Send a picture.", ACCEPT] * 3, WRITE, "Enough.")
    result = desk.ask()
    assert [status for _, status, _ in outline(result)] == ["ok", "ok", "ok", "refused", "finished"]
    assert result["output_steps"]["delegations"] == 3


def test_it_works_by_text_where_the_model_calls_no_tools() -> None:
    search = 'THOUGHT: look\nACTION: delegate_to_search\nACTION_INPUT: {"message": "wet tins"}'
    desk = Desk(search, FOUND, ACCEPT, "FINAL_ANSWER: Send a picture.", tools=False)
    result = desk.ask()
    assert result["output"] == "Send a picture."
    assert outline(result)[0] == ("delegate_to_search", "ok", "accept")
    assert "mara.lind@" not in desk.told(3)


def test_the_record_is_made_from_the_events() -> None:
    desk = Desk(*SEARCHED, ACCEPT, WRITE, "Send a picture.", ACCEPT, "Please send a picture.")
    record = desk.ask()["output_steps"]
    assert json.loads(json.dumps(steps_record(desk.events, "desk/1"))) == record
    assert record["tokens"]["model_calls"] == len(desk.model.requests)


def test_a_run_that_was_stopped_repeats_nothing() -> None:
    store = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "desk"}
    desk = Desk(*SEARCHED, ACCEPT, KeyboardInterrupt(), WRITE, "A picture.", ACCEPT, "A picture.")
    with pytest.raises(KeyboardInterrupt):
        desk.ask(**store)
    result = desk.ask(**store)
    assert result["output"] == "A picture."
    assert outline(result)[0] == ("delegate_to_search", "ok", "accept")
    assert "[address] within two weeks" in desk.told(4)


# The parts.


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("How long does green TEA keep?", ["storage.md", "brewing.md"]),
        ("water degrees", ["brewing.md"]),
        ("coffee", []),
        ("", []),
        ("a of to", []),
    ],
)
def test_the_texts_that_hold_the_words_are_found(words: str, names: list[str]) -> None:
    assert [text["name"] for text in load_desk().search_texts(words)] == names


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("Ask tom@leafandpot.example.", "Ask [address]."),
        ("a@b.example,c.d+e@f-g.example", "[address],[address]"),
        ({"who": ["x@y.example"], "n": 1}, {"who": ["[address]"], "n": 1}),
        ({"x@y.example": None}, {"[address]": None}),
    ],
)
def test_addresses_are_taken_out_wherever_they_are(value: Any, left: Any) -> None:
    verdict = load_desk().without_addresses(value)
    assert (verdict.action, verdict.value) == ("replace", left)


@pytest.mark.parametrize("value", ["At 5 @ the shop", "", 3, None, {"a": [True, 1.5]}])
def test_what_has_no_address_passes_as_it_is(value: Any) -> None:
    assert load_desk().without_addresses(value).action == "allow"


def test_only_the_search_has_to_name_a_text() -> None:
    module = load_desk()
    about = {name: Guarded(point="agent_result", name=name) for name in ("search", "writer")}
    assert module.from_a_text("It keeps.", about["search"]).action == "block"
    assert module.from_a_text("storage.md: it keeps.", about["search"]).action == "allow"
    assert module.from_a_text({"text": "storage.md"}, about["search"]).action == "allow"
    assert module.from_a_text("It keeps.", about["writer"]).action == "allow"
