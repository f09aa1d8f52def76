"""Warnings that a conversation does not fit into the context window."""

from __future__ import annotations

import logging
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.messages import user
from teff.provider.protocol import ChatRequest, ToolSpec
from teff.testing.server import ReplayServer, json_answer, run_with_server
from teff_providers_ollama import OllamaProvider
from teff_providers_ollama.window import estimated_tokens

SHORT = ChatRequest(model="m", messages=[user("Hi")])
LONG = ChatRequest(model="m", messages=[user("word " * 1000)])


def warnings_of(
    caplog: pytest.LogCaptureFixture,
    *requests: ChatRequest,
    counts: dict[str, Any] | None = None,
    streams: bool = False,
    **options: Any,
) -> list[str]:
    """Return what is logged while these are asked of one provider."""
    caplog.clear()
    answer = {"message": {"content": "Hello"}, "done": True, **(counts or {})}

    async def ask(server: ReplayServer) -> None:
        provider = OllamaProvider(base_url=server.url, **options)
        for request in requests:
            if streams:
                _ = [each async for each in provider.stream(request)]
            else:
                await provider.chat(request)

    run_with_server(ask, json_answer(answer))
    return [record.getMessage() for record in caplog.records if record.name == "teff"]


@pytest.fixture(autouse=True)
def _every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="teff")


def test_a_prompt_that_is_too_long_is_told_once_for_each_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = attrs.evolve(LONG, model="other")
    first, second = warnings_of(caplog, SHORT, LONG, LONG, other, options={"num_ctx": 1024})
    assert first.startswith(
        "ollama (m): the prompt has about 1,254 tokens, and num_ctx is 1,024: Ollama drops the "
        "oldest messages without a sign."
    )
    assert first.endswith("Set num_ctx higher, or shorten the conversation.")
    assert second.startswith("ollama (other): ")


def test_tools_are_part_of_the_prompt(caplog: pytest.LogCaptureFixture) -> None:
    tool = ToolSpec(name="search", description="word " * 1000)
    request = attrs.evolve(SHORT, tools=[tool])
    assert len(warnings_of(caplog, request, options={"num_ctx": 1024})) == 1


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"prompt_eval_count": 1020, "eval_count": 3}, "1,020 of 1,024 tokens"),
        ({"prompt_eval_count": 500, "eval_count": 524, "done_reason": "length"}, "was cut off"),
    ],
)
def test_what_the_server_counted_tells_that_it_was_full(
    counts: dict[str, Any], words: str, streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    found = warnings_of(
        caplog, SHORT, SHORT, counts=counts, streams=streams, options={"num_ctx": 1024}
    )
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize(
    "counts",
    [
        {},
        {"prompt_eval_count": 500, "eval_count": 100},
        {"prompt_eval_count": 500, "eval_count": 100, "done_reason": "length"},
        {"eval_count": 100, "done_reason": "length"},
    ],
)
def test_what_fits_is_not_warned_of(
    counts: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings_of(caplog, SHORT, counts=counts, options={"num_ctx": 1024}) == []


def test_an_answer_that_nothing_bounds_and_that_is_cut_off_has_filled_a_window_nobody_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counts = {"prompt_eval_count": 4000, "eval_count": 96, "done_reason": "length"}
    [found] = warnings_of(caplog, SHORT, counts=counts)
    assert "the context window is probably full, and num_ctx is not set" in found
    assert warnings_of(caplog, attrs.evolve(SHORT, max_tokens=96), counts=counts) == []


def test_a_server_that_is_told_to_refuse_says_so_itself(caplog: pytest.LogCaptureFixture) -> None:
    request = attrs.evolve(LONG, options={"truncate": False})
    assert warnings_of(caplog, request, options={"num_ctx": 1024}) == []


def test_no_window_is_set_by_itself() -> None:
    async def ask(server: ReplayServer) -> None:
        await OllamaProvider(base_url=server.url).chat(LONG)
        assert "options" not in server.requests[0].json()

    run_with_server(ask, json_answer({"message": {"content": "a"}, "done": True}))


@given(st.lists(st.text(max_size=50), max_size=5), st.text(max_size=50))
def test_more_words_are_more_tokens(texts: list[str], more: str) -> None:
    messages = [{"role": "user", "content": text} for text in texts]
    longer = [*messages, {"role": "user", "content": more}]
    assert estimated_tokens({"messages": longer}) > estimated_tokens({"messages": messages})
