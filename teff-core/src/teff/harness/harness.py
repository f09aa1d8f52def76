"""`Harness`: one model call done right."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Self, Unpack

import attrs

from teff.errors import ConfigError, ProviderError
from teff.harness.attempts import Answered, Attempts, Screen, Shown, TokenCallback
from teff.harness.cache import cache_of
from teff.harness.journaled import reply_from_json, reply_to_json, request_digest
from teff.harness.repair import valid_messages
from teff.harness.retry import RetryPolicy
from teff.harness.settings import HarnessSettings, check_settings
from teff.harness.targets import (
    Target,
    checked_fallbacks,
    failure_note,
    fallback_event,
    hands_over,
    may_fall_back,
    refuses_schema,
    targets_of,
)
from teff.harness.trim import trim_messages
from teff.messages import Message
from teff.plugins.log import warn
from teff.provider import ChatReply, ChatRequest, Provider, ProviderRegistry, ToolSpec
from teff.runtime import ExecContext

__all__ = ["Given", "Harness"]


@attrs.frozen
class Given:
    """An answer.

    Attributes:
        reply: what was said.
        place: which of the harness's models said it, from 0.
    """

    reply: ChatReply
    place: int = 0


class Harness:
    """Asks a model: retries, fallbacks, limits, a cache, streaming, events, the journal.

    Inside a node, `for_step` makes one that belongs to the step: its calls are counted against the
    limits of the run, told as events and recorded, so that a resumed run does not pay twice.

    Args:
        model: the model's name as the provider knows it.
        provider: the provider's name.
        providers: a `ProviderRegistry`, or what one is made from; the installed ones by default.
        ctx: the step that the calls belong to; without one they are counted nowhere.
        **settings: see `HarnessSettings`.

    Attributes:
        targets: what is asked in turn: the model, and its fallbacks.

    Raises:
        ConfigError: a provider or a setting is unknown, or a setting is wrong.

    >>> import asyncio
    >>> from teff.testing import ScriptedProvider
    >>> model = ScriptedProvider(["Hello."])
    >>> harness = Harness(model="m", provider="p", providers={"p": model})
    >>> asyncio.run(harness.call([{"role": "user", "content": "Hi"}])).text
    'Hello.'
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
        check_settings(settings)
        self._ctx = ctx or ExecContext(node_id="harness")
        self._settings = settings
        self._cache = cache_of(settings.get("cache"))
        #: The targets that have refused a schema.
        self._refusing: set[str] = set()
        self._retry = RetryPolicy(
            max_retries=settings.get("max_retries", 2),
            max_wait=settings.get("max_retry_wait", 120.0),
            statuses=settings.get("retry_on"),
        )
        self.targets = targets_of(
            provider,
            model,
            checked_fallbacks(settings.get("fallbacks")),
            registry=ProviderRegistry.of(providers),
            overrides=settings.get("overrides"),
        )

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
            ConfigError: nothing names a provider or a model, or a provider is unknown.
        """
        return cls(
            provider=_named("provider", provider or ctx.default_provider, ctx),
            model=_named("model", model or ctx.default_model, ctx),
            providers=ctx.providers,
            ctx=ctx,
            **settings,
        )

    @property
    def first(self) -> Target:
        """The model that is asked first."""
        return self.targets[0]

    @property
    def provider(self) -> Provider:
        """The provider that is asked first."""
        return self.first.provider

    @property
    def model(self) -> str:
        """The name of the model that is asked first."""
        return self.first.model

    @property
    def can_choose(self) -> bool:
        """Whether the provider can hold an answer to a list of choices."""
        return self.first.provider.capabilities.choices

    @property
    def max_tokens(self) -> int | None:
        """The longest answer, in tokens; None leaves it to the server."""
        return self._settings.get("max_tokens")

    def fallbacks_left(self) -> Self | None:
        """Return a harness for what comes after the first model, or None where nothing does."""
        return self.starting_at(1) if len(self.targets) > 1 else None

    def starting_at(self, place: int) -> Self:
        """Return a harness that asks the model at ``place`` first, from 0; it may be this one."""
        if place == 0:
            return self
        left = copy(self)
        left.targets = self.targets[place:]
        return left

    async def call(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        tools: Sequence[ToolSpec] = (),
        choices: Sequence[str] | None = None,
        json_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        stream: bool = False,
        show: bool = True,
        on_token: TokenCallback | None = None,
    ) -> ChatReply:
        """Ask once and return the whole answer; see `ask`, which says who gave it too."""
        asked = await self.ask(
            messages,
            tools=tools,
            choices=choices,
            json_schema=json_schema,
            max_tokens=max_tokens,
            stop=stop,
            options=options,
            stream=stream,
            show=show,
            on_token=on_token,
        )
        return asked.reply

    async def ask(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        *,
        tools: Sequence[ToolSpec] = (),
        choices: Sequence[str] | None = None,
        json_schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        stream: bool = False,
        show: bool = True,
        on_token: TokenCallback | None = None,
    ) -> Given:
        """Ask once and return the whole answer, and which of the models gave it.

        The conversation is made valid before it goes out (see `valid_messages`), and cut to what
        the settings allow (see `trim_messages`). Where a model fails for good before anything was
        shown, or answers with nothing at all, the next of the fallbacks is asked.

        Args:
            messages: the conversation; not empty.
            tools: what the model may call.
            choices: the only texts the answer may be, where the provider can enforce it.
            json_schema: what the answer must fit; it is sent where the provider can enforce it.
            max_tokens: the longest answer, in place of the setting.
            stop: texts that end the answer.
            options: settings of the provider for this call, beside those of the harness.
            stream: whether the answer is taken piece by piece, where somebody listens.
            show: whether the pieces are shown. Where they are not, a stream that breaks may still be
                asked for again.
            on_token: hears the pieces, beside the ``token`` events.

        Raises:
            ProviderError: the call failed, after every retry and fallback. There is neither once a
                token was shown.
            ContextLimitError: the conversation is too long even when all was cut that may be.
            ConfigError: there are no messages, or tools for a provider that has no tool calls.
            LimitSignal: the run may make no further call.
        """
        self._check_tools(tools)
        own = self._settings
        draft = ChatRequest(
            model=self.first.model,
            messages=self._conversation(messages, tools),
            tools=tools,
            choices=choices,
            json_schema=json_schema,
            temperature=own.get("temperature"),
            max_tokens=self.max_tokens if max_tokens is None else max_tokens,
            stop=stop,
            timeout=own.get("timeout"),
            deadline=own.get("deadline"),
            options={**(own.get("options") or {}), **(options or {})},
        )
        attempts = self._attempts(draft, stream=stream, show=show, on_token=on_token)
        ask = partial(self._ask_in_turn, draft, attempts)
        if self._ctx.run.journal is None:
            given = await ask()
        else:
            # The request is part of the key, so a recorded reply never answers another one.
            digest = request_digest(self._request(self.first, draft))
            key = f"llm:{digest}:{self._ctx.number(f'llm:{digest}')}"
            given = await self._ctx.once(key, ask)
        return Given(reply_from_json(given), given.get("place", 0))

    def _conversation(
        self, messages: Sequence[Message | Mapping[str, Any]], tools: Sequence[ToolSpec]
    ) -> list[Message | Mapping[str, Any]]:
        """Return what is sent of a conversation: made valid, and cut to the settings."""
        repaired = valid_messages(messages)
        for sentence in repaired.warnings:
            if sentence not in self._ctx.run.warned:  # a hole that is stored is found at each call
                self._ctx.run.warned.add(sentence)
                warn(f"{self._ctx.node_id}: {sentence}", node=self._ctx.node_id)
        if not repaired.messages:
            raise ConfigError(f"{self._ctx.node_id!r} has no message to send to the model.")
        return trim_messages(
            repaired.messages,
            max_tokens=self._settings.get("max_context_tokens"),
            max_messages=self._settings.get("max_context_messages"),
            tools=tools,
        )

    async def _ask_in_turn(self, draft: ChatRequest, attempts: Attempts) -> dict[str, Any]:
        """Ask one target after the other; return the answer as the journal keeps it."""
        shown = Shown()
        failures: list[str] = []
        #: Answers that were paid for and are not taken.
        paid: list[dict[str, Any]] = []
        for place, target in enumerate(self.targets):
            is_last = place == len(self.targets) - 1
            try:
                answered = await self._ask(target, draft, attempts, shown)
            except ProviderError as error:
                if is_last or shown.anything or not may_fall_back(error):
                    for failure in failures:
                        error.add_note(failure)
                    raise
                problem = str(error)
            else:
                if is_last or not hands_over(answered.reply):
                    reply = self._read(answered.reply, draft)
                    # What came from the cache was paid for before.
                    asked = {} if answered.cached else {"asked": target.name}
                    return {**reply_to_json(reply), **asked, "place": place, "before": paid}
                problem = "the answer is empty"
                if not answered.cached:
                    paid.append({"asked": target.name, "usage": answered.reply.usage.to_json()})
            failures.append(failure_note(target, problem))
            following = self.targets[place + 1]
            await self._ctx.emit("llm_fallback", fallback_event(target, following, problem))
        raise AssertionError("the last target answers or raises")

    async def _ask(
        self, target: Target, draft: ChatRequest, attempts: Attempts, shown: Shown
    ) -> Answered:
        """Ask one target; where it refuses the schema of the answer, now and later without it.

        The conversation says what is wanted, too. It is told as an ``llm_retry`` event.
        """
        request = self._request(target, draft)
        if target.name in self._refusing:
            request = attrs.evolve(request, json_schema=None)
        try:
            return await attempts.answer(target, request, shown)
        except ProviderError as error:
            if request.json_schema is None or shown.anything or not refuses_schema(error):
                raise
            self._refusing.add(target.name)
            await attempts.tell_retry(target, error, attempt=1, wait=0.0)
        return await attempts.answer(target, attrs.evolve(request, json_schema=None), shown)

    def _request(self, target: Target, draft: ChatRequest) -> ChatRequest:
        """Return what ``target`` is asked: what it cannot enforce is left out."""
        able = target.provider.capabilities
        takes_schema = able.json_schema and (able.schema_with_tools or not draft.tools)
        messages = draft.messages
        if able.alternating:
            messages = valid_messages(messages, alternating=True).messages
        return attrs.evolve(
            draft,
            model=target.model,
            messages=messages,
            json_schema=draft.json_schema if takes_schema else None,
            options=draft.options if target.takes_options else {},
        )

    def _attempts(
        self, draft: ChatRequest, *, stream: bool, show: bool, on_token: TokenCallback | None
    ) -> Attempts:
        screen: Callable[[], Screen] | None = None
        if not show:
            screen = _Nothing
        elif draft.tools and self._reads_text:
            screen = partial(_screen, draft.tools)
        return Attempts(
            ctx=self._ctx,
            retry=self._retry,
            cache=self._cache,
            max_parallel=self._settings.get("max_parallel"),
            on_llm=self._settings.get("on_llm"),
            on_token=on_token,
            live=stream and (self._ctx.listening or on_token is not None),
            until=None if draft.deadline is None else time.monotonic() + draft.deadline,
            screen=screen,
        )

    @property
    def _reads_text(self) -> bool:
        return self._settings.get("parse_text_tool_calls", True)

    def _read(self, reply: ChatReply, draft: ChatRequest) -> ChatReply:
        """Take calls of tools out of the text, where the model wrote them into it."""
        # What the token limit cut off may lack the end of its last argument.
        is_cut = reply.finish_reason == "length"
        if not draft.tools or reply.tool_calls or is_cut or not self._reads_text:
            return reply
        from teff.harness.decode import decode_reply  # loaded where a model has tools

        schemas = {tool.name: tool.schema for tool in draft.tools}
        decoded = decode_reply(reply.text, list(schemas), schemas)
        if not decoded.calls:
            return reply
        return attrs.evolve(reply, text=decoded.text, tool_calls=tuple(decoded.calls))

    def _check_tools(self, tools: Sequence[ToolSpec]) -> None:
        for target in self.targets:
            if tools and not target.provider.capabilities.tools:
                raise ConfigError(
                    f"provider {target.provider.name!r} cannot call tools, and "
                    f"{self._ctx.node_id!r} offers some: use another provider, or remove use_tools."
                )


class _Nothing:
    """Shows nothing."""

    def feed(self, piece: str) -> str:
        return ""

    def close(self) -> str:
        return ""


def _screen(tools: Sequence[ToolSpec]) -> Screen:
    from teff.harness.decode import ToolCallScreen

    schemas = {tool.name: tool.schema for tool in tools}
    return ToolCallScreen(list(schemas), schemas)


def _named(what: str, name: str | None, ctx: ExecContext) -> str:
    if not name:
        raise ConfigError(
            f"node {ctx.node_id!r} asks a model, but no {what} is named: "
            f"set {what} on the node or default_{what} on the flow.",
            path=ctx.node_id,
        )
    return name
