"""What a caller of the provider sees, with an engine that needs no model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from teff.errors import IncompleteStream, ProviderError
from teff.messages import user
from teff.provider.protocol import ChatDelta, ChatReply, ChatRequest, Provider
from teff_providers_local import LocalProvider, engine
from teff_providers_local.engine import EngineError, EngineSettings, load_engine


def ask(text: str = "hi", **fields: Any) -> ChatRequest:
    return ChatRequest(**{"model": "", "messages": [user(text)], **fields})


def chat(provider: LocalProvider, request: ChatRequest | None = None) -> ChatReply:
    return asyncio.run(provider.chat(request or ask()))


async def collect(provider: LocalProvider, request: ChatRequest | None = None) -> list[ChatDelta]:
    return [delta async for delta in provider.stream(request or ask())]


def test_it_is_the_provider_type_named_local() -> None:
    (found,) = entry_points(group="teff.providers", name="local")
    assert found.load() is LocalProvider


def test_it_fits_the_protocol_and_says_what_it_can_do(provider: LocalProvider) -> None:
    assert isinstance(provider, Provider)
    can = provider.capabilities
    assert (can.streaming, can.choices, can.json_schema, can.tools) == (True, True, True, False)
    assert provider.name == "local"


def test_chat_gives_the_whole_answer(provider: LocalProvider) -> None:
    reply = chat(provider)
    assert (reply.text, reply.finish_reason) == ("Hello there.", "stop")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (7, 3)
    assert reply.model == "Tiny-Model.Q4_0"


def test_a_stream_gives_pieces_and_with_the_last_the_reply(provider: LocalProvider) -> None:
    deltas = asyncio.run(collect(provider))
    assert [delta.text for delta in deltas] == ["Hello", " there", ".", ""]
    assert [delta.reply for delta in deltas[:-1]] == [None, None, None]
    assert deltas[-1].reply == chat(provider)


def test_pieces_arrive_while_the_engine_still_works(provider: LocalProvider, engines: Any) -> None:
    was_read = threading.Event()

    def script(request: object, on_event: Callable[[Any], bool]) -> None:
        on_event({"choices": [{"delta": {"content": "first"}}]})
        assert was_read.wait(10)
        on_event({"choices": [{"delta": {"content": "second"}, "finish_reason": "stop"}]})

    engines.script = script

    async def main() -> list[str]:
        texts = []
        async for delta in provider.stream(ask()):
            texts.append(delta.text)
            was_read.set()
        return texts

    assert asyncio.run(main()) == ["first", "second", ""]


def test_the_event_loop_goes_on_while_the_engine_works(
    provider: LocalProvider, engines: Any
) -> None:
    loop_went_on = threading.Event()
    answer = engines.script

    def script(request: object, on_event: Callable[[Any], bool]) -> None:
        assert loop_went_on.wait(10)
        answer(request, on_event)

    engines.script = script

    async def main() -> ChatReply:
        asyncio.get_running_loop().call_later(0.01, loop_went_on.set)
        return await provider.chat(ask())

    assert asyncio.run(main()).text == "Hello there."


def test_requests_are_answered_one_at_a_time_in_their_order(
    provider: LocalProvider, engines: Any
) -> None:
    answer, running = engines.script, []

    def script(request: Any, on_event: Callable[[Any], bool]) -> None:
        running.append("start")
        answer(request, on_event)
        running.append("end")

    engines.script = script

    async def main() -> None:
        await asyncio.gather(*(provider.chat(ask(str(number))) for number in range(4)))

    asyncio.run(main())
    assert running == ["start", "end"] * 4
    assert [request["messages"][0]["content"] for request in engines.requests] == list("0123")


def test_a_stream_that_is_closed_early_stops_the_engine(
    provider: LocalProvider, engines: Any
) -> None:
    answer, engines.script = engines.script, engines.endless

    async def main() -> str:
        stream = provider.stream(ask())
        assert (await anext(stream)).text == "and "
        await stream.aclose()  # type: ignore[attr-defined]
        engines.script = answer
        return (await provider.chat(ask())).text

    assert asyncio.run(main()) == "Hello there."
    assert engines.said_stop.is_set()


def test_a_cancelled_call_stops_the_engine_and_leaves_it_usable(
    provider: LocalProvider, engines: Any
) -> None:
    answer, engines.script = engines.script, engines.endless

    async def main() -> str:
        task = asyncio.create_task(provider.chat(ask()))
        while not engines.requests:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        engines.script = answer
        return (await provider.chat(ask())).text

    assert asyncio.run(main()) == "Hello there."
    assert engines.said_stop.is_set()


def test_a_call_that_is_cancelled_while_it_waits_is_never_started(
    provider: LocalProvider, engines: Any
) -> None:
    engines.script = engines.endless

    async def main() -> None:
        first = provider.stream(ask("first"))
        await anext(first)
        waiting = asyncio.create_task(provider.chat(ask("waiting")))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        last = provider.stream(ask("last"))
        await first.aclose()  # type: ignore[attr-defined]
        await anext(last)
        await last.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    asked = [request["messages"][0]["content"] for request in engines.requests]
    assert asked == ["first", "last"]


def test_the_engine_stops_when_the_event_loop_is_gone(
    provider: LocalProvider, engines: Any
) -> None:
    answer, engines.script = engines.script, engines.endless
    loop = asyncio.new_event_loop()
    stream = provider.stream(ask())
    try:
        loop.run_until_complete(anext(stream))
    finally:
        loop.close()
    assert engines.said_stop.wait(10)
    engines.script = answer
    assert chat(provider).text == "Hello there."
    with pytest.raises(StopIteration):
        stream.aclose().send(None)  # type: ignore[attr-defined]


def test_one_provider_serves_one_event_loop_after_another(
    provider: LocalProvider, engines: Any
) -> None:
    assert [chat(provider).text for _ in range(3)] == ["Hello there."] * 3
    assert len(engines.loaded) == 1


def test_a_model_is_loaded_once_for_all_providers_with_its_settings(
    provider: LocalProvider, engines: Any, gguf: Path
) -> None:
    chat(provider)
    chat(LocalProvider(name="second", model_path=str(gguf)))
    chat(LocalProvider(), ask(model=str(gguf)))
    assert engines.loaded == [EngineSettings(path=gguf, threads=1, context_tokens=4096)]
    chat(LocalProvider(model_path=str(gguf), threads=2))
    assert [settings.threads for settings in engines.loaded] == [1, 2]


def test_nothing_is_loaded_before_the_first_request(provider: LocalProvider, engines: Any) -> None:
    provider.stream(ask())
    assert engines.loaded == []


def test_closing_frees_the_model_when_no_other_provider_uses_it(
    provider: LocalProvider, engines: Any, gguf: Path
) -> None:
    other = LocalProvider(model_path=str(gguf))
    chat(provider)
    chat(other)
    asyncio.run(provider.aclose())
    assert engines.closed == []
    asyncio.run(other.aclose())
    assert engines.closed == engines.loaded


def test_a_closed_provider_can_be_used_again(provider: LocalProvider, engines: Any) -> None:
    chat(provider)
    asyncio.run(provider.aclose())
    asyncio.run(provider.aclose())
    assert chat(provider).text == "Hello there."
    assert len(engines.loaded) == 2


def test_closing_in_the_middle_of_an_answer_says_that_it_is_not_whole(
    provider: LocalProvider, engines: Any
) -> None:
    engines.script = engines.endless

    async def main() -> None:
        stream = provider.stream(ask())
        assert (await anext(stream)).text == "and "
        await provider.aclose()
        async for _ in stream:
            pass

    with pytest.raises(IncompleteStream) as caught:
        asyncio.run(main())
    assert caught.value.partial.startswith("and ")
    assert engines.closed == engines.loaded


def test_a_refusal_of_the_engine_is_raised_in_its_words(
    provider: LocalProvider, engines: Any
) -> None:
    error = {"error": {"code": 400, "message": "no such sampler", "type": "invalid_request_error"}}
    engines.script = lambda request, on_event: on_event(error)
    with pytest.raises(ProviderError, match="no such sampler") as caught:
        chat(provider)
    assert (caught.value.provider, caught.value.model) == ("local", "Tiny-Model.Q4_0")
    assert (caught.value.status, caught.value.permanent) == (400, True)


def test_what_the_binding_raises_is_a_refusal_too(provider: LocalProvider, engines: Any) -> None:
    def script(request: object, on_event: object) -> None:
        raise ValueError("unrecognized type banana")

    answer, engines.script = engines.script, script
    with pytest.raises(ProviderError, match=r"llama\.cpp refused the request: unrecognized") as e:
        chat(provider)
    assert e.value.permanent
    engines.script = answer
    assert chat(provider).text == "Hello there."
    assert len(engines.loaded) == 1


def test_a_model_that_did_not_load_is_tried_again(provider: LocalProvider, engines: Any) -> None:
    engines.load_error = EngineError("llama.cpp cannot load it")
    with pytest.raises(ProviderError, match=r"^llama\.cpp cannot load it$"):
        chat(provider)
    engines.load_error = None
    assert chat(provider).text == "Hello there."


def test_an_engine_that_is_not_installed_is_named_with_its_line(
    gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(EngineError, match="pip install xllamacpp"):
        load_engine(EngineSettings(path=gguf, threads=1, context_tokens=64))


def test_a_call_that_takes_too_long_is_ended(provider: LocalProvider, engines: Any) -> None:
    engines.script = engines.endless
    with pytest.raises(ProviderError, match=r"no whole answer in 0\.05 seconds") as caught:
        chat(provider, ask(timeout=0.05))
    assert not caught.value.permanent
    assert engines.said_stop.wait(10)


def test_a_stream_waits_only_so_long_for_an_event(provider: LocalProvider, engines: Any) -> None:
    stuck = threading.Event()
    engines.script = lambda request, on_event: stuck.wait(10)
    try:
        with pytest.raises(ProviderError, match=r"0\.05 seconds went by without an event"):
            asyncio.run(collect(provider, ask(timeout=0.05)))
    finally:
        stuck.set()


def test_the_timeout_of_the_provider_counts_where_the_request_has_none(
    engines: Any, gguf: Path
) -> None:
    engines.script = engines.endless
    impatient = LocalProvider(model_path=str(gguf), timeout=0.05)
    with pytest.raises(ProviderError, match=r"0\.05 seconds"):
        chat(impatient)
    with pytest.raises(ProviderError, match=r"0\.02 seconds"):
        chat(impatient, ask(timeout=0.02))


def test_defaults_and_the_seed_are_sent(engines: Any, gguf: Path) -> None:
    chat(LocalProvider(model_path=str(gguf)))
    chat(LocalProvider(model_path=str(gguf), seed=None, temperature=0, max_tokens=9))
    first, second = engines.requests
    assert (first["temperature"], first["max_tokens"], first["seed"]) == (0.2, 512, 0)
    assert (second["temperature"], second["max_tokens"]) == (0, 9)
    assert "seed" not in second


def test_options_of_the_provider_are_sent_unless_the_request_has_them(
    engines: Any, gguf: Path
) -> None:
    penalised = LocalProvider(
        model_path=str(gguf), options={"repeat_penalty": 1.1, "temperature": 0.7, "top_k": 5}
    )
    chat(penalised, ask(options={"top_k": 9}))
    (sent,) = engines.requests
    assert (sent["repeat_penalty"], sent["temperature"], sent["top_k"]) == (1.1, 0.7, 9)


@pytest.mark.parametrize(
    "options", [{"threads": 0}, {"context_tokens": 0}, {"max_tokens": 0}, {"temperature": -1},
                {"timeout": 0}]
)  # fmt: skip
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=name):
        LocalProvider(**options)


def test_a_path_that_is_too_long_for_a_socket_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with engine._private_address() as address:
        assert address == "127.0.0.1"
    assert list(deep.iterdir()) == []


def test_importing_it_loads_no_engine() -> None:
    code = "import sys, teff_providers_local; print('xllamacpp' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert shown.strip() == "False"
