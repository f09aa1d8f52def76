"""The provider: options, the address of the server, and the two ways to ask."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import attrs

from teff.errors import ProviderError
from teff.provider.http import HttpClient, StreamedReply, join_url
from teff.provider.keys import check_base_url, check_key_source, find_key, url_repr
from teff.provider.options import check_headers, check_key_header, check_timeout
from teff.provider.protocol import Capabilities, ChatDelta, ChatReply, ChatRequest, ModelInfo
from teff.provider.reading import UnreadableReply
from teff.provider.sse import NdjsonParser
from teff_providers_ollama.address import address, address_from_environment
from teff_providers_ollama.hints import explain
from teff_providers_ollama.listing import read_models
from teff_providers_ollama.options import (
    EXTRA,
    FIELDS,
    OPTIONS,
    Thinking,
    check_extra_options,
    check_keep_alive,
    check_options,
    check_thinking,
)
from teff_providers_ollama.reply import ReplyBuilder, read_reply
from teff_providers_ollama.request import request_body
from teff_providers_ollama.window import WindowWatch

__all__ = ["OllamaProvider"]

#: Seconds for a list of models, which no model has to be loaded for.
_LISTING_TIMEOUT = 30.0


@attrs.define(kw_only=True, eq=False)
class OllamaProvider:
    """A server of Ollama, asked through its native ``/api/chat``.

    Example::

        provider = OllamaProvider()
        reply = await provider.chat(ChatRequest(model="llama3.1:8b", messages=[user("Hello")]))

    Args:
        name: what the workflow calls it.
        base_url: the address, with the rules of ``OLLAMA_HOST``: scheme and port may be missing.
            "" is what ``OLLAMA_HOST`` says, else ``http://127.0.0.1:11434``.
        chat_path: what is posted to, under ``base_url``.
        api_key_env: the environment variable that holds a key, for servers behind a gate and
            Ollama's cloud; "" is no key.
        api_key: a function that returns the key, called before each request; instead of
            ``api_key_env``.
        auth_header: the header that carries the key.
        auth_prefix: what stands before the key in it.
        timeout: seconds for a whole call, and in a stream for each event, where the request sets
            none; above 0. A model that has to be loaded first takes minutes.
        headers: sent with every request; their values appear in no error. None of them may be the
            one that carries the key, or one that the client writes itself.
        ca_file: a PEM file with authorities that are trusted beside the usual ones.
        options: for the model, such as ``{"num_ctx": 8192}``; a request's own win over them. Their
            names are those of `teff_providers_ollama.options.OPTIONS`.
        extra_options: the same, unchecked, for what is newer than those names.
        keep_alive: how long the model stays loaded: seconds, a text with a unit such as ``"5m"``,
            a negative number for ever; None leaves it to the server.
        think: whether, or how much (``"low"``, ``"medium"``, ``"high"``, ``"max"``), the model
            reasons before it answers. None: not, where the answer is held to choices or a schema;
            else it is left to the server, which lets every model think that can. Models that take
            levels only get one.

    Raises:
        ConfigError: ``base_url`` is no URL or has a key in it, both kinds of key are given,
            ``ca_file`` cannot be read, a header cannot be sent, ``timeout`` is not above 0, or an
            option is unknown or has a wrong value.
    """

    name: str = "ollama"
    base_url: str = attrs.field(default="", repr=url_repr)
    chat_path: str = "/api/chat"
    api_key_env: str = ""
    api_key: Callable[[], str] | None = attrs.field(default=None, repr=False)
    auth_header: str = "Authorization"
    auth_prefix: str = "Bearer "
    timeout: float = 300.0
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    ca_file: str | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    extra_options: Mapping[str, Any] = attrs.field(factory=dict)
    keep_alive: int | float | str | None = None
    think: Thinking | None = None
    _http: HttpClient = attrs.field(init=False, repr=False)
    _window: WindowWatch = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        url = address(self.base_url) if self.base_url else address_from_environment()
        self.base_url = check_base_url(url, provider=self.name)
        check_timeout(self.timeout, provider=self.name)
        check_key_source(self.api_key_env, self.api_key, provider=self.name)
        check_headers(self.headers, provider=self.name)
        check_key_header(
            self.auth_header,
            self.auth_prefix,
            self.headers,
            provider=self.name,
            sends_key=self.api_key is not None or bool(self.api_key_env),
        )
        check_options(self.options, provider=self.name)
        check_extra_options(self.extra_options, provider=self.name)
        if self.keep_alive is not None:
            check_keep_alive(self.keep_alive, where=f"provider {self.name!r}")
        if self.think is not None:
            check_thinking(self.think, where=f"provider {self.name!r}")
        self._http = HttpClient(self.name, hint="Start it with: ollama serve", ca_file=self.ca_file)
        self._window = WindowWatch(self.name)

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of it: everything, but for tools together with a schema."""
        return Capabilities(choices=True, json_schema=True, schema_with_tools=False)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer ``request`` at once.

        Raises:
            ProviderError: the server cannot be reached, refuses, or sends no answer.
            ConfigError: the variable ``api_key_env`` is not set, or an option of the request is
                unknown or has a wrong value.
        """
        body = self._body(request, stream=False)
        try:
            data = await self._http.post_json(self._url, body, **self._call(request))
            reply = read_reply(data, request)
        except ProviderError as error:
            explain(error, request.model)
            raise
        except UnreadableReply as error:
            raise self._unreadable(error, request.model) from None
        self._window.after(body, reply.usage, reply.finish_reason)
        return reply

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Answer ``request`` piece by piece; the last piece carries the whole reply.

        The text of a constrained choice comes as one piece.

        Raises:
            ProviderError: as `chat`; or the server sends an error after it has begun.
            IncompleteStream: the stream ended before the server said that the answer was whole.
            ConfigError: as `chat`.
        """
        body = self._body(request, stream=True)
        builder = ReplyBuilder(request)
        try:
            async with (
                self._http.stream(self._url, body, **self._call(request)) as reply,
                aclosing(_deltas(reply, builder)) as deltas,
            ):
                async for delta in deltas:
                    yield delta
            if (held_back := builder.close()) is not None:
                yield held_back
            whole = builder.reply()
        except ProviderError as error:
            error.partial = builder.text
            explain(error, request.model)
            raise
        except UnreadableReply as error:
            failure = self._unreadable(error, request.model)
            failure.partial = builder.text
            raise failure from None
        self._window.after(body, whole.usage, whole.finish_reason)
        if request.choices and whole.text:
            yield ChatDelta(text=whole.text)
        yield ChatDelta(reply=whole)

    async def models(self) -> list[ModelInfo]:
        """List the models that the server has, by name.

        Raises:
            ProviderError: the server cannot be reached, refuses, or sends no list.
            ConfigError: the variable ``api_key_env`` is not set.
        """
        path = self.chat_path.removesuffix("/chat")
        path = "/api/tags" if path == self.chat_path else f"{path}/tags"
        try:
            data = await self._http.get_json(
                join_url(self.base_url, path),
                headers=self._headers(),
                timeout=min(self.timeout, _LISTING_TIMEOUT),
            )
            return read_models(data)
        except ProviderError as error:
            explain(error, "")
            raise
        except UnreadableReply as error:
            raise self._unreadable(error, "") from None

    async def aclose(self) -> None:
        """Free every connection. The provider may be used again afterwards."""
        await self._http.aclose()

    @property
    def _url(self) -> str:
        return join_url(self.base_url, self.chat_path)

    def _body(self, request: ChatRequest, *, stream: bool) -> dict[str, Any]:
        if not request.messages:
            # The server would only load the model, and answer nothing.
            raise self._http.error(
                "cannot be asked: there are no messages.", model=request.model, permanent=True
            )
        self._check_options_of(request)
        body = request_body(
            request,
            options={**self.options, **self.extra_options},
            fields={"keep_alive": self.keep_alive, "think": self.think},
            stream=stream,
        )
        self._window.before(body)
        return body

    def _check_options_of(self, request: ChatRequest) -> None:
        extra = request.options.get(EXTRA)
        check_extra_options({} if extra is None else extra, provider=self.name)
        checked = {name: request.options[name] for name in request.options if name != EXTRA}
        known = FIELDS | OPTIONS
        check_options(checked, provider=self.name, under="provider_options", known=known)

    def _headers(self) -> dict[str, str]:
        headers = dict(self.headers)
        if key := find_key(self.api_key_env, self.api_key, provider=self.name):
            self._http.hide_key(key)
            headers[self.auth_header] = self.auth_prefix + key
        return headers

    def _call(self, request: ChatRequest) -> dict[str, Any]:
        return {
            "headers": self._headers(),
            "timeout": self.timeout if request.timeout is None else request.timeout,
            "deadline": request.deadline,
            "model": request.model,
        }

    def _unreadable(self, error: UnreadableReply, model: str) -> ProviderError:
        return self._http.error(f"sent a reply that cannot be read: {error}", model=model)


async def _deltas(reply: StreamedReply, builder: ReplyBuilder) -> AsyncGenerator[ChatDelta, None]:
    """Read a stream up to its last frame, and yield what is to be shown."""
    if reply.content_type == "text/html":
        await reply.json_object()  # the page of a proxy, which it raises the words of
    parser = NdjsonParser()
    has_begun = False
    while (lines := await reply.read(parser)) is not None:
        has_begun = True
        said_nothing = True
        for line in lines:
            frame = reply.parse(line)
            delta = builder.add(frame)
            said_nothing = said_nothing and "message" not in frame
            if delta is not None:
                yield delta
            if builder.is_whole:
                await reply.drain()
                return
        if said_nothing:
            reply.said_nothing()
    if parser.rest and not has_begun and reply.content_type != "application/x-ndjson":
        reply.parse(parser.rest)  # no stream, and it says what it is instead
    raise reply.incomplete()
