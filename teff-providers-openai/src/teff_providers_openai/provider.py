"""The provider: options, keys, and the two ways to ask."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

import attrs

from teff.errors import IncompleteStream, ProviderError
from teff.provider.failures import add_hint, server_words
from teff.provider.http import HttpClient, StreamedReply, join_url
from teff.provider.keys import check_base_url, check_key_source, find_key, public_url
from teff.provider.protocol import Capabilities, ChatDelta, ChatReply, ChatRequest
from teff.provider.reading import UnreadableReply
from teff.provider.sse import SseParser
from teff_providers_openai.quirks import COMPATIBLE, OPENAI, Quirks
from teff_providers_openai.reply import ReplyBuilder, read_reply
from teff_providers_openai.request import request_body

__all__ = ["OPENAI_BASE_URL", "OpenAIProvider"]

OPENAI_BASE_URL = "https://api.openai.com/v1"
_OPENAI_HOST = "api.openai.com"
_OPENAI_KEY = "OPENAI_API_KEY"

#: Seconds in which token counts and ``[DONE]`` follow the end of an answer, where they do at all.
_SECONDS_AFTER_FINISH = 5.0

#: A field that a server may not know → the quirk that does without it.
_CURES = {
    "grammar": "choices: json_schema",
    "json_schema": "json_schema: false, choices: none",
    "max_completion_tokens": "max_tokens_field: max_tokens",
    "max_tokens": "max_tokens_field: max_completion_tokens",
    "response_format": "json_schema: false, choices: none",
    "stream_options": "stream_usage: false",
}


def _show_url(url: str) -> str:
    return repr(public_url(url))


@attrs.define(kw_only=True, eq=False)
class OpenAIProvider:
    """OpenAI, and every server that speaks its chat completions.

    Such servers are Azure, DeepSeek, Mistral, Groq, Together, OpenRouter, Gemini's compatible
    endpoint, vLLM, the server of llama.cpp, LM Studio and LiteLLM. Example::

        provider = OpenAIProvider(base_url="http://127.0.0.1:8080/v1")
        reply = await provider.chat(ChatRequest(model="m", messages=[user("Hello")]))

    Args:
        name: what the workflow calls it.
        base_url: the address up to and with the version, usually ``…/v1``.
        api_key_env: the environment variable that holds the key. None is ``OPENAI_API_KEY`` for
            OpenAI itself and no key for any other address, so that a key goes only to whom it
            belongs. "" is no key.
        api_key: a function that returns the key, called before each request; instead of
            ``api_key_env``.
        chat_path: what is posted to, under ``base_url``.
        auth_header: the header that carries the key.
        auth_prefix: what stands before the key in it.
        timeout: seconds for a whole call, and in a stream for each event, where the request sets
            none.
        headers: sent with every request; their values appear in no error.
        options: put into every request as they are, such as ``{"reasoning_effort": "low"}``.
        quirks: what the server wants otherwise than most. None is what OpenAI wants at its own
            address, and the defaults of `Quirks` elsewhere.

    Raises:
        ConfigError: ``base_url`` is no URL or has a key in it, or both kinds of key are given.
    """

    name: str = "openai"
    base_url: str = attrs.field(default=OPENAI_BASE_URL, repr=_show_url)
    api_key_env: str | None = None
    api_key: Callable[[], str] | None = attrs.field(default=None, repr=False)
    chat_path: str = "/chat/completions"
    auth_header: str = "Authorization"
    auth_prefix: str = "Bearer "
    timeout: float = 120.0
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    options: Mapping[str, Any] = attrs.field(factory=dict)
    quirks: Quirks | None = None
    _http: HttpClient = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.base_url = check_base_url(self.base_url, provider=self.name)
        check_key_source(self.api_key_env, self.api_key, provider=self.name)
        self._http = HttpClient(self.name, hint="Is the server running, and base_url right?")

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of it; ``quirks`` decide about choices and schemas."""
        quirks = self._quirks
        return Capabilities(choices=quirks.choices != "none", json_schema=quirks.json_schema)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer ``request`` at once.

        Raises:
            ProviderError: the server cannot be reached, refuses, or sends no answer.
            ConfigError: a key is needed and its environment variable is not set.
        """
        try:
            data = await self._http.post_json(
                self._url, self._body(request, stream=False), **self._call(request)
            )
            return read_reply(data, request)
        except ProviderError as error:
            raise self._explained(error) from None
        except UnreadableReply as error:
            raise self._unreadable(error, request) from None

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Answer ``request`` piece by piece; the last piece carries the whole reply.

        A server that does not stream gives its answer as one piece. The text of a constrained
        choice comes as one piece too.

        Raises:
            ProviderError: as `chat`; or the server sends an error after it has begun.
            IncompleteStream: the stream ended before the server said that the answer was whole.
            ConfigError: as `chat`.
        """
        builder = ReplyBuilder(request)
        try:
            async with self._http.stream(
                self._url, self._body(request, stream=True), **self._call(request)
            ) as reply:
                if reply.content_type in ("application/json", "text/html"):
                    whole = read_reply(await reply.json_object(), request)
                    if whole.text or whole.thinking:
                        yield ChatDelta(text=whole.text, thinking=whole.thinking)
                else:
                    async with aclosing(_deltas(reply, builder)) as deltas:
                        async for delta in deltas:
                            yield delta
                    whole = builder.reply()
                    if request.choices and whole.text:
                        yield ChatDelta(text=whole.text)
        except IncompleteStream as error:
            error.partial = builder.text
            raise
        except ProviderError as error:
            raise self._explained(error) from None
        except UnreadableReply as error:
            raise self._unreadable(error, request) from None
        yield ChatDelta(reply=whole)

    async def aclose(self) -> None:
        """Free every connection. The provider may be used again afterwards."""
        await self._http.aclose()

    @property
    def _url(self) -> str:
        return join_url(self.base_url, self.chat_path)

    @property
    def _is_openai(self) -> bool:
        parts = urlsplit(self.base_url)
        host = parts.hostname or ""
        is_its_host = host == _OPENAI_HOST or host.endswith("." + _OPENAI_HOST)
        return is_its_host and parts.scheme == "https"

    @property
    def _quirks(self) -> Quirks:
        if self.quirks is not None:
            return self.quirks
        return OPENAI if self._is_openai else COMPATIBLE

    def _body(self, request: ChatRequest, *, stream: bool) -> dict[str, Any]:
        if not request.messages:
            raise self._http.error(
                "cannot be asked: there are no messages.", model=request.model, permanent=True
            )
        return request_body(request, quirks=self._quirks, options=self.options, stream=stream)

    def _call(self, request: ChatRequest) -> dict[str, Any]:
        headers = dict(self.headers)
        if key := find_key(self._key_variable, self.api_key, provider=self.name):
            headers[self.auth_header] = self.auth_prefix + key
        return {
            "headers": headers,
            "timeout": self.timeout if request.timeout is None else request.timeout,
            "model": request.model,
        }

    @property
    def _key_variable(self) -> str:
        if self.api_key_env is None:
            return _OPENAI_KEY if self._is_openai else ""
        return self.api_key_env

    def _unreadable(self, error: UnreadableReply, request: ChatRequest) -> ProviderError:
        return self._http.error(f"sent a reply that cannot be read: {error}", model=request.model)

    def _explained(self, error: ProviderError) -> ProviderError:
        """Add to an error what the user can do about it, where that is known."""
        hint = ""
        if error.status in (401, 403) and self.api_key is None and not self._key_variable:
            hint = "No key was sent: name the environment variable that holds it as api_key_env."
        elif error.status == 404 and "model" not in error.body.lower():
            hint = "Is base_url complete? For most servers it ends with /v1."
        elif error.status in (400, 422):
            cures = [cure for field, cure in _CURES.items() if field in error.body]
            if cures:
                hint = f"Where the server does not know a field, set quirks: {{{cures[0]}}}."
        if hint:
            add_hint(error, hint)
        return error


async def _deltas(reply: StreamedReply, builder: ReplyBuilder) -> AsyncGenerator[ChatDelta, None]:
    """Read a stream to its end, and yield what is to be shown."""
    parser = SseParser()
    try:
        timeout = None
        while (events := await reply.read(parser, timeout=timeout)) is not None:
            for event in events:
                if event.data.startswith("[DONE]"):
                    builder.is_whole = True
                    await reply.drain()
                    return
                data = reply.parse(event.data)
                if event.event == "error":
                    raise reply.error(f"sent an error: {server_words(event.data)}")
                delta = builder.add(data)
                if delta is not None:
                    yield delta
            timeout = _SECONDS_AFTER_FINISH if builder.is_whole else None
    except IncompleteStream:
        if not builder.is_whole:
            raise
    if not builder.is_whole:
        raise reply.incomplete()
