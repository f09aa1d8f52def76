"""`ScriptedProvider`: by order, by matching, in pieces, with errors and delays; it leaves nothing unsaid."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff import LLM, Flow, GraphInterrupt
from teff.errors import IncompleteStream, ProviderError
from teff.messages import ModelUsage, user
from teff.provider import ChatDelta, ChatReply, ChatRequest, Provider, ToolSpec
from teff.testing import ScriptedProvider, after, call_tool, fail, pieces, say, when


def request(text: str = "Hi", **fields: Any) -> ChatRequest:
    return ChatRequest(model="m", messages=[user(text)], **fields)


def ask(provider: Provider, text: str = "Hi", **fields: Any) -> ChatReply:
    return asyncio.run(provider.chat(request(text, **fields)))


def stream(provider: Provider, text: str = "Hi") -> list[ChatDelta]:
    async def read() -> list[ChatDelta]:
        return [delta async for delta in provider.stream(request(text))]

    return asyncio.run(read())


def streamed_until_error(provider: Provider) -> tuple[list[str], Exception]:
    async def read() -> tuple[list[str], Exception]:
        texts: list[str] = []
        try:
            async for delta in provider.stream(request()):
                texts.append(delta.text)
        except Exception as error:
            return texts, error
        raise AssertionError("the stream did not fail")

    return asyncio.run(read())


# By order and by matching.


def test_answers_come_in_order_and_requests_are_kept() -> None:
    with ScriptedProvider(["one", call_tool("add", {"a": 1})]) as provider:
        assert ask(provider, "first").text == "one"
        assert ask(provider, "second").tool_calls[0].arguments == {"a": 1}
    assert [r.messages[-1]["content"] for r in provider.requests] == ["first", "second"]


def test_rules_answer_what_fits_and_the_list_the_rest() -> None:
    with ScriptedProvider(
        [when("refund", "billing"), "one", when("crash", "support"), "two"]
    ) as provider:
        texts = ["a crash", "hello", "refund?", "my refund", "bye"]
        answers = [ask(provider, text).text for text in texts]
    assert answers == ["support", "one", "billing", "billing", "two"]


def test_of_several_rules_the_first_counts_until_it_is_used_up() -> None:
    script = [when("tea", "first", times=1), when("tea", "later")]
    with ScriptedProvider(script) as provider:
        assert [ask(provider, "tea").text for _ in range(3)] == ["first", "later", "later"]


def test_a_rule_may_look_at_the_whole_request() -> None:
    offers_add = when(lambda r: any(t.name == "add" for t in r.tools), call_tool("add"))
    with ScriptedProvider([offers_add, "plain"]) as provider:
        assert ask(provider, tools=[ToolSpec(name="add")]).tool_calls
        assert ask(provider).text == "plain"


def test_branches_at_the_same_time_get_their_answers_by_matching() -> None:
    def branch(word: str) -> LLM:
        return LLM(prompt=f"Write about {word}", output_key=word)

    model = ScriptedProvider([when("cats", after(0.01, "Meow.")), when("dogs", "Woof.")])
    with model:
        flow = Flow(providers={"p": model}, default_provider="p", default_model="m")
        graph = flow.parallel(branch("cats"), branch("dogs")).compile()
        result = asyncio.run(graph.run({}))
    assert (result["cats"], result["dogs"]) == ("Meow.", "Woof.")


def test_a_rule_cannot_be_for_no_request() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        when("x", "y", times=0)


# Answers.


def test_a_text_has_a_plausible_usage_and_the_model_that_was_asked() -> None:
    reply = ask(ScriptedProvider(["two words"]))
    assert (reply.model, reply.usage.completion_tokens) == ("m", 2)


def test_say_fills_in_a_reply() -> None:
    used = ModelUsage(prompt_tokens=1, completion_tokens=2)
    reply = ask(ScriptedProvider([say("x", thinking="hm", usage=used, finish_reason="length")]))
    assert (reply.thinking, reply.usage, reply.finish_reason) == ("hm", used, "length")


@pytest.mark.parametrize(
    ("error", "permanent"), [(fail(), False), (fail(503), False), (fail(401), True)]
)
def test_fail_is_as_permanent_as_its_status(error: ProviderError, permanent: bool) -> None:
    assert error.permanent is permanent


def test_an_error_carries_the_names_that_providers_put_on_it() -> None:
    with pytest.raises(ProviderError, match="429 Too Many Requests: slow down") as raised:
        ask(ScriptedProvider([fail(429, "slow down", retry_after=2.0)], name="big"))
    error = raised.value
    assert (error.provider, error.model, error.status, error.retry_after) == ("big", "m", 429, 2.0)


def test_a_server_that_cannot_be_reached_has_no_status() -> None:
    with pytest.raises(ProviderError, match="cannot be reached") as raised:
        ask(ScriptedProvider([fail(None)]))
    assert (raised.value.status, raised.value.permanent) == (None, False)


def test_any_status_can_be_scripted() -> None:
    assert "answered 529" in str(fail(529))


def test_a_harness_retries_a_scripted_failure() -> None:
    with ScriptedProvider([fail(503, retry_after=0.0), "Hello."]) as model:
        flow = Flow(providers={"p": model}, default_provider="p", default_model="m")
        graph = flow.step(LLM(prompt="Hi", output_key="said")).compile()
        assert asyncio.run(graph.run({}))["said"] == "Hello."


def test_a_rule_raises_its_error_as_often_as_it_fits() -> None:
    provider = ScriptedProvider([when("Hi", fail(500))])
    depths = set()
    for _ in range(3):
        with pytest.raises(ProviderError) as raised:
            ask(provider)
        depths.add(len(raised.traceback))
    assert len(depths) == 1


def test_functions_of_the_request_answer_plain_or_async_or_with_another_function() -> None:
    async def later(asked: ChatRequest) -> str:
        await asyncio.sleep(0)
        return f"later {asked.model}"

    provider = ScriptedProvider(
        [lambda r: r.messages[-1]["content"].upper(), later, lambda r: after(0, pieces("x"))]
    )
    assert [ask(provider, "hi").text for _ in range(3)] == ["HI", "later m", "x"]


def test_a_delay_lets_others_go_first() -> None:
    async def race() -> list[str]:
        provider = ScriptedProvider([after(0.02, "slow"), "quick"])
        said: list[str] = []

        async def one() -> None:
            said.append((await provider.chat(request())).text)

        await asyncio.gather(one(), one())
        return said

    assert asyncio.run(race()) == ["quick", "slow"]


def test_a_delayed_answer_can_be_timed_out() -> None:
    async def impatient() -> None:
        async with asyncio.timeout(0.01):
            await ScriptedProvider([after(30, "never")]).chat(request())

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())


# Streams.


def test_a_text_streams_word_by_word_after_its_thinking() -> None:
    deltas = stream(ScriptedProvider([say("Hello to you.", thinking="hm")]))
    assert [d.thinking for d in deltas if d.thinking] == ["hm"]
    assert [d.text for d in deltas if d.text] == ["Hello ", "to ", "you."]
    assert deltas[-1].reply == say("Hello to you.", thinking="hm")
    assert [d for d in deltas[:-1] if d.reply] == []


def test_pieces_stream_as_they_are_cut() -> None:
    answer = pieces(ChatDelta(thinking="hm"), "Hel", "lo", pause=0.001)
    deltas = stream(ScriptedProvider([answer]))
    assert [d.text for d in deltas[1:-1]] == ["Hel", "lo"]
    reply = deltas[-1].reply
    assert reply is not None
    assert (reply.text, reply.thinking) == ("Hello", "hm")
    assert ask(ScriptedProvider([answer])).text == "Hello"


def test_pieces_may_end_in_a_tool_call() -> None:
    deltas = stream(ScriptedProvider([pieces("Let me ", "see.", then=call_tool("look"))]))
    reply = deltas[-1].reply
    assert reply is not None
    assert (reply.text, reply.tool_calls[0].name) == ("Let me see.", "look")


def test_a_stream_may_break_after_some_pieces() -> None:
    broken = pieces("Hel", "lo", then=IncompleteStream("cut", partial="Hello"))
    texts, error = streamed_until_error(ScriptedProvider([broken]))
    assert texts == ["Hel", "lo"]
    assert isinstance(error, IncompleteStream)
    with pytest.raises(IncompleteStream):
        ask(ScriptedProvider([broken]))


def test_a_piece_does_not_carry_the_whole_reply() -> None:
    with pytest.raises(TypeError, match="then="):
        pieces(ChatDelta(reply=say("x")))


@given(st.text())
def test_the_words_of_a_text_are_the_text(text: str) -> None:
    deltas = stream(ScriptedProvider([text]))
    assert "".join(delta.text for delta in deltas) == text


# What is left over.


def test_answers_that_were_not_asked_for_fail() -> None:
    provider = ScriptedProvider(["one", "two", call_tool("add"), fail(500), after(1, pieces("x"))])
    ask(provider, "What is it?")
    with pytest.raises(AssertionError) as raised:
        provider.assert_done()
    text = str(raised.value)
    assert text.startswith("4 scripted answers were never asked for: 'two', a call of add, Prov")
    assert text.endswith("'x'. There was one request, which ends with user 'What is it?'.")


def test_a_rule_that_never_fitted_fails() -> None:
    with pytest.raises(AssertionError, match=r"when\('refund'\) never fitted a request"):
        ScriptedProvider([when("refund", "billing")]).assert_done()


def test_a_rule_that_fitted_too_rarely_fails() -> None:
    provider = ScriptedProvider([when("Hi", "x", times=2)])
    ask(provider)
    with pytest.raises(AssertionError, match="fitted 1 of 2 times"):
        provider.assert_done()


def test_the_end_of_a_with_block_looks_for_what_is_left() -> None:
    with (
        pytest.raises(AssertionError, match="1 scripted answer was never asked for: 'two'"),
        ScriptedProvider(["two"]),
    ):
        pass


def test_an_error_on_its_way_out_of_the_block_is_not_hidden() -> None:
    with pytest.raises(GraphInterrupt), ScriptedProvider(["two"]):
        raise GraphInterrupt("key")


def test_a_request_after_the_last_answer_says_what_was_asked() -> None:
    provider = ScriptedProvider([when("refund", "x")])
    with pytest.raises(AssertionError) as raised:
        ask(provider, "Which?", tools=[ToolSpec(name="look")])
    assert str(raised.value) == (
        "the script has no answer left for request 1, which ends with user 'Which?' "
        "(offering look); nothing of when('refund') fits"
    )


def test_a_request_without_an_answer_fails_the_block_even_if_the_error_was_caught() -> None:
    with (
        pytest.raises(AssertionError, match="no answer left for request 1"),
        ScriptedProvider() as provider,
        pytest.raises(AssertionError),
    ):
        ask(provider)


# Wrong scripts.


def test_a_text_is_no_script() -> None:
    with pytest.raises(TypeError, match=r"\['Hello'\]"):
        ScriptedProvider("Hello")


def test_a_dict_is_no_answer() -> None:
    with pytest.raises(TypeError, match="not dict"):
        ask(ScriptedProvider([lambda r: {"text": "x"}]))  # type: ignore[list-item, return-value]


def test_it_is_a_provider_and_remembers_that_it_was_closed() -> None:
    provider = ScriptedProvider(name="other")
    assert isinstance(provider, Provider)
    asyncio.run(provider.aclose())
    assert (provider.name, provider.closed) == ("other", True)
