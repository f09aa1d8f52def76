r"""Read event streams from bytes, however the network has cut them.

Pure and incremental: a parser is fed bytes and gives back what has become whole. `SseParser` reads
server-sent events by the rules of https://html.spec.whatwg.org/multipage/server-sent-events.html,
`NdjsonParser` reads one JSON text a line. Both share `LineSplitter`, which ends a line at CR, LF or
CRLF and nowhere else: other "line separators" of Unicode are legal inside JSON texts.

>>> parser = SseParser()
>>> parser.feed(b"data: one\n\nda"), parser.feed(b"ta: two\r\n\r\n")
([SseEvent(data='one', event='message')], [SseEvent(data='two', event='message')])
"""

from __future__ import annotations

import json

import attrs

__all__ = ["MAX_EVENT_BYTES", "LineSplitter", "NdjsonParser", "SseEvent", "SseParser"]

#: One line, and all the lines of one event, may be this long. Nobody's answer is; an endless line
#: would fill the memory.
MAX_EVENT_BYTES = 16 * 1024 * 1024

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineSplitter:
    r"""Cut bytes into lines at CR, LF and CRLF, across the borders of what it is fed.

    >>> lines = LineSplitter()
    >>> lines.feed(b"a\r"), lines.feed(b"\nb\n\nc"), lines.close()
    ([b'a'], [b'b', b''], b'c')
    """

    def __init__(self, *, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._unfinished: list[bytes] = []
        self._unfinished_bytes = 0
        self._last_was_carriage_return = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take in ``data``; return the lines that it ends, without their line ends.

        Raises:
            ValueError: a line is longer than ``max_bytes``.
        """
        if self._last_was_carriage_return and data:
            self._last_was_carriage_return = False
            data = data.removeprefix(b"\n")
        if not data:
            return []
        # For bytes, `splitlines` knows exactly the three line ends that are wanted here.
        lines = data.splitlines()
        self._last_was_carriage_return = data.endswith(b"\r")
        tail = b"" if data.endswith((b"\r", b"\n")) else lines.pop()
        if lines and self._unfinished:
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished.clear()
            self._unfinished_bytes = 0
        longest = max(map(len, lines), default=0)
        if tail:
            self._unfinished.append(tail)
            self._unfinished_bytes += len(tail)
        if max(longest, self._unfinished_bytes) > self._max_bytes:
            raise ValueError(f"a line of the stream is longer than {self._max_bytes:,} bytes")
        return lines

    def close(self) -> bytes:
        """Return the last line, where the bytes ended inside it, else ``b""``."""
        line = b"".join(self._unfinished)
        self._unfinished.clear()
        self._unfinished_bytes = 0
        return line


@attrs.frozen
class SseEvent:
    """One event: its data lines joined with LF, and its type."""

    data: str
    event: str = "message"


class SseParser:
    """Turn the bytes of an event stream into events.

    A byte order mark at the start, comments, several data lines, a missing space after the colon
    and characters that were cut in two are read as the standard says; bytes that are no UTF-8
    become U+FFFD. In one thing `close` differs from the standard, which drops an event that the
    stream did not end with a blank line: servers that die put their error there.
    """

    def __init__(self, *, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lines = LineSplitter(max_bytes=max_bytes)
        self._at_start = True
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._event = b""

    def feed(self, data: bytes) -> list[SseEvent]:
        """Take in ``data``; return the events that it ends.

        Raises:
            ValueError: a line or an event is longer than ``max_bytes``.
        """
        events: list[SseEvent] = []
        for line in self._lines.feed(data):
            if line:
                self._take(line)
            elif (event := self._dispatch()) is not None:
                events.append(event)
        return events

    def close(self) -> list[SseEvent]:
        """Return the event that the stream ended in, where its data is whole: JSON, or ``[DONE]``."""
        if line := self._lines.close():
            self._take(line)
        event = self._dispatch()
        if event is None or not (event.data.strip() == "[DONE]" or _is_json(event.data)):
            return []
        return [event]

    def _take(self, line: bytes) -> None:
        if self._at_start:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
            if self._data_bytes > self._max_bytes:
                raise ValueError(f"an event of the stream is longer than {self._max_bytes:,} bytes")
        elif field == b"event":
            self._event = value

    def _dispatch(self) -> SseEvent | None:
        # A blank first line has been the start, so a mark after it is no mark.
        self._at_start = False
        data, event = self._data, self._event
        self._data, self._data_bytes, self._event = [], 0, b""
        if not data:
            return None
        return SseEvent(
            b"\n".join(data).decode("utf-8", "replace"),
            event.decode("utf-8", "replace") or "message",
        )


class NdjsonParser:
    r"""Turn bytes into the JSON texts of a stream that holds one a line.

    >>> parser = NdjsonParser()
    >>> parser.feed(b'{"n": 1}\n\n{"n"'), parser.feed(b": 2}"), parser.close()
    (['{"n": 1}'], [], ['{"n": 2}'])

    Attributes:
        rest: what the stream ended in, where that is no whole JSON and `close` has dropped it.
    """

    def __init__(self, *, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self.rest = ""
        self._lines = LineSplitter(max_bytes=max_bytes)
        self._at_start = True

    def feed(self, data: bytes) -> list[str]:
        """Take in ``data``; return the lines that it ends, without those that are blank.

        Raises:
            ValueError: a line is longer than ``max_bytes``.
        """
        texts = [self._text(line) for line in self._lines.feed(data)]
        return [text for text in texts if text]

    def close(self) -> list[str]:
        """Return the line that the stream ended in, where it is whole JSON."""
        text = self._text(self._lines.close())
        if _is_json(text):
            return [text]
        self.rest = text
        return []

    def _text(self, line: bytes) -> str:
        if self._at_start:
            line = line.removeprefix(_BYTE_ORDER_MARK)
            self._at_start = False
        return line.decode("utf-8", "replace").strip()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
