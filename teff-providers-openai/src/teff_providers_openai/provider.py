"""The provider: options, keys, and the two ways to ask."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import attrs

from teff.errors import ConfigError, IncompleteStream, ProviderError
from teff.provider.failures import server_words
from teff.provider.http import HttpClient, StreamedReply, join_url
from teff.provider.keys import check_base_url, check_key_source, find_key, url_repr
from teff.provider.options import check_headers, check_key_header, check_timeout
from teff.provider.protocol import Capabilities, ChatDelta, ChatReply, ChatRequest, ModelInfo
from teff.provider.reading import UnreadableReply
from teff.provider.sse import SseParser
from teff_providers_openai.hints import explain
from teff_providers_openai.models import read_models
from teff_providers_openai.presets import Preset, find_preset
from teff_providers_openai.quirks import Quirks
from teff_providers_openai.reply import ReplyBuilder, read_reply
from teff_providers_openai.request import request_body

__all__ = ["OpenAIProvider"]

#: Seconds in which token counts and ``[DONE]`` follow the end of an answer, where they do at all.
_SECONDS_AFTER_FINISH = 5.0


@attrs.define(kw_only=True, eq=False)
class OpenAIProvider:
    """OpenAI, and every server that speaks its chat completions.

    Of many of them a preset knows the address, the variable of the key, and what they want
    otherwise: see `PRESETS`. Example::

        provider = OpenAIProvider(preset="groq", timeout=30)
        local = OpenAIProvider(base_url="http://127.0.0.1:8080/v1")
        reply = await local.chat(ChatRequest(model="m", messages=[user("Hello")]))

    Args:
        name: what the workflow calls it; by default the name of the preset.
        preset: which server it is, one of `PRESETS`. ``openai`` stands for unknown servers too,
            with a ``base_url``.
        base_url: the address up to and with the version, usually ``…/v1``. None is what the
            environment variable of the preset says (``GROQ_BASE_URL`` for ``groq``), else its own.
        api_key_env: the environment variable that holds the key. None is that of the preset for
            the preset's own hosts and no key for any other address, so that a key goes only to
            whom it belongs. "" is no key.
        api_key: a function that returns the key, called before each request; instead of
            ``api_key_env``.
        chat_path: what is posted to, under ``base_url``.
        auth_header: the header that carries the key; None is that of the preset.
        auth_prefix: what stands before the key in it; None is that of the preset.
        timeout: seconds for a whole call, and in a stream for each event, where the request sets
            none; above 0.
        headers: sent with every request; their values appear in no error. None of them may be the
            one that carries the key, or one that the client writes itself.
        ca_file: a PEM file with authorities that are trusted beside the usual ones.
        options: put into every request as they are, such as ``{"reasoning_effort": "low"}``.
        quirks: what the server wants otherwise than the preset says.

    Raises:
        ConfigError: the preset is unknown, ``base_url`` is missing, is no URL or has a key in it,
            both kinds of key are given, a header cannot be sent, ``timeout`` is not above 0, or
            ``ca_file`` cannot be read.
    """

    name: str = ""
    preset: str = "openai"
    base_url: str | None = attrs.field(default=None, repr=url_repr)
    api_key_env: str | None = None
    api_key: Callable[[], str] | None = attrs.field(default=None, repr=False)
    chat_path: str = "/chat/completions"
    auth_header: str | None = None
    auth_prefix: str | None = None
    timeout: float = 120.0
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    ca_file: str | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    quirks: Quirks | None = None
    _preset: Preset = attrs.field(init=False, repr=False)
    _quirks: Quirks = attrs.field(init=False, repr=False)
    _http: HttpClient = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._preset = find_preset(self.preset, provider=self.name)
        self.name = self.name or self.preset
        self.base_url = check_base_url(self._find_base_url(), provider=self.name)
        check_timeout(self.timeout, provider=self.name)
        check_key_source(self.api_key_env, self.api_key, provider=self.name)
        check_headers(self.headers, provider=self.name)
        check_key_header(
            *self._key_header,
            self.headers,
            provider=self.name,
            sends_key=self.api_key is not None or bool(self._key_variable),
        )
        if not isinstance(self.quirks, Quirks | None):
            raise ConfigError(
                f"provider {self.name!r}: quirks are Quirks(…), not {self.quirks!r}.",
                path="quirks",
            )
        self._quirks = self._preset.quirks_at(self.base_url, self.quirks)
        hint = "Is the server running, and base_url right?"
        self._http = HttpClient(self.name, hint=hint, ca_file=self.ca_file)

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of it; ``quirks`` decide about choices and schemas."""
        quirks = self._quirks
        return Capabilities(
            choices=quirks.choices != "none",
            json_schema=bool(quirks.json_schema or quirks.json_object),
            schema_with_tools=bool(quirks.schema_with_tools and quirks.json_schema),
            alternating=bool(quirks.alternating),
        )

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer ``request`` at once.

        Raises:
            ProviderError: the server cannot be reached, refuses, or sends no answer.
            ConfigError: a key is needed and its environment variable is not set.
        """
        try:
            data = await self._http.post_json(
                self._chat_url(request.model),
                self._body(request, stream=False),
                **self._call(request),
            )
            return read_reply(data, request)
        except ProviderError as error:
            raise self._explained(error) from None
        except UnreadableReply as error:
            raise self._unreadable(error, request.model) from None

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
                self._chat_url(request.model),
                self._body(request, stream=True),
                **self._call(request),
            ) as reply:
                if reply.content_type in ("application/json", "text/html"):
                    whole = read_reply(await reply.json_object(), request)
                    if whole.text or whole.thinking:
                        yield ChatDelta(text=whole.text, thinking=whole.thinking)
                else:
                    async with aclosing(_deltas(reply, builder)) as deltas:
                        async for delta in deltas:
                            yield delta
                    if (held_back := builder.close()) is not None:
                        yield held_back
                    whole = builder.reply()
                    if request.choices and whole.text:
                        yield ChatDelta(text=whole.text)
        except ProviderError as error:
            error.partial = builder.text
            raise self._explained(error) from None
        except UnreadableReply as error:
            failure = self._unreadable(error, request.model)
            failure.partial = builder.text
            raise failure from None
        yield ChatDelta(reply=whole)

    async def models(self) -> Sequence[ModelInfo]:
        """List the models that the server offers, by name.

        Raises:
            ProviderError: the server cannot be reached, refuses, or sends no list.
            ConfigError: as `chat`.
        """
        try:
            data = await self._http.get_json(
                join_url(self.base_url or "", "/models"),
                headers=self._headers(),
                timeout=self.timeout,
            )
            return read_models(data)
        except ProviderError as error:
            raise self._explained(error) from None
        except UnreadableReply as error:
            raise self._unreadable(error, "") from None

    async def aclose(self) -> None:
        """Free every connection. The provider may be used again afterwards."""
        await self._http.aclose()

    def _find_base_url(self) -> str:
        """Return the address: the one given, else that of the environment or the preset."""
        if self.base_url is not None:
            return self.base_url
        if address := self._preset.address():
            return address
        raise ConfigError(
            f"provider {self.name!r} needs a base_url: the preset {self.preset!r} has none.",
            hint=f"Its type {self.preset!r} makes one of its own options.",
            path="base_url",
        )

    def _chat_url(self, model: str) -> str:
        """Return what is posted to, for a model that may be part of it."""
        return join_url(self.base_url or "", self.chat_path)

    def _model(self, model: str) -> str:
        """Return the name under which the server knows ``model``."""
        return model

    def _body(self, request: ChatRequest, *, stream: bool) -> dict[str, Any]:
        body = request_body(request, quirks=self._quirks, options=self.options, stream=stream)
        if not body["messages"]:
            raise self._http.error(
                "cannot be asked: there are no messages.", model=request.model, permanent=True
            )
        return body | {"model": self._model(request.model)}

    def _call(self, request: ChatRequest) -> dict[str, Any]:
        return {
            "headers": self._headers(),
            "timeout": self.timeout if request.timeout is None else request.timeout,
            "deadline": request.deadline,
            "model": request.model,
        }

    def _headers(self) -> dict[str, str]:
        headers = dict(self.headers)
        if key := find_key(self._key_variable, self.api_key, provider=self.name):
            self._http.hide_key(key)
            header, prefix = self._key_header
            headers[header] = prefix + key
        return headers

    @property
    def _key_header(self) -> tuple[str, str]:
        """The header that carries the key, and what stands before the key in it."""
        preset = self._preset
        return (
            preset.auth_header if self.auth_header is None else self.auth_header,
            preset.auth_prefix if self.auth_prefix is None else self.auth_prefix,
        )

    @property
    def _key_variable(self) -> str:
        if self.api_key_env is None:
            return self._preset.api_key_env if self._preset.owns(self.base_url or "") else ""
        return self.api_key_env

    def _unreadable(self, error: UnreadableReply, model: str) -> ProviderError:
        return self._http.error(f"sent a reply that cannot be read: {error}", model=model)

    def _explained(self, error: ProviderError) -> ProviderError:
        sends_key = self.api_key is not None or bool(self._key_variable)
        return explain(error, preset=self._preset, quirks=self._quirks, sends_key=sends_key)


async def _deltas(reply: StreamedReply, builder: ReplyBuilder) -> AsyncGenerator[ChatDelta, None]:
    """Read a stream to its end, and yield what is to be shown."""
    parser = SseParser()
    try:
        timeout = None
        while (events := await reply.read(parser, timeout=timeout)) is not None:
            said_nothing = True
            for event in events:
                if event.data.startswith("[DONE]"):
                    builder.is_whole = True
                    await reply.drain()
                    return
                data = reply.parse(event.data)
                if event.event == "error":
                    raise reply.error(f"sent an error: {server_words(event.data)}")
                delta = builder.add(data)
                said_nothing = said_nothing and not (data.get("choices") or data.get("usage"))
                if delta is not None:
                    yield delta
            if said_nothing:
                reply.said_nothing()
            timeout = _SECONDS_AFTER_FINISH if builder.is_whole else None
    except IncompleteStream:
        if not builder.is_whole:
            raise
    if not builder.is_whole:
        raise reply.incomplete()
