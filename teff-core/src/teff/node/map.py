"""`Map`: the same work for each item of a list."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from teff.errors import ConfigError, GraphInterrupt, StateError, error_text
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
from teff.node.workers import run_jobs
from teff.runtime import ExecContext, LimitSignal
from teff.schema.words import describe_value
from teff.state import thaw

__all__ = ["Map"]

_MISSING: Any = object()
_NO_LISTS = (str, bytes, bytearray, memoryview)


def _as_processor(given: Any) -> Steps:
    return as_steps(given, "map: 'processor'")


@options
class Map(Node):
    """Run the processor once for each item of a list; keep the results in the order of the items.

    The processor finds the item under the input key, in the place of the list, and the rest of the
    state as it is. What it writes under the result key is the item's result; whatever else it writes
    is its own affair and is not merged. An item for which it writes nothing has the result None.

    Items are worked on at the same time, as far as they wait for something: of items that never wait
    no more than a few are under way, however many there are. They are recorded: a run that is
    resumed repeats none that has finished. Several may ask a person at once; the others are done to
    their end first. Where a limit ends the run, the results that there are are kept.

    A plain function runs in a thread of its own; for many that block, set ``max_concurrency``.

    Args:
        processor: a node, a function ``(ctx, state)``, a flow or graph, or a list of those that run
            one after another; also as the first argument.
        input_keys: the state key of the items, or several whose items go together: then all lists
            must be of one length. A key that is missing counts as an empty list.
        output_key: the state key of the results; empty where they are not wanted.
        result_key: the key that the processor writes; ``output_key`` where it is empty. Within an
            item it has no reducer, and is not there at first, unless it is an input key.
        chunk_size: how many items the processor is given at once. Above 1 it finds a list of them
            under the input key, the last one as long as is left; there is one result for each list,
            whatever it is.
        max_concurrency: how many items may be under way at once; None for no limit.
        on_error: ``fail`` cancels the other items and raises, with a note that names the item.
            ``skip`` leaves out the results of failed items. ``collect`` puts None in their place and
            tells of them under ``errors_key``. An item that failed is tried again when the run is
            resumed.
        errors_key: for ``collect``: the state key of the list of failures, each ``{"index": number
            from 0, "type": …, "message": …}``; ``<output_key>_errors`` where it is empty.

    Raises:
        ConfigError: no processor or input key, a result that the processor never writes or that goes
            nowhere, or a bound below 1.
        StateError: (a TypeError and ValueError) in a run, an input that is no list, lists of
            different lengths, or an item for which the processor writes other keys than its result.

    >>> import asyncio
    >>> async def square(ctx, state):
    ...     return {"squares": state["numbers"] ** 2}
    >>> node = Map(square, input_keys="numbers", output_key="squares")
    >>> asyncio.run(node.execute(ExecContext(), {"numbers": [1, 2, 3]}))
    {'squares': [1, 4, 9]}
    """

    type = "map"

    processor: Any = attrs.field(converter=_as_processor)
    input_keys: str | Sequence[str] = ""
    output_key: str = ""
    result_key: str = ""
    chunk_size: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    max_concurrency: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    on_error: Literal["fail", "skip", "collect"] = "fail"
    errors_key: str = ""

    def __init__(self, processor: Any = None, /, **given: Any) -> None:
        """See the class; a mapping in the place of the processor holds all options."""
        config, keywords = option_first("processor", processor, given)
        super().__init__(config, **keywords)

    def __attrs_post_init__(self) -> None:
        keys = [self.input_keys] if isinstance(self.input_keys, str) else list(self.input_keys)
        if not keys or not all(keys):
            raise self._wrong("needs 'input_keys': the state key of the items", "input_keys")
        if self.result_key and not self.output_key:
            raise self._wrong("has a 'result_key', but no 'output_key' for it", "output_key")
        if self.on_error == "collect" and self._errors_key == self.output_key:
            raise self._wrong("keeps results and failures under one key", "errors_key")
        self._keys = keys
        self._result_key = result = self.result_key or self.output_key
        written = writes_of(self.processor)
        if written and result and result not in written and result not in keys:
            raise self._wrong(
                f"takes its results from {result!r}, which the processor never writes; it writes "
                f"{', '.join(sorted(written))}: name one of them as 'result_key'",
                "result_key",
            )

    def _wrong(self, problem: str, option: str) -> ConfigError:
        return ConfigError(f"{self._described(self.id)} {problem}.", path=option)

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Run the processor for each item; return the results."""
        inputs = {key: _items(ctx, key, state.get(key, ())) for key in self._keys}
        size = self.chunk_size
        count = -(-_common_length(ctx, inputs) // size)
        result_key, of_item = self._result_key, "item" if size == 1 else "chunk"
        own_keys = {result_key, *self._keys}
        around = {key: value for key, value in state.items() if key not in own_keys}
        reducers = {
            key: reducer for key, reducer in ctx.frame.reducers.items() if key not in own_keys
        }
        results: list[Any] = [_MISSING] * count
        failures: dict[int, Exception] = {}

        async def work(number: int) -> None:
            own = dict(around)
            for key, items in inputs.items():
                start = number * size
                own[key] = items[start] if size == 1 else items[start : start + size]
            updates: list[Update] = []
            try:
                await run_steps(ctx, str(number), self.processor, own, updates, reducers)
                results[number] = self._result(own, updates)
            except GraphInterrupt:
                raise  # the pause of a context made by hand
            except Exception as error:
                if self.on_error == "fail":
                    error.add_note(f"in {of_item} {number}")
                    raise
                failures[number] = error

        try:
            await run_jobs(count, work, limit=self.max_concurrency)
        except (LimitSignal, asyncio.CancelledError):
            ctx.keep(self._update(_without_holes(results), failures))
            raise
        if self.on_error == "collect":
            results = [None if result is _MISSING else result for result in results]
        return self._update(_without_holes(results), failures)

    def _result(self, own: Mapping[str, Any], updates: Sequence[Update]) -> Any:
        """Return what the processor wrote for one item."""
        result = own.get(self._result_key, _MISSING)
        if result is not _MISSING or not self._result_key:
            return None if result is _MISSING else result
        written = sorted({str(key) for update in updates for key in update})
        if written:
            raise StateError(
                f"the processor wrote {', '.join(written)}, but no {self._result_key!r}: name the "
                "key of its result as 'result_key'"
            )
        return None

    def _update(self, results: Sequence[Any], failures: Mapping[int, Exception]) -> dict[str, Any]:
        update: dict[str, Any] = {self.output_key: results} if self.output_key else {}
        if self.on_error == "collect":
            update[self._errors_key] = [
                {"index": number, "type": type(error).__name__, "message": error_text(error)}
                for number, error in sorted(failures.items())
            ]
        return update

    @property
    def _errors_key(self) -> str:
        return self.errors_key or (f"{self.output_key}_errors" if self.output_key else "errors")

    def children(self) -> Iterable[Node]:
        """Return the nodes of the processor."""
        return nodes_of(self.processor)

    def reads(self) -> Iterable[str]:
        """Return the input keys, and what is known of what the processor reads besides."""
        return {*self._keys} | (reads_of(self.processor) - {self._result_key})

    def writes(self) -> Iterable[str]:
        """Return the output key, and the key of the failures where they are collected."""
        written = [self.output_key] if self.output_key else []
        return [*written, self._errors_key] if self.on_error == "collect" else written

    def signature(self) -> Any:
        """Return what the calls of the items depend on, and the signature of the processor."""
        return {
            "type": self.type,
            "input_keys": self._keys,
            "chunk_size": self.chunk_size,
            "processor": signature_of(self.processor),
        }


def _items(ctx: ExecContext, key: str, value: Any) -> Sequence[Any]:
    if isinstance(value, Sequence) and not isinstance(value, _NO_LISTS):
        return value
    kind = describe_value(thaw(value))
    raise StateError(f"node {ctx.node_id!r} needs a list under state key {key!r}, not {kind}")


def _common_length(ctx: ExecContext, inputs: Mapping[str, Sequence[Any]]) -> int:
    lengths = {key: len(items) for key, items in inputs.items()}
    if len(set(lengths.values())) > 1:
        described = ", ".join(f"{key!r} has {length}" for key, length in lengths.items())
        raise StateError(
            f"node {ctx.node_id!r} takes items from lists of one length, but {described}"
        )
    return next(iter(lengths.values()))


def _without_holes(results: Sequence[Any]) -> list[Any]:
    return [result for result in results if result is not _MISSING]
