from __future__ import annotations

import asyncio
from typing import Any

import pytest

import teff.errors
from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError
from teff.graph import Graph
from teff.node.interrupt import GraphInterrupt, Interrupt
from teff.node.registry import make_function_node
from teff.runtime import ExecContext


def paused(node: Interrupt, state: dict[str, Any], **given: Any) -> GraphInterrupt:
    with pytest.raises(GraphInterrupt) as caught:
        asyncio.run(Graph({"ask": node}, [], "ask").run(state, **given))
    return caught.value


def answered(node: Interrupt, state: dict[str, Any], answer: object) -> dict[str, Any]:
    graph = Graph({"ask": node}, [], "ask")
    stored = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "run"}

    async def pause_and_resume() -> dict[str, Any]:
        with pytest.raises(GraphInterrupt):
            await graph.run(state, **stored)  # type: ignore[arg-type]
        return dict(await graph.run(resume={node.key: answer}, **stored))  # type: ignore[arg-type]

    return asyncio.run(pause_and_resume())


def test_the_run_pauses_with_key_and_prompt() -> None:
    pause = paused(Interrupt(key="approved", prompt="Send it?"), {})
    assert (pause.key, pause.prompt, pause.node_id) == ("approved", "Send it?", "ask")


def test_the_prompt_is_a_template() -> None:
    node = Interrupt(key="ok", prompt='Pay {order.sum}? {{yes}} {"as": "JSON"}')
    assert paused(node, {"order": {"sum": 5}}).prompt == 'Pay 5? {yes} {"as": "JSON"}'


def test_a_prompt_key_that_is_missing_names_key_option_and_node() -> None:
    node = Interrupt(key="ok", prompt="Pay {smu}?")
    with pytest.raises(KeyError, match=r"'prompt' of node 'ask' needs the key 'smu'.*'sum'"):
        asyncio.run(Graph({"ask": node}, [], "ask").run({"sum": 5}))


@pytest.mark.parametrize("answer", ["yes", "", 0, False, None, [], {"a": [1]}])
def test_the_answer_is_kept_under_the_key_falsy_ones_too(answer: object) -> None:
    assert answered(Interrupt(key="approved"), {"n": 1}, answer) == {"n": 1, "approved": answer}


def test_choices_and_schema_travel_with_the_question() -> None:
    schema = {"type": "string", "maxLength": 3}
    pause = paused(Interrupt(key="ok", choices=["yes", "no"], schema=schema), {})

    (question,) = pause.interrupts
    assert tuple(question.choices) == ("yes", "no")
    assert question.schema == schema


def test_an_answer_that_is_none_of_the_choices_is_refused() -> None:
    node = Interrupt(key="ok", choices=["yes", "no"])
    assert answered(node, {}, "no")["ok"] == "no"
    with pytest.raises(ConfigError, match=r"'maybe' is no answer to 'ok'.*yes, no"):
        answered(node, {}, "maybe")


def test_a_context_made_by_hand_raises_the_interrupt() -> None:
    with pytest.raises(GraphInterrupt) as caught:
        asyncio.run(Interrupt(key="ok", prompt="?").execute(ExecContext(), {}))
    assert caught.value.key == "ok"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "interrupt 'ask': the option 'key' is missing or empty"),
        ({"key": ""}, "interrupt 'ask': the option 'key' is missing or empty"),
        ({"key": "ok", "choices": []}, "'choices' is empty"),
        ({"key": "ok", "choices": "yes"}, "'choices' must be"),
        ({"key": "ok", "promt": "?"}, "unknown option 'promt'.*'prompt'"),
        ({"key": "ok", "prompt": 5}, "'prompt' must be text"),
    ],
)
def test_options_that_do_not_fit_are_refused_when_the_node_is_made(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Interrupt(given, id="ask")


def test_a_prompt_that_is_set_later_is_asked() -> None:
    node: Any = Interrupt(key="ok", prompt="Send?")
    node.config["prompt"] = "Send {n}?"
    assert paused(node, {"n": 2}).prompt == "Send 2?"


def test_it_says_which_keys_it_reads_and_writes() -> None:
    node = Interrupt(key="ok", prompt="Pay {order.sum} to {name|you}?")
    assert (sorted(node.reads()), list(node.writes())) == (["order"], ["ok"])


def test_the_exception_is_found_here_too() -> None:
    assert GraphInterrupt is teff.errors.GraphInterrupt


def test_an_answer_must_fit_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "number"}},
        "required": ["amount"],
    }
    graph = Graph({"ask": Interrupt(key="refund", schema=schema)}, [], "ask")
    store: Any = {"checkpointer": MemoryCheckpointer(), "checkpoint_id": "r"}
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run({}, **store))
    for wrong in ("5 EUR", {"amount": "5"}, {}, None):
        with pytest.raises(ConfigError, match="no answer to 'refund'"):
            asyncio.run(graph.run(resume={"refund": wrong}, **store))
    assert asyncio.run(graph.run(resume={"refund": {"amount": 5}}, **store))["refund"] == {
        "amount": 5
    }


def test_a_schema_that_is_none_is_refused_when_the_node_is_made() -> None:
    with pytest.raises(ConfigError, match="'schema' is no JSON Schema"):
        Interrupt(key="a", schema={"type": "nubmer"})


def test_a_schema_that_is_none_is_refused_where_it_is_asked() -> None:
    """Else the run would be left with a question that nobody can answer."""

    async def ask(ctx: ExecContext, state: Any) -> dict[str, Any]:
        return {"age": await ctx.interrupt("age", schema={"type": "intger"})}

    graph = Graph({"ask": make_function_node(ask)}, [], "ask")
    with pytest.raises(ConfigError, match=r"the schema of 'age' is no JSON Schema"):
        asyncio.run(graph.run({}, checkpointer=MemoryCheckpointer(), checkpoint_id="r"))
