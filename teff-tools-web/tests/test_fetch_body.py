"""Bodies without end, compressed, or not what they say: read within bounds."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ToolError
from teff_tools_web import FetchSettings, make_fetch_url
from teff_tools_web.body import decode_text
from teff_tools_web.fetch import Page, fetch_page

Serve = Callable[..., Any]
MakePage = Callable[..., bytes]


def fetched(serve: Serve, respond: Any, **options: Any) -> Page:
    async def run() -> Page:
        async with serve(respond) as server:
            ports = (server.port,)
            settings = FetchSettings(allow_private=True, allowed_ports=ports, **options)
            return await fetch_page(server.url(), settings)

    return asyncio.run(run())


def peak_of(work: Callable[[], Page]) -> tuple[Page, int]:
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_body_without_end_is_cut_web_06(serve: Serve, page: MakePage) -> None:
    async def respond(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(page(b"", "text/plain"))
        while True:
            writer.write(b"a" * 65536)
            await writer.drain()

    result, peak = peak_of(lambda: fetched(serve, respond))
    assert result.cut == "only its first 2097152 bytes were read"
    assert result.text == "a" * 2097152
    assert peak < 10_000_000 + len(result.text)


def test_a_bomb_does_not_unfold_web_06(serve: Serve, page: MakePage) -> None:
    squeezer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(squeezer.compress(b"a" * 1_000_000) for _ in range(100)) + squeezer.flush()
    answer = page(bomb, "text/plain", "Content-Encoding: gzip")
    result, peak = peak_of(lambda: fetched(serve, answer))
    assert result.cut == "only its first 2097152 bytes were read"
    assert peak < 10_000_000 + len(result.text)


def test_a_body_that_trickles_ends_in_time_and_keeps_what_came_web_06(
    serve: Serve, page: MakePage
) -> None:
    async def respond(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(page(b"", "text/plain"))
        while True:
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.01)

    async def run() -> str:
        async with serve(respond) as server:
            options = {"allow_private": True, "allowed_ports": [server.port], "timeout": 0.3}
            return str(await make_fetch_url(options).call({"url": server.url()}))

    text = asyncio.run(run())
    assert text.startswith("[Incomplete: the rest did not come within 0.3 s.]\n")
    assert text.endswith("a")


def test_a_server_that_never_answers_is_given_up_web_06(serve: Serve) -> None:
    async def respond(head: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    with pytest.raises(ToolError, match=r"took longer than 0\.1 s"):
        fetched(serve, respond, timeout=0.1)


def test_a_length_that_lies_is_said_web_06(serve: Serve, page: MakePage) -> None:
    result = fetched(serve, page("short", "text/plain", "Content-Length: 5000"))
    assert result.text == "short"
    assert result.cut == "the server broke off before its end"


def test_a_body_that_just_fits_is_whole(serve: Serve, page: MakePage) -> None:
    assert fetched(serve, page("12345", "text/plain"), max_bytes=5).cut == ""
    assert fetched(serve, page("123456", "text/plain"), max_bytes=5).text == "12345"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(b"hello")),
        ("GZIP", gzip.compress(b"hel") + gzip.compress(b"lo")),
        ("gzip", gzip.compress(b"hello") + b"\0" * 8),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello")[2:-4]),
        ("identity", b"hello"),
    ],
    ids=["gzip", "two-parts", "padded", "zlib", "raw-deflate", "identity"],
)
def test_compressed_pages_are_read(
    serve: Serve, page: MakePage, encoding: str, body: bytes
) -> None:
    answer = page(body, "text/plain", f"Content-Encoding: {encoding}")
    assert fetched(serve, answer).text == "hello"


def test_a_compressed_page_that_comes_byte_by_byte_is_read(serve: Serve, page: MakePage) -> None:
    async def respond(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(page(b"", "text/plain", "Content-Encoding: gzip"))
        for byte in gzip.compress(b"hel") + gzip.compress(b"lo"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    assert fetched(serve, respond).text == "hello"


def test_broken_or_unknown_compression_is_an_error(serve: Serve, page: MakePage) -> None:
    with pytest.raises(ToolError, match="its data is broken"):
        fetched(serve, page(b"no gzip at all", "text/plain", "Content-Encoding: gzip"))
    with pytest.raises(ToolError, match="compressed as 'br'"):
        fetched(serve, page(b"\x0b\x02\x80", "text/plain", "Content-Encoding: br"))


@pytest.mark.parametrize("name", ["punycode", "unicode_escape", "zip", "hex", "rot13", "", "\0"])
def test_codecs_that_are_no_charsets_are_not_used(name: str) -> None:
    assert decode_text("žāvēts".encode(), name) == "žāvēts"


@given(data=st.binary(max_size=200), charset=st.sampled_from(["", "utf-8", "utf-16", "latin-1"]))
def test_any_bytes_become_text_that_can_be_sent(data: bytes, charset: str) -> None:
    text = decode_text(data, charset)
    assert text.encode().decode() == text
