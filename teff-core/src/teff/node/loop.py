"""`Loop`: repeats its body until a value is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from teff.conditions import compile_condition, keys_of, literal
from teff.errors import ConfigError
from teff.node.base import Node, options
from teff.node.branches import (
    Steps,
    Update,
    as_steps,
    nodes_of,
    option_first,
    reads_of,
    run_steps,
    signature_of,
    writes_of,
)
from teff.node.workers import SLICE
from teff.runtime import ExecContext, LimitSignal
from teff.state import combined

__all__ = ["Loop"]


def _as_body(given: Any) -> Steps:
    return as_steps(given, "loop: 'body'")


@options
class Loop(Node):
    """Run the body again and again, until the value under ``key`` is ``until``.

    The body runs at least once, and the value is looked at after each round. Running out of rounds
    is no error: the run goes on with what is there, and an event ``limit`` with the reason
    ``max_rounds`` tells of it. Only what changed comes back, and what was added to a list is added
    once.

    Rounds are recorded: a run that is resumed goes on in the round that it was in. Where a limit
    ends the run, what the rounds have changed so far is kept.

    Args:
        body: a node, a function ``(ctx, state)``, a flow or graph, or a list of those that run one
            after another; also as the first argument.
        key: a state key, or a path such as ``verdict.ok``.
        until: the value that ends the loop, compared as an edge with the condition ``key=until``
            does: a plain word without regard to case and closing punctuation, numbers as numbers,
            other text exactly. An empty text means that nothing is under ``key``; a list means one
            of its values.
        max_rounds: how often the body runs at most, at least once.

    Raises:
        ConfigError: no body or key, a value that cannot be compared, or ``max_rounds`` below 1.

    >>> import asyncio
    >>> async def halve(ctx, state):
    ...     return {"n": state["n"] // 2}
    >>> asyncio.run(Loop(halve, key="n", until=1).execute(ExecContext(), {"n": 100}))
    {'n': 1}
    """

    type = "loop"

    body: Any = attrs.field(converter=_as_body)
    key: str
    until: Any
    max_rounds: int = attrs.field(default=10, validator=attrs.validators.ge(1))

    def __init__(self, body: Any = None, /, **given: Any) -> None:
        """See the class; a mapping in the place of the body holds all options."""
        config, keywords = option_first("body", body, given)
        super().__init__(config, **keywords)

    def __attrs_post_init__(self) -> None:
        if not self.key:
            raise ConfigError(
                f"{self._described(self.id)}: 'key' is empty; it names what is looked at after "
                "each round.",
                path="key",
            )
        try:
            self._condition = f"{self.key}={literal(self.until)}"
            self._is_done = compile_condition(self._condition)
        except ConfigError as error:
            raise ConfigError(
                f"{self._described(self.id)}: 'key' and 'until': {error.message}",
                path=error.path or "key",
                hint=error.hint,
            ) from None

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Run the rounds; return what they changed."""
        reducers = ctx.frame.reducers
        own, updates = dict(state), list[Update]()
        slice_end = time.monotonic() + SLICE
        try:
            for number in range(1, self.max_rounds + 1):
                await run_steps(ctx, str(number), self.body, own, updates, reducers)
                if self._is_done(own):
                    break
                if time.monotonic() >= slice_end:
                    await asyncio.sleep(0)
                    slice_end = time.monotonic() + SLICE
            else:
                await ctx.emit("limit", {"reason": "max_rounds", "rounds": self.max_rounds})
        except (LimitSignal, asyncio.CancelledError):
            ctx.keep(combined(state, updates, reducers))
            raise
        return combined(state, updates, reducers)

    def children(self) -> Iterable[Node]:
        """Return the nodes of the body."""
        return nodes_of(self.body)

    def reads(self) -> Iterable[str]:
        """Return what is known of the keys that the body reads, and the key that is looked at."""
        written = writes_of(self.body) or set()
        return reads_of(self.body) | (set(keys_of(self._condition)) - written)

    def writes(self) -> Iterable[str] | None:
        """Return the keys that the body may update."""
        return writes_of(self.body)

    def signature(self) -> Any:
        """Return the signature of the body."""
        return {"type": self.type, "body": signature_of(self.body)}
