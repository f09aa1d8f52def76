"""`Asking`: one question to a model, put again with more room, without its form, or to the next model."""

from __future__ import annotations

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


class Asking:
    """Asks for structured answers, with what `settle` needs to ask again.

    Args:
        ctx: the step, for the events.
        harness: asks; what comes after its first model is asked where that one gives no answer
            that fits.
        json_schema: what the provider is told of the answer's form, where it can enforce one;
            where tools are offered, only if it can do both at once.
        options: settings of the provider that say the same in its own words; sent with it.
        stream, show, on_token: as for `Harness.call`.
    """

    def __init__(
        self,
        ctx: ExecContext,
        harness: Harness,
        *,
        json_schema: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        stream: bool = False,
        show: bool = True,
        on_token: TokenCallback | None = None,
    ) -> None:
        self._ctx = ctx
        self._harness = harness
        self._schema = json_schema
        self._options = options
        self._stream = stream
        self._show = show
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

        Later questions go first to the model that answered.

        Raises:
            ProviderError: the model could not be asked.
        """
        try:
            given = await self._harness.ask(
                messages,
                tools=tools,
                json_schema=self._schema,
                max_tokens=self._max_tokens,
                options=self._options if self.tells_form(tools) else None,
                stream=self._stream,
                show=self._show,
                on_token=self._on_token,
            )
        except ProviderError as error:
            for failure in self._failures:
                error.add_note(failure)
            raise
        self._harness = self._harness.starting_at(given.place)
        return given.reply

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
