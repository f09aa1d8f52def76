"""The list of models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ProviderError
from teff.provider.protocol import ListsModels, ModelInfo
from teff.provider.reading import UnreadableReply
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server
from teff_providers_ollama import OllamaProvider
from teff_providers_ollama.listing import read_models

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "transcripts"
LLAMA = {
    "name": "llama3.1:8b",
    "model": "llama3.1:8b",
    "size": 4_661_230_766,
    "details": {"parameter_size": "8.0B", "quantization_level": "Q4_K_M"},
}


def listed(answer: Answer | bytes, **options: Any) -> tuple[list[ModelInfo], ReplayServer]:
    async def ask(server: ReplayServer) -> tuple[list[ModelInfo], ReplayServer]:
        return await OllamaProvider(base_url=server.url, **options).models(), server

    return run_with_server(ask, answer)


def test_models_come_by_name_with_what_is_worth_knowing() -> None:
    small = {"name": "all-minilm", "size": 45_960_996, "details": {"parameter_size": "23M"}}
    cloud = {"name": "gpt-oss:120b-cloud", "size": 384, "details": None}
    models, server = listed(json_answer({"models": [LLAMA, cloud, small]}))
    assert models == [
        ModelInfo(name="all-minilm", details="46 MB, 23M"),
        ModelInfo(name="gpt-oss:120b-cloud", details="384 B"),
        ModelInfo(name="llama3.1:8b", details="4.7 GB, 8.0B, Q4_K_M"),
    ]
    assert [(each.method, each.path) for each in server.requests] == [("GET", "/api/tags")]
    assert isinstance(OllamaProvider(), ListsModels)


def test_a_server_without_models_has_an_empty_list() -> None:
    assert listed(json_answer({"models": []}))[0] == []
    assert listed(json_answer({"models": None}))[0] == []


def test_the_list_stands_beside_the_chat() -> None:
    answer = json_answer({"models": [LLAMA]})
    assert listed(answer, chat_path="/gate/api/chat")[1].requests[0].path == "/gate/api/tags"
    assert listed(answer, chat_path="/ask")[1].requests[0].path == "/api/tags"


def test_a_key_is_sent_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-0123456789")
    _, server = listed(json_answer({"models": []}), api_key_env="MY_KEY", headers={"X-Team": "a"})
    assert server.requests[0].headers["authorization"] == "Bearer sk-0123456789"
    assert server.requests[0].headers["x-team"] == "a"


@pytest.mark.parametrize("body", [{}, {"models": {}}, {"models": "none"}])
def test_what_is_no_list_is_an_error(body: object) -> None:
    with pytest.raises(ProviderError, match="cannot be read: it has no list of models"):
        listed(json_answer(body))


def test_another_server_at_the_address_is_named() -> None:
    with pytest.raises(ProviderError, match="Is this a server of Ollama"):
        listed(json_answer({"detail": "Not Found"}, status=404))


@pytest.mark.skipif(not TRANSCRIPTS.is_dir(), reason="the exchanges are in the workspace alone")
def test_a_recorded_list() -> None:
    models, _ = listed((TRANSCRIPTS / "ollamaproxy_02_tags.response.http").read_bytes())
    assert ModelInfo(name="local/smollm2-135m", details="cloud") in models
    assert len(models) == 39


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["models", "name", "model", "size", "details", "parameter_size"]),
            children,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.fixed_dictionaries({}, optional={"models": values}))
def test_whatever_comes_is_a_list_or_unreadable(data: dict[str, Any]) -> None:
    try:
        models = read_models(data)
    except UnreadableReply:
        return
    assert all(model.name for model in models)
    assert models == sorted(models, key=lambda model: model.name)
