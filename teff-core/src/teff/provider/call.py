"""One HTTP call as its errors see it: whom they name, and what they must not show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import attrs

from teff.errors import IncompleteStream, ProviderError
from teff.provider.failures import (
    add_hint,
    asked,
    failure_in_reply,
    failure_of_status,
    server_words,
    shorten,
)
from teff.provider.keys import mask, public_url
from teff.provider.pool import http_errors, import_httpx, proxy_for
from teff.provider.reading import parse_json

__all__ = ["MAX_BODY_BYTES", "Call"]

#: A whole reply may be this long.
MAX_BODY_BYTES = 32 * 1024 * 1024

Result = TypeVar("Result")


@attrs.frozen(kw_only=True, repr=False)
class Call:
    """Reads and writes the JSON of one call, and makes its errors.

    Attributes:
        provider, model: who is asked.
        hint: what to do where the server cannot be reached, as a sentence, or "".
        url: where, without user and password.
        headers: what is sent along.
        secrets: what no error shows.
    """

    provider: str
    model: str
    hint: str
    url: str
    headers: Mapping[str, str]
    secrets: Iterable[str]

    def error(self, message: str, *, body: str = "", permanent: bool = False) -> ProviderError:
        """Return an error; ``message`` goes on after the names of provider and model."""
        return ProviderError(
            self._sentence(message),
            provider=self.provider,
            model=self.model,
            body=mask(body, self.secrets),
            permanent=permanent,
        )

    def incomplete(self, message: str) -> IncompleteStream:
        """Return the error of a stream that ended too early."""
        return IncompleteStream(self._sentence(message), provider=self.provider, model=self.model)

    def refused(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Return the error of a reply with a status that is no success."""
        return failure_of_status(
            status,
            headers,
            body,
            provider=self.provider,
            model=self.model,
            url=public_url(self.url),
            secrets=self.secrets,
        )

    async def within(self, seconds: float, work: Coroutine[Any, Any, Result]) -> Result:
        """Return what ``work`` gives.

        Raises:
            ProviderError: it takes longer, or httpx has raised. Nothing leads from it to what httpx
                raised, whose request holds the key, and whose text may repeat it.
        """
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            failure = self.error(f"did not answer within {seconds:g} seconds")
        except http_errors(self.provider) as error:
            failure = self.translated(error)
        # Raised out here, where no other exception is being handled that would become its context.
        raise failure

    async def read_whole(self, chunks: AsyncIterator[bytes]) -> bytes:
        """Read a body that is no stream.

        Raises:
            ProviderError: it is too long.
        """
        content = bytearray()
        async for chunk in chunks:
            content += chunk
            if len(content) > MAX_BODY_BYTES:
                raise self.error(f"sent more than {MAX_BODY_BYTES:,} bytes")
        return bytes(content)

    def translated(self, error: Exception, *, in_stream: bool = False) -> ProviderError:
        """Return the error for an exception of httpx; ``in_stream`` after a reply has begun."""
        httpx = import_httpx(self.provider)
        reason = str(error) or type(error).__name__
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
            return self._unreachable(reason)
        if isinstance(
            error, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.LocalProtocolError
        ):
            return self.error(f"cannot be asked: {reason}", permanent=True)
        if isinstance(error, httpx.DecodingError):
            return self.error(f"sent a reply that cannot be unpacked: {reason}")
        message = f"broke the connection: {reason}"
        return self.incomplete(message) if in_stream else self.error(message)

    def _unreachable(self, reason: str) -> ProviderError:
        proxy = proxy_for(self.url)
        way = f" through the proxy {public_url(proxy)}" if proxy else ""
        untrusted = "CERTIFICATE_VERIFY_FAILED" in reason
        failure = self.error(
            f"cannot be reached at {public_url(self.url)}{way}: {reason}",
            permanent=untrusted or reason.startswith("407"),
        )
        hint = self.hint
        if untrusted:
            hint = (
                "Is its authority one of your own? Name the file with its certificate as ca_file."
            )
        elif proxy:
            hint = "The environment names the proxy: look at HTTPS_PROXY, ALL_PROXY and NO_PROXY."
        if hint:
            add_hint(failure, hint)
        return failure

    def encode(self, body: Mapping[str, Any]) -> bytes:
        """Write the body of the request.

        Raises:
            ProviderError: it holds what JSON cannot, such as NaN.
        """
        try:
            text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as error:
            raise self.error(
                f"cannot be asked: the request is no JSON: {error}", permanent=True
            ) from None
        # Half a character, as models write them now and then, has no bytes in UTF-8.
        return text.encode("utf-8", "replace")

    def json_object(self, content: bytes | str) -> dict[str, Any]:
        """Parse a reply, or an event of one.

        Raises:
            ProviderError: it is no JSON object, or it is one that says what went wrong.
        """
        text = content.decode("utf-8-sig", "replace") if isinstance(content, bytes) else content
        problem = None
        try:
            data = parse_json(text)
        except ValueError as error:
            problem = shorten(str(error), 100)
        if problem is not None:  # raised out here, for the exception of json holds the whole text
            words = f"it says: {server_words(text)}" if text.strip() else "it is empty"
            raise self.error(f"sent a reply that is no JSON ({problem}); {words}", body=text)
        if not isinstance(data, dict):
            raise self.error(f"sent a reply that is no JSON object: {shorten(text)}", body=text)
        if data.get("error") or data.get("object") == "error":
            raise failure_in_reply(
                data, provider=self.provider, model=self.model, body=text, secrets=self.secrets
            )
        return data

    def _sentence(self, message: str) -> str:
        return f"{asked(self.provider, self.model)} {mask(message, self.secrets)}"
