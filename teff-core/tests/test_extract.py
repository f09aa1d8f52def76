"""Extracting fields from a text, and filling those that the model left empty."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypedDict

import pytest

from teff.checkpoint import MemoryCheckpointer
from teff.errors import ConfigError, GraphInterrupt, StateError, StructuredOutputError
from teff.flow import Flow
from teff.graph import Graph
from teff.node import LLM, ExecContext, Extract, Fallback, Node, default_registry
from teff.testing import ScriptedProvider

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
    "required": ["city"],
}


class Place(TypedDict, total=False):
    city: str
    country: str


def flow_of(extract: Extract, *answers: str) -> tuple[Graph, ScriptedProvider]:
    provider = ScriptedProvider(answers)
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    for node in extract.nodes():
        flow.step(node)
    return flow.compile(), provider


def extracted(extract: Extract, *answers: str, **state: Any) -> dict[str, Any]:
    graph, provider = flow_of(extract, *answers)
    result = dict(asyncio.run(graph.run({"input": "I am in Riga.", **state})))
    provider.assert_done()
    return result


def run(node: Node, state: dict[str, Any], **options: Any) -> dict[str, Any]:
    return dict(asyncio.run(Graph({"it": node}, [], "it").run(state, **options)))


# The recipe


def test_what_the_model_leaves_out_is_filled_in_order() -> None:
    seen: list[dict[str, Any]] = []

    def country(state: dict[str, Any]) -> str:
        seen.append(dict(state["place"]))
        return "Latvia"

    async def greeting(state: dict[str, Any]) -> str:
        return f"Hello from {state['place']['city']} in {state['place']['country']}"

    extract = (
        Extract.model(system="Extract the place.", schema=SCHEMA, output_key="place", id="find")
        .fallback("country", country)
        .fallback("greeting", greeting)
        .fallback("city", value="nowhere")
    )
    found = extracted(extract, '{"city": "Riga"}')
    assert found["place"] == {
        "city": "Riga",
        "country": "Latvia",
        "greeting": "Hello from Riga in Latvia",
    }
    assert seen == [{"city": "Riga"}]


def test_what_the_model_found_is_kept() -> None:
    extract = Extract.model(schema=SCHEMA).fallback("country", value="Latvia")
    found = extracted(extract, '{"city": "Ventspils", "country": "LV"}')
    assert found["output"] == {"city": "Ventspils", "country": "LV"}


def test_the_ids_are_those_of_the_recipe_and_the_number_of_the_fallback() -> None:
    extract = Extract.model(schema=SCHEMA, id="order")
    extract.fallback("country", value="x")
    extract.fallback("city", value="y")
    nodes = extract.nodes()
    assert [node.id for node in nodes] == ["order", "order-fallback-1", "order-fallback-2"]
    assert [node.type for node in nodes] == ["llm_chat", "fallback", "fallback"]
    assert extract.llm().id == "order"
    assert Extract.model(schema=SCHEMA).llm().id == "extract"


@pytest.mark.parametrize("schema", [SCHEMA, Place, {"city": "string"}, {"city": str}])
def test_the_schema_is_a_json_schema_a_type_or_a_map_of_fields(schema: Any) -> None:
    extract = Extract.model(schema=schema)
    assert extracted(extract, "Here: {'city': 1}", '{"city": "Riga"}')["output"] == {"city": "Riga"}
    node = extract.llm()
    if schema is SCHEMA:
        assert (node.json_schema, node.output_type) == (SCHEMA, None)
    else:
        assert (node.json_schema, node.output_type) == (None, schema)


def test_an_answer_that_never_fits_fails_and_nothing_is_filled() -> None:
    called: list[int] = []
    extract = Extract.model(schema=SCHEMA, max_retries=1).fallback(
        "city", lambda state: called.append(1)
    )
    with pytest.raises(StructuredOutputError):
        extracted(extract, "no", "no")
    assert not called


def test_the_options_reach_the_node_that_asks() -> None:
    node = Extract.model(
        schema=SCHEMA, system="S", model="m", provider="p", input_key="text", temperature=0.5
    ).llm()
    assert isinstance(node, LLM)
    assert (node.system, node.model, node.provider, node.temperature) == ("S", "m", "p", 0.5)
    assert (node.input_key, node.output_key) == ("text", "output")


@pytest.mark.parametrize(
    ("given", "input_key"),
    [({}, "input"), ({"prompt": "In {a}?"}, ""), ({"messages_key": "messages"}, "")],
)
def test_the_text_is_under_input_where_nothing_else_is_asked(
    given: dict[str, Any], input_key: str
) -> None:
    assert Extract.model(schema=SCHEMA, **given).llm().input_key == input_key


def test_wrong_options_are_refused_when_the_recipe_is_made() -> None:
    with pytest.raises(ConfigError, match=r"llm_chat 'extract': unknown option 'temprature'"):
        Extract.model(schema=SCHEMA, temprature=0)
    with pytest.raises(ConfigError, match="fallback 'extract-fallback-1': give one of"):
        Extract.model(schema=SCHEMA).fallback("city")


def test_it_prints_as_what_it_is() -> None:
    assert repr(Extract.model(schema=SCHEMA, id="a")) == "<Extract 'a' with 0 fallbacks>"


# The node


@pytest.mark.parametrize("empty", [None, "", [], {}])
def test_an_empty_field_is_filled(empty: Any) -> None:
    node = Fallback(field="a", value=7)
    assert run(node, {"output": {"a": empty, "b": 1}})["output"] == {"a": 7, "b": 1}


@pytest.mark.parametrize("there", [0, False, "x", [0], " "])
def test_a_filled_field_is_kept_and_nothing_is_called(there: Any) -> None:
    called: list[int] = []
    node = Fallback(field="a", fn=lambda state: called.append(1))
    assert run(node, {"output": {"a": there}}) == {"output": {"a": there}}
    assert not called


@pytest.mark.parametrize("state", [{}, {"output": None}, {"output": {}}])
def test_a_missing_dict_is_made(state: dict[str, Any]) -> None:
    assert run(Fallback(field="a", value="x"), state) == {"output": {"a": "x"}}


@pytest.mark.parametrize("found", ["{}", [1], 3])
def test_what_is_no_dict_is_refused_with_its_name(found: Any) -> None:
    with pytest.raises(
        StateError, match=r"fallback 'it' fills the field 'a' .*'output', and found"
    ):
        run(Fallback(field="a", value=1), {"output": found})


def test_a_text_is_a_template_and_any_other_value_a_constant() -> None:
    state = {"user": {"name": "Bo {x}"}}
    assert run(Fallback(field="a", value="for {user.name}"), state)["output"] == {"a": "for Bo {x}"}
    assert run(Fallback(field="a", value=["{user}"]), state)["output"] == {"a": ["{user}"]}
    assert run(Fallback(field="a", value=False), state)["output"] == {"a": False}
    with pytest.raises(ConfigError, match="'value' of node 'it' needs the key 'usr'"):
        run(Fallback(field="a", value="{usr}"), state)


def test_a_function_is_called_off_the_event_loop() -> None:
    threads: list[threading.Thread] = []

    def fill(state: dict[str, Any]) -> str:
        threads.append(threading.current_thread())
        return "x"

    assert run(Fallback(field="a", fn=fill), {})["output"] == {"a": "x"}
    assert threads[0] is not threading.main_thread()


class AsyncFill:
    async def __call__(self, state: dict[str, Any]) -> str:
        return f"filled {state['n']}"


async def fill_later(state: dict[str, Any]) -> str:
    return f"filled {state['n']}"


@pytest.mark.parametrize("fn", [AsyncFill(), fill_later, lambda state: fill_later(state)])
def test_a_function_may_be_async(fn: Callable[..., Any]) -> None:
    assert run(Fallback(field="a", fn=fn), {"n": 1})["output"] == {"a": "filled 1"}


def test_a_failure_of_the_function_is_the_nodes() -> None:
    def fill(state: dict[str, Any]) -> str:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        run(Fallback(field="a", fn=fill), {})


def test_nothing_that_was_given_is_changed() -> None:
    start = {"output": {"b": 1}}
    assert run(Fallback(field="a", value=1), start)["output"] == {"b": 1, "a": 1}
    assert start == {"output": {"b": 1}}


def test_a_function_is_not_called_again_when_the_step_is_repeated() -> None:
    called: list[int] = []

    class FillThenAsk(Fallback):
        async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Any:
            filled = await super().execute(ctx, state)
            await ctx.interrupt("sure")
            return filled

    def fill(state: dict[str, Any]) -> int:
        called.append(1)
        return len(called)

    graph = Graph({"it": FillThenAsk(field="a", fn=fill)}, [], "it")
    store = MemoryCheckpointer()
    with pytest.raises(GraphInterrupt):
        asyncio.run(graph.run({}, checkpointer=store, checkpoint_id="r"))
    result = asyncio.run(graph.run(checkpointer=store, checkpoint_id="r", resume={"sure": 1}))
    assert result["output"] == {"a": 1}


def test_it_tells_what_it_reads_and_writes() -> None:
    node = Fallback(input_key="order", field="a", value="{user.name} {x|y}")
    assert sorted(node.reads()) == ["order", "user"]
    assert list(node.writes()) == ["order"]


def test_the_registry_makes_it_from_a_mapping() -> None:
    node = default_registry.create("fallback", {"field": "a", "value": 3, "id": "fill"})
    assert isinstance(node, Fallback)
    assert (node.id, node.input_key, node.value) == ("fill", "output", 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the option 'field' is missing or empty"),
        ({"field": "a", "input_key": "", "value": 1}, "the option 'input_key' is missing or empty"),
        ({"field": "a"}, "give one of 'fn' and 'value'"),
        ({"field": "a", "fn": len, "value": 1}, "give one of 'fn' and 'value'"),
        ({"field": "a", "fn": lambda: 1}, "must take"),
        ({"field": "a", "fn": "name"}, "'fn' must be"),
        ({"field": "a", "vlaue": 1}, "unknown option 'vlaue'"),
    ],
)
def test_options_that_do_not_fit_are_refused_when_the_node_is_made(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Fallback(id="fill", **given)


@pytest.mark.parametrize("answer", ['{"order": "7"}', '{"order": "7", "currency": null}'])
@pytest.mark.parametrize(
    "schema",
    [
        {"order": "string", "currency": "string"},
        {
            "type": "object",
            "properties": {"order": {"type": "string"}, "currency": {"type": "string"}},
            "required": ["order", "currency"],
        },
    ],
    ids=["fields", "schema"],
)
def test_a_field_with_a_fallback_may_be_left_out(answer: str, schema: Any) -> None:
    recipe = Extract.model(schema=schema).fallback("currency", value="EUR")
    flow = Flow(
        providers={"scripted": ScriptedProvider([answer])},
        default_provider="scripted",
        default_model="m",
    ).extract(recipe)
    result = asyncio.run(flow.compile().run({"input": "Order 7"}))
    assert result["output"] == {"order": "7", "currency": "EUR"}


def test_a_fallback_for_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="no field of the schema") as caught:
        Extract.model(schema={"currency": "string"}).fallback("curency", value="EUR")
    assert "currency" in caught.value.hint
