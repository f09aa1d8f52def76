"""Cassettes: what a provider answered once, recorded in a file and answered again from it.

What is recorded is what the harness says to a provider and hears from it, not what goes over the
wire. So a cassette holds no headers and no keys, and is the same whatever the server speaks.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from teff.errors import ConfigError, ProviderError
from teff.messages import message_text
from teff.provider import Capabilities, ChatDelta, ChatReply, ChatRequest, Provider
from teff.provider.failures import shorten
from teff.provider.keys import MASK
from teff.testing.cassette_file import (
    Exchange,
    canonical,
    outcome_to_json,
    pieces_to_json,
    read_tape,
    request_to_json,
    write_tape,
)
from teff.testing.differences import differences, fits, nearest
from teff.testing.masking import masked, secrets_of_environment, secrets_of_provider

__all__ = ["Recording", "Replay", "cassette", "record", "replay"]

_SWITCH = "TEFF_RECORD"


def record(provider: Provider, path: str | os.PathLike[str]) -> Recording:
    """Return a provider that asks ``provider`` and writes down what it answers.

    The file is written anew after each answer, as a whole or not at all; what was there before the
    first one is lost. Replies, streams with their pieces, and every `teff.errors.ProviderError` are
    recorded. What looks like a key is written as ``***``: the provider's own, the values of
    environment variables that are named like keys, and texts in the form of one.

    Args:
        provider: who answers; its name and capabilities are those of the recording too.
        path: the file, a ``.json``.

    Raises:
        ConfigError: the arguments are no provider and no path.
    """
    return Recording(provider, path)


def replay(path: str | os.PathLike[str]) -> Replay:
    """Return a provider that answers from a cassette, and asks nobody.

    A request is answered where the whole of it was recorded: model, messages, tools, schema and
    options, but not its timeouts. Requests that are alike are answered in the order in which they
    were recorded, each answer once. Where a recorded text has ``***``, as it has for a key, any text
    may stand; write it there by hand for what is another at each run. Any other request fails with
    an ``AssertionError`` that says how it differs from the nearest one on the cassette.

    Raises:
        ConfigError: there is no such file, it is damaged, or of another version.
    """
    return Replay(path)


def cassette(
    path: str | os.PathLike[str], provider: Provider | Callable[[], Provider]
) -> Recording | Replay:
    """Return the provider of a test: the cassette's, or where there is none, one that records it.

    It is recorded only where the environment variable ``TEFF_RECORD`` is 1. To record it again,
    delete the file.

    Args:
        path: the file.
        provider: who is recorded; or a function that makes it, which is called only then.

    Raises:
        ConfigError: there is no such file and nothing is to be recorded, or `replay` cannot read it.

    ::

        def test_the_refund_is_explained():
            with cassette("tests/cassettes/refund.json", OpenAIProvider) as model:
                flow = refund_flow(providers={"openai": model})
                ...
    """
    if _checked(path).exists():
        return Replay(path)
    if os.environ.get(_SWITCH) != "1":
        raise ConfigError(
            f"there is no cassette {Path(path)}.",
            hint=f"Record it with the real provider: run the test with {_SWITCH}=1.",
        )
    return Recording(provider() if callable(provider) else provider, path)


class Recording:
    """A provider that writes down what another one answers. Made by `record`."""

    def __init__(self, provider: Provider, path: str | os.PathLike[str]) -> None:
        if not isinstance(provider, Provider):
            raise ConfigError(
                f"record needs a provider to ask, and {type(provider).__name__} is none.",
                hint="It is called as record(provider, path).",
            )
        self._provider = provider
        # The test may change the working directory before the first answer.
        self._path = _checked(path).absolute()
        # In the order of the requests; None where there is no answer yet, or will be none.
        self._exchanges: list[Mapping[str, Any] | None] = []
        self._secrets: set[str] = set()

    @property
    def name(self) -> str:
        """The name of the provider that is recorded."""
        return self._provider.name

    @property
    def capabilities(self) -> Capabilities:
        """What the provider that is recorded can do."""
        return self._provider.capabilities

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Ask, write the answer down and return it."""
        place, asked = self._begin(request)
        try:
            reply = await self._provider.chat(request)
        except ProviderError as error:
            self._keep(place, asked, error)
            raise
        self._keep(place, asked, reply)
        return reply

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Ask, pass the pieces on, and write them down when the last one is there."""
        place, asked = self._begin(request)
        pieces: list[ChatDelta] = []
        outcome: ChatReply | ProviderError | None = None
        source = self._provider.stream(request)
        try:
            async for piece in source:
                pieces.append(piece)
                if piece.reply is not None:
                    # Whoever reads may leave with the last piece, and never come back for more.
                    outcome = piece.reply
                    self._keep(place, asked, outcome, pieces)
                yield piece
        except ProviderError as error:
            outcome = error
            self._keep(place, asked, outcome, pieces)
            raise
        finally:
            if outcome is None and pieces:
                self._keep(place, asked, None, pieces)
            if isinstance(source, AsyncGenerator):
                await source.aclose()

    async def aclose(self) -> None:
        """Close the provider that is recorded."""
        await self._provider.aclose()

    def assert_done(self) -> None:
        """Do nothing: a recording has nothing left over. See `Replay.assert_done`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    def _begin(self, request: ChatRequest) -> tuple[int, dict[str, Any]]:
        self._secrets |= secrets_of_provider(self._provider) | secrets_of_environment()
        self._exchanges.append(None)
        return len(self._exchanges) - 1, request_to_json(request, self._secrets)

    def _keep(
        self,
        place: int,
        asked: dict[str, Any],
        outcome: ChatReply | ProviderError | None,
        pieces: list[ChatDelta] | None = None,
    ) -> None:
        self._secrets |= secrets_of_environment()
        self._exchanges[place] = {
            "request": asked,
            **({} if pieces is None else pieces_to_json(pieces, self._secrets)),
            **({} if outcome is None else outcome_to_json(outcome, self._secrets)),
        }
        write_tape(
            self._path,
            provider=self.name,
            capabilities=self.capabilities,
            exchanges=[exchange for exchange in self._exchanges if exchange is not None],
        )


