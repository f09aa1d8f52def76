"""Turn the replies of servers that refuse into `ProviderError`, in the servers' own words."""

from __future__ import annotations

import email.utils
import html
import math
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC
from http import HTTPStatus
from typing import Any

from teff.errors import ProviderError
from teff.provider.keys import mask
from teff.provider.reading import as_mapping, parse_json

__all__ = [
    "add_hint",
    "asked",
    "error_in",
    "failure_in_reply",
    "failure_of_status",
    "is_permanent",
    "retry_after",
    "server_words",
    "shorten",
    "status_name",
]

#: Statuses below 500 after which the same request may succeed. 402 and most others need a change.
_TRANSIENT = frozenset({408, 409, 425, 429, 499})

#: Error codes of accounts without money or right to ask, which come with 429 too.
_USED_UP_CODES = frozenset(
    {
        "account_deactivated",
        "billing_hard_limit_reached",
        "billing_not_active",
        "insufficient_quota",
    }
)

#: Error codes with which no wait helps, in a reply that has no status of its own.
_PERMANENT_CODES = _USED_UP_CODES | frozenset(
    {
        "content_filter",
        "context_length_exceeded",
        "exceed_context_size_error",
        "invalid_api_key",
        "invalid_request_error",
        "model_not_found",
        "not_found_error",
    }
)


def is_permanent(status: int, code: str = "") -> bool:
    """Say whether the same request can never succeed after this HTTP status and error code.

    >>> is_permanent(429), is_permanent(429, "insufficient_quota"), is_permanent(404)
    (False, True, True)
    """
    if status == 429 or status >= 500:
        return code in _USED_UP_CODES
    return status not in _TRANSIENT


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds a server asks to wait, or None where it does not say so usably.

    Read are ``retry-after-ms``, then ``retry-after`` in seconds or as an HTTP date
    (https://www.rfc-editor.org/rfc/rfc9110#field.retry-after). A date that has passed is 0.

    Args:
        headers: of the reply; names in lower case, or a mapping that does not care.
        now: seconds since the epoch; None reads the clock.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    if seconds is not None:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(value)
        # A date without a zone is meant in GMT, and `timestamp` would take it as local.
        moment = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return max(0.0, moment - (time.time() if now is None else now))


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def error_in(data: Mapping[str, Any]) -> tuple[str, str, int | None] | None:
    """Find the error in a JSON body: its words, its code and its status, or None without an error.

    Known are ``{"error": {"message", "code", "type"}}``, ``{"error": "text"}`` and
    ``{"object": "error", "message", "code"}``.

    >>> error_in({"error": {"message": "slow down", "code": 429}})
    ('slow down', '429', 429)
    """
    error = data.get("error") or (data if data.get("object") == "error" else None)
    if error is None:
        return None
    fields = as_mapping(error)
    codes = [fields.get("code"), fields.get("type"), data.get("code")]
    named = [code for code in codes if isinstance(code, str) and code]
    digits = [str(code) for code in (*codes, fields.get("status"))]
    numbers = [int(code) for code in digits if re.fullmatch("[1-5][0-9][0-9]", code)]
    permanent = [code for code in named if code in _PERMANENT_CODES]
    code = (permanent or named or [str(number) for number in numbers] or [""])[0]
    return _words(error), code, numbers[0] if numbers else None


def _words(error: object, depth: int = 0) -> str:
    if isinstance(error, str):
        return error
    if depth > 4:
        return ""
    if isinstance(error, list):
        return "; ".join(filter(None, (_words(each, depth + 1) for each in error[:10])))
    fields = as_mapping(error)
    for name in ("message", "msg", "detail", "error", "title"):
        if words := _words(fields.get(name), depth + 1):
            place = fields.get("loc")
            if isinstance(place, list):
                words = f"{'.'.join(map(str, place[:10]))}: {words}"
            return words
    return ", ".join(
        f"{name} {value}" for name, value in fields.items() if isinstance(value, str | int | float)
    )


def server_words(body: str) -> str:
    """Return what a server says in the body of a refusal, on one line and shortened.

    JSON bodies are searched for their message; of HTML the title or the text is taken.
    """
    try:
        data = parse_json(body)
    except ValueError:
        data = None
    if isinstance(data, Mapping):
        found = error_in(data)
        words = found[0] if found else _words(data)
    elif isinstance(data, list | str):
        words = _words(data)
    else:
        words = _text_of_html(body) if body.lstrip().startswith("<") else body
    return shorten(words)


def _text_of_html(body: str) -> str:
    title = re.search(r"<title[^>]*>([^<]{1,300})", body[:20_000], re.IGNORECASE)
    if title and title.group(1).strip():
        return html.unescape(title.group(1))
    return html.unescape(re.sub(r"<[^<>]*>", " ", body[:20_000]))


def shorten(text: str, length: int = 500) -> str:
    """Return ``text`` on one line, with ``…`` where it is longer than ``length`` characters."""
    text = " ".join(text.split())
    return text if len(text) <= length else text[:length].rstrip() + "…"


def failure_of_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    provider: str,
    model: str,
    url: str,
    secrets: Iterable[str] = (),
) -> ProviderError:
    """Return the error for a reply whose HTTP status says that it is no answer."""
    text = mask(body.decode("utf-8", "replace"), secrets)
    try:
        found = error_in(as_mapping(parse_json(text)))
    except ValueError:
        found = None
    code = found[1] if found else ""
    words = server_words(text) or "the reply is empty"
    if 300 <= status < 400:
        target = mask(headers.get("location", "another address"), secrets)
        words = f"it redirects to {shorten(target)}, which is not followed: set base_url to it"
    asked_to_wait = retry_after(headers)
    if asked_to_wait is not None and asked_to_wait >= 1:
        words += f" (it asks to wait {asked_to_wait:,.0f} seconds)"
    permanent = is_permanent(status, code)
    should_retry = headers.get("x-should-retry", "").strip().lower()
    if should_retry in ("true", "false"):
        permanent = should_retry == "false"
    return ProviderError(
        f"{asked(provider, model)} answered {status_name(status)} at {url}: {words}",
        provider=provider,
        model=model,
        status=status,
        body=text,
        retry_after=asked_to_wait,
        permanent=permanent,
    )


