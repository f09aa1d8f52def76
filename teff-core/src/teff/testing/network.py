"""`forbid_network`: a test that reaches for the network fails, and says what it reached for."""

from __future__ import annotations

import asyncio.proactor_events
import inspect
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import attrs

from teff.provider.pool import is_loopback_host

__all__ = ["NetworkForbidden", "forbid_network"]


class NetworkForbidden(AssertionError):
    """Something reached for the network inside `forbid_network`.

    Attributes:
        host: the name or address.
        port: the port, or None where only the name was looked up.
    """

    def __init__(self, host: str, port: int | str | None) -> None:
        super().__init__(host, port)
        self.host = host
        self.port = port

    def __str__(self) -> str:
        return (
            f"this test reached for {_place(self.host, self.port)}, and the network is forbidden "
            "here. Let a script or a recording answer: teff.testing.ScriptedProvider, "
            "teff.testing.server."
        )


@contextmanager
def forbid_network(*, loopback: bool = True) -> Iterator[list[str]]:
    """Let every attempt to reach another machine raise `NetworkForbidden`.

    Connecting, sending datagrams and looking up names count. It holds for the whole process, in
    every thread, until the end of the block; blocks may lie within each other or overlap, and then
    the strictest counts. Servers may listen, and Unix sockets and socket pairs, which event loops
    need, are let alone.

    It watches Python's sockets. Connections that are open already, other processes, and libraries
    that open sockets in C (uvloop) go unseen.

    Args:
        loopback: whether this machine's own addresses (127.0.0.1, ::1, localhost) stay allowed.

    Yields:
        The attempts so far as ``host:port``, also those whose error somebody caught.

    ::

        @pytest.fixture(autouse=True)
        def no_network():
            with forbid_network():
                yield

    >>> with forbid_network() as attempts:
    ...     socket.create_connection(("192.0.2.1", 443))
    Traceback (most recent call last):
    teff.testing.network.NetworkForbidden: this test reached for 192.0.2.1:443, and ...
    >>> attempts
    ['192.0.2.1:443']
    """
    guard = _Guard(loopback=loopback)
    with _lock:
        if not _guards:
            _install()
        _guards.append(guard)
    try:
        yield guard.attempts
    finally:
        with _lock:
            _guards.remove(guard)
            if not _guards:
                _uninstall()


@attrs.define(eq=False)
class _Guard:
    loopback: bool
    attempts: list[str] = attrs.field(factory=list)


_lock = threading.Lock()
_guards: list[_Guard] = []
_exempt = threading.local()

#: What was replaced: the owner, the name, what stood there itself (None where it was inherited) and
#: what stands there now.
_replaced: list[tuple[Any, str, Any, Any]] = []

_LOCAL_FAMILIES = {
    getattr(socket, name)
    for name in ("AF_UNIX", "AF_NETLINK", "AF_ALG", "AF_ROUTE", "AF_SYSTEM")
    if hasattr(socket, name)
}


def _check(host: object, port: object, *, listens: bool = False) -> None:
    """Raise where a block that is open now forbids to reach ``host``."""
    guards = tuple(_guards)
    if not guards or getattr(_exempt, "on", False):
        return
    name = host.decode("ascii", "replace") if isinstance(host, bytes | bytearray) else str(host)
    local = host is None or not name or is_loopback_host(name)
    if local and (listens or all(guard.loopback for guard in guards)):
        return
    shown_port = port if isinstance(port, int | str) else None
    name = "localhost" if host is None or not name else name
    for guard in guards:
        guard.attempts.append(_place(name, shown_port))
    raise NetworkForbidden(name, shown_port)


def _place(host: str, port: int | str | None) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def _check_address(sock: socket.socket, address: Any) -> None:
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        # What is no address is left to the socket, which says what is wrong with it.
        if isinstance(address, tuple) and len(address) >= 2:
            _check(address[0], address[1])
    elif sock.family not in _LOCAL_FAMILIES:
        _check(f"{getattr(sock.family, 'name', sock.family)} {address!r}", None)


def _install() -> None:
    for name, place in (("connect", 0), ("connect_ex", 0), ("sendto", -1), ("sendmsg", 3)):
        if hasattr(socket.socket, name):
            _replace(socket.socket, name, _socket_method(getattr(socket.socket, name), place))
    _replace(socket, "getaddrinfo", _look_up(socket.getaddrinfo))
    for name in ("gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
        _replace(socket, name, _look_up(getattr(socket, name)))
    _replace(socket, "socketpair", _exempted(socket.socketpair))
    # This loop, that of Windows, connects without the methods of the socket.
    proactor: Any = asyncio.proactor_events.BaseProactorEventLoop
    for name in ("sock_connect", "sock_sendto"):
        _replace(proactor, name, _loop_method(getattr(proactor, name)))
    # What these try at the same time fails as a group of errors, or as an error of another kind.
    loop: Any = asyncio.BaseEventLoop
    _replace(loop, "create_connection", _connector(loop.create_connection, "host", "port"))
    if find_spec("anyio") is not None:
        anyio: Any = import_module("anyio")
        names = ("remote_host", "remote_port")
        _replace(anyio, "connect_tcp", _connector(anyio.connect_tcp, *names))


def _replace(owner: Any, name: str, replacement: Any) -> None:
    _replaced.append((owner, name, vars(owner).get(name), replacement))
    setattr(owner, name, replacement)


def _uninstall() -> None:
    while _replaced:
        owner, name, original, replacement = _replaced.pop()
        # Who has replaced it once more since keeps it; ours lets everything pass from now on.
        if vars(owner).get(name) is replacement:
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


def _socket_method(original: Callable[..., Any], place: int) -> Callable[..., Any]:
    """Return a method of sockets that looks at its address, which is the argument at ``place``."""

    @wraps(original)
    def guarded(sock: socket.socket, *arguments: Any) -> Any:
        if -len(arguments) <= place < len(arguments) and arguments[place] is not None:
            _check_address(sock, arguments[place])
        return original(sock, *arguments)

    return guarded


def _loop_method(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function of an event loop that looks at its last argument, the address."""

    @wraps(original)
    async def guarded(loop: Any, sock: socket.socket, *arguments: Any) -> Any:
        if arguments:
            _check_address(sock, arguments[-1])
        return await original(loop, sock, *arguments)

    return guarded


def _connector(original: Callable[..., Any], host: str, port: str) -> Callable[..., Any]:
    """Return a coroutine function that looks at its arguments of these names."""
    signature = inspect.signature(original)

    @wraps(original)
    async def guarded(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options).arguments
        if given.get(host) is not None and not _is_own_name(given[host]):
            _check(given[host], given.get(port))
        return await original(*arguments, **options)

    return guarded


def _look_up(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that looks up a name, but only one of this machine."""

    @wraps(original)
    def guarded(host: Any, *arguments: Any, **options: Any) -> Any:
        port = options.get("port", arguments[0] if arguments else None)
        flags = options.get("flags", arguments[4] if len(arguments) > 4 else 0)
        if not _is_own_name(host):
            _check(host, port, listens=bool(flags & socket.AI_PASSIVE))
        return original(host, *arguments, **options)

    return guarded


def _is_own_name(host: object) -> bool:
    return isinstance(host, str) and host == socket.gethostname()


def _exempted(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that may connect: where there are no Unix sockets, pairs are made so."""

    @wraps(original)
    def guarded(*arguments: Any, **options: Any) -> Any:
        _exempt.on = True
        try:
            return original(*arguments, **options)
        finally:
            _exempt.on = False

    return guarded
