"""`Asking`: one question to a model, put again with more room, without its form, or to the next model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from teff.errors import ProviderError
from teff.harness.attempts import TokenCallback
from teff.harness.harness import Harness
from teff.harness.targets import failure_note, fallback_event
from teff.messages import Message
from teff.provider import ChatReply, ToolSpec
from teff.runtime import ExecContext

__all__ = ["MORE_ROOM", "Asking"]

#: By how much the token limit of an answer that was cut off is multiplied, once.
MORE_ROOM = 2

#: With these a server says that the request is wrong, or failed to make a grammar of a schema.
_REFUSED = frozenset({400, 404, 422, 500, 501})
_OF_THE_SCHEMA = re.compile(
    r"json.?schema|response_format|grammar|structured.output|invalid (?:schema|format)|for format",
    re.IGNORECASE,
)


class Asking:
    """Asks for structured answers, with what `settle` needs to ask again.

    Args:
        ctx: the step, for the events.
        harness: asks; what comes after its first model is asked where that one gives no answer
            that fits.
        json_schema: what the provider is told of the answer's form, where it can enforce one;
            where tools are offered, only if it can do both at once.
        options: settings of the provider that say the same in its own words; sent with it.
        stream, on_token: as for `Harness.call`.
    """

    def __init__(
        self,
        ctx: ExecContext,
        harness: Harness,
        *,
        json_schema: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        stream: bool = False,
        on_token: TokenCallback | None = None,
    ) -> None:
        self._ctx = ctx
        self._harness = harness
        self._schema = json_schema
        self._options = options
        self._stream = stream
        self._on_token = on_token
        self._max_tokens: int | None = None
        self._failures: list[str] = []

    def tells_form(self, tools: Sequence[ToolSpec]) -> bool:
        """Say whether the form of the answer is told beside ``tools``."""
        return not tools or self._harness.provider.capabilities.schema_with_tools

    async def ask(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec] = (),
    ) -> ChatReply:
        """Ask once.

        A server that refuses the schema is asked again without it, then and in all that follows:
        the conversation says what is wanted. It is told as an ``llm_retry`` event.

        Raises:
            ProviderError: the model could not be asked.
        """
        try:
            return await self._ask(messages, tools)
        except ProviderError as error:
            for failure in self._failures:
                error.add_note(failure)
            raise

    async def _ask(
        self, messages: Sequence[Message | Mapping[str, Any]], tools: Sequence[ToolSpec]
    ) -> ChatReply:
        try:
            return await self._call(messages, tools)
        except ProviderError as error:
            if error.shown or not (self._sends_schema(tools) and _refuses_schema(error)):
                raise
            self._schema = None
            refused = {
                "provider": error.provider or self._harness.provider.name,
                "model": error.model or self._harness.model,
                "attempt": 1,
                "wait": 0.0,
                "error": str(error),
            }
            await self._ctx.emit("llm_retry", refused)
        return await self._call(messages, tools)

    async def _call(
        self, messages: Sequence[Message | Mapping[str, Any]], tools: Sequence[ToolSpec]
    ) -> ChatReply:
        return await self._harness.call(
            messages,
            tools=tools,
            json_schema=self._schema,
            max_tokens=self._max_tokens,
            options=self._options if self.tells_form(tools) else None,
            stream=self._stream,
            on_token=self._on_token,
        )

    def _sends_schema(self, tools: Sequence[ToolSpec]) -> bool:
        able = any(target.provider.capabilities.json_schema for target in self._harness.targets)
        return self._schema is not None and able and self.tells_form(tools)

    def more_room(self) -> int | None:
        """Double the token limit, once; return it, or None where there is none or it was doubled."""
        if self._max_tokens is not None or self._harness.max_tokens is None:
            return None
        self._max_tokens = self._harness.max_tokens * MORE_ROOM
        return self._max_tokens

    async def next_model(self, problem: str) -> bool:
        """Ask the next of the fallbacks from now on; return false where there is none.

        It is told as an ``llm_fallback`` event.

        Args:
            problem: what is wrong with the answers of the model so far.
        """
        following = self._harness.fallbacks_left()
        if following is None:
            return False
        first = self._harness.first
        self._failures.append(failure_note(first, problem))
        await self._ctx.emit("llm_fallback", fallback_event(first, following.first, problem))
        self._harness, self._max_tokens = following, None
        return True


def _refuses_schema(error: ProviderError) -> bool:
    told = f"{error} {error.body}"
    return error.status in _REFUSED and _OF_THE_SCHEMA.search(told) is not None
