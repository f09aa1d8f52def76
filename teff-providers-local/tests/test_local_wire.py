"""What is sent to the engine, and what is made of its events."""

from __future__ import annotations

from typing import Any

import pytest

from teff.errors import IncompleteStream, ProviderError
from teff.messages import ToolCall, assistant, system, tool_result, user
from teff.provider.protocol import ChatRequest, ToolSpec
from teff_providers_local.wire import ReplyReader, request_body


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    request = ChatRequest(model="", messages=messages or [user("hi")], **fields)
    defaults = {"temperature": 0.2, "max_tokens": 512, "seed": 0}
    return request_body(request, defaults=defaults, options={"top_k": 40}, provider="local")


def test_defaults_are_sent_where_the_request_says_nothing() -> None:
    assert {"temperature": 0.2, "max_tokens": 512, "seed": 0}.items() <= body().items()
    assert "stop" not in body()


def test_fields_replace_defaults_and_options_replace_both() -> None:
    assert body(temperature=0.0)["temperature"] == 0.0
    sent = body(options={"seed": 5, "temperature": 0.9, "top_k": 3}, temperature=0.0)
    assert (sent["seed"], sent["temperature"], sent["top_k"]) == (5, 0.9, 3)
    assert body()["top_k"] == 40


def test_options_cannot_switch_off_what_the_provider_needs() -> None:
    sent = body(options={"stream": False, "messages": [], "return_progress": False})
    assert (sent["stream"], sent["return_progress"]) == (True, True)
    assert sent["messages"] == [{"role": "user", "content": "hi"}]


def test_bounds_of_the_answer_are_sent() -> None:
    sent = body(max_tokens=9, stop=["\n", "User:"])
    assert (sent["max_tokens"], sent["stop"]) == (9, ["\n", "User:"])


def test_choices_become_a_grammar() -> None:
    assert body(choices=["yes", 'say "no"'])["grammar"] == r'root ::= "yes" | "say \"no\""'


def test_a_schema_is_sent_as_it_is_unless_there_are_choices() -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    assert body(json_schema=schema)["json_schema"] == schema
    both = body(json_schema=schema, choices=["a"])
    assert "grammar" in both
    assert "json_schema" not in both


def test_a_tool_conversation_of_another_provider_can_be_continued() -> None:
    call = ToolCall(id="c1", name="weather", arguments={"city": "Zürich"})
    sent = body(
        system("s"), user("?"), assistant("", [call]), tool_result(call, "sunny"), user("so?")
    )["messages"]
    function = {"name": "weather", "arguments": '{"city": "Zürich"}'}
    assert sent[2] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }
    assert sent[3] == {
        "role": "tool",
        "content": "sunny",
        "name": "weather",
        "tool_call_id": "c1",
    }


def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert body({"role": "user", "content": parts})["messages"][0]["content"] == "one\ntwo"
    assert body({"role": "assistant", "content": None})["messages"][0]["content"] == ""


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"messages": []}, "without messages"),
        ({"tools": [ToolSpec(name="search")]}, "cannot call tools"),
        ({"choices": []}, "at least one is not empty"),
        ({"choices": [""]}, "at least one is not empty"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "text only",
        ),
    ],
)
def test_what_a_local_model_cannot_do_is_refused(fields: dict[str, Any], reason: str) -> None:
    request = ChatRequest(**{"model": "m", "messages": [user("hi")], **fields})
    with pytest.raises(ProviderError, match=reason) as caught:
        request_body(request, defaults={}, options={}, provider="embedded")
    assert caught.value.permanent
    assert (caught.value.provider, caught.value.model) == ("embedded", "m")


def test_a_reply_is_put_together_from_events() -> None:
    reader = ReplyReader("local", "m")
    progress = {"choices": [{"delta": {"role": "assistant", "content": None}}]}
    thought = {"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": None}]}
    word = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": None}]}
    end = {"choices": [{"delta": {}, "finish_reason": "length"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    deltas = [reader.read(event) for event in (progress, thought, word, end, usage)]
    assert [(d.text, d.thinking) for d in deltas if d] == [("", "hm"), ("Hi", "")]
    reply = reader.reply()
    assert (reply.text, reply.thinking, reply.finish_reason) == ("Hi", "hm", "length")
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (3, 5)
    assert reply.model == "m"


def test_counts_that_are_not_given_are_unknown() -> None:
    reader = ReplyReader("local", "m")
    reader.read({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]})
    assert reader.reply().usage.prompt_tokens is None


def test_a_reply_without_its_end_is_incomplete() -> None:
    reader = ReplyReader("local", "m")
    reader.read({"choices": [{"delta": {"content": "half an"}}]})
    with pytest.raises(IncompleteStream) as caught:
        reader.reply()
    assert caught.value.partial == "half an"


def test_an_overflow_names_the_sizes_and_the_option() -> None:
    error = {
        "code": 400,
        "message": "request (9031 tokens) exceeds the available context size (4096 tokens)",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9031,
        "n_ctx": 4096,
    }
    with pytest.raises(ProviderError, match=r"9031 tokens.*4096 tokens.*context_tokens") as caught:
        ReplyReader("local", "m").read({"error": error})
    assert (caught.value.status, caught.value.permanent) == (400, True)
    assert '"n_ctx": 4096' in caught.value.body


@pytest.mark.parametrize(
    ("error", "status", "permanent"),
    [
        ({"code": 500, "message": "out of memory"}, 500, False),
        ({"message": "odd"}, None, True),
        ("just text", None, True),
    ],
)
def test_refusals_of_any_shape_carry_their_words(
    error: Any, status: int | None, permanent: bool
) -> None:
    words = error["message"] if isinstance(error, dict) else error
    with pytest.raises(ProviderError, match=words) as caught:
        ReplyReader("local", "m").read({"error": error})
    assert (caught.value.status, caught.value.permanent) == (status, permanent)
