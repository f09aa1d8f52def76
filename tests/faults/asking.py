"""One node that asks one server, and what is known of it afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import attrs
from tests.faults.exchange import Dialect

from teff.errors import TeffError
from teff.flow import Flow
from teff.harness import attempts
from teff.runtime import StreamEvent
from teff.testing.server import Answer, ReceivedRequest, ReplayServer

__all__ = ["Asked", "ask", "flow_for", "without_waiting"]


@attrs.frozen(kw_only=True)
class Asked:
    """A run that has ended.

    Attributes:
        result: the state, and how it ended; None where it failed.
        error: what it failed with.
        requests: what the server received.
        events: what was told.
    """

    result: Any
    error: TeffError | None
    requests: Sequence[ReceivedRequest]
    events: Sequence[StreamEvent]

    @property
    def output(self) -> Any:
        assert self.error is None, self.error
        return self.result["output"]

    @property
    def tokens(self) -> list[str]:
        return [event.data["token"] for event in self.events if event.type == "token"]

    def told(self, kind: str) -> list[Any]:
        return [event.data for event in self.events if event.type == kind]


def flow_for(dialect: Dialect, url: str, **options: Any) -> Flow:
    """Return a flow whose models are those of one server; ``options`` are those of the provider."""
    providers = {"p": dialect.provider("p", url, **options)}
    return Flow(providers=providers, default_provider="p", default_model="m")


def ask(
    dialect: Dialect,
    *answers: Answer | bytes,
    state: Mapping[str, Any] | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    provider: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
    **node: Any,
) -> Asked:
    """Run an `LLM` with the tools, against a server that gives the answers; wait for no retry."""
    events: list[StreamEvent] = []

    async def main() -> Asked:
        result, error = None, None
        async with ReplayServer(*answers) as server:
            options = {"input_key": "input", "use_tools": [each.__name__ for each in tools], **node}
            flow = flow_for(dialect, server.url, **(provider or {})).llm(**options)
            given = {"input": "Hi"} if state is None else dict(state)
            try:
                result = await flow.compile().run(
                    given, emit=events.append, tools=tools, **(run or {})
                )
            except TeffError as failure:
                error = failure
            return Asked(result=result, error=error, requests=server.requests, events=events)

    with without_waiting():
        return asyncio.run(main())


@contextmanager
def without_waiting() -> Iterator[list[float]]:
    """Let retries wait for nothing; yield the seconds that they would have waited."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    with patch.object(attempts, "asyncio", SimpleNamespace(sleep=sleep)):
        yield waits
