"""Lines, server-sent events and NDJSON, however the bytes are cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.provider.sse import LineSplitter, NdjsonParser, SseEvent, SseParser


def lines_of(*chunks: bytes) -> list[bytes]:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    last = splitter.close()
    return [*lines, last] if last else lines


def events_of(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


def texts_of(*chunks: bytes) -> list[str]:
    parser = NdjsonParser()
    return [text for chunk in chunks for text in parser.feed(chunk)] + parser.close()


def test_an_event_is_given_when_its_blank_line_comes() -> None:
    parser = SseParser()
    assert parser.feed(b'data: {"n": 1}\n') == []
    assert parser.feed(b"\n") == [SseEvent('{"n": 1}')]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_each_line_end_of_the_standard_ends_a_line(end: bytes) -> None:
    assert events_of(b"data: a" + end + b"data: b" + end + end) == [SseEvent("a\nb")]


def test_a_line_end_cut_in_two_is_one_line_end() -> None:
    assert lines_of(b"a\r", b"\nb\r", b"\n", b"\r\n") == [b"a", b"b", b""]
    assert lines_of(b"a\r", b"\r", b"b\n") == [b"a", b"", b"b"]


def test_other_separators_of_unicode_are_part_of_a_line() -> None:
    text = '{"t": "a\u2028b\u0085c\u2029d\x0be\x0cf\x1cg"}'
    assert [event.data for event in events_of(f"data: {text}\n\n".encode())] == [text]
    assert texts_of(text.encode() + b"\n") == [text]


def test_one_space_after_the_colon_is_not_part_of_the_value_and_may_be_missing() -> None:
    assert events_of(b"data:a\ndata: b\ndata:  c\n\n") == [SseEvent("a\nb\n c")]


def test_comments_and_unknown_fields_are_nothing() -> None:
    stream = b": OPENROUTER PROCESSING\n\nid: 7\nretry: 10\nfoo\ndata: a\n: keep-alive\n\n"
    assert events_of(stream) == [SseEvent("a")]


def test_the_type_of_an_event_lasts_for_that_event() -> None:
    assert events_of(b"event: error\ndata: a\n\ndata: b\n\n") == [
        SseEvent("a", "error"),
        SseEvent("b"),
    ]


def test_an_event_without_data_is_none() -> None:
    assert events_of(b"event: ping\n\n\n\ndata: a\n\n") == [SseEvent("a")]


def test_a_byte_order_mark_is_taken_off_the_start_only() -> None:
    mark = b"\xef\xbb\xbf"
    assert events_of(mark + b"data: a\n\n") == [SseEvent("a")]
    assert events_of(mark[:1], mark[1:2], mark[2:] + b"data: a\n\n") == [SseEvent("a")]
    assert events_of(b"data: a\n\n" + mark + b"data: b\n\n") == [SseEvent("a")]
    assert texts_of(mark + b"{}\n" + b"[]\n") == ["{}", "[]"]


def test_broken_utf8_becomes_replacement_characters() -> None:
    assert events_of(b"data: a\xffb\n\n") == [SseEvent("a\ufffdb")]


def test_an_unfinished_last_event_is_given_where_it_is_whole_json() -> None:
    assert events_of(b'data: {"error": "died"}') == [SseEvent('{"error": "died"}')]
    assert events_of(b"data: [DONE]") == [SseEvent("[DONE]")]
    assert events_of(b'data: {"error": "di') == []


def test_an_unfinished_last_line_of_ndjson_is_given_where_it_is_whole() -> None:
    assert texts_of(b'{"n": 1}\n{"n": 2}') == ['{"n": 1}', '{"n": 2}']
    assert texts_of(b'{"n": 1}\n{"n": 2') == ['{"n": 1}']


def test_blank_lines_of_ndjson_are_skipped() -> None:
    assert texts_of(b"\n\r\n  \n{}\n\n") == ["{}"]


def test_an_endless_line_is_refused_before_it_fills_the_memory() -> None:
    splitter = LineSplitter(max_bytes=10)
    assert splitter.feed(b"0123456789") == []
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        splitter.feed(b"0")
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        LineSplitter(max_bytes=10).feed(b"01234567890\n")


def test_an_endless_event_is_refused_too() -> None:
    parser = SseParser(max_bytes=10)
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        parser.feed(b"data: 0123\ndata: 4567\ndata: 89\n")
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        SseParser(max_bytes=10).feed(b"data\n" * 11)


stream_bytes = st.lists(
    st.sampled_from(
        [
            b"data",
            b":",
            b" ",
            b"\r",
            b"\n",
            b"\r\n",
            b"event",
            b"error",
            b"x",
            b"\xef\xbb\xbf",
            "é".encode(),
            "日".encode(),
            "\u2028".encode(),
            b"\xff",
            b"[DONE]",
            b'{"a": 1}',
        ]
    )
).map(b"".join)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    stream = draw(stream_bytes)
    places = sorted(draw(st.sets(st.integers(0, len(stream)))))
    borders = [0, *places, len(stream)]
    return stream, [stream[a:b] for a, b in pairwise(borders)]


@given(cut_streams())
def test_any_cut_gives_the_same_lines_events_and_texts(cut: tuple[bytes, list[bytes]]) -> None:
    whole, pieces = cut
    assert lines_of(*pieces) == lines_of(whole)
    assert events_of(*pieces) == events_of(whole)
    assert texts_of(*pieces) == texts_of(whole)


@given(st.lists(st.text().filter(lambda text: text != "[DONE]"), max_size=5), cut_streams())
def test_what_is_written_as_events_is_read_back(
    texts: list[str], noise: tuple[bytes, list[bytes]]
) -> None:
    stream = b"".join(b"data: " + json.dumps(text).encode() + b"\n\n" for text in texts)
    assert [json.loads(event.data) for event in events_of(stream)] == texts
    assert [json.loads(text) for text in texts_of(stream.replace(b"data: ", b""))] == texts
