"""Structured output against what servers and models really do: phases, cut answers, refusals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from teff.errors import ConfigError, ProviderError, StructuredOutputError, TruncatedOutput
from teff.flow import Flow
from teff.messages import ToolCall, message_text, user
from teff.node import LLM
from teff.node.react_agent import ReActAgent
from teff.provider import Capabilities, ChatReply, ChatRequest
from teff.runtime import StreamEvent
from teff.testing import ScriptedProvider, call_tool

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
RIGA = '{"city": "Riga", "days": 2}'
TRIP = {"city": "Riga", "days": 2}
BOTH = Capabilities(json_schema=True, schema_with_tools=True)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def place() -> dict[str, str]:
    """Say where."""
    return {"city": "Łódź", "e": "🙂", "odd": "\ud800"}


def ask(provider: ScriptedProvider, state: Any = None, **options: Any) -> Any:
    """Run a flow of one `LLM`; those options that a run takes go to the run."""
    given = {key: options.pop(key) for key in ("tools", "emit") if key in options}
    providers = {"p": provider, **options.pop("more", {})}
    flow = Flow(providers=providers, default_provider="p", default_model="m")
    graph = flow.llm(**{"input_key": "input", **options}).compile()
    return asyncio.run(graph.run({"input": "Where to?"} if state is None else state, **given))


def agent(provider: ScriptedProvider, **options: Any) -> Any:
    given = {key: options.pop(key) for key in ("tools", "emit") if key in options}
    flow = Flow(providers={"p": provider}, default_provider="p", default_model="m")
    return asyncio.run(flow.harness(**options).compile().run({"input": "Where to?"}, **given))


def cut(text: str) -> ChatReply:
    return ChatReply(text=text, finish_reason="length", model="m")


def told(heard: list[StreamEvent], kind: str) -> list[Any]:
    return [event.data for event in heard if event.type == kind]


def roles(request: ChatRequest) -> list[Any]:
    return [message["role"] for message in request.messages]


# Tools first, the form afterwards.


def test_fault_40_no_schema_is_sent_while_tools_are_offered_and_one_is_asked_for_afterwards() -> (
    None
):
    heard: list[StreamEvent] = []
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 1}), "two days", RIGA])
    result = ask(
        provider, json_schema=CITY, use_tools="all", tools=[add], emit=heard.append, max_retries=0
    )
    assert result["output"] == TRIP
    assert [len(r.tools) for r in provider.requests] == [1, 1, 0]
    assert [r.json_schema for r in provider.requests] == [None, None, CITY]
    assert roles(provider.requests[2]) == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert not told(heard, "limit")
    assert len(told(heard, "structured")) == 1


def test_fault_40_a_first_answer_that_fits_is_not_asked_for_again() -> None:
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 1}), RIGA])
    assert ask(provider, json_schema=CITY, use_tools="all", tools=[add])["output"] == TRIP
    assert len(provider.requests) == 2


def test_a_provider_that_can_do_both_is_told_the_schema_beside_the_tools() -> None:
    provider = ScriptedProvider([call_tool("add", {"a": 1, "b": 1}), "two days"], capabilities=BOTH)
    with pytest.raises(StructuredOutputError):
        ask(provider, json_schema=CITY, use_tools="all", tools=[add], max_retries=0)
    assert [r.json_schema for r in provider.requests] == [CITY, CITY]


def test_further_questions_are_no_tool_rounds() -> None:
    heard: list[StreamEvent] = []
    more = call_tool("add", {"a": 1, "b": 1})
    provider = ScriptedProvider([more, "a", "b", RIGA])
    result = ask(
        provider,
        json_schema=CITY,
        use_tools="all",
        tools=[add],
        max_tool_rounds=1,
        emit=heard.append,
    )
    assert result["output"] == TRIP
    assert [data["attempt"] for data in told(heard, "structured")] == [1, 2]
    assert told(heard, "limit") == [{"reason": "max_tool_rounds"}]
    assert [len(r.tools) for r in provider.requests] == [1, 0, 0, 0]
    assert [r.json_schema for r in provider.requests] == [None, CITY, CITY, CITY]


def test_d18_an_answer_that_looks_like_a_tool_call_is_the_answer() -> None:
    text = '{"name": "Bob", "arguments": {"a": 1, "b": 2}}'
    result = ask(ScriptedProvider([text]), parse=True, use_tools="all", tools=[add])
    assert result["output"] == json.loads(text)
    assert result.usage.tool_calls == 0


def test_fault_45_a_call_where_no_tools_are_offered_is_not_carried_out() -> None:
    heard: list[StreamEvent] = []
    provider = ScriptedProvider(["?", call_tool("add", {"a": 1, "b": 2}), RIGA])
    result = ask(provider, json_schema=CITY, use_tools="all", tools=[add], emit=heard.append)
    assert (result["output"]["city"], result.usage.tool_calls) == ("Riga", 0)
    assert told(heard, "structured")[1]["errors"] == [
        "the answer calls a tool, and none is offered"
    ]


# What servers that hold an answer to a schema give.


@pytest.mark.parametrize(
    "text", [f"{{{RIGA}", f"{{\n{RIGA}", f"<think>\n</think>{RIGA}", f"{RIGA}\n\n\n\n"]
)
def test_fault_41_a_doubled_brace_and_empty_thinking_are_passed_over(text: str) -> None:
    provider = ScriptedProvider([text])
    assert ask(provider, json_schema=CITY)["output"] == TRIP


@pytest.mark.parametrize("empty", ["", "{}", " \n"])
def test_fault_42_an_answer_that_is_empty_is_asked_for_again(empty: str) -> None:
    first = ChatReply(text=empty, thinking='{"city": "Oslo", "days": 1}')
    assert ask(ScriptedProvider([first, RIGA]), json_schema=CITY)["output"] == TRIP


REFUSALS = [
    ProviderError("HTTP 400: either json_schema or grammar", status=400),
    ProviderError("HTTP 400: bad request", status=400, body='{"error": "failed to parse grammar"}'),
    ProviderError("HTTP 400: Invalid parameter: 'response_format' …", status=400),
    ProviderError("HTTP 400: invalid format: expected json", status=400),
]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_fault_43_a_server_that_refuses_the_schema_is_asked_without_it(
    refusal: ProviderError,
) -> None:
    heard: list[StreamEvent] = []
    provider = ScriptedProvider([refusal, "?", RIGA])
    assert ask(provider, json_schema=CITY, emit=heard.append)["output"] == TRIP
    assert [r.json_schema for r in provider.requests] == [CITY, None, None]
    assert "JSON Schema" in message_text(provider.requests[1].messages[0])
    (retry,) = told(heard, "llm_retry")
    assert (retry["error"], retry["wait"]) == (str(refusal), 0.0)


def test_fault_43_another_refusal_is_an_error_at_once() -> None:
    for error in (ProviderError("HTTP 400: no", status=400), ProviderError("grammar", status=401)):
        provider = ScriptedProvider([error])
        with pytest.raises(ProviderError) as caught:
            ask(provider, json_schema=CITY)
        assert caught.value is error
        assert len(provider.requests) == 1


def test_fault_44_a_refusal_of_the_tools_is_not_asked_again() -> None:
    provider = ScriptedProvider([ProviderError("failed to parse grammar", status=400)])
    with pytest.raises(ProviderError, match="grammar"):
        ask(provider, json_schema=CITY, use_tools="all", tools=[add])
    assert len(provider.requests) == 1


def test_a_provider_that_cannot_enforce_a_schema_is_not_sent_one() -> None:
    provider = ScriptedProvider([RIGA], capabilities=Capabilities())
    assert ask(provider, json_schema=CITY)["output"]["days"] == 2
    assert provider.requests[0].json_schema is None
    assert "JSON Schema" in message_text(provider.requests[0].messages[0])


# Answers that were cut off.


@pytest.mark.parametrize(
    "text", ['{"t": "abc', '{"items": [1, 2]}', "{} and", "12", "", "Well, the"]
)
@pytest.mark.parametrize("how", [{"json_schema": {}}, {"parse": True}, {"output_type": dict}])
def test_sto_05_an_answer_that_was_cut_off_is_never_taken(text: str, how: dict[str, Any]) -> None:
    provider = ScriptedProvider([cut(text)])
    with pytest.raises(TruncatedOutput, match="cut off.*max_tokens") as caught:
        ask(provider, **how)
    assert caught.value.partial == text
    assert caught.value.permanent
    assert len(provider.requests) == 1


def test_sto_05_where_the_node_sets_the_limit_it_is_doubled_once() -> None:
    heard: list[StreamEvent] = []
    provider = ScriptedProvider([cut('{"city": "Ri'), "?", RIGA])
    result = ask(provider, json_schema=CITY, max_tokens=10, system="Brief.", emit=heard.append)
    assert result["output"] == TRIP
    assert [r.max_tokens for r in provider.requests] == [10, 20, 20]
    assert provider.requests[1].messages == provider.requests[0].messages
    assert told(heard, "structured") == [
        {
            "errors": ["the answer was cut off by its token limit"],
            "attempt": 1,
            "max_tokens": 20,
        },
        {"errors": ["the answer holds no whole JSON value"], "attempt": 2},
    ]


def test_sto_05_an_answer_that_is_cut_off_twice_is_given_up() -> None:
    provider = ScriptedProvider([cut("{"), cut('{"city": "Riga"')])
    with pytest.raises(TruncatedOutput) as caught:
        ask(provider, json_schema=CITY, max_tokens=10, max_retries=5)
    assert caught.value.partial == '{"city": "Riga"'
    provider.assert_done()


def test_sto_05_more_room_counts_as_a_further_question() -> None:
    provider = ScriptedProvider([cut("{")])
    with pytest.raises(TruncatedOutput):
        ask(provider, json_schema=CITY, max_tokens=10, max_retries=0)


def test_a_text_that_was_cut_off_is_a_text() -> None:
    assert ask(ScriptedProvider([cut("Well, the")]))["output"] == "Well, the"


def test_an_answer_that_a_content_filter_cut_off_is_not_taken_and_asked_of_nobody_else() -> None:
    provider = ScriptedProvider([ChatReply(text=RIGA, finish_reason="content_filter")])
    with pytest.raises(StructuredOutputError, match="content filter"):
        ask(provider, json_schema=CITY, fallbacks=["big"])
    assert len(provider.requests) == 1


# The next model.


def test_fault_69_where_no_answer_of_a_model_fits_the_next_one_is_asked() -> None:
    heard: list[StreamEvent] = []
    first, second = ScriptedProvider(["a", "b"], name="p"), ScriptedProvider(["c", RIGA], name="q")
    result = ask(
        first,
        json_schema=CITY,
        max_retries=1,
        fallbacks=["q/big"],
        more={"q": second},
        emit=heard.append,
    )
    assert result["output"] == TRIP
    first.assert_done()
    second.assert_done()
    assert [r.model for r in second.requests] == ["big", "big"]
    assert second.requests[0].messages == first.requests[0].messages
    (fallback,) = told(heard, "llm_fallback")
    assert fallback["error"] == "the answer holds no whole JSON value"
    assert (fallback["model"], fallback["to_model"]) == ("m", "big")
    assert [data["attempt"] for data in told(heard, "structured")] == [1, 2, 3]


def test_fault_69_an_answer_that_is_cut_off_by_one_model_may_be_whole_by_another() -> None:
    provider = ScriptedProvider([cut("{"), cut("{"), cut("{"), RIGA])
    result = ask(provider, json_schema=CITY, max_tokens=10, fallbacks=["big"])
    assert result["output"] == TRIP
    assert [(r.model, r.max_tokens) for r in provider.requests] == [
        ("m", 10),
        ("m", 20),
        ("big", 10),
        ("big", 20),
    ]


def test_fault_69_after_the_last_model_the_error_counts_all_answers() -> None:
    provider = ScriptedProvider(["a", "b"])
    with pytest.raises(StructuredOutputError) as caught:
        ask(provider, json_schema=CITY, max_retries=0, fallbacks=["big"])
    assert (caught.value.attempts, caught.value.content) == (2, "b")


def test_fault_69_where_the_next_model_cannot_be_asked_the_error_tells_of_the_first() -> None:
    provider = ScriptedProvider(["a", ProviderError("HTTP 401: who are you?", status=401)])
    with pytest.raises(ProviderError, match="who are you") as caught:
        ask(provider, json_schema=CITY, max_retries=0, fallbacks=["big"])
    assert any("no whole JSON value" in note for note in caught.value.__notes__)


# response_format.


@pytest.mark.parametrize("form", ["json", {"type": "json_object"}])
def test_response_format_json_asks_for_an_object_and_keeps_it_as_text(form: Any) -> None:
    provider = ScriptedProvider(['Sure: {"ä": 1}', '{"ä": 1}', RIGA])
    assert ask(provider, response_format=form)["output"] == '{"ä": 1}'
    assert ask(provider, response_format=form, parse=True)["output"] == {"ä": 1}
    assert ask(provider, response_format=form, json_schema=CITY)["output"] == TRIP
    assert [r.json_schema for r in provider.requests] == [{"type": "object"}] * 3
    system = [message_text(r.messages[0]) for r in provider.requests]
    assert "a JSON object" in system[0]
    assert json.dumps(CITY) in system[2]


def test_response_format_json_is_held_to() -> None:
    provider = ScriptedProvider(["no", "[1]", '{"a": 1}'])
    assert ask(provider, response_format="json")["output"] == '{"a": 1}'
    provider = ScriptedProvider(["two days", '{"a": 1}'])
    made = ask(provider, response_format="json", use_tools="all", tools=[add], max_retries=0)
    assert made["output"] == '{"a": 1}'
    assert [r.json_schema for r in provider.requests] == [None, {"type": "object"}]


def test_response_format_may_hold_the_schema() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "trip", "strict": True, "schema": CITY}}
    provider = ScriptedProvider([RIGA])
    assert ask(provider, response_format=form)["output"] == TRIP
    assert provider.requests[0].json_schema == CITY
    assert provider.requests[0].options == {}


def test_another_response_format_is_sent_as_it_is_in_place_of_the_schema() -> None:
    raw = {"type": "grammar", "value": "…"}
    provider = ScriptedProvider(["text", RIGA, "?", RIGA])
    assert ask(provider, response_format=raw, provider_options={"seed": 1})["output"] == "text"
    ask(provider, response_format=raw, json_schema=CITY)
    ask(provider, response_format=raw, json_schema=CITY, use_tools="all", tools=[add])
    assert [r.json_schema for r in provider.requests] == [None] * 4
    assert [dict(r.options) for r in provider.requests] == [
        {"seed": 1, "response_format": raw},
        {"response_format": raw},
        {},
        {"response_format": raw},
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"response_format": "xml"}, "'json' or a mapping, not 'xml'"),
        ({"response_format": {"type": "json_schema"}}, "holds no schema"),
        (
            {
                "response_format": {"type": "json_schema", "json_schema": {"schema": CITY}},
                "json_schema": CITY,
            },
            "no json_schema or output_type beside it",
        ),
        ({"response_format": "json", "output_type": list[int]}, "asks for an object"),
    ],
)
def test_a_response_format_that_makes_no_sense_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        LLM(id="plan", **options)
    assert caught.value.path == "response_format"
    assert "plan" in str(caught.value)


# The agent with its tool loop.


def test_the_final_answer_of_an_agent_has_its_form_and_the_re_asks_are_not_stored() -> None:
    provider = ScriptedProvider(
        [call_tool("add", {"a": 1, "b": 1}), "two days", "[1]", '{"days": 2}']
    )
    result = agent(provider, response_format="json", use_tools="all", tools=[add])
    assert result["output"] == '{"days": 2}'
    assert [m["role"] for m in result["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert message_text(result["messages"][-1]) == '{"days": 2}'
    assert [r.json_schema for r in provider.requests] == [None, None, *[{"type": "object"}] * 2]


def test_an_agent_may_be_given_a_schema_as_its_response_format() -> None:
    form = {"type": "json_schema", "json_schema": {"schema": CITY}}
    provider = ScriptedProvider(["?", RIGA])
    assert agent(provider, response_format=form)["output"] == TRIP
    assert [r.json_schema for r in provider.requests] == [CITY, CITY]
    with pytest.raises(StructuredOutputError):
        agent(ScriptedProvider(["?"] * 4), response_format=form)
    with pytest.raises(ConfigError, match="helper"):
        ReActAgent(id="helper", response_format="xml")


# What is sent back.


def test_sto_13_the_third_request_has_one_system_text() -> None:
    provider = ScriptedProvider(["a", "b", RIGA])
    state = {"messages": [{"role": "system", "content": "Old."}, user("Where to?")]}
    ask(provider, state, messages_key="messages", json_schema=CITY, system="Be brief.")
    third = provider.requests[2]
    assert roles(third).count("system") == 1
    assert message_text(third.messages[0]).count("JSON Schema") == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('<think>secret</think>{"city": 1, "note": "<think>"}', '{"city": 1, "note": "<think>"}'),
        ('secret</think> {"city": 1', '{"city": 1'),
        ('<think>secret</think>```json\n{"x": 1}\n```', '```json\n{"x": 1}\n```'),
        ("<think>secret", None),
    ],
)
def test_thinking_is_not_sent_back(text: str, shown: str | None) -> None:
    provider = ScriptedProvider([ChatReply(text=text, thinking="secret too"), RIGA])
    ask(provider, json_schema=CITY)
    sent = provider.requests[1].messages
    assert "secret" not in json.dumps(list(map(dict, sent)))
    assert [message_text(m) for m in sent if m["role"] == "assistant"] == ([shown] if shown else [])


def test_sto_12_what_a_tool_returns_is_read_by_the_model_as_it_is_written() -> None:
    provider = ScriptedProvider([call_tool("place"), '{"city": "Łodz"}', RIGA])
    ask(provider, json_schema=CITY, use_tools="all", tools=[place])
    result = next(m for m in provider.requests[1].messages if m["role"] == "tool")
    assert "Łódź" in message_text(result)
    assert "🙂" in message_text(result)
    third = [message_text(m) for m in provider.requests[2].messages]
    assert '{"city": "Łodz"}' in third


def test_sto_15_arguments_of_a_tool_that_are_too_deep_are_an_error_that_the_model_reads() -> None:
    call = ToolCall.from_json({"id": "1", "name": "add", "args": "[" * 100_000})
    first = ChatReply(tool_calls=(call,), finish_reason="tool_calls")
    provider = ScriptedProvider([first, RIGA])
    assert ask(provider, json_schema=CITY, use_tools="all", tools=[add])["output"] == TRIP
    result = message_text(provider.requests[1].messages[-1])
    assert "rror" in result
    assert len(result) < 1_000


# Long answers.


def test_a_long_answer_is_read_while_the_loop_runs_on() -> None:
    text = json.dumps([{"city": "Riga", "days": n} for n in range(30_000)])
    ticks = 0

    async def run() -> Any:
        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        beside = asyncio.create_task(tick())
        flow = Flow(
            providers={"p": ScriptedProvider([text])}, default_provider="p", default_model="m"
        )
        step = flow.llm(
            input_key="input", json_schema={"type": "array", "items": CITY}, stream=False
        )
        try:
            return await step.compile().run({"input": "All of them."})
        finally:
            beside.cancel()

    assert len(asyncio.run(run())["output"]) == 30_000
    assert ticks > 5


def test_an_answer_beyond_all_measure_is_not_looked_at() -> None:
    provider = ScriptedProvider(['"' + "x" * 4_000_000 + '"'])
    with pytest.raises(StructuredOutputError, match="longer than 4,000,000 characters"):
        ask(provider, parse=True, stream=False)


def test_a_workflow_file_gives_an_agent_the_form_of_its_answer() -> None:
    from teff.workflow import loads

    workflow = loads(
        """
steps:
  - agent:
      id: helper
      provider: p
      model: m
      response_format: {type: json_schema, json_schema: {schema: {type: object, required: [city]}}}
"""
    )
    provider = ScriptedProvider(['{"city": "Riga"}'])
    result = asyncio.run(workflow.graph.run({"input": "x"}, providers={"p": provider}))
    assert result["output"] == {"city": "Riga"}
