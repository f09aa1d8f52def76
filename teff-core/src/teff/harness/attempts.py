"""Asking one target: retries, streaming, the limits of the run, and what is told of each attempt."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Protocol, TypeAlias

import attrs

from teff.errors import ConfigError, ProviderError
from teff.harness.cache import CacheFinder, cache_key
from teff.harness.concurrency import provider_concurrency, slot
from teff.harness.journaled import reply_from_json, reply_to_json
from teff.harness.retry import RetryPolicy
from teff.harness.targets import Target, is_empty
from teff.plugins import NodeInfo
from teff.plugins.log import warn
from teff.provider import ChatReply, ChatRequest
from teff.runtime import ExecContext, tell_payload

__all__ = ["Answered", "Attempts", "ModelCallback", "Screen", "Shown", "TokenCallback"]

#: Hears each piece of a streamed answer; a plain or an async function.
TokenCallback: TypeAlias = Callable[[str], Awaitable[None] | None]

#: Hears of each answer: provider, model, tokens of the prompt and of the answer (None where the
#: server does not count), milliseconds; a plain or an async function.
ModelCallback: TypeAlias = Callable[
    [str, str, int | None, int | None, float], Awaitable[None] | None
]

#: Why an answer ended that is not worth to be kept.
_NOT_WHOLE = ("length", "content_filter", "error")

#: Seconds that a try has at least: its deadline is a number above 0.
_LEAST_TIME = 0.001


class Screen(Protocol):
    """Decides which part of a streamed text is for people."""

    def feed(self, piece: str) -> str:
        """Take in a piece; return what may be shown now."""
        ...

    def close(self) -> str:
        """Return what may be shown after the last piece."""
        ...


class _Clear:
    """Shows everything."""

    def feed(self, piece: str) -> str:
        return piece

    def close(self) -> str:
        return ""


@attrs.define
class Shown:
    """Whether a piece of the answer has left the harness, after which nobody else may be asked.

    White space at the beginning is held back until something follows: it is no answer yet.
    """

    anything: bool = False
    _blank: str = ""

    def begin(self) -> None:
        """Forget what was held back of an attempt before."""
        self._blank = ""

    def of(self, text: str) -> str:
        """Return what is shown with ``text``."""
        if not self.anything and not text.strip():
            self._blank += text
            return ""
        text, self._blank, self.anything = self._blank + text, "", True
        return text


@attrs.frozen
class Answered:
    """A reply, and whether it came from the cache, where it has cost nothing."""

    reply: ChatReply
    cached: bool = False


@attrs.frozen(kw_only=True)
class Attempts:
    """Asks a target until it answers, or until the retries are used up.

    Attributes:
        ctx: the step that the calls belong to.
        retry: when a call is tried again.
        cache: finds where answers are looked up and kept; None keeps none.
        max_parallel: how many calls of one provider run at once, or None.
        on_llm: hears of each answer, cached ones too.
        on_token: hears the pieces, beside the ``token`` events.
        live: whether pieces are shown.
        screen: makes what decides which pieces are shown; None shows all.
        until: when the call must be over, on the monotonic clock, whoever is asked; or None.
    """

    ctx: ExecContext
    retry: RetryPolicy
    cache: CacheFinder | None = None
    max_parallel: int | None = None
    on_llm: ModelCallback | None = None
    on_token: TokenCallback | None = None
    live: bool = False
    screen: Callable[[], Screen] | None = None
    until: float | None = None

    async def answer(self, target: Target, request: ChatRequest, shown: Shown) -> Answered:
        """Return the answer of ``target`` to ``request``.

        Raises:
            ProviderError: the last attempt failed, or one after something was shown.
            LimitSignal: the run may make no further call.
        """
        cache = self.cache(target.provider) if self.cache is not None else None
        key = cache_key(target.provider, request) if cache is not None else ""
        if cache is not None and (kept := _as_reply(await cache.get(key))) is not None:
            return await self._from_cache(target, request, kept, shown)
        reply = await self._until_answered(target, request, shown)
        if cache is not None and _may_be_kept(reply):
            try:
                await cache.put(key, reply_to_json(reply))
            except ConfigError as error:  # the answer is there, and was paid for
                warn(f"{self.ctx.node_id}: an answer is not kept: {error}", node=self.ctx.node_id)
        return Answered(reply)

    async def _until_answered(
        self, target: Target, request: ChatRequest, shown: Shown
    ) -> ChatReply:
        attempt = 1
        while True:
            try:
                async with slot(*self._bounds(target)):
                    self.ctx.count_model_call(target.name)
                    return await self._attempt(target, self._in_time(request), shown)
            except ProviderError as error:
                error.shown = shown.anything
                wait = None if shown.anything else self.retry.wait_before_retry(error, attempt)
                if wait is None or not self._has_time_for(wait):
                    raise
                await self.tell_retry(target, error, attempt=attempt, wait=wait)
            await asyncio.sleep(wait)
            attempt += 1

    def _in_time(self, request: ChatRequest) -> ChatRequest:
        """Return ``request`` with what is left of its deadline, of which other tries were a part."""
        if self.until is None:
            return request
        left = max(self.until - time.monotonic(), _LEAST_TIME)
        return attrs.evolve(request, deadline=left)

    def _has_time_for(self, wait: float) -> bool:
        return self.until is None or time.monotonic() + wait < self.until

    async def tell_retry(
        self, target: Target, error: ProviderError, *, attempt: int, wait: float
    ) -> None:
        """Tell that ``target`` is asked again after ``error``, in ``wait`` seconds."""
        told = {"attempt": attempt, "wait": wait, "error": str(error)}
        await self.ctx.emit(
            "llm_retry", {"provider": target.provider_name, "model": target.model, **told}
        )

    def _bounds(self, target: Target) -> list[tuple[Hashable, int | None]]:
        name = target.provider_name
        return [
            (("node", name), self.max_parallel),
            # Two workflows may each declare a provider of this name, and mean two servers.
            (("declared", id(target.provider)), target.max_parallel),
            (("process", name), provider_concurrency(name)),
        ]

    async def _attempt(self, target: Target, request: ChatRequest, shown: Shown) -> ChatReply:
        self._tell("teff_llm_request", request=request)
        shown.begin()
        started = time.monotonic()
        if self.live and target.provider.capabilities.streaming:
            reply = await self._stream(target, request, shown)
        else:
            reply = await target.provider.chat(request)
        seconds = time.monotonic() - started
        self.ctx.count_tokens(target.name, reply.usage)
        self._tell("teff_llm_response", request=request, reply=reply, seconds=seconds)
        await self._report(target, request, reply, seconds=seconds, cached=False)
        return reply

    async def _from_cache(
        self, target: Target, request: ChatRequest, reply: ChatReply, shown: Shown
    ) -> Answered:
        if self.live:
            screen = self._new_screen()
            await self._show(screen.feed(reply.text) + screen.close(), target, shown)
        await self._report(target, request, reply, seconds=0.0, cached=True)
        return Answered(reply, cached=True)

    async def _report(
        self,
        target: Target,
        request: ChatRequest,
        reply: ChatReply,
        *,
        seconds: float,
        cached: bool,
    ) -> None:
        used, model = reply.usage, reply.model or request.model
        milliseconds = seconds * 1000.0
        if self.ctx.listening:
            event = {
                "provider": target.provider_name,
                "model": model,
                "asked": target.name,
                "prompt_tokens": used.prompt_tokens,
                "completion_tokens": used.completion_tokens,
                "total_tokens": used.total,
                "cost": 0.0 if cached else self.ctx.run.cost(target.name, used),
                "duration_ms": milliseconds,
                "finish_reason": reply.finish_reason,
                "cached": cached,
            }
            await self.ctx.emit("llm", event)
        if self.on_llm is not None:
            await _heard(
                self.on_llm(
                    target.provider_name,
                    model,
                    used.prompt_tokens,
                    used.completion_tokens,
                    milliseconds,
                )
            )
        if self.ctx.run.on_llm_payload is not None:
            await tell_payload(
                self.ctx,
                provider=target.provider_name,
                model=model,
                messages=request.messages,
                content=reply.text,
                usage=used,
                latency_ms=milliseconds,
                cached=cached,
            )

    async def _stream(self, target: Target, request: ChatRequest, shown: Shown) -> ChatReply:
        screen = self._new_screen()
        pieces = target.provider.stream(request)
        try:
            async for piece in pieces:
                await self._show(screen.feed(piece.text), target, shown)
                if piece.reply is not None:
                    await self._show(screen.close(), target, shown)
                    return piece.reply
        finally:
            # An async generator that is left early is closed at once, not when it is collected.
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()
        raise ProviderError(
            f"provider {target.provider.name!r} ended a stream without the whole reply",
            provider=target.provider_name,
            model=request.model,
        )

    def _new_screen(self) -> Screen:
        return self.screen() if self.screen is not None else _Clear()

    async def _show(self, text: str, target: Target, shown: Shown) -> None:
        text = shown.of(text) if text else ""
        if not text:
            return
        await self.ctx.emit(
            "token", {"token": text, "provider": target.provider_name, "model": target.model}
        )
        if self.on_token is not None:
            await _heard(self.on_token(text))

    def _tell(self, hook: str, **details: Any) -> None:
        hooks = self.ctx.run.hooks
        if hooks is not None and hooks.listens(hook):
            node = NodeInfo(id=self.ctx.node_id, type=self.ctx.node_type, path=self.ctx.path)
            hooks.tell(hook, run=self.ctx.run.info, node=node, **details)


async def _heard(result: Awaitable[None] | None) -> None:
    if inspect.isawaitable(result):
        await result


def _as_reply(kept: Mapping[str, Any] | None) -> ChatReply | None:
    """Read what a cache has kept; what is damaged, or of another version, is asked again."""
    if kept is None:
        return None
    try:
        return reply_from_json(kept)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _may_be_kept(reply: ChatReply) -> bool:
    return not is_empty(reply) and reply.finish_reason not in _NOT_WHOLE
