"""Where Ollama is, by the rules of OLLAMA_HOST."""

from __future__ import annotations

import pytest

from teff.errors import ConfigError
from teff_providers_ollama import OllamaProvider
from teff_providers_ollama.address import address


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("  ", "http://127.0.0.1:11434"),
        ("gpu", "http://gpu:11434"),
        ("gpu:8080", "http://gpu:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://[::1]:8080"),
        ("::1", "http://[::1]:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("http://gpu", "http://gpu"),
        ("http://gpu:11434/", "http://gpu:11434"),
        ("https://gpu.example.com", "https://gpu.example.com"),
        ("https://gpu.example.com:8443/ollama/", "https://gpu.example.com:8443/ollama"),
        ("gpu/ollama", "http://gpu:11434/ollama"),
        ("gpu:99999", "http://gpu:11434"),
        ("gpu:port", "http://gpu:11434"),
        ('"gpu:8080"', "http://gpu:8080"),
        ("me:secret@gpu:8080", "http://me:secret@gpu:8080"),
    ],
)
def test_scheme_and_port_may_be_missing(host: str, url: str) -> None:
    assert address(host) == url


def test_the_environment_is_asked_where_no_address_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "0.0.0.0:8080")
    assert OllamaProvider().base_url == "http://127.0.0.1:8080"
    assert OllamaProvider(base_url="gpu").base_url == "http://gpu:11434"
    monkeypatch.delenv("OLLAMA_HOST")
    assert OllamaProvider().base_url == "http://127.0.0.1:11434"


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="base_url .* is no http or https URL"):
        OllamaProvider(base_url="ftp://gpu")
