"""`Retry`: tries a node again where it fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from teff.errors import ConfigError, error_text
from teff.node.base import Node, is_composite, options
from teff.node.function import took_too_long
from teff.node.inner import as_inner_node
from teff.node.retry_on import RetryOn, compile_retry_on, plain_retry_on
from teff.runtime import Command, ExecContext
from teff.runtime.time_limit import time_limit

__all__ = ["Retry"]

#: A source of its own: a program that has seeded the common one goes on as it would have.
_random = random.SystemRandom()

_seconds: Any = attrs.validators.and_(attrs.validators.ge(0), attrs.validators.lt(float("inf")))


def _as_node(given: Any) -> Node:
    try:
        return as_inner_node(given)
    except ConfigError as error:
        raise ConfigError(
            f"retry: 'node': {error.message}", path=error.path or "node", hint=error.hint
        ) from None


@options
class Retry(Node):
    """Run a node, and where it fails run it again, up to ``max_retries`` times in total.

    Before attempt ``n + 1`` it waits ``delay * backoff ** (n - 1)`` seconds, at most ``max_delay``,
    and then up to ``jitter`` times as long again. After the last attempt the error of that attempt
    is raised, with a note. Each failure that is tried again is told by an event ``retry``.

    Each attempt starts from the state as it was; nothing of a failed one remains. Attempts are
    recorded: a run that is resumed goes on with the attempt that it was in, and questions keep
    their ids. A run that failed after its last attempt and is started again has all of its attempts
    anew. Pauses, limits, cancellations, wrong settings (`ConfigError`) and trouble with the
    records (`CheckpointError`) are never tried again.

    Args:
        node: what to run: a node, a function ``(ctx, state)`` or a flow; also as the first argument.
        max_retries: how often it is run at most, the first time included; 1 tries nothing again.
        delay: seconds before the second attempt.
        backoff: what each further wait is multiplied by.
        jitter: the random part that is added to a wait, as a fraction of it, from 0 to 1.
        max_delay: the longest wait in seconds, the random part aside; None for no bound.
        timeout: seconds for each attempt; running out of it is a ``TimeoutError``. A function that
            is not async cannot be stopped: its thread is abandoned, and goes on.
        retry_on: what is tried again, one or a list: exception classes (and their subclasses),
            names of such (``"ConnectionError"``, ``"httpx.ConnectError"``), HTTP statuses that an
            error has as ``status``, ``status_code`` or in its ``response`` (429, ``"503"``,
            ``"5xx"``). Empty for every failure. What a tool raised counts where its `ToolError`
            arrives.

    Raises:
        ConfigError: when it is made, a number out of its range, or a wrong ``retry_on``.

    >>> import asyncio
    >>> calls = []
    >>> def flaky(ctx, state):
    ...     calls.append("call")
    ...     if len(calls) < 3:
    ...         raise ConnectionError("the line is down")
    ...     return {"weather": "rain"}
    >>> node = Retry(flaky, max_retries=5, retry_on=[ConnectionError])
    >>> asyncio.run(node.execute(ExecContext(), {})), len(calls)
    ({'weather': 'rain'}, 3)
    """

    type = "retry"

    node: Node = attrs.field(converter=_as_node)
    max_retries: int = attrs.field(default=3, validator=attrs.validators.ge(1))
    delay: float = attrs.field(default=0.0, validator=_seconds)
    backoff: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))
    jitter: float = attrs.field(
        default=0.0, validator=attrs.validators.and_(attrs.validators.ge(0), attrs.validators.le(1))
    )
    max_delay: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(_seconds)
    )
    timeout: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    retry_on: Any = attrs.field(
        default=(), validator=lambda self, _, retry_on: self._read_retry_on(retry_on)
    )

    def __init__(self, node: Any = None, **given: Any) -> None:
        """See the class; a mapping in the place of the node holds all options."""
        if node is None or isinstance(node, Mapping):
            super().__init__(node, **given)
        else:
            super().__init__(node=node, **given)

    async def execute(
        self, ctx: ExecContext, state: dict[str, Any]
    ) -> Mapping[str, Any] | Command | None:
        """Run the node until it succeeds; return what it returned."""
        number = await _failures_before(ctx) + 1
        while True:
            attempt = (number - 1) % self.max_retries + 1
            try:
                done = await self._attempt(ctx, number, state)
            except Exception as error:
                if (pending := ctx.pending()) is not None:
                    raise pending from None  # it has also asked a question, which comes first
                ctx.keep({})
                if not self._is_retried(error):
                    raise
                failure = {"error": error_text(error), "type": type(error).__name__}
                await ctx.once(f"failure-{number}", failure.copy)
                if attempt == self.max_retries:
                    error.add_note(f"after {attempt} attempt{'s' if attempt > 1 else ''}")
                    raise
            else:
                return done if done.goto is not None else done.update
            wait = self._wait_after(attempt)
            progress = {"attempt": attempt, "of": self.max_retries, "delay": wait}
            await ctx.emit("retry", {**progress, **failure})
            await asyncio.sleep(wait)
            number += 1

    async def _attempt(self, ctx: ExecContext, number: int, state: Mapping[str, Any]) -> Command:
        seconds = self._seconds_for_an_attempt(ctx)
        said = took_too_long(f"an attempt of node {ctx.node_id!r}", self.node, seconds or 0)
        async with time_limit(seconds, said):
            return await ctx.attempt(number, self.node, state, node_id=self.node.id or "")

    def _seconds_for_an_attempt(self, ctx: ExecContext) -> float | None:
        """Return the shorter of the node's own bound and that of the run for each node."""
        of_the_run = None if is_composite(self.node) else ctx.run.node_timeout
        return min(
            (seconds for seconds in (self.timeout, of_the_run) if seconds is not None), default=None
        )

    def _wait_after(self, attempt: int) -> float:
        try:
            wait = self.delay * self.backoff ** (attempt - 1)
        except OverflowError:
            wait = float("inf") if self.delay else 0.0
        if self.max_delay is not None:
            wait = min(wait, self.max_delay)
        return wait * (1 + self.jitter * _random.random())

    def _read_retry_on(self, retry_on: RetryOn | Sequence[RetryOn]) -> None:
        try:
            self._is_retried = compile_retry_on(retry_on)
        except ConfigError as error:
            raise ConfigError(
                f"{self._described(self.id)}: retry_on: {error.message}",
                path="retry_on",
                hint=error.hint,
            ) from None

    def children(self) -> Iterable[Node]:
        """Return the node."""
        return [self.node]

    def reads(self) -> Iterable[str] | None:
        """Return what the node reads."""
        return self.node.reads()

    def writes(self) -> Iterable[str] | None:
        """Return what the node writes."""
        return self.node.writes()

    def outcomes(self) -> Mapping[str, Iterable[str]] | None:
        """Return what the node may decide."""
        return self.node.outcomes()

    def targets(self) -> Iterable[str]:
        """Return where the node may go."""
        return self.node.targets()

    def to_config(self) -> dict[str, Any]:
        """Return the options that are not what they are by default; exception classes by name."""
        options = super().to_config()
        if "retry_on" in options:
            options["retry_on"] = plain_retry_on(self.retry_on)
        return options

    def signature(self) -> Any:
        """Return the signature of the node, within that of this one."""
        return {"type": self.type, "node": self.node.signature()}


class _NothingRecorded(Exception):
    pass


async def _failures_before(ctx: ExecContext) -> int:
    """Return how many attempts of this step are recorded as failed, before it was resumed."""

    def nothing() -> None:
        raise _NothingRecorded

    for number in range(1, 1 << 30):
        try:
            await ctx.once(f"failure-{number}", nothing)
        except _NothingRecorded:
            break
    return number - 1
