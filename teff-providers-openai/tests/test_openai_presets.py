"""Servers that are known by name: their address, their key, and what they want otherwise."""

from __future__ import annotations

import asyncio
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import pytest

from teff.errors import ConfigError, ProviderError
from teff.flow import Flow
from teff.messages import user
from teff.node import LLM
from teff.provider.protocol import ChatRequest, ListsModels, Provider
from teff.provider.registry import ProviderRegistry
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server
from teff_providers_openai import PRESETS, OpenAIProvider, Quirks
from teff_providers_openai.presets import find_preset
from teff_providers_openai.quirks import COMPATIBLE

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
ANSWER = json_answer({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]})
CANARY = "sk-canary-0123456789"
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
README = PROJECT.with_name("README.md")
WITH_KEY = sorted(name for name, preset in PRESETS.items() if preset.api_key_env)
LOCAL = sorted(set(PRESETS) - set(WITH_KEY))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for preset in PRESETS.values():
        monkeypatch.delenv(preset.base_url_env, raising=False)
        if preset.api_key_env:
            monkeypatch.setenv(preset.api_key_env, CANARY)


def test_each_preset_is_a_provider_type_of_its_name() -> None:
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    types = declared["teff.providers"]
    assert sorted(types) == sorted(PRESETS)
    for name, target in types.items():
        module, _, attribute = target.partition(":")
        made = getattr(import_module(module), attribute)(base_url="http://127.0.0.1:1/v1")
        assert isinstance(made, OpenAIProvider)
        assert (made.name, made.preset) == (name, name)
        assert isinstance(made, Provider)
        assert isinstance(made, ListsModels)


def test_a_preset_needs_no_declaration() -> None:
    provider = ProviderRegistry().resolve("groq")
    assert isinstance(provider, OpenAIProvider)
    assert provider.base_url == "https://api.groq.com/openai/v1"
    assert provider._headers() == {"Authorization": f"Bearer {CANARY}"}


