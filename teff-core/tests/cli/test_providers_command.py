"""``teff providers``: what is installed, and which models a server has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from teff.errors import ProviderError
from teff.plugins import Catalogue, catalogue
from teff.provider import ModelInfo
from teff.testing.scripted import ScriptedProvider

MODELS = {
    "models": [
        {"name": "qwen3:0.6b", "size": 522_653_767, "details": {"parameter_size": "751.63M"}},
        {
            "name": "llama3.1:8b",
            "size": 4_661_230_766,
            "details": {"parameter_size": "8.0B", "quantization_level": "Q4_K_M"},
        },
    ]
}


class Listing(ScriptedProvider):
    """A provider with a list of models, or an error instead."""

    def __init__(self, found: Sequence[ModelInfo] | Exception) -> None:
        super().__init__([])
        self.found = found
        self.closed = 0

    async def models(self) -> Sequence[ModelInfo]:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    async def aclose(self) -> None:
        self.closed += 1


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Install ``provider`` as the provider type ``here``; return the addresses it is made with."""

    def put(provider: object) -> list[str]:
        addresses: list[str] = []

        def make(name: str, base_url: str = "") -> object:
            addresses.append(base_url)
            return provider

        monkeypatch.setitem(catalogue()._objects, ("teff.providers", "here"), make)
        return addresses

    return put


@contextmanager
def server(status: int, body: object) -> Iterator[str]:
    """A server that gives the same answer to everybody; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            thread.join()


def test_installed_types_are_listed_with_their_distribution_and_state(teff):
    done = teff("providers")
    rows = [line.split() for line in done.out.splitlines()]
    assert done.code == 0
    [row] = [row for row in rows if row[0] == "ollama"]
    assert row[1] == "teff-providers-ollama"
    assert row[3] in ("found", "loaded")
    rows = json.loads(teff("providers", "--json").out)
    assert {row["group"] for row in rows} == {"teff.providers"}
    assert {"distribution", "version", "group", "name", "target", "state", "error"} == set(rows[0])


def test_listing_types_loads_none_of_them(teff, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a provider was loaded")

    monkeypatch.setattr(Catalogue, "load", refuse)
    assert teff("providers").code == 0


def test_where_none_is_installed_it_says_how_to_get_one(teff, monkeypatch):
    monkeypatch.setattr(Catalogue, "entries", lambda *_: [])
    done = teff("providers")
    assert done == (
        0,
        "No providers are installed. For example: pip install teff-providers-ollama\n",
        "",
    )
    assert teff("providers", "--json").out == "[]\n"


def test_the_models_of_a_server_of_ollama_are_listed(teff):
    with server(200, MODELS) as url:
        done = teff("providers", "ollama", "--base-url", url)
        assert done == (
            0,
            "llama3.1:8b  4.7 GB, 8.0B, Q4_K_M\nqwen3:0.6b   523 MB, 751.63M\n",
            "",
        )
        assert json.loads(teff("providers", "ollama", "--base-url", url, "--json").out) == [
            {"name": "llama3.1:8b", "details": "4.7 GB, 8.0B, Q4_K_M"},
            {"name": "qwen3:0.6b", "details": "523 MB, 751.63M"},
        ]


def test_a_server_without_models(teff):
    with server(200, {"models": []}) as url:
        done = teff("providers", "ollama", "--base-url", url)
        assert done == (0, "The server of 'ollama' has no models.\n", "")
        assert teff("providers", "ollama", "--base-url", url, "--json").out == "[]\n"


def test_a_server_that_is_not_there_is_a_failure(teff, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    for arguments in ([], ["--json"], ["--base-url", "http://127.0.0.1:1"]):
        done = teff("providers", "ollama", *arguments)
        assert (done.code, done.out) == (1, "")
        assert "cannot be reached at http://127.0.0.1:1/api/tags" in done.err
        assert done.err.endswith("Start it with: ollama serve\n")


def test_a_server_that_refuses_is_a_failure_and_an_address_with_nothing_there_a_wrong_one(teff):
    with server(500, {"error": "out of memory"}) as url:
        done = teff("providers", "ollama", "--base-url", url)
        assert done.code == 1
        assert "out of memory" in done.err
    with server(404, {"detail": "Not Found"}) as url:
        done = teff("providers", "ollama", "--base-url", url)
        assert done.code == 2
        assert "Is this a server of Ollama?" in done.err


def test_an_unknown_name_comes_with_the_nearest_one(teff):
    done = teff("providers", "olama")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: unknown provider 'olama'. Did you mean 'ollama'?\n"


def test_a_name_that_is_like_no_other_comes_with_where_to_look(teff):
    done = teff("providers", "nosuch")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("To see what is installed: teff providers\n")


def test_a_provider_without_a_list_says_so(teff, install):
    install(ScriptedProvider([]))
    done = teff("providers", "here")
    assert done == (2, "", "error: the provider 'here' has no list of models.\n")


def test_an_option_that_a_provider_does_not_take_is_a_wrong_use(teff):
    done = teff("providers", "local", "--base-url", "http://127.0.0.1:1")
    assert done.code == 2
    assert "unknown option 'base_url'" in done.err


def test_the_address_needs_a_name(teff):
    done = teff("providers", "--base-url", "http://127.0.0.1:1")
    assert done.code == 2
    assert "--base-url needs the NAME of a provider" in done.err


def test_any_provider_with_a_list_is_asked_and_closed(teff, install):
    provider = Listing([ModelInfo(name="a"), ModelInfo(name="bcd", details="1 GB")])
    addresses = install(provider)
    done = teff("providers", "here", "--base-url", "http://gpu")
    assert done == (0, "a\nbcd  1 GB\n", "")
    assert addresses == ["http://gpu"]
    assert provider.closed == 1


def test_a_provider_that_fails_is_closed_too(teff, install):
    provider = Listing(ProviderError("here cannot be reached", provider="here"))
    install(provider)
    assert teff("providers", "here") == (1, "", "error: here cannot be reached\n")
    assert provider.closed == 1


def test_what_a_server_says_cannot_steer_the_terminal(teff, install):
    install(Listing([ModelInfo(name="\x1b[31mred", details="\x07")]))
    out = teff("providers", "here").out
    assert "\x1b" not in out
    assert "\x07" not in out


def test_it_has_help_and_stands_in_the_help(teff):
    assert teff("providers", "--help").out.startswith("Usage: teff providers [OPTIONS] [NAME]")
    assert "  providers " in teff("--help").out
