"""One HTTP client with the one connection that it has, and what becomes of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    import httpx

__all__ = ["Line"]


@attrs.define(eq=False)
class Line:
    """A client that one call uses after the other.

    Attributes:
        client: it has one connection, or none yet.
        origin: the server that it is for: scheme, host and port.
        idle_since: when it was given back, in seconds of the monotonic clock.
    """

    client: httpx.AsyncClient
    origin: str
    idle_since: float = 0.0
    _is_kept: bool = False
    _has_heard: bool = False
    _socket: Any = None
    _stream: Any = None

    @property
    def broke_while_kept(self) -> bool:
        """Whether a request that failed was sent on a kept connection, and nothing came back.

        Then the server had most likely closed it before the request was there.
        """
        return self._is_kept and not self._has_heard

    def use_again(self) -> None:
        """Begin the next call."""
        self._is_kept, self._has_heard = True, False
        if self._stream is not None:
            self._listen(self._stream)

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear from httpcore what it does, as the ``trace`` of a request."""
        if event.endswith("connect_tcp.started"):
            self._is_kept = False
        elif event.endswith("connect_tcp.complete"):
            self._socket = self._stream = info["return_value"]
        elif event.endswith("start_tls.complete"):
            self._stream = info["return_value"]

    async def close(self) -> None:
        """Close the connection. This may be done again."""
        await self.client.aclose()
        # A connection that is cancelled before both sides agree on TLS is not known to the client.
        if self._socket is not None:
            await self._socket.aclose()

    def _listen(self, stream: Any) -> None:
        """See whether a byte comes.

        The errors of httpcore are the same before the first byte and in the midst of a header.
        """
        read = stream.read

        async def read_first(*args: Any, **options: Any) -> bytes:
            data: bytes = await read(*args, **options)
            if data:
                self._has_heard = True
                del stream.read  # uncovers the method of the class
            return data

        stream.read = read_first
