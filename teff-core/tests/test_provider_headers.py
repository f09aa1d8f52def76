"""What may be sent as a header, and the options of providers that ask over HTTP."""

from __future__ import annotations

import asyncio
import gzip
import logging
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError, ProviderError
from teff.provider.headers import merge_headers, unsendable_header
from teff.provider.http import HttpClient
from teff.provider.keys import mask, names_a_secret, secret_values
from teff.provider.options import check_headers, check_key_header, check_timeout
from teff.provider.sse import SseParser
from teff.testing.server import Answer, ReplayServer, json_answer, run_with_server

CANARY = "canary-0123456789"


def post(*answers: Answer, headers: dict[str, Any] | None = None, key: str = "") -> Any:
    async def ask(server: ReplayServer) -> Any:
        client = HttpClient("p")
        if key:
            client.hide_key(key)
        reply = await client.post_json(server.url, {}, headers=headers, timeout=5.0)
        return reply, server.requests[0].headers

    return run_with_server(ask, *answers)


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"X-Team": f"{CANARY}\n"}, "header 'X-Team' has a line break"),
        ({"X-Team": f"{CANARY}\r\nEvil: 1"}, "header 'X-Team' has a line break"),
        ({"X-Team": f"{CANARY}\0"}, "header 'X-Team' has a line break, or another character"),
        ({"X-Team": f"{CANARY}\x7f"}, "another character that no header can carry"),
        ({"X-Team": f"{CANARY}ü"}, "header 'X-Team' has letters beyond ASCII"),
        ({"X-Team": f" {CANARY}"}, "header 'X-Team' has spaces around it"),
        ({"X-Team": 5}, "header 'X-Team' must be a text, not int"),
        ({"X-A": "a", f"{CANARY}\n": "b"}, "the name of header 2 has characters"),
        ({f"{CANARY} ": "b"}, "the name of header 1 has characters"),
        ({"": "b"}, "the name of header 1 has characters"),
        ({5: "b"}, "the name of header 1 has characters"),
        ({"X-Team": "a", "x-team": "b"}, "header 'x-team' is there twice"),
        ({"content-length": "5"}, "header 'content-length' is written by the client itself"),
        ({"Host": "evil"}, "header 'Host' is written by the client itself"),
        ({"Transfer-Encoding": "chunked"}, "'Transfer-Encoding' is written by the client itself"),
        ({"Content-Type": "text/plain"}, "'Content-Type' is written by the client itself"),
        (["X-Team"], "headers are a mapping from names to texts, not list"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_unseen(headers: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match="provider 'p': ") as caught:
        check_headers(headers, provider="p")
    assert problem in str(caught.value)
    assert "canary" not in f"{caught.value!r} {caught.value}"


def test_nothing_of_a_header_that_cannot_be_sent_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ConfigError):
        post(json_answer({}), headers={"X-Team": f"{CANARY}\n"})
    assert "canary" not in caplog.text


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3))
def test_what_is_not_refused_can_be_sent(headers: dict[str, str]) -> None:
    h11 = pytest.importorskip("h11")
    if unsendable_header(headers):
        return
    fields = [(name.encode("ascii"), value.encode("ascii")) for name, value in headers.items()]
    h11.Request(method="GET", target="/", headers=[("Host", "h"), *fields])


def test_headers_that_can_be_sent_are() -> None:
    _, sent = post(json_answer({}), headers={"X-Team": "red\tand blue", "X-None": ""})
    assert (sent["x-team"], sent["x-none"]) == ("red\tand blue", "")


def test_the_header_of_a_key_must_be_one_and_nobody_elses() -> None:
    def check(name: str, prefix: str, **headers: str) -> None:
        check_key_header(name, prefix, headers, provider="p", sends_key=True)

    check("Authorization", "Bearer ", other="x")
    with pytest.raises(ConfigError, match="auth_prefix has characters that no header can carry"):
        check("Authorization", f"{CANARY}\n")
    for name in ("", "a b", "Host", "a\n"):
        with pytest.raises(ConfigError, match="auth_header .* is no header that can carry a key"):
            check(name, "Bearer ")
    with pytest.raises(ConfigError, match=r"headers have 'Authorization', which carries the key"):
        check("Authorization", "Bearer ", authorization="Basic x")
    given = {"authorization": "Basic x"}
    check_key_header("Authorization", "Bearer ", given, provider="p", sends_key=False)


def test_names_of_headers_are_the_same_in_any_case() -> None:
    assert merge_headers({"A": "1", "B": "2"}, {"b": "3"}) == {"A": "1", "b": "3"}

    async def ask(server: ReplayServer) -> str:
        url = server.url.replace("http://", "http://me:hush@")
        await HttpClient("p").post_json(url, {}, headers={"authorization": "Own x"}, timeout=5.0)
        return server.requests[0].headers["authorization"]

    assert run_with_server(ask, json_answer({})) == "Own x"


