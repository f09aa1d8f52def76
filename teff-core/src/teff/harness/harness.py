"""`Harness`: one model call done right."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypedDict, Unpack

import attrs

from teff.errors import ConfigError, ProviderError
from teff.harness.journaled import reply_from_json, reply_to_json, request_digest
from teff.harness.retry import RetryPolicy
from teff.messages import Message
from teff.plugins import NodeInfo
from teff.provider import ChatReply, ChatRequest, ProviderRegistry, ToolSpec
from teff.runtime import ExecContext, tell_payload

__all__ = ["Harness", "HarnessSettings", "TokenCallback"]

#: Hears each piece of a streamed answer; a plain or an async function.
TokenCallback = Callable[[str], Awaitable[None] | None]


class HarnessSettings(TypedDict, total=False):
    """How a `Harness` asks."""

    #: Options of the provider that are replaced for these calls, ``base_url`` and the like.
    overrides: Mapping[str, Any]
    #: None leaves it to the server.
    temperature: float | None
    #: The longest answer, in tokens; None leaves it to the server.
    max_tokens: int | None
    #: Seconds for a call, for a stream between two events; None is the provider's.
    timeout: float | None
    #: How often a call that failed for a passing reason is tried again; 2 by default.
    max_retries: int
    #: Seconds that are waited at most on a server's word; 120 by default.
    max_retry_wait: float
    #: Settings of the provider, sent as they are.
    options: Mapping[str, Any]


class Harness:
    """Asks one model of one provider: retries, limits, streaming, events, the journal.

    Inside a node, `for_step` makes one that belongs to the step: its calls are counted against the
    limits of the run, told as events and recorded, so that a resumed run does not pay twice.

    Args:
        model: the model's name as the provider knows it.
        provider: the provider's name.
        providers: a `ProviderRegistry`, or what one is made from; the installed ones by default.
        ctx: the step that the calls belong to; without one they are counted nowhere.
        **settings: see `HarnessSettings`.

    Raises:
        ConfigError: the provider is unknown.
    """

    def __init__(
        self,
        *,
        model: str,
        provider: str,
        providers: ProviderRegistry | Mapping[str, Any] | None = None,
        ctx: ExecContext | None = None,
        **settings: Unpack[HarnessSettings],
    ) -> None:
        registry = ProviderRegistry.of(providers)
        self.model = model
        self.provider = registry.derive(provider, settings.get("overrides") or {})
        self.temperature = settings.get("temperature")
        self.max_tokens = settings.get("max_tokens")
        self.timeout = settings.get("timeout")
        self.options = settings.get("options") or {}
        self.retry = RetryPolicy(
            max_retries=settings.get("max_retries", 2),
            max_wait=settings.get("max_retry_wait", 120.0),
        )
        self._ctx = ctx or ExecContext(node_id="harness")

    @classmethod
    def for_step(
        cls,
        ctx: ExecContext,
        *,
        provider: str = "",
        model: str = "",
        **settings: Unpack[HarnessSettings],
    ) -> Self:
        """Return a harness for the step of ``ctx``; empty names mean the defaults of the run.

        Raises:
            ConfigError: nothing names a provider or a model, or the provider is unknown.
        """
        return cls(
            provider=_named("provider", provider or ctx.default_provider, ctx),
            model=_named("model", model or ctx.default_model, ctx),
            providers=ctx.providers,
            ctx=ctx,
            **settings,
        )

    @property
    def can_choose(self) -> bool:
        """Whether the provider can hold an answer to a list of choices."""
        return self.provider.capabilities.choices

    async def call(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        tools: Sequence[ToolSpec] = (),
        choices: Sequence[str] | None = None,
        json_schema: Mapping[str, Any] | None = None,
        stop: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        stream: bool = False,
        on_token: TokenCallback | None = None,
    ) -> ChatReply:
        """Ask the model once and return its whole answer.

        Args:
            messages: the conversation; not empty.
            tools: what the model may call.
            choices: the only texts the answer may be, where the provider can enforce it.
            json_schema: what the answer must fit; it is sent where the provider can enforce it.
            stop: texts that end the answer.
            options: settings of the provider for this call, beside those of the harness.
            stream: whether the answer is taken piece by piece, where somebody listens.
            on_token: hears the pieces, beside the ``token`` events.

        Raises:
            ProviderError: the call failed, after every retry. There is no retry once a token was
                shown.
            ConfigError: there are no messages, or tools for a provider that has no tool calls.
            LimitSignal: the run may make no further call.
        """
        if not messages:
            raise ConfigError(f"{self._ctx.node_id!r} has no message to send to the model.")
        if tools and not self.provider.capabilities.tools:
            raise ConfigError(
                f"provider {self.provider.name!r} cannot call tools, and {self._ctx.node_id!r} "
                "offers some: use another provider, or remove use_tools."
            )
        request = ChatRequest(
            model=self.model,
            messages=messages,
            tools=tools,
            choices=choices,
            json_schema=json_schema if self.provider.capabilities.json_schema else None,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            stop=stop,
            timeout=self.timeout,
            options={**self.options, **(options or {})},
        )
        live = stream and (self._ctx.listening or on_token is not None)

        async def ask() -> dict[str, Any]:
            reply = await self._ask(request, live=live, on_token=on_token)
            return {**reply_to_json(reply), "asked": f"{self.provider.name}/{request.model}"}

        if self._ctx.run.journal is None:
            return reply_from_json(await ask())
        # The request is part of the key, so a recorded reply never answers another one.
        digest = request_digest(request)
        key = f"llm:{digest}:{self._ctx.number(f'llm:{digest}')}"
        return reply_from_json(await self._ctx.once(key, ask))

    async def _ask(
        self, request: ChatRequest, *, live: bool, on_token: TokenCallback | None
    ) -> ChatReply:
        attempt = 1
        while True:
            shown = _Shown()
            self._ctx.count_model_call(self._billed(request))
            try:
                return await self._attempt(request, live=live, on_token=on_token, shown=shown)
            except ProviderError as error:
                wait = None if shown.anything else self.retry.wait_before_retry(error, attempt)
                if wait is None:
                    raise
                await self._ctx.emit(
                    "llm_retry",
                    {
                        "provider": self.provider.name,
                        "model": request.model,
                        "attempt": attempt,
                        "wait": wait,
                        "error": str(error),
                    },
                )
            await asyncio.sleep(wait)
            attempt += 1

    def _billed(self, request: ChatRequest) -> str:
        """Return the name under which a request is counted and paid."""
        return f"{self.provider.name}/{request.model}"

    async def _attempt(
        self,
        request: ChatRequest,
        *,
        live: bool,
        on_token: TokenCallback | None,
        shown: _Shown,
    ) -> ChatReply:
        self._tell("teff_llm_request", request=request)
        started = time.monotonic()
        if live and self.provider.capabilities.streaming:
            reply = await self._stream(request, on_token, shown)
        else:
            reply = await self.provider.chat(request)
        seconds = time.monotonic() - started
        used = reply.usage
        self._ctx.count_tokens(self._billed(request), used)
        self._tell("teff_llm_response", request=request, reply=reply, seconds=seconds)
        await self._ctx.emit(
            "llm",
            {
                "provider": self.provider.name,
                "model": reply.model or request.model,
                "prompt_tokens": used.prompt_tokens,
                "completion_tokens": used.completion_tokens,
                "total_tokens": used.total,
                "cost": self._ctx.run.cost(self._billed(request), used),
                "duration_ms": seconds * 1000.0,
                "finish_reason": reply.finish_reason,
                "cached": False,
            },
        )
        if self._ctx.run.on_llm_payload is not None:
            await tell_payload(
                self._ctx,
                provider=self.provider.name,
                model=reply.model or request.model,
                messages=request.messages,
                content=reply.text,
                usage=used,
                latency_ms=seconds * 1000.0,
            )
        return reply

    async def _stream(
        self, request: ChatRequest, on_token: TokenCallback | None, shown: _Shown
    ) -> ChatReply:
        pieces = self.provider.stream(request)
        try:
            async for piece in pieces:
                if piece.text:
                    shown.anything = True
                    await self._show(piece.text, request.model, on_token)
                if piece.reply is not None:
                    return piece.reply
        finally:
            # An async generator that is left early is closed at once, not when it is collected.
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()
        raise ProviderError(
            f"provider {self.provider.name!r} ended a stream without the whole reply",
            provider=self.provider.name,
            model=request.model,
        )

    async def _show(self, text: str, model: str, on_token: TokenCallback | None) -> None:
        await self._ctx.emit(
            "token", {"token": text, "provider": self.provider.name, "model": model}
        )
        if on_token is not None:
            waiting = on_token(text)
            if inspect.isawaitable(waiting):
                await waiting

    def _tell(self, hook: str, **details: Any) -> None:
        ctx = self._ctx
        hooks = ctx.run.hooks
        if hooks is not None and hooks.listens(hook):
            node = NodeInfo(id=ctx.node_id, type=ctx.node_type, path=ctx.path)
            hooks.tell(hook, run=ctx.run.info, node=node, **details)


@attrs.define
class _Shown:
    """Whether a piece of the answer has left the harness."""

    anything: bool = False


def _named(what: str, name: str | None, ctx: ExecContext) -> str:
    if not name:
        raise ConfigError(
            f"node {ctx.node_id!r} asks a model, but no {what} is named: "
            f"set {what} on the node or default_{what} on the flow.",
            path=ctx.node_id,
        )
    return name
