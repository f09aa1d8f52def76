"""Keys: read where they belong, and shown nowhere."""

from __future__ import annotations

import html
import json
import logging
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ConfigError
from teff.provider.http import join_url
from teff.provider.keys import (
    RecentSecrets,
    check_base_url,
    mask,
    public_url,
    read_key,
    secret_values,
    split_credentials,
)
from teff.provider.log_lines import hide_in_logs

CANARY = "sk-canary-0123456789"


def test_a_key_is_read_without_spaces_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", f"  {CANARY}\n")
    assert read_key("MY_KEY", provider="p") == CANARY


@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(ConfigError, match=r"MY_KEY is not set.*export MY_KEY="):
        read_key("MY_KEY", provider="p")


@pytest.mark.parametrize("key", [f"{CANARY}\nX: y", f"“{CANARY}”", f"{CANARY}\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(ConfigError, match="MY_KEY holds characters") as caught:
        read_key("MY_KEY", provider="p")
    assert CANARY not in repr(caught.value)
    assert CANARY not in str(caught.value)


SECRET = "pa<s\"w/o\\r&d+1='#"


@pytest.mark.parametrize(
    "write",
    [
        str,
        json.dumps,
        lambda text: json.dumps(json.dumps(text)),
        lambda text: json.dumps(text).replace("/", "\\/"),
        lambda text: json.dumps(text).replace("<", "\\u003c").replace("&", "\\u0026"),
        lambda text: quote(text, safe=""),
        lambda text: quote(text, safe="").lower(),
        quote,
        html.escape,
        lambda text: "".join(f"&#{ord(each)};" if each in "<&'" else each for each in text),
        repr,
        lambda text: repr(text.encode()),
        lambda text: repr(json.dumps({"key": text}).encode()),
        lambda text: html.escape(json.dumps(text)),
    ],
)
def test_secrets_are_masked_however_they_are_written(write: Callable[[str], str]) -> None:
    masked = mask(f"a {write(SECRET)} b {write(SECRET)} c", [SECRET])
    assert masked.count("***") == 2
    assert "pa<s" not in masked
    assert "w" not in masked


def test_a_secret_that_is_cut_off_at_the_end_is_masked() -> None:
    for length in range(8, len(CANARY) + 1):
        assert mask(f"wrong key {CANARY[:length]}", [CANARY]) == "wrong key ***"
    assert mask(f"wrong key {CANARY[:7]}", [CANARY]) == "wrong key sk-cana"
    assert mask("aaaaaaaaa", ["aaaaaaaaab"]) == "***"
    assert mask(f"{CANARY[:12]} in between", [CANARY]) == f"{CANARY[:12]} in between"


def test_longer_secrets_go_first() -> None:
    assert mask(f"x: Bearer {CANARY}", [CANARY, f"Bearer {CANARY}"]) == "x: ***"


def test_the_secrets_that_were_sent_last_are_known() -> None:
    secrets = RecentSecrets()
    secrets.add(["first-secret"])
    for number in range(1000):
        secrets.add([f"secret-{number}", "used-all-the-time"])
    known = list(secrets)
    assert {"secret-999", "used-all-the-time"} <= set(known)
    assert "first-secret" not in known
    assert len(known) <= 250


def test_log_lines_of_httpx_show_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    hide_in_logs([CANARY])
    hide_in_logs([CANARY])
    logging.getLogger("httpx").info("HTTP Request: %s %r", "POST", CANARY)
    logging.getLogger("httpcore.http11").debug("return_value=(b'key: %s')", CANARY)
    logging.getLogger("httpcore.socks").debug("auth=('me', %r) %d", CANARY, 7)
    logging.getLogger("httpx").info("100%% of %s", "nothing")
    assert [record.getMessage() for record in caplog.records] == [
        "HTTP Request: POST '***'",
        "return_value=(b'key: ***')",
        "auth=('me', '***') 7",
        "100% of nothing",
    ]


def test_header_values_are_secret_and_so_is_what_follows_bearer() -> None:
    values = secret_values({"Authorization": f"Bearer {CANARY}", "X": "short"})
    assert values == {f"Bearer {CANARY}", CANARY}


@given(st.text(min_size=8), st.text(), st.text())
def test_a_masked_secret_is_gone(secret: str, before: str, after: str) -> None:
    masked = mask(before + secret + after, [secret])
    assert secret not in masked or secret in "***" or "***" in secret


def test_user_and_password_move_from_the_url_to_a_header() -> None:
    url, headers, secrets = split_credentials("https://me:s%40cret@example.com:8080/v1?a=b")
    assert url == "https://example.com:8080/v1?a=b"
    assert headers == {"Authorization": "Basic bWU6c0BjcmV0"}
    assert {"s@cret", "s%40cret"} <= secrets
    assert split_credentials("https://example.com/v1")[:2] == ("https://example.com/v1", {})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@example.com/v1?token=secret#x", "https://example.com/v1"),
        ("me:secret@example.com/v1", "example.com/v1"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1"),
        ("http://[broken?key=secret", "http://[broken"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert public_url(url) == shown


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8080", "ftp://x/v1", "http://", "http://x:port/", "http://a b/", "http://[x/"],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="no http or https URL"):
        check_base_url(url, provider="p")


def test_a_key_in_the_query_is_refused_unseen() -> None:
    with pytest.raises(ConfigError, match="'key' in its query") as caught:
        check_base_url(f"https://x/v1?key={CANARY}", provider="p")
    assert CANARY not in str(caught.value)


def test_other_queries_stay() -> None:
    base = check_base_url("https://x/openai/?api-version=2024-10-21", provider="p")
    assert base == "https://x/openai?api-version=2024-10-21"
    assert join_url(base, "chat/completions") == (
        "https://x/openai/chat/completions?api-version=2024-10-21"
    )


def test_a_base_url_may_name_the_whole_path() -> None:
    whole = "http://x/v1/chat/completions"
    assert join_url(whole, "/chat/completions") == whole
