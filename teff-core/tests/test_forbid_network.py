"""`forbid_network`: who reaches for the network fails and is told what for; then all is as before."""

from __future__ import annotations

import asyncio
import asyncio.proactor_events
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import teff.testing
from teff.testing import NetworkForbidden, forbid_network
from teff.testing.server import json_answer, run_with_server

#: An address that is nobody's (RFC 5737): were it let through, the attempt would fail otherwise.
NOWHERE = "192.0.2.1"


def with_socket(kind: int, use: Callable[[socket.socket], Any]) -> Callable[[], Any]:
    def attempt() -> Any:
        with socket.socket(socket.AF_INET, kind) as sock:
            sock.setblocking(False)
            return use(sock)

    return attempt


def in_loop(use: Callable[[asyncio.AbstractEventLoop], Any]) -> Callable[[], Any]:
    async def main() -> Any:
        return await use(asyncio.get_running_loop())

    return lambda: asyncio.run(main())


async def sock_connect(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, (NOWHERE, 443))


def datagrams(loop: asyncio.AbstractEventLoop) -> Any:
    return loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=(NOWHERE, 443))


ATTEMPTS = {
    "connect": with_socket(socket.SOCK_STREAM, lambda s: s.connect((NOWHERE, 443))),
    "connect_ex": with_socket(socket.SOCK_STREAM, lambda s: s.connect_ex((NOWHERE, 443))),
    "create_connection": lambda: socket.create_connection((NOWHERE, 443), timeout=0.2),
    "sendto": with_socket(socket.SOCK_DGRAM, lambda s: s.sendto(b"x", (NOWHERE, 443))),
    "sendto with flags": with_socket(
        socket.SOCK_DGRAM, lambda s: s.sendto(b"x", 0, (NOWHERE, 443))
    ),
    "sendmsg": with_socket(socket.SOCK_DGRAM, lambda s: s.sendmsg([b"x"], [], 0, (NOWHERE, 443))),
    "getaddrinfo": lambda: socket.getaddrinfo(NOWHERE, 443),
    "open_connection": in_loop(lambda loop: asyncio.open_connection(NOWHERE, 443)),
    "happy eyeballs": in_loop(
        lambda loop: asyncio.open_connection(NOWHERE, 443, happy_eyeballs_delay=0.1)
    ),
    "sock_connect": in_loop(sock_connect),
    "datagram endpoint": in_loop(datagrams),
    "loop.getaddrinfo": in_loop(lambda loop: loop.getaddrinfo(NOWHERE, 443)),
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_every_way_out_is_closed_and_named(attempt: Callable[[], Any]) -> None:
    with forbid_network() as attempts, pytest.raises(NetworkForbidden) as raised:
        attempt()
    assert (raised.value.host, raised.value.port) == (NOWHERE, 443)
    assert "reached for 192.0.2.1:443" in str(raised.value)
    assert attempts == ["192.0.2.1:443"]


@pytest.mark.parametrize(
    "look_up", [socket.gethostbyname, socket.gethostbyname_ex, socket.gethostbyaddr]
)
def test_names_are_not_looked_up(look_up: Callable[[str], Any]) -> None:
    name = look_up.__name__
    with forbid_network(), pytest.raises(NetworkForbidden) as raised:
        getattr(socket, name)("api.example.com")
    assert (raised.value.host, raised.value.port) == ("api.example.com", None)


def test_a_name_is_told_with_its_port_before_it_is_looked_up() -> None:
    with forbid_network(), pytest.raises(NetworkForbidden, match=r"api\.example\.com:443"):
        asyncio.run(asyncio.wait_for(asyncio.open_connection("api.example.com", 443), 5))


def test_ipv6_addresses_are_told_in_brackets() -> None:
    with forbid_network(), pytest.raises(NetworkForbidden, match=r"\[2001:db8::1\]:80"):
        socket.getaddrinfo("2001:db8::1", 80)


@pytest.mark.parametrize("url", ["http://192.0.2.1/", "https://api.example.com/"])
def test_httpx_fails_with_the_plain_error(url: str) -> None:
    httpx = pytest.importorskip("httpx")

    async def get() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get(url)

    with forbid_network(), pytest.raises(NetworkForbidden):
        asyncio.run(get())
    with forbid_network(), httpx.Client(trust_env=False) as client, pytest.raises(NetworkForbidden):
        client.get(url)


def test_it_is_a_failure_of_the_test() -> None:
    assert issubclass(NetworkForbidden, AssertionError)


# What stays allowed.


async def fetch(server: Any) -> bytes:
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection("localhost" if host == "::1" else host, port)
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return await reader.readline()
    finally:
        writer.close()
        await writer.wait_closed()


def test_loopback_servers_can_be_started_and_reached() -> None:
    with forbid_network() as attempts:
        assert run_with_server(fetch, json_answer({})).startswith(b"HTTP/1.1 200")
    assert attempts == []


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "127.1",
        "127.9.9.9",
        "::1",
        "app.localhost",
        "LOCALHOST.",
        "",
        b"::1",
    ],
)
def test_names_of_loopback_are_allowed(host: Any) -> None:
    with forbid_network(), socket.socket(socket.AF_INET6 if ":" in str(host) else socket.AF_INET):
        teff.testing.network._check(host, 80)


def test_the_name_of_this_machine_may_be_looked_up() -> None:
    # A machine need not know itself.
    with forbid_network() as attempts, suppress(socket.gaierror):
        socket.getaddrinfo(socket.gethostname(), None)
    assert attempts == []


