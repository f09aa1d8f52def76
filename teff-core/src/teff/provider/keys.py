"""API keys: where they come from, and how they are kept out of every text.

A key is read when a call is made, sent in a header to the provider it belongs to, and found in no
exception, log line or ``repr``. It is never part of a URL: httpx writes whole URLs to its log.
"""

from __future__ import annotations

import base64
import functools
import html
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from teff.errors import ConfigError

__all__ = [
    "MASK",
    "RecentSecrets",
    "check_base_url",
    "check_key",
    "check_key_source",
    "find_key",
    "mask",
    "names_a_secret",
    "public_url",
    "read_key",
    "secret_values",
    "split_credentials",
    "url_repr",
]

#: What stands in place of a secret; in a cassette also of any other text.
MASK = "***"

#: Shorter values are words like "ollama" that local servers take as a key, and no secrets.
_SHORTEST_SECRET = 8

_MOST_SECRETS = 250

#: Characters that are written as they are everywhere.
_PLAIN = re.compile("[A-Za-z0-9_-]+")

#: A name with one of these words is that of a secret, ...
_SECRET_WORDS = {
    "accesskey", "accesstoken", "apikey", "apitoken", "auth", "authkey", "authorization",
    "authtoken", "cookie", "credential", "credentials", "key", "passphrase", "passwd", "password",
    "pat", "secret", "secretkey", "token",
}  # fmt: skip

#: ... unless it ends with one of these: then something is said about a secret.
_WORDS_ABOUT_SECRETS = {
    "column", "command", "count", "env", "field", "file", "function", "header", "id", "length", "limit",
    "method", "mode", "name", "path", "prefix", "scheme", "type", "url", "var", "variable",
}  # fmt: skip

#: Names of secrets in the query of a URL, which are words for other things elsewhere.
_SECRET_PARAMETERS = {"code", "sig", "signature"}


def names_a_secret(name: str) -> bool:
    """Say whether what stands under this name is a secret: of a variable, a header or an option.

    >>> names_a_secret("OPENAI_API_KEY"), names_a_secret("x-api-key"), names_a_secret("accessToken")
    (True, True, True)
    >>> names_a_secret("max_tokens"), names_a_secret("api_key_env"), names_a_secret("auth_header")
    (False, False, False)
    """
    words = re.findall("[A-Z]?[a-z0-9]+|[A-Z0-9]+", name)
    words = [word.lower() for word in words]
    joined = {first + second for first, second in itertools.pairwise(words)}
    has_one = not _SECRET_WORDS.isdisjoint(joined.union(words))
    return has_one and words[-1] not in _WORDS_ABOUT_SECRETS


def find_key(variable: str, function: Callable[[], str] | None, *, provider: str) -> str:
    """Return the key to send now: what ``function`` gives, else what ``variable`` holds, else "".

    Raises:
        ConfigError: there is none where one is asked for.
    """
    if function is not None:
        return check_key(function(), source="its function api_key", provider=provider)
    return read_key(variable, provider=provider) if variable else ""


def check_key_source(
    variable: str | None, function: Callable[[], str] | None, *, provider: str
) -> None:
    """Raise `ConfigError` where a key itself was given, or two sources of one."""
    if function is not None and (variable or not callable(function)):
        raise ConfigError(
            f"provider {provider!r}: api_key is a function that returns the key, and stands "
            "instead of api_key_env.",
            hint="Put the key into an environment variable and name that: api_key_env.",
        )
    if variable and not _is_variable(variable):
        raise ConfigError(
            f"provider {provider!r}: api_key_env is no name of an environment variable.",
            hint="Put the key into a variable, for example MY_API_KEY, and write its name there, "
            "without $ and braces.",
            path="api_key_env",
        )


