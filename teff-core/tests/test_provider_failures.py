"""What a refusal says, whether it lasts, and how long to wait."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teff.errors import ProviderError
from teff.provider.failures import (
    error_in,
    failure_in_reply,
    failure_of_status,
    is_permanent,
    retry_after,
    server_words,
    shorten,
)


def refusal(status: int, body: object = b"", **headers: str) -> ProviderError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure_of_status(status, named, content, provider="p", model="m", url="http://x/v1")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": {"message": "slow down", "type": "t"}}', "slow down"),
        ('{"error": "model is gone"}', "model is gone"),
        ('{"error": ["one", {"message": "two"}]}', "one; two"),
        ('{"object": "error", "message": "too long", "code": 400}', "too long"),
        ('{"detail": "Not authenticated"}', "Not authenticated"),
        ('{"detail": [{"loc": ["body", "n"], "msg": "field required"}]}', "body.n: field required"),
        ('{"message": "no such route"}', "no such route"),
        ('[{"error": {"message": "inside a list"}}]', "inside a list"),
        ('"just text"', "just text"),
        ("Internal Server Error", "Internal Server Error"),
        ("<html><head><title>502 Bad&nbsp;Gateway</title></head><body>x</body>", "502 Bad Gateway"),
        ("<p>Sorry,<br>we are down</p>", "Sorry, we are down"),
        ("", ""),
        ("{}", ""),
        ('{"code": 7}', "code 7"),
        ("null", "null"),
    ],
)
def test_the_words_of_the_server_are_found(body: str, words: str) -> None:
    assert server_words(body) == words


def test_long_words_are_shortened_and_on_one_line() -> None:
    assert server_words("a\n b\t c") == "a b c"
    assert len(shorten("x" * 10_000)) == 501


def test_a_refusal_carries_status_words_body_and_address() -> None:
    error = refusal(400, {"error": {"message": "bad field"}})
    assert str(error) == "p (m) answered 400 Bad Request at http://x/v1: bad field"
    assert (error.status, error.body) == (400, '{"error": {"message": "bad field"}}')
    assert (error.provider, error.model) == ("p", "m")


def test_an_empty_refusal_says_so() -> None:
    assert str(refusal(503)).endswith("the reply is empty")


def test_an_unknown_status_has_no_name() -> None:
    assert "answered 529 at" in str(refusal(529))


def test_a_redirect_says_where_to() -> None:
    error = refusal(307, location="https://elsewhere.example/v1")
    assert "redirects to https://elsewhere.example/v1" in str(error)
    assert error.permanent


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 413, 422, 301])
def test_these_statuses_last(status: int) -> None:
    assert refusal(status).permanent


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_these_statuses_pass(status: int) -> None:
    assert not refusal(status).permanent


def test_a_used_up_account_is_permanent_although_its_status_is_429() -> None:
    body = {"error": {"message": "pay", "code": "insufficient_quota"}}
    assert refusal(429, body).permanent
    assert refusal(429, {"error": {"message": "pay", "type": "insufficient_quota"}}).permanent
    assert is_permanent(429, "insufficient_quota")


@pytest.mark.parametrize("code", ["billing_hard_limit_reached", "billing_not_active"])
def test_so_is_an_account_that_may_not_ask(code: str) -> None:
    assert refusal(429, {"error": {"message": "pay", "code": code}}).permanent
    assert not refusal(429, {"error": {"message": "wait", "code": "rate_limit_exceeded"}}).permanent


@pytest.mark.parametrize(
    "value", ["1s", "6m0s", "120ms", "-1", "0", "soon", "", "9" * 400, "\u0664"]
)
def test_headers_about_rate_limits_do_no_harm(value: str) -> None:
    names = ["limit_requests", "remaining_tokens", "reset_requests", "reset_tokens", "reset"]
    error = refusal(429, b"", **{f"x_ratelimit_{name}": value for name in names})
    assert (error.status, error.permanent, error.retry_after) == (429, False, None)


def test_the_server_may_say_itself_whether_to_retry() -> None:
    assert not refusal(400, x_should_retry="true").permanent
    assert refusal(500, x_should_retry="false").permanent
    assert refusal(500, x_should_retry=" False ").permanent
    assert refusal(400, x_should_retry="maybe").permanent


def test_milliseconds_win_over_seconds() -> None:
    assert retry_after({"retry-after-ms": "1500", "retry-after": "7"}) == 1.5
    assert retry_after({"retry-after-ms": "soon", "retry-after": "7"}) == 7.0
    assert retry_after({"retry-after": "0.5"}) == 0.5
    assert retry_after({"retry-after": "86400"}) == 86_400.0


def test_a_date_is_turned_into_seconds() -> None:
    headers = {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}
    assert retry_after(headers, now=1_445_412_450.0) == 30.0
    assert retry_after(headers, now=2_000_000_000.0) == 0.0
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00"}, now=1_445_412_450.0) == 30.0


@pytest.mark.parametrize("value", ["", "soon", "-5", "nan", "inf", "Wed, 99 Oct 2015 07:28:00 GMT"])
def test_a_useless_retry_after_is_none(value: str) -> None:
    assert retry_after({"retry-after": value}) is None


@given(st.text())
def test_no_retry_after_raises(value: str) -> None:
    seconds = retry_after({"retry-after": value, "retry-after-ms": value})
    assert seconds is None or seconds >= 0


def test_an_error_inside_a_reply_is_found_in_each_shape() -> None:
    assert error_in({"error": {"message": "m", "code": "c"}}) == ("m", "c", None)
    assert error_in({"error": {"message": "m", "code": 503}}) == ("m", "503", 503)
    assert error_in({"object": "error", "message": "m", "code": 400}) == ("m", "400", 400)
    assert error_in({"error": "m"}) == ("m", "", None)
    assert error_in({"error": None, "choices": []}) is None


def test_an_error_inside_a_reply_lasts_by_its_status_or_code() -> None:
    def failure(data: dict[str, object]) -> ProviderError:
        return failure_in_reply(data, provider="p", model="m", body="{}")

    assert failure({"error": {"message": "m", "code": 400}}).permanent
    assert not failure({"error": {"message": "m", "code": 502}}).permanent
    assert failure({"error": {"message": "m", "code": "context_length_exceeded"}}).permanent
    assert failure({"error": {"message": "m", "code": "429"}}).status == 429
    assert not failure({"error": "overloaded"}).permanent


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "detail", "object", "loc", "msg"])
            | st.text(max_size=3),
            children,
            max_size=4,
        )
    ),
)


@given(json_values, st.integers(300, 599))
def test_any_body_gives_an_error(body: object, status: int) -> None:
    assert refusal(status, body).status == status


@given(st.binary(), st.integers(300, 599))
def test_any_bytes_give_an_error(body: bytes, status: int) -> None:
    assert refusal(status, body).status == status


def test_a_deeply_nested_body_gives_an_error() -> None:
    assert refusal(500, b'{"error":' * 100_000).status == 500
    assert refusal(500, b'{"error":' * 300 + b"1" + b"}" * 300).status == 500
