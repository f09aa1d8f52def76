"""The text protocol of `Delegate`: what is told, how replies are read, and that both ways are one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from teff.graph import Graph
from teff.messages import ToolCall
from teff.node import Delegate, ExecContext
from teff.node.delegation.replies import protocol, read_final, read_reply, read_text
from teff.provider import Capabilities, ChatReply, ToolSpec
from teff.runtime import RunResult
from teff.testing import ScriptedProvider
from teff.tool import FunctionTool


def spec(name: str, **properties: str) -> ToolSpec:
    fields = {key: {"type": kind} for key, kind in properties.items()}
    return ToolSpec(
        name=name,
        description=f"Does {name}.",
        schema={"type": "object", "properties": fields, "required": list(fields)},
    )


BILLING = spec("delegate_to_billing", message="string")
REVIEWER = spec("delegate_to_code_reviewer", message="string")
ADD = spec("add", a="integer", b="integer")
TOOLS = [BILLING, REVIEWER, ADD]


@pytest.mark.parametrize(
    "text",
    [
        'THOUGHT: why\nACTION: delegate_to_billing\nACTION_INPUT: {"message": "Paid?"}',
        'Thought: why\nAction: delegate_to_billing\nAction Input: {"message": "Paid?"}',
        '**THOUGHT:** why\n**ACTION:** `delegate_to_billing`\n**ACTION_INPUT:** {"message": "Paid?"}',
        'THOUGHT: why\nACTION: delegate_to_billing\nACTION_INPUT:\n```json\n{"message": "Paid?"}\n```',
        'THOUGHT: why\nACTION: billing\nACTION_INPUT: {"message": "Paid?"}',
        'THOUGHT: why\nACTION: Delegate-to-Billing.\nACTION_INPUT: {"message": "Paid?"}',
        "THOUGHT: why\nACTION: delegate_to_billing\nACTION_INPUT: Paid?",
        'THOUGHT: why\nACTION: delegate_to_billing\nACTION_INPUT: "Paid?"',
        'THOUGHT: why\nACTION: delegate_to_billing({"message": "Paid?"})',
        'THOUGHT: why\nACTION: delegate_to_billing\n{"message": "Paid?"}',
        'THOUGHT: why\nACTION: delegate_to_billing ACTION_INPUT: {"message": "Paid?"}',
        '<think>FINAL_ANSWER: no</think>THOUGHT: why\nACTION: billing\nACTION_INPUT: {"message": "Paid?"}',
        'plan</think>THOUGHT: why\nACTION: billing\nACTION_INPUT: {"message": "Paid?"}',
        'THOUGHT: why\nACTION: billing\nACTION_INPUT: {"message": "Paid?"}\n'
        "OBSERVATION: yes\nFINAL_ANSWER: Yes.",
        'THOUGHT: why\nACTION: billing\nACTION_INPUT: {"message": "Paid?"}\nFINAL_ANSWER: Yes.',
        'THOUGHT\uff1awhy\nACTION\uff1abilling\nACTION_INPUT\uff1a{"message": "Paid?"}',
        'THOUGHT: why\nACTION: delegate_to_billing(message="Paid?")',
        'THOUGHT: why\nACTION: billing("Paid?")',
        "THOUGHT: why\nACTION: billing(Paid?)",
        'THOUGHT: why\nACTION: {"action": "billing", "action_input": {"message": "Paid?"}}',
        'THOUGHT: why\nACTION:\n```json\n{"action": "billing", "action_input": "Paid?"}\n```',
        'THOUGHT: why\nACTION: billing\nACTION_INPUT: {"message": "Paid?",}',
        "THOUGHT: why\n- ACTION: billing\n- ACTION_INPUT: Paid?",
        "<thinking>hm</thinking>THOUGHT: why\nACTION: billing\nACTION_INPUT: Paid?",
        'THOUGHT: why\r\nACTION: billing\r\nACTION_INPUT: {"message": "Paid?"}\r\n',
    ],
)
def test_a_task_is_read_however_it_is_written(text: str) -> None:
    said = read_text(text, TOOLS)
    assert said.thought == "why" or "ACTION" not in said.thought
    (call,) = said.calls
    assert (call.name, dict(call.arguments), call.error) == (
        "delegate_to_billing",
        {"message": "Paid?"},
        "",
    )
    assert said.answer is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("THOUGHT: done\nFINAL_ANSWER: 42", "42"),
        ("Final Answer: 42", "42"),
        ("THOUGHT: done FINAL_ANSWER: 42", "42"),
        ("FINAL_ANSWER: two\nlines", "two\nlines"),
        (
            "FINAL_ANSWER: Your plan:\nAction: call them\nThought: kind",
            "Your plan:\nAction: call them\nThought: kind",
        ),
        ("FINAL_ANSWER: 42\nOBSERVATION: so it is", "42"),
        ("ACTION: none\nFINAL_ANSWER: 42", "42"),
        ("**FINAL_ANSWER:** 42", "42"),
        ("ACTION: Final Answer\nACTION_INPUT: 42", "42"),
    ],
)
def test_an_answer_is_read(text: str, answer: str) -> None:
    assert read_text(text, TOOLS).answer == answer


def test_several_actions_are_several_calls() -> None:
    text = (
        'ACTION: billing\nACTION_INPUT: {"message": "one"}\n'
        'ACTION: add\nACTION_INPUT: {"a": 1, "b": 2}'
    )
    calls = read_text(text, TOOLS, number=3).calls
    assert [(call.name, dict(call.arguments)) for call in calls] == [
        ("delegate_to_billing", {"message": "one"}),
        ("add", {"a": 1, "b": 2}),
    ]
    assert len({call.id for call in calls}) == 2


def test_a_name_of_several_words_is_known_and_a_sentence_is_no_name() -> None:
    (call,) = read_text("ACTION: Code Reviewer\nACTION_INPUT: this", TOOLS).calls
    assert (call.name, call.arguments) == ("delegate_to_code_reviewer", {"message": "this"})
    text = "ACTION: I will ask billing\nACTION: billing\nACTION_INPUT: this"
    unclear, clear = read_text(text, TOOLS).calls
    assert "there is no 'I will ask billing'" in unclear.error
    assert (clear.name, clear.error) == ("delegate_to_billing", "")


def test_labels_within_an_input_are_a_part_of_it() -> None:
    text = 'ACTION: billing\nACTION_INPUT: {"message": "do\nACTION: add\nnow"}\nFINAL_ANSWER: x'
    (call,) = read_text(text, TOOLS).calls
    assert call.arguments == {"message": "do\nACTION: add\nnow"}


def test_a_list_of_actions_is_several_calls() -> None:
    text = (
        'ACTION: [{"action": "billing", "action_input": "one"}, '
        '{"action": "add", "action_input": {"a": 1, "b": 2}}]'
    )
    assert [call.name for call in read_text(text, TOOLS).calls] == ["delegate_to_billing", "add"]
    (unknown,) = read_text('ACTION: {"action": "nobody", "action_input": {}}', TOOLS).calls
    assert "there is no 'nobody'" in unknown.error


def test_arguments_in_brackets_are_bound_in_their_order() -> None:
    (call,) = read_text("ACTION: add(1, 2)", TOOLS).calls
    assert (call.arguments, call.error) == ({"a": 1, "b": 2}, "")
    (wrong,) = read_text("ACTION: add(1, 2, 3)", TOOLS).calls
    assert "no JSON object" in wrong.error


def test_calls_have_the_same_ids_whenever_a_reply_is_read() -> None:
    for text in ('{"name": "billing", "arguments": {"message": "x"}}', "ACTION: billing(x)"):
        first, again = (read_text(text, TOOLS, number=2).calls for _ in range(2))
        assert [call.id for call in first] == [call.id for call in again] == ["call_2_1"]


@pytest.mark.parametrize(
    "piece", ["ACTION: x y z\n", "ACTION: a,b\n", "ACTION: billing\nACTION_INPUT: {", "<think>"]
)
def test_a_megabyte_of_labels_is_read(piece: str) -> None:
    said = read_text(piece * (1_000_000 // len(piece)), TOOLS)
    assert said.answer is None
    assert len(said.calls) <= 64


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("Sure, I will ask billing.", "neither ACTION nor FINAL_ANSWER"),
        ("THOUGHT: hm", "neither ACTION nor FINAL_ANSWER"),
        ("FINAL_ANSWER:", "no text"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, problem: str) -> None:
    said = read_text(text, TOOLS)
    assert (said.calls, said.answer) == ((), None)
    assert problem in said.problem


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "ACTION: nobody\nACTION_INPUT: {}",
            "there is no 'nobody'; there are: delegate_to_billing",
        ),
        ('ACTION: add\nACTION_INPUT: {"a": 1,', "no JSON object"),
        ("ACTION: add\nACTION_INPUT: one and two", "no JSON object"),
        ('ACTION: billing\nACTION_INPUT: {"message": ', "no JSON object"),
    ],
)
def test_a_call_that_cannot_be_made_carries_its_error(text: str, error: str) -> None:
    (call,) = read_text(text, TOOLS).calls
    assert error in call.error


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "delegate_to_billing", "arguments": {"message": "Paid?"}}',
        '<tool_call>\n{"name": "billing", "arguments": {"message": "Paid?"}}\n</tool_call>',
        'I ask:\n```json\n{"action": "delegate_to_billing", "action_input": "Paid?"}\n```',
        '[{"tool": "delegate_to_billing", "parameters": {"message": "Paid?"}}]',
    ],
)
@pytest.mark.parametrize("native", [True, False])
def test_a_call_written_as_json_is_read(text: str, native: bool) -> None:
    said = read_reply(ChatReply(text=text), TOOLS, native=native, number=1)
    (call,) = said.calls
    assert (call.name, dict(call.arguments)) == ("delegate_to_billing", {"message": "Paid?"})


@pytest.mark.parametrize("text", ['{"name": "Riga"}', '{"total": 3}', '["billing"]', '"billing"'])
def test_other_json_is_no_call(text: str) -> None:
    assert read_reply(ChatReply(text=text), TOOLS, native=True, number=1).answer == text


def test_an_ambiguous_name_is_no_name() -> None:
    tools = [spec("delegate_to_a_b", message="string"), spec("delegate_to_ab", message="string")]
    (call,) = read_text("ACTION: A-B\nACTION_INPUT: x", tools).calls
    assert call.error
    (exact,) = read_text("ACTION: delegate_to_ab\nACTION_INPUT: x", tools).calls
    assert exact.name == "delegate_to_ab"


def test_native_calls_and_text_become_the_same_values() -> None:
    native = ChatReply(
        text="why", tool_calls=[ToolCall(id="1", name="billing", arguments={"message": "Paid?"})]
    )
    text = ChatReply(text='THOUGHT: why\nACTION: billing\nACTION_INPUT: {"message": "Paid?"}')
    one = read_reply(native, TOOLS, native=True, number=1)
    other = read_reply(text, TOOLS, native=False, number=1)
    assert (one.thought, one.calls[0].name, one.calls[0].arguments) == (
        other.thought,
        other.calls[0].name,
        other.calls[0].arguments,
    )


def test_a_provider_with_tool_calls_may_still_answer_in_text_or_write_an_action() -> None:
    plain = read_reply(ChatReply(text="It is 42."), TOOLS, native=True, number=1)
    assert plain.answer == "It is 42."
    written = ChatReply(text="ACTION: billing\nACTION_INPUT: hey")
    assert read_reply(written, TOOLS, native=True, number=1).calls[0].name == "delegate_to_billing"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The best I know.", "The best I know."),
        ("FINAL_ANSWER: 42", "42"),
        ("THOUGHT: 42 it is", "42 it is"),
        ("ACTION: billing\nACTION_INPUT: x", ""),
        ("<think>x</think>", ""),
        ("", ""),
    ],
)
def test_the_last_answer_is_taken_from_whatever_is_said(text: str, answer: str) -> None:
    assert read_final(ChatReply(text=text)) == answer


def test_the_protocol_names_every_action_and_its_input() -> None:
    told = protocol(TOOLS)
    for tool in TOOLS:
        assert f"- {tool.name}: {tool.description} Input: " in told
    assert "FINAL_ANSWER" in protocol([])
    assert "ACTION" not in protocol([])


# The node without native calls.


async def work(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
    return {"output": f"did {state['input']}"}


def run(script: Sequence[str], **options: Any) -> tuple[RunResult, ScriptedProvider]:
    model = ScriptedProvider(script, capabilities=Capabilities(tools=False, json_schema=True))
    tools = options.pop("tools", [])
    agents: Mapping[str, Any] = {"a": {"description": "Does a.", "node": work}}
    node = Delegate(agents=agents, **options)
    graph = Graph(
        {"lead": node}, [], "lead", providers={"p": model}, default_provider="p", default_model="m"
    )
    return asyncio.run(graph.run({"input": "Go."}, tools=tools)), model


ASK_A = 'THOUGHT: needed\nACTION: delegate_to_a\nACTION_INPUT: {"message": "it"}'


def test_without_tool_calls_the_protocol_is_spoken() -> None:
    result, model = run([ASK_A, "THOUGHT: enough\nFINAL_ANSWER: Done."])
    assert result["output"] == "Done."
    first, second = model.requests
    assert not first.tools
    assert "\nOBSERVATION:" in first.stop
    assert "ACTION: delegate_to_a" in str(first.messages[0]["content"])
    assert [message["role"] for message in second.messages] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    told = str(second.messages[-1]["content"])
    assert json.loads(told.removeprefix("OBSERVATION: ")) == {
        "agent": "a",
        "status": "ok",
        "output": "did it",
    }
    steps = result["output_steps"]["steps"]
    assert [(step["thought"], step["action"]) for step in steps] == [
        ("needed", "delegate_to_a"),
        ("enough", "final_answer"),
    ]


def test_an_invalid_reply_is_told_what_is_valid() -> None:
    result, model = run(["Let me think.", "FINAL_ANSWER: ok"])
    told = str(model.requests[1].messages[-1]["content"])
    assert "ACTION (one of delegate_to_a) and ACTION_INPUT or with FINAL_ANSWER" in told
    assert result["output"] == "ok"
    assert result["output_steps"]["steps"][0]["action"] == "invalid"


def test_an_observation_that_the_model_made_up_is_not_shown_to_it_again() -> None:
    _, model = run([f"{ASK_A}\nOBSERVATION: all is well", "FINAL_ANSWER: ok"])
    assert "all is well" not in str(model.requests[1].messages)


def test_the_bound_takes_any_words_for_the_answer() -> None:
    result, model = run([ASK_A, "I know only this."], max_delegations=1)
    assert result["output"] == "I know only this."
    assert result.stop_reason == "max_delegations"
    assert not model.requests[1].stop


def test_tools_and_several_actions_work_in_text_too() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    both = f'{ASK_A}\nACTION: add\nACTION_INPUT: {{"a": 1, "b": 2}}'
    result, model = run([both, "FINAL_ANSWER: 3"], tools=[FunctionTool(add)], use_tools="all")
    told = str(model.requests[1].messages[-1]["content"])
    assert "OBSERVATION of delegate_to_a: " in told
    assert "OBSERVATION of add: 3" in told
    assert len(result["output_steps"]["tool_calls"]) == 2


def test_reviews_work_without_tool_calls() -> None:
    review = '{"verdict": "accept"}'
    result, _ = run([ASK_A, review, "FINAL_ANSWER: ok"], review=True)
    assert result["output_steps"]["steps"][0]["review"] == "accept"
