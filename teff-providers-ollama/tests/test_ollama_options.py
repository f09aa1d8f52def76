"""What may be set, and what is refused before a server ignores it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError, ProviderError
from teff.messages import user
from teff.provider.protocol import ChatRequest
from teff.provider.registry import ProviderRegistry
from teff.testing.server import (
    Answer,
    ReplayServer,
    json_answer,
    run_with_server,
    stream_answer,
)
from teff_providers_ollama import OllamaProvider
from teff_providers_ollama.options import FIELDS, OPTIONS, check_options

REQUEST = ChatRequest(model="m", messages=[user("Hi")])
ANSWER = json_answer({"message": {"content": "Hello"}, "done": True})


def sent(request: ChatRequest = REQUEST, **options: Any) -> Any:
    async def ask(server: ReplayServer) -> Any:
        await OllamaProvider(base_url=server.url, **options).chat(request)
        return server.requests[0].json()

    return run_with_server(ask, ANSWER)


def refused(request_options: Mapping[str, Any]) -> ConfigError:
    """Return the error for options of a node; nothing is sent."""
    request = attrs.evolve(REQUEST, options=request_options)

    async def ask(server: ReplayServer) -> ConfigError:
        provider = OllamaProvider(base_url=server.url)
        with pytest.raises(ConfigError) as info:
            await provider.chat(request)
        with pytest.raises(ConfigError):
            _ = [each async for each in provider.stream(request)]
        assert not server.requests
        return info.value

    return run_with_server(ask, ANSWER)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num_ctxx", "num_ctx"),
        ("tempreature", "temperature"),
        ("Temperature", "temperature"),
        ("max_tokens", "num_predict"),
        ("max_completion_tokens", "num_predict"),
        ("context", "num_ctx"),
        ("context_lenght", "num_ctx"),
        ("n_gpu_layers", "num_gpu"),
        ("stop_sequences", "stop"),
    ],
)
def test_an_unknown_option_is_refused_with_the_name_that_was_meant(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"no option '{name}'.* Did you mean '{meant}'") as info:
        OllamaProvider(name="gpu", options={name: 1})
    assert "provider 'gpu': options" in str(info.value)
    assert "What is newer than Teff goes into extra_options." in str(info.value)
    assert info.value.path == f"options.{name}"


def test_the_registry_says_the_same_of_a_declaration() -> None:
    registry = ProviderRegistry({"gpu": {"type": "ollama", "options": {"max_tokens": 9}}})
    with pytest.raises(ConfigError, match="provider 'gpu': options: .* 'num_predict'"):
        registry.resolve("gpu")


def test_options_of_a_node_are_checked_before_anything_is_sent() -> None:
    error = refused({"max_tokens": 9})
    assert "provider_options: Ollama knows no option 'max_tokens'" in str(error)
    assert "Did you mean 'num_predict'?" in str(error)
    assert error.path == "provider_options.max_tokens"
    assert "side by side" in str(refused({"options": {"num_ctx": 1}}))
    assert "Did you mean 'think'?" in str(refused({"reasoning_effort": "low"}))
    assert "think is true, false" in str(refused({"think": "hgh"}))
    assert "keep_alive is no duration" in str(refused({"keep_alive": "300"}))
    assert "extra_options: a mapping" in str(refused({"extra_options": 3}))


def test_fields_of_a_request_are_no_options_of_the_provider() -> None:
    with pytest.raises(ConfigError, match="Set think for the provider itself, or in a node's"):
        OllamaProvider(options={"think": True})


def test_what_is_newer_than_the_list_goes_into_extra_options() -> None:
    request = attrs.evolve(REQUEST, options={"seed": 1, "extra_options": {"newest": [2]}})
    body = sent(request, options={"top_k": 3}, extra_options={"newer": 4, "newest": 5})
    assert body["options"] == {"seed": 1, "top_k": 3, "newer": 4, "newest": [2]}


def test_what_a_node_says_wins_over_the_options_of_the_provider() -> None:
    request = attrs.evolve(REQUEST, max_tokens=9, temperature=0.5)
    body = sent(request, options={"num_predict": 1, "temperature": 0, "seed": 2})
    assert body["options"] == {"num_predict": 9, "temperature": 0.5, "seed": 2}


def test_none_leaves_an_option_to_the_server() -> None:
    request = attrs.evolve(REQUEST, options={"num_ctx": None, "keep_alive": None})
    body = sent(request, options={"num_ctx": 1}, keep_alive="5m")
    assert "options" not in body
    assert "keep_alive" not in body


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_ctx", "8192"),
        ("num_ctx", 1.5),
        ("num_ctx", True),
        ("temperature", "hot"),
        ("temperature", float("nan")),
        ("use_mmap", 1),
        ("stop", "\n"),
        ("stop", [1]),
    ],
)
def test_a_value_that_the_server_would_refuse_is_refused(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"options: {name} is (a|true)") as info:
        OllamaProvider(options={name: value})
    assert info.value.path == f"options.{name}"


@pytest.mark.parametrize(
    ("name", "value"), [("format", "xml"), ("truncate", "no"), ("top_logprobs", [])]
)
def test_the_fields_of_a_request_are_checked_too(name: str, value: object) -> None:
    assert f"{name} is" in str(refused({name: value}))


def test_values_of_the_right_kind_pass() -> None:
    options = {"num_ctx": 8192.0, "temperature": 1, "use_mmap": False, "stop": ("a", "b")}
    assert sent(options=options)["options"] == {**options, "stop": ["a", "b"]}
    request = attrs.evolve(REQUEST, options={"format": "json", "truncate": False, "shift": True})
    body = sent(request)
    assert (body["format"], body["truncate"], body["shift"]) == ("json", False, True)


@pytest.mark.parametrize(
    "duration", ["5m", "1h30m", "-1m", "0", "1.5h", "300ms", 300, 0, -1, 2.5, "24h"]
)
def test_durations_are_numbers_of_seconds_or_have_a_unit(duration: str | float) -> None:
    assert sent(keep_alive=duration)["keep_alive"] == duration


@pytest.mark.parametrize(
    ("duration", "way_out"),
    [
        ("300", 'the number 300 for seconds, or a text with a unit: "300s"'),
        ("-1", "the number -1"),
        ("1d", '"1h30m"'),
        ("5 m", '"5m"'),
        ("for ever", '"5m"'),
        ("", '"5m"'),
        (True, '"5m"'),
        (float("inf"), '"5m"'),
    ],
)
def test_a_duration_without_a_unit_is_refused(duration: Any, way_out: str) -> None:
    with pytest.raises(ConfigError, match="keep_alive is no duration") as info:
        OllamaProvider(keep_alive=duration)
    assert way_out in str(info.value)


def test_a_file_with_authorities_has_to_be_there() -> None:
    with pytest.raises(ConfigError, match="no-such-file"):
        OllamaProvider(ca_file="no-such-file.pem")


def test_a_deadline_ends_a_lively_stream_and_a_silent_call() -> None:
    request = attrs.evolve(REQUEST, deadline=0.05)
    frame = b'{"message":{"content":"a"},"done":false}\n'

    async def ask(server: ReplayServer) -> None:
        provider = OllamaProvider(base_url=server.url)
        with pytest.raises(ProviderError):
            async for _ in provider.stream(request):
                await asyncio.sleep(0)
        with pytest.raises(ProviderError):
            await provider.chat(request)
        await provider.aclose()

    run_with_server(
        ask,
        stream_answer([frame] * 100, pause=0.01, then="close"),
        Answer(chunks=[], then="hang"),
    )


@given(
    st.dictionaries(
        st.sampled_from([*OPTIONS, *FIELDS]) | st.text(max_size=8),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
        max_size=4,
    )
)
def test_any_options_pass_or_are_refused_by_name(options: dict[str, Any]) -> None:
    known = FIELDS | OPTIONS
    refusal: ConfigError | None = None
    try:
        check_options(options, provider="gpu", known=known)
    except ConfigError as error:
        refusal = error
    if refusal is None:
        assert set(options) <= set(known)
    else:
        name = refusal.path.removeprefix("options.")
        assert name in options
        assert repr(name) in str(refusal) or f"{name} is" in str(refusal)


@pytest.mark.parametrize("value", [0, -1, -5.0, "8k", True, 1.5])
def test_a_window_has_room_for_a_token_at_least(value: object) -> None:
    with pytest.raises(ConfigError, match="num_ctx is a whole number of at least 1, not"):
        OllamaProvider(options={"num_ctx": value})
    assert "num_ctx is" in str(refused({"num_ctx": value}))


@pytest.mark.parametrize("timeout", [0, -1, "30", float("nan")])
def test_a_timeout_that_nobody_can_meet_is_refused(timeout: Any) -> None:
    with pytest.raises(ConfigError, match="provider 'ollama': timeout is a number of seconds"):
        OllamaProvider(timeout=timeout)


def test_headers_that_cannot_be_sent_are_refused_when_the_provider_is_made() -> None:
    with pytest.raises(ConfigError, match="header 'X-Team' has a line break"):
        OllamaProvider(headers={"X-Team": "red\n"})
    with pytest.raises(ConfigError, match="auth_prefix has characters"):
        OllamaProvider(auth_prefix="Own\n")
    with pytest.raises(ConfigError, match="headers have 'Authorization', which carries the key"):
        OllamaProvider(headers={"authorization": "Own x"}, api_key_env="MY_KEY")
    assert OllamaProvider(headers={"authorization": "Own x"}).headers


@pytest.mark.parametrize("ask", ["chat", "stream", "models"])
@pytest.mark.parametrize("prefix", ["Token token=", "Key:", "Own  ", "Own a b ", ""])
def test_the_key_is_masked_whatever_stands_before_it(ask: str, prefix: str) -> None:
    told = json_answer({"error": "not allowed: canary0123456789"}, status=401)

    async def fail(server: ReplayServer) -> None:
        provider = OllamaProvider(
            base_url=server.url, api_key=lambda: "canary0123456789", auth_prefix=prefix
        )
        if ask == "stream":
            _ = [each async for each in provider.stream(REQUEST)]
        else:
            await (provider.models() if ask == "models" else provider.chat(REQUEST))

    with pytest.raises(ProviderError) as caught:
        run_with_server(fail, told)
    assert "canary" not in f"{caught.value} {caught.value.body}"
