"""Keys: sent to whom they belong, and shown nowhere."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from typing import Any

import attrs
import pytest

from teff.errors import ConfigError, IncompleteStream, ProviderError
from teff.messages import user
from teff.provider.protocol import ChatReply, ChatRequest
from teff.provider.registry import ProviderRegistry
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server, stream_answer
from teff_providers_openai import OpenAIProvider

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
CHOICE = attrs.evolve(REQUEST, choices=["billing", "technical"], max_tokens=4)
ANSWER = json_answer({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]})
CANARY = "sk-canary-0123456789"


def events(*chunks: object, done: bool = True) -> Answer:
    """Return a stream of these chunks; texts are written as they are."""
    pieces = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return stream_answer([f"data: {each}\n\n".encode() for each in [*pieces, *["[DONE]"] * done]])


def delta(content: object = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content, **fields}, "finish_reason": finish}
    return {"choices": [choice]}


def chat(answer: Answer | bytes, request: ChatRequest = REQUEST, **options: Any) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        return await OpenAIProvider(base_url=server.url, **options).chat(request)

    return run_with_server(ask, answer)


def authorization(environment: pytest.MonkeyPatch, **options: Any) -> str | None:
    environment.setenv("OPENAI_API_KEY", "sk-of-openai-itself")
    environment.setenv("MY_KEY", CANARY)

    async def ask(server: ReplayServer) -> str | None:
        await OpenAIProvider(base_url=server.url, **options).chat(REQUEST)
        header: str = options.get("auth_header", "Authorization")
        return server.requests[0].headers.get(header.lower())

    return run_with_server(ask, ANSWER)


def test_a_key_goes_only_to_whom_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert authorization(monkeypatch) is None
    assert authorization(monkeypatch, api_key_env="") is None
    assert authorization(monkeypatch, api_key_env="MY_KEY") == f"Bearer {CANARY}"
    assert authorization(monkeypatch, api_key=lambda: CANARY) == f"Bearer {CANARY}"
    bare = {"api_key_env": "MY_KEY", "auth_header": "api-key", "auth_prefix": ""}
    assert authorization(monkeypatch, **bare) == CANARY
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    headers = OpenAIProvider()._call(REQUEST)["headers"]
    assert headers == {"Authorization": "Bearer sk-of-openai-itself"}


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        asyncio.run(OpenAIProvider().chat(REQUEST))
    with pytest.raises(ConfigError, match="MY_MISSING_KEY is not set"):
        chat(ANSWER, api_key_env="MY_MISSING_KEY")
    with pytest.raises(ConfigError, match="its function api_key gave no API key"):
        chat(ANSWER, api_key=lambda: "")


def test_a_key_in_the_code_is_refused_unseen() -> None:
    with pytest.raises(ConfigError, match="api_key is a function") as info:
        OpenAIProvider(api_key=CANARY)  # type: ignore[arg-type]  # the point of the test
    assert CANARY not in str(info.value)
    with pytest.raises(ConfigError, match="instead of api_key_env"):
        OpenAIProvider(api_key=lambda: CANARY, api_key_env="MY_KEY")


def test_a_refusal_of_a_call_without_a_key_says_how_to_send_one() -> None:
    refusal = json_answer({"error": "no"}, status=401)
    with pytest.raises(ProviderError, match="No key was sent: .*api_key_env"):
        chat(refusal)
    with pytest.raises(ProviderError, match="401") as info:
        chat(refusal, api_key=lambda: CANARY)
    assert "No key was sent" not in str(info.value)


def test_a_refusal_of_a_field_says_which_quirk_does_without_it() -> None:
    refusal = json_answer({"error": {"message": "unknown field response_format"}}, status=400)
    with pytest.raises(ProviderError, match=r"set quirks: \{choices: none, json_schema: false\}"):
        chat(refusal, CHOICE)


def everything_said(error: BaseException) -> str:
    shown = [str(error), repr(error), repr(error.args), repr(vars(error))]
    return "\n".join([*shown, *traceback.format_exception(error)])


@pytest.mark.parametrize("url", ["http://", f"http://user:{CANARY}@"])
@pytest.mark.parametrize(
    "answer",
    [
        json_answer({"error": {"message": f"wrong key {CANARY}"}}, status=401),
        json_answer({"error": f"wrong key {CANARY}"}),
        json_answer({"choices": [{"message": {"content": 1}, "x": CANARY}]}),
        json_answer(
            {"choices": [{"finish_reason": "error", "error": CANARY, "message": {"a": 1}}]}
        ),
        events({"error": f"wrong key {CANARY}"}),
        events(f"no json {CANARY}"),
        stream_answer([b"data: {}\n\n"], then="close"),
        Answer(chunks=[], then="reset"),
    ],
)
def test_a_key_appears_nowhere(answer: Answer, url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(
            base_url=server.url.replace("http://", url),
            api_key=None if "@" in url else lambda: CANARY,
            headers={"X-Second-Secret": f"second-{CANARY}"},
        )
        with pytest.raises(ProviderError) as info:
            await provider.chat(REQUEST)
        assert CANARY not in everything_said(info.value)
        with pytest.raises(ProviderError) as info:
            _ = [each async for each in provider.stream(REQUEST)]
        assert CANARY not in everything_said(info.value)
        assert CANARY not in repr(provider)
        assert CANARY not in repr(provider._http)

    run_with_server(ask, answer)
    assert CANARY not in "\n".join(
        f"{record.getMessage()} {record.args}" for record in caplog.records
    )


@pytest.mark.parametrize("ask", ["chat", "stream", "models"])
@pytest.mark.parametrize("prefix", ["Token token=", "Key:", "Own  ", "Own a b ", ""])
def test_the_key_is_masked_whatever_stands_before_it(ask: str, prefix: str) -> None:
    told = json_answer({"error": {"message": f"not allowed: {CANARY}"}}, status=401)

    async def fail(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url, api_key=lambda: CANARY, auth_prefix=prefix)
        if ask == "stream":
            _ = [each async for each in provider.stream(REQUEST)]
        else:
            await (provider.models() if ask == "models" else provider.chat(REQUEST))

    with pytest.raises(ProviderError) as caught:
        run_with_server(fail, told)
    assert "canary" not in f"{caught.value} {caught.value.body}"


def test_headers_that_cannot_be_sent_are_refused_when_the_provider_is_made() -> None:
    url = "http://127.0.0.1:9"
    with pytest.raises(ConfigError, match="header 'X-Team' has a line break") as caught:
        OpenAIProvider(base_url=url, headers={"X-Team": f"{CANARY}\n"})
    assert CANARY not in f"{caught.value!r} {caught.value}"
    with pytest.raises(ConfigError, match="auth_prefix has characters"):
        OpenAIProvider(base_url=url, auth_prefix="Own\n")
    with pytest.raises(ConfigError, match="headers have 'Authorization', which carries the key"):
        OpenAIProvider(base_url=url, headers={"authorization": "Own x"}, api_key_env="MY_KEY")
    with pytest.raises(ConfigError, match="headers have 'Authorization', which carries the key"):
        OpenAIProvider(headers={"authorization": "Own x"})  # the key of OpenAI goes to it
    assert OpenAIProvider(headers={"authorization": "Own x"}, api_key_env="").headers
    assert OpenAIProvider(base_url=url, headers={"authorization": "Own x"}).headers


@pytest.mark.parametrize("name", ["openai", "azure", "groq", "vllm"])
@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_that_nobody_can_meet_is_refused(name: str, timeout: float) -> None:
    options = {"type": name, "base_url": "http://127.0.0.1:9", "timeout": timeout}
    with pytest.raises(ConfigError, match="provider 'mine': .*timeout.* number"):
        ProviderRegistry({"mine": options}).resolve("mine")
    with pytest.raises(ConfigError, match="timeout is a number of seconds above 0, not '30'"):
        OpenAIProvider(timeout="30")  # type: ignore[arg-type]


def test_events_that_say_nothing_do_not_prolong_the_wait() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    endless = Answer(chunks=[head, *[b"data: {}\n\n"] * 1000], pause=0.02, then="hang")

    async def ask(server: ReplayServer) -> None:
        provider = OpenAIProvider(base_url=server.url, timeout=0.2)
        _ = [each async for each in provider.stream(REQUEST)]

    with pytest.raises(IncompleteStream, match=r"sent no event for 0\.2 seconds"):
        run_with_server(ask, endless)
