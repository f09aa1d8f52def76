"""Which way a call takes: proxies of the environment, redirects, and whom it trusts."""

from __future__ import annotations

import asyncio
import gc
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from teff.errors import ConfigError, ProviderError
from teff.provider.http import HttpClient
from teff.provider.pool import is_loopback, proxy_for
from teff.testing.server import ReplayServer, json_answer

CANARY = "sk-canary-0123456789"
KEY = {"Authorization": f"Bearer {CANARY}"}
PEM = Path(__file__).parent / "data" / "loopback.pem"
VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [*VARIABLES, "SSL_CERT_FILE", "SSL_CERT_DIR"]:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)


def run(test: Callable[[HttpClient], Awaitable[None]], **options: Any) -> None:
    """Run ``test`` with a client, and close it."""

    async def main() -> None:
        client = HttpClient("p", hint="Start it.", **options)
        try:
            await test(client)
        finally:
            await client.aclose()

    asyncio.run(main())


async def post(client: HttpClient, url: str, **options: Any) -> dict[str, Any]:
    return await client.post_json(url, {}, **{"timeout": 5.0, "model": "m", **options})


# --- Loopback addresses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost",
        "localhost.",
        "localhost.localdomain",
        "ip6-localhost",
        "api.localhost",
        "127.0.0.1",
        "127.0.0.1.",
        "127.8.9.10",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
    ],
)
def test_every_way_to_write_a_loopback_address_is_known(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://proxy.example:3128")
    assert is_loopback(f"http://{host}/v1")
    assert is_loopback(f"https://me:secret@{host}:8443/v1?x=1")
    assert proxy_for(f"http://{host}:11434") is None


@pytest.mark.parametrize(
    "host",
    ["example.com", "localhost.example.com", "notlocalhost", "10.0.0.1", "128.0.0.1", "[fe80::1]",
     "127.example.com", "localhost@example.com", ""],
)  # fmt: skip
def test_other_addresses_are_none(host: str) -> None:
    assert not is_loopback(f"http://{host}/v1")


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:1", "socks5://127.0.0.1:1", "nonsense"])
def test_proxies_of_the_environment_are_not_used_for_loopback(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, proxy)

    async def test(client: HttpClient) -> None:
        async with ReplayServer(json_answer({"ok": True})) as server:
            for host in ("127.0.0.1", "localhost", "127.1", "[::ffff:127.0.0.1]"):
                assert await post(client, server.url.replace("127.0.0.1", host)) == {"ok": True}

    run(test)


def test_a_socks_proxy_in_the_environment_does_not_break_the_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    code = (
        "from teff.provider.http import HttpClient; from teff.provider import ProviderRegistry; "
        "HttpClient('p'); ProviderRegistry()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- Proxies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_other_addresses_are_asked_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    async def test(client: HttpClient) -> None:
        async with ReplayServer(json_answer({"ok": True})) as proxy:
            monkeypatch.setenv(variable, proxy.url)
            assert await post(client, "http://api.teff.test/v1/x") == {"ok": True}
            assert proxy.requests[0].path == "http://api.teff.test/v1/x"

    run(test)


@pytest.mark.parametrize("hosts", ["*", "teff.test", ".teff.test", "other.test, api.teff.test"])
def test_no_proxy_names_what_is_asked_directly(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    monkeypatch.setenv("HTTP_PROXY", "proxy.example:3128")
    assert proxy_for("http://api.teff.test/v1/x") == "http://proxy.example:3128"
    monkeypatch.setenv("NO_PROXY", hosts)
    assert proxy_for("http://api.teff.test/v1/x") is None


def test_what_no_proxy_names_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teff.provider.pool.is_loopback", lambda url: False)

    async def test(client: HttpClient) -> None:
        async with ReplayServer(json_answer({})) as server, ReplayServer(json_answer({})) as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            await post(client, server.url)
            assert (len(server.requests), len(proxy.requests)) == (0, 1)
            await client.aclose()  # the environment is read when a client is made
            monkeypatch.setenv("NO_PROXY", "127.0.0.1")
            await post(client, server.url)
            assert (len(server.requests), len(proxy.requests)) == (1, 1)

    run(test)


def test_a_proxy_that_is_not_there_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{CANARY}@127.0.0.1:1")

    async def test(client: HttpClient) -> None:
        with pytest.raises(ProviderError) as info:
            await post(client, "https://api.teff.test/v1/x")
        assert "at https://api.teff.test/v1/x through the proxy http://127.0.0.1:1: " in str(
            info.value
        )
        assert "look at HTTPS_PROXY, ALL_PROXY and NO_PROXY" in str(info.value)
        assert CANARY not in str(info.value)
        assert not info.value.permanent

    run(test)


@pytest.mark.parametrize(("status", "lasts"), [(407, True), (502, False)])
def test_a_proxy_that_refuses_is_named(
    monkeypatch: pytest.MonkeyPatch, status: int, lasts: bool
) -> None:
    async def test(client: HttpClient) -> None:
        async with ReplayServer(json_answer({}, status=status)) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url)
            with pytest.raises(
                ProviderError, match=f"through the proxy {proxy.url}: {status}"
            ) as i:
                await post(client, "https://api.teff.test/v1/x", headers=KEY)
            assert i.value.permanent is lasts
            # What is sent to a proxy in the clear holds no key.
            assert CANARY not in str(proxy.requests)

    run(test)


@pytest.mark.parametrize("variable", ["ALL_PROXY", "SSL_CERT_FILE"])
def test_an_unusable_environment_is_named(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "nonsense://x")

    async def test(client: HttpClient) -> None:
        with pytest.raises(ConfigError, match=variable):
            await post(client, "https://example.invalid/")

    run(test)


# --- Redirects -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["post", "get", "stream"])
def test_a_redirect_takes_the_key_to_no_other_host(status: int, method: str) -> None:
    async def ask(client: HttpClient, url: str) -> None:
        if method == "stream":
            async with client.stream(url, {}, headers=KEY, timeout=5.0):
                pass
        elif method == "get":
            await client.get_json(url, headers=KEY, timeout=5.0)
        else:
            await post(client, url, headers=KEY)

    async def test(client: HttpClient) -> None:
        async with ReplayServer(json_answer({})) as other:
            moved = json_answer({}, status=status, headers={"Location": f"{other.url}/v2"})
            async with ReplayServer(moved) as server:
                with pytest.raises(ProviderError, match=f"redirects to {other.url}/v2") as info:
                    await ask(client, server.url)
                assert (info.value.status, info.value.permanent) == (status, True)
                assert len(server.requests) == 1
            assert other.connections == 0

    run(test)


# --- Whom a call trusts --------------------------------------------------------------------------


@asynccontextmanager
async def secure_server() -> AsyncIterator[int]:
    """Serve an empty object over TLS, with a certificate that nobody knows; yield the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def tunnel(port: int) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a proxy that connects everybody with ``port``; yield its address and what it was asked."""
    asked: list[bytes] = []
    serving: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.get_running_loop().create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
        await asyncio.gather(*serving)


def test_a_server_that_nobody_vouches_for_is_not_asked() -> None:
    async def test(client: HttpClient) -> None:
        async with secure_server() as port:
            with pytest.raises(ProviderError, match="CERTIFICATE_VERIFY_FAILED.*ca_file") as info:
                await post(client, f"https://127.0.0.1:{port}/", headers=KEY)
            assert info.value.permanent

    run(test)


def test_an_authority_of_ones_own_is_trusted_beside_the_others() -> None:
    async def test(client: HttpClient) -> None:
        async with secure_server() as port:
            assert await post(client, f"https://127.0.0.1:{port}/", headers=KEY) == {}
            assert await post(client, f"https://localhost:{port}/", headers=KEY) == {}

    run(test, ca_file=str(PEM))


def test_the_environment_may_name_the_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))

    async def test(client: HttpClient) -> None:
        async with secure_server() as port:
            assert await post(client, f"https://127.0.0.1:{port}/") == {}

    run(test)