@pytest.mark.parametrize("seconds", [0, -1, 0.0, float("nan"), float("inf"), "30", None, True])
def test_a_timeout_is_a_number_of_seconds_above_0(seconds: object) -> None:
    with pytest.raises(ConfigError, match="provider 'p': timeout is a number of seconds above 0"):
        check_timeout(seconds, provider="p")
    check_timeout(0.1, provider="p")
    check_timeout(30, provider="p")


# Secrets


@pytest.mark.parametrize(
    "value",
    [
        f"Token token={CANARY}",
        f"Key:{CANARY}",
        f"ApiKey  {CANARY}",
        f"Signed for me {CANARY}",
        f"Own Credential={CANARY}, Realm=x",
    ],
)
def test_a_key_in_a_header_is_masked_whatever_stands_before_it(value: str) -> None:
    assert CANARY in secret_values({"Authorization": value})
    told = json_answer({"error": f"wrong: {CANARY}"}, status=401)
    for headers, key in (({"Proxy-Authorization": value}, ""), ({"X-Own": value}, CANARY)):
        with pytest.raises(ProviderError) as caught:
            post(told, headers=headers, key=key)
        assert "canary" not in f"{caught.value} {caught.value.body}"


def test_words_of_other_headers_are_no_secrets() -> None:
    assert secret_values({"X-Title": "A great application"}) == {
        "A great application",
        "great application",
    }


@pytest.mark.parametrize("letter", ["\n", "\r", "\0", "\t", "\x1b", "ü", "\\", "'", "\U0001f600"])
def test_a_secret_is_masked_as_python_writes_it(letter: str) -> None:
    secret = f"canary{letter}0123456789"
    for written in (repr(secret), ascii(secret), repr([repr(secret)])):
        assert "0123456789" not in mask(f"sent {written}", [secret])


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("OPENAI_API_KEY_PROD", True),
        ("apiKey", True),
        ("accesstoken", True),
        ("subscription-key", True),
        ("Proxy-Authorization", True),
        ("auth", True),
        ("api_key_env", False),
        ("auth_header", False),
        ("auth_prefix", False),
        ("max_tokens", False),
        ("code", False),
        ("KEYBOARD", False),
        ("", False),
    ],
)
def test_names_of_secrets_are_known_by_their_words(name: str, secret: bool) -> None:
    assert names_a_secret(name) is secret


# Packed replies


def packed(content: bytes, packing: str = "gzip") -> Answer:
    return json_answer(content, headers={"Content-Encoding": packing})


def test_replies_are_asked_for_as_they_are() -> None:
    _, sent = post(json_answer({}))
    assert sent["accept-encoding"] == "identity"


def test_a_reply_that_is_packed_all_the_same_is_read() -> None:
    content = b'{"text": "' + b"a" * 300_000 + b'"}'
    for answer in (packed(gzip.compress(content)), packed(zlib.compress(content), "deflate")):
        assert len(post(answer)[0]["text"]) == 300_000


def test_a_reply_that_is_packed_in_another_way_is_refused() -> None:
    with pytest.raises(ProviderError, match="cannot be unpacked: it is packed in a way that was"):
        post(packed(b"{}", "br"))


def test_a_packed_reply_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teff.provider.unpacked.MAX_UNPACKED_BYTES", 1_000_000)
    bomb = packed(gzip.compress(b"\n" * 3_000_000))
    with pytest.raises(ProviderError, match="cannot be unpacked: it has more than 1,000,000 bytes"):
        post(bomb)

    async def ask(server: ReplayServer) -> int:
        pieces = 0

        async def count() -> None:
            nonlocal pieces
            while True:
                pieces += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        with pytest.raises(ProviderError, match="it has more than 1,000,000 bytes"):
            async with HttpClient("p").stream(server.url, {}, timeout=5.0) as reply:
                await reply.read(SseParser())
        counting.cancel()
        return pieces

    assert run_with_server(ask, bomb) > 10  # others had their turn meanwhile


def test_a_packed_refusal_is_read_as_far_as_it_is_needed() -> None:
    refusal = gzip.compress(b"out of memory" + b" " * 3_000_000)
    answer = json_answer(refusal, status=500, headers={"Content-Encoding": "gzip"})
    with pytest.raises(ProviderError, match="out of memory"):
        post(answer)


# Streams that say nothing


def test_events_that_are_taken_as_none_do_not_prolong_the_wait() -> None:
    async def ask(server: ReplayServer) -> int:
        batches = 0
        async with HttpClient("p").stream(server.url, {}, timeout=0.2) as reply:
            with pytest.raises(ProviderError, match=r"sent no event for 0\.2 seconds"):
                while await reply.read(SseParser()) is not None:
                    batches += 1
                    reply.said_nothing()
        return batches

    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    answer = Answer(chunks=[head, *[b"data: {}\n\n"] * 1000], pause=0.02, then="hang")
    assert 0 < run_with_server(ask, answer) < 1000