def test_a_preset_takes_the_options_of_its_type() -> None:
    options = {"type": "mistral", "timeout": 5, "quirks": {"stream_usage": True}}
    provider = ProviderRegistry({"fast": options}).resolve("fast")
    assert isinstance(provider, OpenAIProvider)
    assert (provider.name, provider.timeout) == ("fast", 5.0)
    assert (provider._quirks.stream_usage, provider._quirks.short_call_ids) == (True, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"type": "groq", "timeuot": 5}, "unknown option 'timeuot'. Did you mean 'timeout'"),
        ({"type": "groq", "preset": "mistral"}, "unknown option 'preset'"),
        ({"type": "groq", "quirks": {"json_shema": True}}, "Did you mean 'json_schema'"),
        ({"type": "groq", "quirks": {"choices": "regex"}}, "must be one of 'json_schema'"),
        ({"type": "groq", "quirks": {"fixed_sampling": "("}}, "no regular expression"),
        ({"type": "openai", "preset": "grok"}, "unknown preset 'grok'. Did you mean 'groq'"),
        ({"type": "openai", "preset": "azure"}, "needs a base_url: the preset 'azure' has none"),
    ],
)
def test_a_wrong_option_is_named_with_the_nearest_one(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as info:
        ProviderRegistry({"mine": options}).resolve("mine")
    assert "provider 'mine'" in str(info.value)
    assert words in str(info.value)


def test_a_preset_is_an_option_too() -> None:
    provider = OpenAIProvider(preset="groq")
    assert provider.name == "groq"
    assert provider.base_url == PRESETS["groq"].base_url
    named = ProviderRegistry({"x": {"type": "openai", "preset": "groq"}}).resolve("x")
    assert named.name == "x"


def test_a_node_names_a_preset_and_its_address() -> None:
    async def ask(server: ReplayServer) -> object:
        node = LLM(provider="vllm", model="m", base_url=server.url, prompt="Hi", output_key="reply")
        result = await Flow().step(node).compile().run({})
        assert server.requests[0].json()["model"] == "m"
        return result["reply"]

    assert run_with_server(ask, ANSWER) == "Hello"


@pytest.mark.parametrize("name", WITH_KEY)
def test_a_key_of_a_preset_goes_to_its_own_hosts_alone(name: str) -> None:
    preset = PRESETS[name]
    own = preset.base_url or f"https://mine.{preset.hosts[0]}/openai/v1"
    headers = OpenAIProvider(preset=name, base_url=own)._headers()
    assert headers == {preset.auth_header: preset.auth_prefix + CANARY}
    host = preset.hosts[0]
    for url in (
        own.replace("https://", "http://"),
        f"https://{host}.example.org/v1",
        f"https://not{host}/v1",
        f"https://example.org/{host}/v1",
        f"https://{host}@example.org/v1",
        "http://127.0.0.1:4000/v1",
    ):
        assert OpenAIProvider(preset=name, base_url=url)._headers() == {}
    explicit = OpenAIProvider(
        preset=name, base_url="https://example.org/v1", api_key_env=preset.api_key_env
    )
    assert explicit._headers() == headers


@pytest.mark.parametrize("name", LOCAL)
def test_a_server_of_ones_own_needs_no_key(name: str) -> None:
    assert OpenAIProvider(preset=name)._headers() == {}


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"azure"}))
def test_the_environment_moves_a_preset_but_not_its_key(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert OpenAIProvider(preset=name).base_url == PRESETS[name].base_url
    monkeypatch.setenv(f"{name.upper()}_BASE_URL", " https://proxy.example.org/v1/ ")
    moved = OpenAIProvider(preset=name)
    assert moved.base_url == "https://proxy.example.org/v1"
    assert moved._headers() == {}
    given = OpenAIProvider(preset=name, base_url="http://127.0.0.1:1/v1")
    assert given.base_url == "http://127.0.0.1:1/v1"


def test_a_refusal_without_a_key_says_to_whom_the_key_belongs() -> None:
    async def ask(server: ReplayServer) -> None:
        with pytest.raises(ProviderError) as info:
            await OpenAIProvider(preset="groq", base_url=server.url).chat(REQUEST)
        assert "name the environment variable that holds it as api_key_env" in str(info.value)
        assert "GROQ_API_KEY goes to api.groq.com alone" in str(info.value)

    run_with_server(ask, json_answer({"error": "who are you?"}, status=401))


def test_an_empty_base_url_is_not_that_of_the_preset() -> None:
    with pytest.raises(ConfigError, match="no http or https URL"):
        OpenAIProvider(base_url="")


def test_a_quirk_changes_only_what_it_names() -> None:
    assert None not in attrs.asdict(COMPATIBLE).values()
    for preset in PRESETS.values():
        resolved = preset.quirks_at(preset.base_url, None)
        assert preset.quirks.over(COMPATIBLE) == resolved
        assert preset.quirks_at(preset.base_url, Quirks()) == resolved
        changed = preset.quirks_at(preset.base_url, Quirks(strict=False))
        assert changed == attrs.evolve(resolved, strict=False)


def test_the_quirks_of_openai_itself_are_not_those_of_other_servers() -> None:
    openai = find_preset("openai")
    assert openai.quirks_at("http://127.0.0.1:8000/v1", None) == COMPATIBLE
    assert openai.quirks_at(openai.base_url, None).max_tokens_field == "max_completion_tokens"


def test_quirks_say_what_can_be_asked() -> None:
    def capabilities(**options: Any) -> tuple[bool, bool, bool, bool]:
        found = OpenAIProvider(**options).capabilities
        return found.choices, found.json_schema, found.schema_with_tools, found.alternating

    assert capabilities() == (True, True, True, False)
    assert capabilities(preset="vllm") == (True, True, False, False)
    assert capabilities(preset="deepseek") == (False, True, False, False)
    nothing = Quirks(choices="none", json_schema=False, alternating=True)
    assert capabilities(preset="lmstudio", quirks=nothing) == (False, False, False, True)


def test_every_preset_says_where_it_is_documented() -> None:
    for name, preset in PRESETS.items():
        assert preset.name == name
        assert preset.source.startswith("https://")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of the README, without its two first lines."""
    text = (
        README.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    )
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in lines]


def test_the_readme_has_a_row_for_each_preset() -> None:
    shown = [(name, url, key) for name, url, key, _ in rows("Presets")]
    assert shown == [
        (name, preset.base_url or "your `endpoint", preset.api_key_env)
        for name, preset in PRESETS.items()
    ]


def test_the_readme_has_a_row_for_each_quirk_with_what_most_servers_want() -> None:
    shown = {name: usual.partition("`")[0] for name, usual, _ in rows("Quirks")}
    assert shown == {
        name: {True: "true", False: "false", "": '""'}.get(value, value)
        for name, value in attrs.asdict(COMPATIBLE).items()
    }


def models(answer: Any, **options: Any) -> list[tuple[str, str]]:
    async def ask(server: ReplayServer) -> list[tuple[str, str]]:
        provider = OpenAIProvider(base_url=f"{server.url}/v1", **options)
        found = await provider.models()
        assert (server.requests[0].method, server.requests[0].path) == ("GET", "/v1/models")
        return [(model.name, model.details) for model in found]

    return run_with_server(ask, answer)


def test_models_are_listed_by_name() -> None:
    listed = [
        {"id": "b", "object": "model", "owned_by": "vllm", "max_model_len": 4096},
        {"id": "a", "context_window": 131072},
        {"id": "c", "meta": {"n_ctx": 2048}},
        {"object": "model"},
        None,
    ]
    assert models(json_answer({"object": "list", "data": listed})) == [
        ("a", "131072 tokens"),
        ("b", "vllm, 4096 tokens"),
        ("c", "2048 tokens"),
    ]


@pytest.mark.parametrize("body", [{}, {"data": None}, {"data": {"id": "a"}}])
def test_what_is_no_list_of_models_is_an_error(body: Any) -> None:
    with pytest.raises(ProviderError, match="no list of models"):
        models(json_answer(body))


def test_models_are_asked_for_with_the_key() -> None:
    with pytest.raises(ProviderError, match=r"401.*api_key_env"):
        models(json_answer({"error": "no"}, status=401))


def test_a_deadline_ends_a_lively_stream() -> None:
    async def main() -> None:
        piece = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
        lively = Answer(chunks=[head, *[piece] * 200], pause=0.01)
        async with ReplayServer(lively) as server:
            provider = OpenAIProvider(base_url=server.url)
            request = attrs.evolve(REQUEST, deadline=0.05)
            with pytest.raises(ProviderError, match=r"0\.05 seconds"):
                _ = [each async for each in provider.stream(request)]
            await server.all_closed()

    asyncio.run(main())


def test_a_file_with_authorities_is_read_when_the_provider_is_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nobody\.pem"):
        OpenAIProvider(ca_file=str(tmp_path / "nobody.pem"))
