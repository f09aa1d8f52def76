"""What is sent as ``think``, and what is refused."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from teff.errors import ConfigError
from teff.messages import user
from teff.provider.protocol import ChatRequest
from teff.provider.registry import ProviderRegistry
from teff.testing.server import ReplayServer, json_answer, run_with_server
from teff_providers_ollama import OllamaProvider

PLAIN = ChatRequest(model="qwen3:8b", messages=[user("Hi")])
CHOICES = attrs.evolve(PLAIN, choices=["yes", "no"])
SCHEMA = attrs.evolve(PLAIN, json_schema={"type": "object"})
NOTHING = "nothing"


def sent_think(request: ChatRequest, **options: Any) -> Any:
    async def ask(server: ReplayServer) -> Any:
        await OllamaProvider(base_url=server.url, **options).chat(request)
        return server.requests[0].json().get("think", NOTHING)

    return run_with_server(ask, json_answer({"message": {"content": "yes"}, "done": True}))


@pytest.mark.parametrize("think", [True, False, "low", "medium", "high", "max"])
def test_what_is_set_is_sent(think: bool | str) -> None:
    assert sent_think(PLAIN, think=think) == think
    assert sent_think(SCHEMA, think=think) == think
    assert sent_think(attrs.evolve(PLAIN, options={"think": think}), think="high") == think


def test_a_plain_answer_is_left_to_the_server() -> None:
    assert sent_think(PLAIN) == NOTHING


@pytest.mark.parametrize(
    "request_", [CHOICES, SCHEMA, attrs.evolve(PLAIN, options={"format": "json"})]
)
def test_an_answer_that_is_held_to_a_form_comes_without_thinking(request_: ChatRequest) -> None:
    assert sent_think(request_) is False
    assert sent_think(attrs.evolve(request_, model="gpt-oss:20b")) == "low"


@pytest.mark.parametrize("model", ["gpt-oss:20b", "hf.co/unsloth/GPT-OSS-120b-GGUF:Q4_K_M"])
def test_a_family_that_ignores_truth_values_gets_levels(model: str) -> None:
    request = attrs.evolve(PLAIN, model=model)
    assert sent_think(request, think=False) == "low"
    assert sent_think(request, think=True) == "medium"
    assert sent_think(request, think="high") == "high"
    assert sent_think(request) == NOTHING


def test_a_node_can_take_back_what_the_provider_sets() -> None:
    assert sent_think(attrs.evolve(PLAIN, options={"think": None}), think=True) == NOTHING


@pytest.mark.parametrize("think", ["hgh", "on", "", "true", 1, 0, ["low"]])
def test_other_values_are_refused(think: Any) -> None:
    with pytest.raises(ConfigError, match="think is true, false, low, medium, high or max, not"):
        OllamaProvider(think=think)


def test_a_near_value_is_suggested() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'medium'"):
        OllamaProvider(think="mdium")  # type: ignore[arg-type]  # that is the point


def test_a_declaration_is_checked_without_making_the_provider() -> None:
    registry = ProviderRegistry({"gpu": {"type": "ollama", "think": "hgh"}})
    with pytest.raises(ConfigError, match="think"):
        registry.check("gpu")
