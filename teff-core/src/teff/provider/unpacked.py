"""The bytes of a reply, unpacked in small pieces where a server has packed them.

Clients ask for replies as they are. Some servers pack them all the same, and a few bytes may unpack to
so many that they fill the memory, and keep everybody else waiting while they do.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

__all__ = ["MAX_UNPACKED_BYTES", "reply_bytes"]

#: A packed reply may unpack to so many bytes.
MAX_UNPACKED_BYTES = 32 * 1024 * 1024

_PIECE_BYTES = 64 * 1024

#: Of zlib: what begins like gzip is gzip, and what begins like zlib is zlib.
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def reply_bytes(response: httpx.Response) -> AsyncIterator[bytes]:
    """Return the bytes of a reply that has not been read.

    Raises:
        httpx.DecodingError: while it is read: it is packed in a way that nobody asked for, is broken,
            or unpacks to more than `MAX_UNPACKED_BYTES`.
    """
    packing: str = response.headers.get("content-encoding", "").strip().lower()
    if packing in ("", "identity"):
        return response.aiter_raw()
    return _unpacked(response, packing)


async def _unpacked(response: httpx.Response, packing: str) -> AsyncGenerator[bytes, None]:
    import httpx

    if packing not in ("gzip", "x-gzip", "deflate"):
        raise httpx.DecodingError("it is packed in a way that was not asked for")
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    total = 0
    problem = ""
    async for chunk in response.aiter_raw():
        is_all = False
        while not (is_all or stream.eof):
            try:
                piece = stream.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                problem = str(error)
                break
            chunk = stream.unconsumed_tail
            is_all = not chunk and len(piece) < _PIECE_BYTES
            total += len(piece)
            if total > MAX_UNPACKED_BYTES:
                problem = f"it has more than {MAX_UNPACKED_BYTES:,} bytes"
                break
            if piece:
                yield piece
                await asyncio.sleep(0)
        if problem:
            raise httpx.DecodingError(problem)