def failure_in_reply(
    data: Mapping[str, Any], *, provider: str, model: str, body: str, secrets: Iterable[str] = ()
) -> ProviderError:
    """Return the error for a reply with status 200, or an event of it, that holds an error.

    ``body`` is the text that ``data`` was parsed from.
    """
    words, code, status = error_in(data) or ("", "", None)
    known_status = status if status is not None and 400 <= status < 600 else None
    permanent = code in _PERMANENT_CODES
    if known_status is not None:
        permanent = is_permanent(known_status, code)
    return ProviderError(
        f"{asked(provider, model)} sent an error: {shorten(mask(words, secrets)) or 'it has no text'}",
        provider=provider,
        model=model,
        status=known_status,
        body=mask(body, secrets),
        permanent=permanent,
    )


def asked(provider: str, model: str) -> str:
    """Return who was asked, as errors begin: the provider, and the model where there is one.

    >>> asked("ollama", "llama3.1:8b"), asked("ollama", "")
    ('ollama (llama3.1:8b)', 'ollama')
    """
    return f"{provider} ({model})" if model else provider


def add_hint(error: ProviderError, hint: str) -> None:
    """Put a sentence at the end of an error's message: what the user can do about it."""
    message = str(error)
    error.args = (f"{message}{'' if message.endswith(('.', '!', '?', '…')) else '.'} {hint}",)


def status_name(status: int) -> str:
    """Return an HTTP status with its phrase, where it has one.

    >>> status_name(503), status_name(529)
    ('503 Service Unavailable', '529')
    """
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
