"""Azure: deployments, versions, its header, and its content filter."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from teff.errors import ConfigError, ProviderError
from teff.messages import user
from teff.provider.protocol import ChatReply, ChatRequest
from teff.provider.registry import ProviderRegistry
from teff.testing.server import (
    Answer,
    ReceivedRequest,
    ReplayServer,
    json_answer,
    run_with_server,
    stream_answer,
)
from teff_providers_openai import AzureProvider

REQUEST = ChatRequest(model="gpt", messages=[user("Hi")])
ANSWER = json_answer({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]})
RESOURCE = "https://example.openai.azure.com"
KEY = "azure-key-0123456789"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)


def asked(**options: Any) -> ReceivedRequest:
    """Return what arrives at a server that stands in for the resource."""

    async def ask(server: ReplayServer) -> ReceivedRequest:
        provider = AzureProvider(endpoint=server.url, **options)
        assert (await provider.chat(REQUEST)).text == "Hello"
        return server.requests[0]

    return run_with_server(ask, ANSWER)


def test_the_newer_address_has_no_version_and_the_deployment_as_model() -> None:
    request = asked(deployment="mine")
    assert request.path == "/openai/v1/chat/completions"
    assert request.json()["model"] == "mine"
    assert asked().json()["model"] == "gpt"


def test_with_a_version_the_deployment_is_part_of_the_address() -> None:
    request = asked(deployment="my gpt/4", api_version="2024-10-21")
    assert request.path == (
        "/openai/deployments/my%20gpt%2F4/chat/completions?api-version=2024-10-21"
    )
    assert asked(api_version="2024-10-21").path.startswith("/openai/deployments/gpt/chat/")


@pytest.mark.parametrize("end", ["", "/", "/openai", "/openai/", "/openai/v1", "/openai/v1/"])
def test_an_endpoint_may_be_written_with_what_follows_it(end: str) -> None:
    assert AzureProvider(endpoint=RESOURCE + end).base_url == f"{RESOURCE}/openai/v1"
    dated = AzureProvider(endpoint=RESOURCE + end, api_version="2024-10-21")
    assert dated._chat_url("m").startswith(f"{RESOURCE}/openai/deployments/m/chat/completions?")


def test_the_endpoint_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", RESOURCE)
    provider = ProviderRegistry().resolve("azure")
    assert isinstance(provider, AzureProvider)
    assert provider.base_url == f"{RESOURCE}/openai/v1"


def test_without_an_endpoint_the_error_says_how_to_give_one() -> None:
    with pytest.raises(ConfigError, match=r"as endpoint\. .*AZURE_OPENAI_ENDPOINT") as info:
        ProviderRegistry().resolve("azure")
    assert info.value.path == "endpoint"


def test_a_base_url_is_used_as_it_is() -> None:
    gateway = "https://gateway.example.org/llm"
    provider = AzureProvider(base_url=gateway, endpoint=RESOURCE, api_version="2024-10-21")
    assert provider._chat_url("m") == f"{gateway}/chat/completions?api-version=2024-10-21"
    versioned = AzureProvider(base_url=f"{gateway}?api-version=1", api_version="2024-10-21")
    assert versioned._chat_url("m") == f"{gateway}/chat/completions?api-version=1"


@pytest.mark.parametrize(
    "endpoint",
    [
        RESOURCE,
        "https://example.cognitiveservices.azure.com",
        "https://example.services.ai.azure.com",
    ],
)
def test_the_key_goes_in_its_own_header_to_azure_alone(endpoint: str) -> None:
    assert AzureProvider(endpoint=endpoint)._headers() == {"api-key": KEY}
    assert AzureProvider(endpoint="https://gateway.example.org")._headers() == {}
    assert AzureProvider(endpoint="http://example.openai.azure.com")._headers() == {}
    assert "api-key" not in asked().headers
    assert asked(api_key_env="AZURE_OPENAI_API_KEY").headers["api-key"] == KEY


def test_a_token_of_entra_goes_as_bearer() -> None:
    provider = AzureProvider(
        endpoint=RESOURCE,
        api_key=lambda: "token-of-entra",
        auth_header="Authorization",
        auth_prefix="Bearer ",
    )
    assert provider._headers() == {"Authorization": "Bearer token-of-entra"}


def test_a_filtered_prompt_is_a_permanent_error_in_the_words_of_the_server() -> None:
    refusal = {
        "error": {
            "message": "The response was filtered due to the prompt triggering a policy.",
            "code": "content_filter",
            "param": "prompt",
            "type": None,
            "status": 400,
            "innererror": {"code": "ResponsibleAIPolicyViolation"},
        }
    }

    async def ask(server: ReplayServer) -> None:
        provider = AzureProvider(endpoint=server.url)
        for _ in range(2):
            with pytest.raises(ProviderError, match="triggering a policy") as info:
                await provider.chat(REQUEST)
            assert info.value.status == 400
            assert info.value.permanent
        with pytest.raises(ProviderError, match="triggering a policy") as info:
            _ = [each async for each in provider.stream(REQUEST)]
        assert info.value.permanent

    in_reply = json_answer({"error": {"message": "triggering a policy", "code": "content_filter"}})
    again = json_answer(refusal, status=400)
    run_with_server(ask, again, again, in_reply)
    # The same without a status, in a reply that says 200.
    with pytest.raises(ProviderError) as info:
        replied(in_reply)
    assert info.value.permanent


def replied(answer: Answer) -> ChatReply:
    async def ask(server: ReplayServer) -> ChatReply:
        return await AzureProvider(endpoint=server.url).chat(REQUEST)

    return run_with_server(ask, answer)


def streamed(*chunks: Any) -> tuple[list[str], ChatReply]:
    async def ask(server: ReplayServer) -> tuple[list[str], ChatReply]:
        provider = AzureProvider(endpoint=server.url)
        *pieces, last = [each async for each in provider.stream(REQUEST)]
        assert last.reply is not None
        return [piece.text for piece in pieces], last.reply

    data = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return run_with_server(ask, stream_answer([*data, b"data: [DONE]\n\n"]))


def chunk(content: str | None = None, finish: str | None = None) -> dict[str, Any]:
    delta = {} if content is None else {"content": content}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def test_marks_of_the_filter_come_without_choices_and_are_no_text() -> None:
    prompt: dict[str, Any] = {
        "choices": [],
        "id": "",
        "created": 0,
        "model": "",
        "prompt_filter_results": [{}],
    }
    mark: dict[str, Any] = {
        "choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]
    }
    texts, reply = streamed(prompt, chunk(""), chunk("a"), mark, chunk("b"), chunk(finish="stop"))
    assert texts == ["a", "b"]
    assert (reply.text, reply.finish_reason, reply.model) == ("ab", "stop", "gpt")


def test_a_filtered_answer_says_so() -> None:
    _, reply = streamed(chunk("So "), chunk(finish="content_filter"))
    assert (reply.text, reply.finish_reason) == ("So ", "content_filter")
    empty = {"choices": [{"index": 0, "message": {}, "finish_reason": "content_filter"}]}
    assert replied(json_answer(empty)).finish_reason == "content_filter"


def test_no_secret_is_shown() -> None:
    secret = "secret-0123456789"
    provider = AzureProvider(endpoint=f"https://me:{secret}@example.openai.azure.com")
    assert secret not in repr(provider)
    assert KEY not in repr(provider)
    assert attrs.fields_dict(AzureProvider)["headers"].repr is False