def _is_variable(name: str) -> bool:
    """Say whether ``name`` can be that of a variable, and is no key that was put in its place."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return False
    # Keys are long, and mix small letters with digits, as names of variables do not.
    return len(name) < 24 or name.isupper() or not re.search(r"[a-z][0-9]|[0-9][a-z]", name)


def read_key(variable: str, *, provider: str) -> str:
    """Return the key in the environment variable ``variable``, without spaces around it.

    Raises:
        ConfigError: the variable is not set, is empty, or holds what no header can carry.
    """
    if not os.environ.get(variable, "").strip():
        raise ConfigError(
            f"provider {provider!r} needs an API key, and the environment variable "
            f"{variable} is not set.",
            hint=f"Set it: export {variable}=…",
        )
    return check_key(
        os.environ[variable], source=f"the environment variable {variable}", provider=provider
    )


def check_key(key: object, *, source: str, provider: str) -> str:
    """Return ``key``, known to be a text that a header can carry; the error never shows it."""
    if not isinstance(key, str) or not key.strip():
        raise ConfigError(f"provider {provider!r}: {source} gave no API key")
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        del key  # tracebacks may be shown with the variables of their frames
        raise ConfigError(
            f"provider {provider!r}: {source} holds characters that no API key has.",
            hint="Look for line breaks and typographic quotes in it.",
        )
    return key


def secret_values(headers: Mapping[str, str]) -> frozenset[str]:
    """Return what must not be shown of headers.

    It is their values, what follows the first space in them, and where the name is that of a secret
    each part behind the first, as in ``Token token=…``.
    """
    values = set(headers.values())
    for name, value in headers.items():
        values.update(value.split(maxsplit=1)[1:])
        if names_a_secret(name):
            values.update(re.split(r"[\s=:,;]+", value)[1:])
    return frozenset(value for value in values if len(value) >= _SHORTEST_SECRET)


class RecentSecrets:
    """The secrets that were sent last; some keys last for one call only."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}

    def add(self, secrets: Iterable[str]) -> None:
        """Take in ``secrets``."""
        for secret in secrets:
            self._values.pop(secret, None)
            self._values[secret] = None
        while len(self._values) > _MOST_SECRETS:
            self._values.pop(next(iter(self._values)), None)

    def __iter__(self) -> Iterator[str]:
        """Iterate over a copy: other threads may add."""
        return iter(list(self._values))


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return ``text`` with ``***`` for each of ``secrets``, however it is written.

    So is the beginning of one at the end of a text that was cut off there.

    >>> mask("wrong key: sk-12345678", ["sk-12345678"])
    'wrong key: ***'
    """
    for secret in sorted(secrets, key=len, reverse=True):
        plain = _PLAIN.match(secret)
        if plain is None or plain[0] in text:
            text = _pattern(secret).sub(MASK, text)
        text = _without_beginning(secret, text)
    return text


@functools.lru_cache(maxsize=_MOST_SECRETS)
def _pattern(secret: str) -> re.Pattern[str]:
    r"""Return what finds a text as JSON, URLs, HTML and the ``repr`` of Python write it.

    They may have done so one after the other, so there may be any number of backslashes.
    """
    return re.compile("".join(c if _PLAIN.match(c) else _written(c) for c in secret))


def _written(character: str) -> str:
    code = ord(character)
    ways = [
        re.escape(character),
        re.escape(html.escape(character)),
        f"&#0*{code};",
        f"&#x0*{code:x};",
        f"u{code:04x}",
        "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "replace")),
    ]
    escapes = {json.dumps(character)[1:-1], repr(character)[1:-1], ascii(character)[1:-1]}
    ways += [  # such as the n of a line break
        rf"(?<=\\){re.escape(escape[1:])}" for escape in escapes if escape.startswith("\\")
    ]
    return rf"\\*(?i:{'|'.join(ways)})"


def _without_beginning(secret: str, text: str) -> str:
    """Mask the beginning of ``secret`` at the end of ``text``, where it is long enough to matter."""
    beginning = secret[:_SHORTEST_SECRET]
    place = text.find(beginning, max(0, len(text) - len(secret)))
    while place >= 0:
        if secret.startswith(text[place:]):
            return text[:place] + MASK
        place = text.find(beginning, place + 1)
    return text


def check_base_url(url: str, *, provider: str) -> str:
    """Return ``url`` without a slash at its end.

    Raises:
        ConfigError: it is no ``http`` or ``https`` URL, or carries a key in its query.
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ConfigError(
            f"provider {provider!r}: base_url {public_url(url)!r} is no http or https URL.",
            hint="Write it with its scheme, for example http://127.0.0.1:8080/v1.",
        )
    for name, _value in parse_qsl(parts.query):
        if name.lower() in _SECRET_PARAMETERS or names_a_secret(name):
            raise ConfigError(
                f"provider {provider!r}: base_url has {name!r} in its query, and URLs are logged.",
                hint="Send the key in a header: api_key_env, auth_header and auth_prefix name it.",
            )
    return urlunsplit(parts._replace(path=parts.path.rstrip("/"), fragment=""))


def split_credentials(url: str) -> tuple[str, dict[str, str], frozenset[str]]:
    """Take ``user:password@`` out of a URL.

    Returns the URL without it, the header that stands for it, and what must not be shown.
    """
    parts = urlsplit(url)
    userinfo, found, host = parts.netloc.rpartition("@")
    if not found:
        return url, {}, frozenset()
    user, _, password = userinfo.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}".encode()
    headers = {"Authorization": "Basic " + base64.b64encode(pair).decode("ascii")}
    secrets = secret_values(headers) | {password, unquote(password)} - {""}
    return urlunsplit(parts._replace(netloc=host)), headers, secrets


def public_url(url: str) -> str:
    """Return ``url`` as it may be shown: without user, password, query and fragment.

    >>> public_url("https://me:secret@example.com/v1?api-version=2")
    'https://example.com/v1'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if not parts.netloc:
        return url.rpartition("@")[2].partition("?")[0]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def url_repr(url: str | None) -> str:
    """Return the ``repr`` of an option that may hold a URL, as `public_url` shows it."""
    return repr(url if url is None else public_url(url))
