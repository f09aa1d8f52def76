"""The provider on llama.cpp and the packaged model: shapes are asserted, not wording."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teff.errors import ConfigError, ProviderError
from teff.messages import ToolCall, assistant, system, tool_result, user
from teff.provider.protocol import ChatReply, ChatRequest
from teff_providers_local import LocalProvider
from teff_providers_local.engine import EngineSettings, load_engine
from teff_providers_local.model import find_model

pytestmark = pytest.mark.e2e

STORY = "Tell me a long story about a dog."


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    required = os.environ.get("TEFF_E2E_REQUIRED") == "1"
    if not required:
        pytest.importorskip("xllamacpp")
        try:
            find_model()
        except ConfigError as error:
            pytest.skip(str(error))
    provider = LocalProvider()
    yield provider
    asyncio.run(provider.aclose())


def ask(text: str, **fields: Any) -> ChatRequest:
    return ChatRequest(**{"model": "", "messages": [user(text)], "max_tokens": 16, **fields})


def chat(provider: LocalProvider, text: str, **fields: Any) -> ChatReply:
    return asyncio.run(provider.chat(ask(text, **fields)))


def test_it_answers_and_counts(provider: LocalProvider) -> None:
    reply = chat(provider, "Hello!", max_tokens=8)
    assert reply.text.strip()
    assert reply.finish_reason in ("stop", "length")
    assert reply.usage.prompt_tokens
    assert 0 < (reply.usage.completion_tokens or 0) <= 8
    assert reply.model == find_model().name


def test_a_cut_answer_and_a_stop_word_end_as_they_should(provider: LocalProvider) -> None:
    assert chat(provider, STORY, max_tokens=3).finish_reason == "length"
    stopped = chat(provider, STORY, max_tokens=60, stop=[" "])
    assert stopped.finish_reason == "stop"
    assert " " not in stopped.text


def test_the_same_request_gets_the_same_answer(provider: LocalProvider) -> None:
    whole = {"cache_prompt": False}
    first, second = (chat(provider, STORY, options=whole).text for _ in range(2))
    assert first == second


def test_streamed_pieces_joined_are_the_answer(provider: LocalProvider) -> None:
    async def main() -> None:
        deltas = [delta async for delta in provider.stream(ask(STORY, max_tokens=24))]
        reply = deltas[-1].reply
        assert reply is not None
        assert "".join(delta.text for delta in deltas) == reply.text
        assert len(deltas) > 10
        assert all(delta.reply is None for delta in deltas[:-1])

    asyncio.run(main())


# The model's vocabulary lacks two bytes: that of NUL, and the one that starts characters of planes
# of Unicode in which nothing is assigned.
_WRITABLE = st.characters(min_codepoint=1, exclude_categories=["Cs", "Cn"])


@settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(st.lists(st.text(_WRITABLE, max_size=6), min_size=1, max_size=4).filter(any))
def test_an_answer_is_always_one_of_the_choices(
    provider: LocalProvider, choices: list[str]
) -> None:
    reply = chat(provider, "Which one?", choices=choices, temperature=0, max_tokens=64)
    assert reply.text in choices
    assert reply.finish_reason == "stop"


@pytest.mark.parametrize("choices", [["a", "ab", "abc"], ["*"], ['"', "\\", "]"], ["yes\nno"]])
def test_choices_that_are_hard_to_write_as_a_grammar(
    provider: LocalProvider, choices: list[str]
) -> None:
    assert chat(provider, "Which one?", choices=choices, temperature=1.5).text in choices


def test_an_answer_fits_its_schema(provider: LocalProvider) -> None:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["dog", "cat"]},
            "age": {"type": "integer", "minimum": 0, "maximum": 30},
        },
        "required": ["kind", "age"],
        "additionalProperties": False,
    }
    value = json.loads(chat(provider, STORY, json_schema=schema, max_tokens=80).text)
    assert set(value) == {"kind", "age"}
    assert value["kind"] in ("dog", "cat")
    assert isinstance(value["age"], int)


def test_a_schema_that_is_none_is_refused_in_the_engines_words(provider: LocalProvider) -> None:
    with pytest.raises(ProviderError, match="banana") as caught:
        chat(provider, "hi", json_schema={"type": "banana"})
    assert caught.value.permanent


def test_two_at_once_are_both_answered(provider: LocalProvider) -> None:
    async def main() -> list[ChatReply]:
        return list(
            await asyncio.gather(
                provider.chat(ask("Say yes.", choices=["yes"])),
                provider.chat(ask("Say no.", choices=["no"])),
            )
        )

    assert [reply.text for reply in asyncio.run(main())] == ["yes", "no"]


def test_a_conversation_with_tools_of_another_provider_is_understood(
    provider: LocalProvider,
) -> None:
    call = ToolCall(id="1", name="weather", arguments={"city": "Riga"})
    messages = [system("Be brief."), user("Weather?"), assistant("", [call])]
    messages += [tool_result(call, "sunny"), user("So?")]
    assert chat(provider, "", messages=messages).usage.prompt_tokens


def test_a_prompt_over_the_context_is_refused_with_the_sizes(provider: LocalProvider) -> None:
    with pytest.raises(ProviderError, match=r"\d+ tokens.*4096 tokens.*context_tokens") as caught:
        chat(provider, "word " * 5000)
    assert caught.value.permanent


def test_text_that_is_no_unicode_is_refused(provider: LocalProvider) -> None:
    with pytest.raises(ProviderError, match="surrogate"):
        chat(provider, "half a character: \ud83d")


@pytest.mark.parametrize("text", [STORY, "word " * 1500], ids=["answering", "reading the prompt"])
def test_a_cancelled_call_stops_and_the_engine_is_usable(
    provider: LocalProvider, text: str
) -> None:
    async def main() -> str:
        task = asyncio.create_task(provider.chat(ask(text, max_tokens=2000)))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # The long call would take far longer than this allows.
        reply = await provider.chat(ask("Hello!", choices=["ready"], timeout=15))
        return reply.text

    assert asyncio.run(main()) == "ready"


def test_a_stream_closed_early_leaves_the_engine_usable(provider: LocalProvider) -> None:
    async def main() -> str:
        async for _ in provider.stream(ask(STORY, max_tokens=2000)):
            break
        return (await provider.chat(ask("Hello!", choices=["ready"], timeout=15))).text

    assert asyncio.run(main()) == "ready"


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        # Other settings than those above, so that the loading is in it.
        quiet = LocalProvider(context_tokens=512)
        await quiet.chat(ask("Hello!"))
        for refused in (ask("word " * 600), ask("hi", json_schema={"type": "banana"})):
            with pytest.raises(ProviderError):
                await quiet.chat(refused)
        await quiet.aclose()

    asyncio.run(main())
    assert capfd.readouterr() == ("", "")


def test_a_broken_model_file_is_an_error_and_not_a_crash(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.gguf"
    with find_model().path.open("rb") as whole:
        broken.write_bytes(whole.read(100_000))
    with pytest.raises(ProviderError, match=r"broken\.gguf") as caught:
        chat(LocalProvider(model_path=str(broken)), "hi")
    assert caught.value.permanent
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="reads the tables of Linux")
def test_nothing_listens_on_the_network(provider: LocalProvider) -> None:
    before = _own_sockets()
    engine = load_engine(EngineSettings(path=find_model().path, threads=1, context_tokens=256))
    try:
        assert _listening_sockets() & (_own_sockets() - before) == set()
    finally:
        engine.close()


def _listening_sockets() -> set[str]:
    tables = [Path("/proc/self/net", name) for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.read_text().splitlines()]
    listening = "0A"
    return {f"socket:[{columns[9]}]" for columns in lines if columns[3] == listening}


def _own_sockets() -> set[str]:
    links = set()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.add(str(file.readlink()))
    return links


SCRIPT = """
    import asyncio, sys
    from teff.messages import user
    from teff.provider.protocol import ChatRequest
    from teff_providers_local import LocalProvider

    provider = LocalProvider()
    long = ChatRequest(model="", messages=[user("Tell me a long story.")], max_tokens=2000)

    async def begin():
        async for delta in (stream := provider.stream(long)):
            print("started", flush=True)
            return stream
"""

ENDINGS = {
    "after two event loops": """
        asyncio.run(begin())
        asyncio.run(begin())
    """,
    "with an answer on its way and a loop that is left alone": """
        loop = asyncio.new_event_loop()
        stream = loop.run_until_complete(begin())
        import warnings; warnings.simplefilter("ignore")
    """,
    "through sys.exit in a task": """
        async def leave():
            await begin()
            sys.exit(0)
        asyncio.run(leave())
    """,
    "after the provider was closed": """
        async def whole():
            await begin()
            await provider.aclose()
        asyncio.run(whole())
    """,
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
def test_the_interpreter_ends_cleanly(ending: str) -> None:
    code = textwrap.dedent(SCRIPT) + textwrap.dedent(ending)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(os.name == "nt", reason="signals are sent another way there")
def test_ctrl_c_ends_an_answer_at_once() -> None:
    code = (
        textwrap.dedent(SCRIPT) + "asyncio.run(provider.chat(long)) if asyncio.run(begin()) else 0"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "started\n"
    running.send_signal(signal.SIGINT)
    _, complaint = running.communicate(timeout=30)
    assert running.returncode == -signal.SIGINT
    assert complaint.rstrip().endswith("KeyboardInterrupt")
