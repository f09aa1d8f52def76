"""What ``fetch_url`` refuses to reach."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ToolError
from teff_tools_web import FetchSettings, target
from teff_tools_web.addresses import why_refused
from teff_tools_web.fetch import fetch_page

Serve = Callable[..., Any]
MakePage = Callable[..., bytes]


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was opened or looked up; the sockets of the event loop itself do not count."""
    opened: list[str] = []

    class Watched(socket.socket):
        def connect(self, address: Any) -> None:
            opened.append(f"connect {address}")
            super().connect(address)

    async def connect(self: Any, watched: socket.socket, address: Any) -> None:
        opened.append(f"connect {address}")
        raise ConnectionRefusedError

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        opened.append(f"look up {host}")
        raise socket.gaierror

    monkeypatch.setattr(socket, "socket", Watched)
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", connect)
    return opened


def refusal(url: str, settings: FetchSettings | None = None, **options: Any) -> str:
    with pytest.raises(ToolError) as caught:
        asyncio.run(fetch_page(url, settings, **options))
    return str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:80/",
        "http://0.0.0.0/",
        "http://[::1]/",
        "http://[::]/",
        "http://169.254.169.254/latest/",
        "http://10.1.2.3/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://198.18.0.1/",
        "http://224.0.0.1/",
        "http://240.0.0.1/",
        "http://255.255.255.255/",
        "http://[fd00::1]/",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001::1]/",
        "http://[2001:db8::1]/",
        "http://127.0.0.1./",
        "http://127。0。0。1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://127.1/",
        "http://127.0.1/",
        "http://127.0.0.1.1/",
        "http://\N{FULLWIDTH DIGIT ONE}27.0.0.1/",
        "http://%31%32%37.0.0.1/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://app.localhost/",
        "http://user:secret@127.0.0.1/",
        "http://example.org@127.0.0.1/",
        "http://example.org\\@127.0.0.1/",
        "http:///etc/passwd",
    ],
)
def test_an_address_that_is_not_public_opens_no_socket_web_01(url: str, sockets: list[str]) -> None:
    message = refusal(url)
    assert "refused to fetch" in message
    assert "secret" not in message.replace(url, "")
    assert sockets == []


def test_a_public_address_does_open_a_socket(sockets: list[str]) -> None:
    assert "cannot be reached" in refusal("http://8.8.8.8/")
    assert sockets == ["connect ('8.8.8.8', 80)"]


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/",
        "gopher://example.org/",
        "data:text/plain,hi",
        "javascript:alert(1)",
        "//example.org/",
        "example.org",
        "",
        "http:example.org",
        "http://",
        "https://exa mple.org/",
        "http://example.org:99999/",
        "http://[::1",
    ],
)
def test_only_http_and_https_are_fetched_web_05(url: str, sockets: list[str]) -> None:
    assert "refused to fetch" in refusal(url)
    assert sockets == []


def test_upper_case_and_spaces_around_a_url_do_not_matter_web_05(
    serve: Serve, page: MakePage
) -> None:
    async def run() -> str:
        async with serve(page("ok", "text/plain")) as server:
            settings = FetchSettings(allow_private=True, allowed_ports=(server.port,))
            shouted = f"  HTTP://127.0.0.1:{server.port}/ \n"
            return (await fetch_page(shouted, settings)).url

    assert asyncio.run(run()).startswith("http://127.0.0.1:")


@pytest.mark.parametrize("port", [22, 25, 3306, 6379, 9200])
def test_other_ports_are_refused(port: int, sockets: list[str]) -> None:
    assert f"port {port} is not allowed" in refusal(f"http://8.8.8.8:{port}/")
    assert sockets == []


def test_every_address_of_a_host_must_be_public(sockets: list[str]) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["93.184.215.14", "10.0.0.1"]

    message = refusal("http://mixed.example/", resolve=resolve)
    assert "it leads to 10.0.0.1, and private addresses are not allowed" in message
    assert sockets == []


