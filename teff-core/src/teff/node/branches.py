"""What the containers have in common: running nodes inside a node, and what comes of them.

Branches start from a dict of their own, and nothing in it can be changed in place, so they cannot
see each other. What they change is kept as the updates of their nodes, and the updates are what a
container brings back: as one update that does what they would do one after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

from teff.errors import ConfigError
from teff.node.base import Node, is_composite
from teff.node.function import took_too_long
from teff.node.inner import as_inner_node
from teff.runtime import ExecContext, LimitSignal
from teff.runtime.time_limit import time_limit
from teff.state import Reducers, merge_into

__all__ = [
    "Steps",
    "Update",
    "as_steps",
    "nodes_of",
    "option_first",
    "reads_of",
    "run_steps",
    "signature_of",
    "writes_of",
]

#: One node, or several that run one after another.
Steps: TypeAlias = Node | list[Node]

#: What a node changes.
Update: TypeAlias = Mapping[str, Any]


async def run_steps(
    ctx: ExecContext,
    key: str,
    steps: Steps,
    state: MutableMapping[str, Any],
    updates: list[Update],
    reducers: Reducers,
) -> None:
    """Run nodes one after another, each by a recorded call of its own.

    Args:
        ctx: of the container.
        key: names the branch within it.
        steps: what to run.
        state: a dict of the branch's own; it is changed as the nodes change it.
        updates: the update of each node is added to it, and, where a limit or a cancellation ends
            the run, what the unfinished node has kept.
        reducers: by which ``state`` is changed.
    """
    if isinstance(steps, Node):
        calls = [(ctx, key, steps, steps.id or key)]
    else:
        part = ctx.part(key)
        calls = [
            (part, str(place), node, node.id or f"{key}-{place}")
            for place, node in enumerate(steps)
        ]
    for within, name, node, node_id in calls:
        watched = _Watched(node)
        try:
            update = await within.call(name, watched, state, node_id=node_id)
        except (LimitSignal, asyncio.CancelledError):
            if watched.ctx is not None and watched.ctx.partial:
                updates.append(watched.ctx.partial)
            raise
        merge_into(state, update, reducers)
        updates.append(update)


class _Watched:
    """A node that remembers the context it was given, and has the time that the run gives a node."""

    __slots__ = ("ctx", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.ctx: ExecContext | None = None

    @property
    def type(self) -> str:
        return self.node.type or type(self.node).__name__

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Any:
        self.ctx = ctx
        seconds = ctx.run.node_timeout
        if seconds is None or is_composite(self.node):
            return await self.node.execute(ctx, state)
        said = took_too_long(f"node {ctx.node_id!r}", self.node, seconds)
        async with time_limit(seconds, said):
            return await self.node.execute(ctx, state)


def as_steps(given: Any, what: str) -> Steps:
    """Return what a branch is made of, from nodes, functions ``(ctx, state)``, flows, or a list.

    Args:
        given: one of them.
        what: names the branch in errors.

    Raises:
        ConfigError: it is something else, or an empty list.
    """
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        if not given:
            raise ConfigError(f"{what} is empty: it needs at least one step.")
        steps = [_as_step(step, f"{what}[{place}]") for place, step in enumerate(given)]
        return steps if len(steps) > 1 else steps[0]
    return _as_step(given, what)


def _as_step(step: Any, what: str) -> Node:
    if isinstance(step, type):
        raise ConfigError(f"{what} is the class {step.__name__}: give a node made of it.")
    try:
        return as_inner_node(step)
    except ConfigError as error:
        raise ConfigError(f"{what}: {error.message}", path=error.path, hint=error.hint) from None


def option_first(
    name: str, first: object, given: Mapping[str, Any]
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
    """Return config and keywords of a node whose first argument is its option ``name``, or config.

    A mapping is config where it holds ``name``, or where the keywords do.
    """
    if first is None:
        keywords = dict(given)
        return keywords.pop("config", None), keywords
    if isinstance(first, Mapping) and (name in first or name in given):
        return first, given
    if name in given:
        raise ConfigError(f"the option {name!r} is given twice.", path=name)
    return None, {name: first, **given}


def nodes_of(steps: Steps) -> list[Node]:
    """Return the nodes in their order."""
    return [steps] if isinstance(steps, Node) else steps


def reads_of(steps: Steps) -> set[str]:
    """Return the keys that are known to be read, without those that a step before writes."""
    read: set[str] = set()
    written: set[str] = set()
    for node in nodes_of(steps):
        read |= set(node.reads() or ()) - written
        written |= set(node.writes() or ())
    return read


def writes_of(steps: Steps) -> set[str] | None:
    """Return the keys that the steps may update, or None where one of them does not know."""
    written: set[str] = set()
    for node in nodes_of(steps):
        keys = node.writes()
        if keys is None:
            return None
        written |= set(keys)
    return written


def signature_of(steps: Steps) -> Any:
    """Return the signature of a node, or the list of those of several."""
    if isinstance(steps, Node):
        return steps.signature()
    return [node.signature() for node in steps]