class Replay:
    """A provider that answers from a cassette. Made by `replay`.

    As a context manager it calls `assert_done` at its end, unless another error is on its way.

    Attributes:
        name: the name of the provider that was recorded.
        capabilities: what that one could do.
        requests: what was asked, in order.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = _checked(path)
        tape = read_tape(self._path)
        self.name = tape.provider
        self.capabilities = tape.capabilities
        self.requests: list[ChatRequest] = []
        self._secrets = secrets_of_environment()
        # Masked again: the environment may have other keys than the one of the recording.
        self._recorded = [masked(exchange.request, self._secrets) for exchange in tape.exchanges]
        self._left: defaultdict[str, deque[Exchange]] = defaultdict(deque)
        for asked, exchange in zip(self._recorded, tape.exchanges, strict=True):
            self._left[canonical(asked)].append(exchange)
        self._missed: list[str] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Give the recorded reply, or raise the recorded error."""
        return self._outcome(self._take(request))

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the recorded pieces, and then the whole reply or the recorded error.

        A reply that was recorded as a whole has one piece.
        """
        exchange = self._take(request)
        if exchange.pieces is not None:
            for piece in exchange.pieces:
                yield piece
        reply = self._outcome(exchange)
        if exchange.pieces is None and (reply.text or reply.thinking):
            yield ChatDelta(text=reply.text, thinking=reply.thinking)
        yield ChatDelta(reply=reply)

    async def aclose(self) -> None:
        """Do nothing: there is no connection."""

    def assert_done(self) -> None:
        """Fail where recorded answers were not asked for, or a request was not on the cassette.

        Raises:
            AssertionError: it says which.
        """
        if self._missed:
            raise AssertionError(self._missed[0])
        left = [exchange for queue in self._left.values() for exchange in queue]
        if left:
            count = "1 answer was" if len(left) == 1 else f"{len(left)} answers were"
            raise AssertionError(
                f"cassette {self._path}: {count} never asked for, the first of them to "
                f"{_ending(left[0].request)}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.assert_done()

    def _take(self, request: ChatRequest) -> Exchange:
        self.requests.append(request)
        asked = request_to_json(request, self._secrets)
        if queue := self._left.get(canonical(asked)) or self._queue_that_fits(asked):
            return queue.popleft()
        fault = f"cassette {self._path} {self._miss(asked)} {self._way_out()}"
        self._missed.append(fault)
        raise AssertionError(fault)

    def _queue_that_fits(self, asked: dict[str, Any]) -> deque[Exchange] | None:
        """Return the answers to a recorded request that has ``***`` where this one has a text.

        A key may be known only while it is recorded, as that of the provider is.
        """
        for recorded, queue in self._left.items():
            if queue and MASK in recorded and fits(json.loads(recorded), asked):
                return queue
        return None

    def _miss(self, asked: dict[str, Any]) -> str:
        number = len(self.requests)
        known = [canonical(recorded) for recorded in self._recorded]
        times = known.count(canonical(asked))
        if times:
            often = "once" if times == 1 else f"{times} times"
            return f"has request {number} only {often}, and it is asked once more."
        if not self._recorded:
            return f"is empty, and request {number} is asked."
        place = nearest(asked, self._recorded)
        return (
            f"does not have request {number}. The nearest, exchange {place + 1}, differs: "
            f"{differences(self._recorded[place], asked)}."
        )

    def _way_out(self) -> str:
        return f"Where that is meant, delete the file and record it again ({_SWITCH}=1)."

    def _outcome(self, exchange: Exchange) -> ChatReply:
        if exchange.outcome is None:
            raise AssertionError(
                f"cassette {self._path}: the stream that answers {_ending(exchange.request)} was "
                f"left before its end when it was recorded, and is read further now. "
                f"{self._way_out()}"
            )
        if isinstance(exchange.outcome, ProviderError):
            raise exchange.outcome
        return exchange.outcome


def _checked(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(
            f"the path of a cassette is a text or a Path, not {type(path).__name__}.",
            hint="The calls are record(provider, path), replay(path) and cassette(path, provider).",
        )
    return Path(path)


def _ending(asked: Mapping[str, Any]) -> str:
    messages = asked.get("messages") or [{}]
    return repr(shorten(message_text(messages[-1]), 80))
