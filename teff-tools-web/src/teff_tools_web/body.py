"""Reading a response within bounds: by bytes after decompression, and as the right text."""

from __future__ import annotations

import codecs
import re
import zlib
from typing import TYPE_CHECKING, Any

import attrs

from teff.errors import ToolError

if TYPE_CHECKING:
    import httpx

__all__ = ["Body", "decode_text", "is_binary", "is_readable"]

_READABLE = re.compile(r"text/.+|application/(xhtml\+xml|json|xml|.+\+json|.+\+xml)")
_META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s{0,10}=\s{0,10}[\"']?([a-z0-9_.:-]{1,40})", re.I
)
_XML_ENCODING = re.compile(
    rb"^\s{0,10}<\?xml[^>]{0,200}?encoding\s{0,10}=\s{0,10}[\"']([a-z0-9_.:-]{1,40})", re.I
)
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
#: Codecs of Python that are no charset of a page.
_NO_CHARSETS = ("idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7")


def is_readable(content_type: str) -> bool:
    """Say whether a media type is that of text, HTML, XML or JSON; an unknown one ("") may be."""
    return not content_type or _READABLE.fullmatch(content_type) is not None


def is_binary(data: bytes, charset: str = "") -> bool:
    """Say whether what calls itself text is none: it has zero bytes, and is no UTF-16 or UTF-32."""
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    is_wide = is_wide or charset.lower().startswith(("utf-16", "utf-32"))
    return b"\0" in data[:1024] and not is_wide


@attrs.define
class Body:
    """What was read of a response so far.

    Attributes:
        data: the bytes, decompressed.
        cut: why there is not more, as the end of a sentence; "" where it is whole.
    """

    data: bytearray = attrs.field(factory=bytearray)
    cut: str = ""

    async def read(self, response: httpx.Response, max_bytes: int) -> None:
        """Read a response up to ``max_bytes``; what was read stays where the reading fails.

        Raises:
            ToolError: the response is compressed in a way that was not asked for.
            httpx.HTTPError: the connection broke.
        """
        decompress = _decompressor(response.headers.get("content-encoding", ""))
        async for chunk in response.aiter_raw():
            # One byte more than is kept, to know whether there is more.
            room = max_bytes + 1 - len(self.data)
            self.data += decompress.decompress(chunk, room) if decompress else chunk[:room]
            if len(self.data) > max_bytes:
                del self.data[max_bytes:]
                self.cut = f"only its first {max_bytes} bytes were read"
                return


class _Inflater:
    """Decompresses gzip or deflate, never more than is asked for: a small body can hold gigabytes."""

    def __init__(self, window_bits: int) -> None:
        self._window_bits = window_bits
        self._stream: Any = zlib.decompressobj(window_bits)
        self._has_begun = False
        self._is_whole = False

    def decompress(self, chunk: bytes, room: int) -> bytes:
        out = bytearray()
        while chunk and len(out) < room:
            try:
                out += self._stream.decompress(chunk, room - len(out))
            except zlib.error as error:
                if self._is_whole:  # what follows the data is padding
                    break
                if self._has_begun or self._window_bits != zlib.MAX_WBITS:
                    raise ToolError("the page is compressed, and its data is broken") from error
                self._begin(-zlib.MAX_WBITS)  # some servers mean the bare format by "deflate"
                self._has_begun = True
                continue
            self._has_begun = True
            chunk = self._stream.unconsumed_tail or self._stream.unused_data
            if self._stream.eof:
                self._is_whole = True
                self._begin(self._window_bits)  # gzip files may follow one another
        return bytes(out)

    def _begin(self, window_bits: int) -> None:
        self._window_bits = window_bits
        self._stream = zlib.decompressobj(window_bits)


def _decompressor(encoding: str) -> _Inflater | None:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip"):
        return _Inflater(16 + zlib.MAX_WBITS)
    if encoding == "deflate":
        return _Inflater(zlib.MAX_WBITS)
    raise ToolError(f"the page is compressed as {encoding[:40]!r}, which was not asked for")


def decode_text(data: bytes, charset: str = "") -> str:
    r"""Return the text of a page; bytes that do not fit become U+FFFD.

    A byte order mark says the charset; else ``charset``, from the header; else the page itself, in
    a ``meta`` tag or an XML declaration; else it is UTF-8. ISO-8859-1 is read as Windows-1252.
    Source: https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding.

    >>> decode_text(b"caf\xe9", "latin-1")
    'café'
    """
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data.decode(name, "replace")
    head = data[:2048]
    declared = _META_CHARSET.search(head) or _XML_ENCODING.search(head)
    for name in (charset, declared[1].decode() if declared else ""):
        codec = _codec(name)
        if codec:
            return data.decode(codec, "replace")
    return data.decode("utf-8", "replace")


def _codec(name: str) -> str:
    """Return the codec of a charset's name, or "" where it is none."""
    try:
        codec = codecs.lookup(name).name.replace("-", "_")
        b"a".decode(codec)  # refuses codecs that are none of text, such as zip
    except (LookupError, ValueError):
        return ""
    if codec in ("iso8859_1", "ascii"):
        return "cp1252"
    return "" if codec in _NO_CHARSETS else codec
