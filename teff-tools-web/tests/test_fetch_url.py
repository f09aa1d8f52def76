"""The tool ``fetch_url`` against servers on this machine."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from teff.errors import ConfigError, ToolError
from teff.messages import ToolCall
from teff.tool import ToolRegistry, execute_call
from teff_tools_web import FetchSettings, fetch_url, make_fetch_url
from teff_tools_web.fetch import Page, fetch_page

CERTIFICATE = Path(__file__).parent / "data" / "pages.example.pem"

Serve = Callable[..., Any]
MakePage = Callable[..., bytes]


def settings_for(server: Any, **options: Any) -> FetchSettings:
    return FetchSettings(allow_private=True, allowed_ports=(server.port,), **options)


def fetched(serve: Serve, respond: Any, path: str = "/", **options: Any) -> Page:
    async def run() -> Page:
        async with serve(respond) as server:
            return await fetch_page(server.url(path), settings_for(server, **options))

    return asyncio.run(run())


def refused(serve: Serve, respond: Any, path: str = "/", **options: Any) -> str:
    with pytest.raises(ToolError) as caught:
        fetched(serve, respond, path, **options)
    return str(caught.value)


def resolver(addresses: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


def test_a_page_comes_with_title_and_url_first(serve: Serve, page: MakePage) -> None:
    async def run() -> tuple[str, str]:
        async with serve(page("<title>Rīga &amp; sea</title><h1>Hello</h1><p>World")) as server:
            options = {"allow_private": True, "allowed_ports": [server.port]}
            made = make_fetch_url(options)
            return server.url("/a"), str(await made.call({"url": server.url("/a#part")}))

    url, text = asyncio.run(run())
    assert text == f"Title: Rīga & sea\nURL: {url}\n\n# Hello\n\nWorld"


def test_the_tool_is_called_like_a_function(serve: Serve, page: MakePage) -> None:
    async def run() -> str:
        async with serve(page("<p>hi")) as server:
            made = make_fetch_url({"allow_private": True, "allowed_ports": [server.port]})
            return str(await made(server.url()))

    assert asyncio.run(run()).endswith("\n\nhi")


def test_a_long_text_is_cut_and_says_so_first(serve: Serve, page: MakePage) -> None:
    async def run() -> str:
        async with serve(page("a" * 500, "text/plain")) as server:
            made = make_fetch_url({"allow_private": True, "allowed_ports": [server.port]})
            return str(await made.call({"url": server.url(), "max_chars": 100}))

    text = asyncio.run(run())
    assert text.startswith("[Shortened: the first 100 of 500 characters.]\n")
    assert text.endswith("\n" + "a" * 100)


def test_a_page_without_text_says_so(serve: Serve, page: MakePage) -> None:
    async def run() -> str:
        async with serve(page("<script>1</script>")) as server:
            made = make_fetch_url({"allow_private": True, "allowed_ports": [server.port]})
            return str(await made.call({"url": server.url()}))

    assert asyncio.run(run()).endswith("(The page has no text.)")


def test_a_model_gets_refusals_as_text() -> None:
    call = ToolCall(id="1", name="fetch_url", arguments={"url": "http://127.0.0.1/"})
    result = asyncio.run(execute_call(call, {"fetch_url": fetch_url}, state={}))
    assert result.error
    assert "loopback addresses are not allowed" in result.text


def test_a_length_below_one_is_refused() -> None:
    with pytest.raises(ToolError, match="'max_chars' must be at least 1"):
        asyncio.run(fetch_url.call({"url": "http://example.org", "max_chars": 0}))


def test_the_registry_finds_it_and_gives_it_options() -> None:
    registry = ToolRegistry()
    assert registry.resolve("fetch_url").spec().schema["required"] == ["url"]
    assert registry.create("fetch_url", {"timeout": 5}).name == "fetch_url"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeot": 5}, "unknown option 'timeot'. Did you mean 'timeout'?"),
        ({"timeout": "soon"}, "option 'timeout' must be a number, not text"),
        ({"timeout": 0}, "timeout"),
        ({"max_bytes": -1}, "max_bytes"),
        ({"allow_private": "no"}, "option 'allow_private' must be true or false"),
        ({"allowed_ports": 80}, "option 'allowed_ports' must be a list of whole numbers"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=r"tool 'fetch_url'") as caught:
        make_fetch_url(options)
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", ["application/json", "application/ld+json; charset=utf-8"])
def test_json_comes_as_it_is(serve: Serve, page: MakePage, kind: str) -> None:
    data = {"city": "Rīga", "html": "<b>no markup</b>"}
    assert json.loads(fetched(serve, page(json.dumps(data), kind)).text) == data


@pytest.mark.parametrize("kind", ["application/pdf", "image/png", "application/octet-stream"])
def test_what_is_no_text_is_refused_by_its_type(serve: Serve, page: MakePage, kind: str) -> None:
    assert f"is {kind}; only text" in refused(serve, page(b"%PDF-1.7", kind))


def test_binary_data_that_calls_itself_text_is_refused(serve: Serve, page: MakePage) -> None:
    assert "is binary data" in refused(serve, page(b"PK\x03\x04\x00\x00", "text/plain"))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<p>žāvēts".encode("windows-1257"), "text/html; charset=windows-1257"),
        ("<meta charset='windows-1257'><p>žāvēts".encode("windows-1257"), "text/html"),
        (b"\xef\xbb\xbf" + "<p>žāvēts".encode(), "text/html; charset=latin-1"),
        ("<p>žāvēts".encode("utf-16"), "text/html"),
        ("<p>žāvēts".encode(), "text/html"),
        ("<p>žāvēts".encode(), "text/html; charset=nonsense"),
        ("<!doctype html><p>žāvēts".encode(), ""),
    ],
)
def test_the_charset_is_found(serve: Serve, page: MakePage, body: bytes, kind: str) -> None:
    assert fetched(serve, page(body, kind)).text == "žāvēts"


def test_an_error_of_the_server_is_said(serve: Serve) -> None:
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\noops"
    assert refused(serve, answer, "/gone").endswith("/gone answered 404 Not Found")


def test_a_server_that_is_not_there_is_named(serve: Serve) -> None:
    async def run() -> None:
        async with serve(b"") as server:
            gone = server
        await fetch_page(gone.url(), settings_for(gone))

    with pytest.raises(ToolError, match=r"http://127\.0\.0\.1:\d+/ cannot be reached"):
        asyncio.run(run())


def test_an_answer_that_is_no_http_is_an_error(serve: Serve) -> None:
    assert "cannot be reached" in refused(serve, b"SSH-2.0-OpenSSH_9.6\r\n")


def test_redirects_are_followed_and_the_last_url_is_shown(serve: Serve, page: MakePage) -> None:
    async def respond(head: bytes, writer: asyncio.StreamWriter) -> None:
        if head.startswith(b"GET /new"):
            writer.write(page("here", "text/plain"))
        else:
            writer.write(b"HTTP/1.1 301 Moved\r\nLocation: new?a=1#x\r\nContent-Length: 0\r\n\r\n")

    arrived = fetched(serve, respond, "/old")
    assert arrived.text == "here"
    assert arrived.url.endswith("/new?a=1")


def test_cookies_are_not_sent_back_and_nothing_of_the_environment_is(
    serve: Serve, page: MakePage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))

    async def run() -> list[bytes]:
        async def respond(head: bytes, writer: asyncio.StreamWriter) -> None:
            if head.startswith(b"GET /2"):
                writer.write(page("ok", "text/plain"))
            else:
                writer.write(
                    b"HTTP/1.1 302 Found\r\nLocation: /2\r\nSet-Cookie: a=b\r\n"
                    b"Content-Length: 0\r\n\r\n"
                )

        async with serve(respond) as server:
            await fetch_page(server.url("/1"), settings_for(server))
            requests: list[bytes] = server.requests
            return requests

    requests = asyncio.run(run())
    assert len(requests) == 2
    for request in requests:
        assert b"cookie" not in request.lower()
        assert b"authorization" not in request.lower()
        assert b"user-agent: teff-tools-web" in request.lower()


def test_the_certificate_is_verified_for_the_name_and_not_the_address(
    serve: Serve, page: MakePage
) -> None:
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_tls.load_cert_chain(CERTIFICATE)
    client_tls = ssl.create_default_context(cafile=str(CERTIFICATE))

    async def run(host: str, tls: ssl.SSLContext | None) -> str:
        async with serve(page("secret", "text/plain"), tls=server_tls) as server:
            url = server.url(host=host, scheme="https")
            resolve = resolver(["127.0.0.1"])
            fetched_page = await fetch_page(url, settings_for(server), resolve=resolve, tls=tls)
            assert b"host: pages.example:" in server.requests[0].lower()
            return fetched_page.text

    assert asyncio.run(run("pages.example", client_tls)) == "secret"
    for host, tls in (("other.example", client_tls), ("pages.example", None)):
        with pytest.raises(ToolError, match="(?i)certificate"):
            asyncio.run(run(host, tls))