def test_a_proxy_sees_neither_key_nor_request_of_a_secure_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(client: HttpClient) -> None:
        async with secure_server() as port, tunnel(port) as (proxy, asked):
            monkeypatch.setenv("HTTPS_PROXY", proxy)
            assert await post(client, "https://api.teff.test/v1/x", headers=KEY) == {}
            assert asked[0].startswith(b"CONNECT api.teff.test:443 ")
            assert CANARY.encode() not in b"".join(asked)
            await client.aclose()

    run(test, ca_file=str(PEM))


@pytest.mark.parametrize("what", ["missing", "folder", "no certificate"])
def test_a_ca_file_that_cannot_be_used_is_named_at_once(tmp_path: Path, what: str) -> None:
    path = tmp_path / "ca.pem"
    if what == "folder":
        path.mkdir()
    elif what == "no certificate":
        path.write_text("hello")
    with pytest.raises(ConfigError, match=r"'p': ca_file '.*ca\.pem' cannot be used: .*PEM"):
        HttpClient("p", ca_file=str(path))


def test_a_server_that_is_slow_to_agree_on_tls_can_be_left() -> None:
    async def test(client: HttpClient) -> None:
        async with ReplayServer(json_answer({})) as server:
            url = server.url.replace("http:", "https:")  # it waits for a request, and TLS for it
            with pytest.raises(ProviderError, match="did not answer within"):
                await post(client, url, timeout=0.05)
            call = asyncio.ensure_future(post(client, url))
            await asyncio.sleep(0.02)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            gc.collect()
            await server.all_closed()

    run(test)
