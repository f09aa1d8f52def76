"""`NodeHooks`: functions of the caller that are told of every node of a run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from teff.errors import ConfigError, StateError, suggest
from teff.runtime.signals import AbortSignal
from teff.state import Append, merge_into, thaw

if TYPE_CHECKING:
    from teff.messages import ModelUsage
    from teff.runtime.context import ExecContext

__all__ = ["NodeHook", "NodeHooks", "PayloadCallback", "tell_payload"]

#: A plain or an async function: ``on_node_start(node_id, node, state)``,
#: ``on_node_end(node_id, node, state, result)``, ``on_node_error(node_id, node, state, error)``.
NodeHook = Callable[..., Any]

#: A plain or an async function
#: ``(provider, model, messages, content, usage, latency_ms, cached)``, called in this order.
PayloadCallback = Callable[
    [str, str, list[dict[str, Any]], str, dict[str, Any], float, bool], Awaitable[None] | None
]


@attrs.frozen(kw_only=True)
class NodeHooks:
    """Told before and after every node, those of sub-flows and containers too.

    A state that a hook is given is a plain copy; changing it changes nothing. A hook that raises
    ends the run as failed, and no error edge takes it.
    """

    on_node_start: NodeHook | None = None
    on_node_end: NodeHook | None = None
    on_node_error: NodeHook | None = None

    @classmethod
    def of(cls, given: Mapping[str, NodeHook] | None) -> NodeHooks | None:
        """Return the hooks by their names; None where there are none.

        Raises:
            ConfigError: there is no such hook, or it is no function.
        """
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"hooks must be a dict from name to function, not {type(given).__name__}."
            )
        names = [field.name for field in attrs.fields(cls)]
        for name, function in given.items():
            if name not in names:
                raise ConfigError(
                    f"there is no hook {name!r}; the hooks are {', '.join(names)}.",
                    path=f"hooks.{name}",
                    hint=suggest(str(name), names).strip(),
                )
            if not callable(function):
                raise ConfigError(
                    f"the hook {name!r} must be a function, not {type(function).__name__}.",
                    path=f"hooks.{name}",
                )
        made = cls(**given)
        return None if made == cls() else made

    async def started(self, ctx: ExecContext, node: Any) -> None:
        """Tell that ``node`` is about to run."""
        if self.on_node_start is not None:
            await _tell(ctx, "on_node_start", self.on_node_start, node, _copied(ctx.state))

    async def ended(
        self, ctx: ExecContext, node: Any, state: Mapping[str, Any], update: Mapping[str, Any]
    ) -> None:
        """Tell that ``node`` has run; ``state`` is the one after its update was merged."""
        if self.on_node_end is not None:
            result = _copied(update)
            await _tell(ctx, "on_node_end", self.on_node_end, node, _copied(state), result)

    async def ended_inside(
        self, ctx: ExecContext, node: Any, given: dict[str, Any], update: Mapping[str, Any]
    ) -> None:
        """Tell that a node has run that another one called, and that merges the update later."""
        if self.on_node_end is None:
            return
        state = dict(given)
        try:
            merge_into(state, update, ctx.frame.reducers)
        except StateError:
            state = given  # the node around fails by it, where it merges
        await self.ended(ctx, node, state, update)

    async def failed(
        self, ctx: ExecContext, node: Any, state: Mapping[str, Any], error: Exception
    ) -> None:
        """Tell that ``node`` has failed, also where an error edge goes on from there."""
        if self.on_node_error is not None:
            await _tell(ctx, "on_node_error", self.on_node_error, node, _copied(state), error)


async def tell_payload(
    ctx: ExecContext,
    *,
    provider: str,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    content: str,
    usage: ModelUsage,
    latency_ms: float,
    cached: bool = False,
) -> None:
    """Tell ``on_llm_payload`` of an answered model call; what it raises ends the run."""
    callback = ctx.run.on_llm_payload
    if callback is None:
        return
    said = [thaw(dict(message)) for message in messages]
    try:
        waiting = callback(provider, model, said, content, usage.to_json(), latency_ms, cached)
        if inspect.isawaitable(waiting):
            await waiting
    except Exception as error:
        _abort(ctx, "on_llm_payload", error)


async def _tell(ctx: ExecContext, name: str, hook: NodeHook, *arguments: Any) -> None:
    try:
        waiting = hook(ctx.node_id, *arguments)
        if inspect.isawaitable(waiting):
            await waiting
    except Exception as error:
        _abort(ctx, f"the hook {name}", error)


def _abort(ctx: ExecContext, who: str, error: Exception) -> None:
    """End the run by what a hook raised.

    Raises:
        AbortSignal: past every error edge.
        Exception: ``error`` itself, in a context made by hand.
    """
    error.add_note(f"raised by {who}, at node {ctx.node_id!r}")
    if ctx.run.detached:
        raise error
    ctx.run.aborted_by = error
    ctx.run.interrupted = True
    raise AbortSignal(error) from error


def _copied(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: Append(thaw(list(value))) if type(value) is Append else thaw(value)
        for key, value in values.items()
    }