def test_loopback_can_be_forbidden_too() -> None:
    with forbid_network(loopback=False):
        for host in ("127.0.0.1", "localhost", "0.0.0.0"):
            with pytest.raises(NetworkForbidden, match=f"{host}:9"):
                socket.create_connection((host, 9))


def test_without_loopback_a_server_may_listen_but_not_be_reached() -> None:
    with forbid_network(loopback=False), pytest.raises(NetworkForbidden, match=r"127\.0\.0\.1"):
        run_with_server(fetch, json_answer({}))


def test_event_loops_unix_sockets_and_pairs_work_without_loopback(tmp_path: Any) -> None:
    async def talk() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"hello\n")
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_unix_server(answer, "s")
        reader, writer = await asyncio.open_unix_connection("s")
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        server.close()
        return line

    with pytest.MonkeyPatch.context() as patch, forbid_network(loopback=False):
        patch.chdir(tmp_path)  # the path of a Unix socket must be short
        assert asyncio.run(talk()) == b"hello\n"
        left, right = socket.socketpair()
        left.send(b"x")
        assert right.recv(1) == b"x"
        left.close()
        right.close()


def test_a_socket_pair_may_be_made_of_loopback_connections(monkeypatch: Any) -> None:
    def of_connections() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()).close()

    monkeypatch.setattr(socket, "socketpair", of_connections)
    with forbid_network(loopback=False):
        socket.socketpair()
        with pytest.raises(NetworkForbidden):
            of_connections()


def test_wrong_addresses_are_left_to_the_socket() -> None:
    with forbid_network(), socket.socket() as sock:
        with pytest.raises(TypeError):
            sock.connect("192.0.2.1")  # type: ignore[arg-type, unused-ignore]
        with pytest.raises(TypeError):
            sock.connect()  # type: ignore[call-arg]


def test_the_event_loop_of_windows_is_watched_too() -> None:
    proactor: Any = asyncio.proactor_events.BaseProactorEventLoop
    with forbid_network(), socket.socket() as sock:
        for call in (
            proactor.sock_connect(None, sock, (NOWHERE, 443)),
            proactor.sock_sendto(None, sock, b"x", (NOWHERE, 443)),
        ):
            with pytest.raises(NetworkForbidden):
                asyncio.run(call)


# Where and how long it holds.


def whats_there() -> list[object]:
    names = ("connect", "connect_ex", "sendto", "sendmsg")
    functions = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "socketpair")
    return [
        *(vars(socket.socket).get(name) for name in names),
        *(getattr(socket, name) for name in functions),
        asyncio.BaseEventLoop.create_connection,
    ]


@pytest.fixture
def untouched() -> Iterator[None]:
    before = whats_there()
    yield
    assert whats_there() == before


@pytest.mark.usefixtures("untouched")
def test_everything_is_put_back_even_after_an_error() -> None:
    with pytest.raises(KeyError), forbid_network():
        raise KeyError


@pytest.mark.usefixtures("untouched")
def test_blocks_nest_and_the_strictest_counts() -> None:
    def reach() -> None:
        teff.testing.network._check("127.0.0.1", 80)

    with forbid_network() as outer:
        reach()
        with forbid_network(loopback=False) as inner, pytest.raises(NetworkForbidden):
            reach()
        reach()
        with pytest.raises(NetworkForbidden):
            socket.create_connection((NOWHERE, 1))
    assert inner == ["127.0.0.1:80"]
    assert outer == ["127.0.0.1:80", "192.0.2.1:1"]
    reach()


@pytest.mark.usefixtures("untouched")
def test_blocks_may_overlap_in_any_order() -> None:
    first, second = forbid_network(), forbid_network()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    with pytest.raises(NetworkForbidden):
        socket.create_connection((NOWHERE, 1))
    second.__exit__(None, None, None)


@pytest.mark.usefixtures("untouched")
def test_it_holds_in_every_thread_and_tells_what_was_caught_there() -> None:
    caught: list[BaseException] = []

    def reach() -> None:
        try:
            socket.create_connection((NOWHERE, 1))
        except AssertionError as error:
            caught.append(error)

    with forbid_network() as attempts:
        threads = [threading.Thread(target=reach) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [type(error) for error in caught] == [NetworkForbidden] * 8
    assert attempts == ["192.0.2.1:1"] * 8


@pytest.mark.usefixtures("untouched")
def test_many_threads_may_open_and_close_blocks() -> None:
    def open_and_close() -> None:
        for _ in range(20):
            with forbid_network(), pytest.raises(NetworkForbidden):
                socket.getaddrinfo(NOWHERE, 1)

    threads = [threading.Thread(target=open_and_close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_what_somebody_else_replaced_meanwhile_stays_theirs() -> None:
    original = socket.getaddrinfo
    with forbid_network():
        ours = socket.getaddrinfo

        def theirs(*arguments: Any, **options: Any) -> Any:
            return ours(*arguments, **options)

        socket.getaddrinfo = theirs
    try:
        assert socket.getaddrinfo is theirs
        assert socket.getaddrinfo(NOWHERE, 1)
    finally:
        socket.getaddrinfo = original


@forbid_network()
def test_it_decorates_a_test() -> None:
    with pytest.raises(NetworkForbidden):
        socket.create_connection((NOWHERE, 1))


@pytest.fixture
def no_network() -> Iterator[list[str]]:
    with forbid_network() as attempts:
        yield attempts


def test_it_is_the_body_of_a_fixture(no_network: list[str]) -> None:
    with pytest.raises(NetworkForbidden):
        socket.create_connection((NOWHERE, 1))
    assert no_network == ["192.0.2.1:1"]