def test_a_host_that_is_not_there_is_named(sockets: list[str]) -> None:
    assert refusal("http://nowhere.example/") == "the host nowhere.example was not found"
    assert sockets == ["look up nowhere.example"]


def test_the_connection_goes_to_the_address_that_was_checked(
    serve: Serve, page: MakePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        return ["127.0.0.1"] if len(looked_up) == 1 else ["10.0.0.1"]

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        raise AssertionError(f"{host} was looked up again")

    async def run() -> str:
        async with serve(page("ok", "text/plain")) as server:
            monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
            settings = FetchSettings(allow_private=True, allowed_ports=(server.port,))
            url = server.url(host="rebind.example")
            return (await fetch_page(url, settings, resolve=resolve)).text

    assert asyncio.run(run()) == "ok"
    assert looked_up == ["rebind.example"]


def test_the_next_address_is_tried_where_one_does_not_answer(serve: Serve, page: MakePage) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async def run() -> str:
        async with serve(page("ok", "text/plain")) as server:
            settings = FetchSettings(allow_private=True, allowed_ports=(server.port,))
            url = server.url(host="two.example")
            return (await fetch_page(url, settings, resolve=resolve)).text

    assert asyncio.run(run()) == "ok"


def redirecting(location: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/admin",
        "//127.0.0.1:{port}/admin",
        "http://2130706433:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
    ],
)
def test_a_redirect_inward_is_refused_at_the_second_hop_web_03(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    judged: list[object] = []

    def judge(address: IPv4Address | IPv6Address) -> str:
        judged.append(address)
        return "" if len(judged) == 1 else why_refused(address)

    monkeypatch.setattr(target, "why_refused", judge)

    async def run() -> int:
        async def respond(head: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(redirecting(location.format(port=server.port)))

        async with serve(respond) as server:
            settings = FetchSettings(allowed_ports=(server.port,))
            with pytest.raises(ToolError, match="redirect 1: refused to fetch"):
                await fetch_page(server.url(), settings)
            return len(server.requests)

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "gopher://x/", "http://a:b@127.0.0.1/", "http://[::1"]
)
def test_a_redirect_to_something_else_is_refused_web_03(serve: Serve, location: str) -> None:
    async def run() -> str:
        async with serve(redirecting(location)) as server:
            settings = FetchSettings(allow_private=True, allowed_ports=(server.port,))
            with pytest.raises(ToolError) as caught:
                await fetch_page(server.url(), settings)
            return str(caught.value)

    assert "refused to fetch" in asyncio.run(run())


def test_a_loop_of_redirects_ends_web_03(serve: Serve) -> None:
    async def run() -> tuple[str, int]:
        async with serve(redirecting("/again")) as server:
            settings = FetchSettings(allow_private=True, allowed_ports=(server.port,))
            with pytest.raises(ToolError) as caught:
                await fetch_page(server.url(), settings)
            return str(caught.value), len(server.requests)

    message, requests = asyncio.run(run())
    assert "too many redirects: more than 5" in message
    assert requests == 6


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "93.184.215.14", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert why_refused(ip_address(address)) == ""


@given(address=st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_in_every_form(address: IPv4Address) -> None:
    number = int(address)
    reason = why_refused(address)
    assert why_refused(IPv6Address((0xFFFF << 32) | number)) == reason
    assert why_refused(IPv6Address((0x2002 << 112) | (number << 80))) == reason
    assert why_refused(IPv6Address((0x64FF9B << 96) | number)) == reason


@given(address=st.ip_addresses())
def test_what_python_knows_to_be_special_is_refused(address: IPv4Address | IPv6Address) -> None:
    is_ipv6 = isinstance(address, IPv6Address)
    carries_another = is_ipv6 and (
        int(address) >> 32 in (0xFFFF, 0x64FF9B << 64) or int(address) >> 112 == 0x2002
    )
    if address.is_private or address.is_multicast or address.is_reserved:
        assert why_refused(address) or carries_another
