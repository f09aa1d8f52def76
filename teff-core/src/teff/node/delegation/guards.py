"""Guards: functions that look at what passes a point, and let it pass, replace it or block it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs

from teff.errors import ConfigError, WorkflowError, suggest
from teff.runtime import ExecContext
from teff.state import thaw

__all__ = ["GUARD_POINTS", "Guard", "Guarded", "Guards", "Verdict", "allow", "block", "replace"]

#: Where guards stand, and what they are given:
#:
#: - ``input``: the user's words. ``output``: the answer. Both are text.
#: - ``tool_args``: the arguments of a call of a tool or an agent, a dict.
#: - ``tool_result``: what a tool gave, as the text that the model would read.
#: - ``agent_result``: what an agent answered, any JSON value.
GUARD_POINTS: Final = ("input", "output", "tool_args", "tool_result", "agent_result")


@attrs.frozen
class Verdict:
    """What a guard says; made by `allow`, `replace` and `block`."""

    action: Literal["allow", "replace", "block"] = "allow"
    value: Any = None
    reason: str = ""


@attrs.frozen(kw_only=True)
class Guarded:
    """What a guard may know beside the value.

    Attributes:
        point: one of `GUARD_POINTS`.
        name: the tool or the agent that it is about, or "".
        state: the state that the node was given.
    """

    point: str
    name: str = ""
    state: Mapping[str, Any] = attrs.field(factory=dict)


#: Takes the value, and a `Guarded` where it has a second parameter; plain or async.
Guard: TypeAlias = Callable[..., Verdict | Awaitable[Verdict]]


def allow() -> Verdict:
    """Return the verdict that lets a value pass as it is."""
    return Verdict()


def replace(value: Any) -> Verdict:
    """Return the verdict that puts ``value`` in the place of what came.

    >>> replace("[removed]").value
    '[removed]'
    """
    return Verdict("replace", value)


def block(reason: str) -> Verdict:
    """Return the verdict that stops a value.

    Args:
        reason: what is said in its place: to the user at ``input`` and ``output``, to the model at
            the other points.
    """
    return Verdict("block", reason=reason)


class Guards:
    """The guards of a node, by point.

    Args:
        given: from points to functions, one or a list.
        what: names the node in errors.

    Raises:
        ConfigError: an unknown point, or something that cannot be called.
    """

    def __init__(self, given: Mapping[str, Any], *, what: str) -> None:
        self._guards: dict[str, list[tuple[Guard, bool]]] = {}
        for point, functions in given.items():
            if point not in GUARD_POINTS:
                raise ConfigError(
                    f"{what}: option 'guards' has no point {point!r}.{suggest(point, GUARD_POINTS)}",
                    path="guards",
                )
            listed = functions if isinstance(functions, Sequence) else [functions]
            for function in listed:
                if not callable(function):
                    raise ConfigError(
                        f"{what}: a guard of {point!r} must be a function of the value, "
                        f"not {function!r}.",
                        path="guards",
                    )
            self._guards[point] = [(function, _wants_both(function)) for function in listed]

    def at(self, point: str) -> bool:
        """Say whether anything stands at a point."""
        return bool(self._guards.get(point))

    async def judge(
        self, ctx: ExecContext, point: str, value: Any, *, name: str = "", key: str = ""
    ) -> Verdict:
        """Show ``value`` to the guards of a point, each what the one before made of it.

        The verdict is recorded, so that a guard is not asked again when the run is resumed.

        Args:
            ctx: the step, or the part of one that the value belongs to.
            point: where it passes.
            value: what passes.
            name: the tool or agent that it is about.
            key: tells several values at one point of one ``ctx`` apart.

        Returns:
            ``allow``, ``replace`` with the last value, or the first ``block``.

        Raises:
            WorkflowError: a guard returned no verdict.
            Exception: what a guard raises.
        """
        guards = self._guards.get(point, [])
        if not guards:
            return allow()
        about = Guarded(point=point, name=name, state=ctx.state)

        async def ask() -> dict[str, Any]:
            return attrs.asdict(await _in_turn(guards, value, about), recurse=False)

        said = await ctx.once(f"guard:{point}{key and ':'}{key}", ask)
        return Verdict(said["action"], thaw(said["value"]), said["reason"])


async def _in_turn(guards: Sequence[tuple[Guard, bool]], value: Any, about: Guarded) -> Verdict:
    verdict = allow()
    for guard, wants_both in guards:
        said: Any = guard(value, about) if wants_both else guard(value)
        if inspect.isawaitable(said):
            said = await said
        if not isinstance(said, Verdict):
            named = getattr(guard, "__name__", repr(guard))
            raise WorkflowError(
                f"the guard {named!r} at {about.point!r} returned {type(said).__name__}: "
                "return allow(), replace(value) or block(reason)"
            )
        if said.action == "block":
            return said
        if said.action == "replace":
            verdict, value = said, said.value
    return verdict


def _wants_both(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in function need not have one
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        sum(
            parameter.kind in positional and parameter.default is inspect.Parameter.empty
            for parameter in parameters
        )
        > 1
    )
