"""`Parallel`: several branches at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import attrs

from teff.errors import ConfigError, GraphInterrupt, error_text
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
from teff.state import combined

__all__ = ["Parallel"]


def _as_branches(given: Any) -> dict[str, Steps] | list[Steps]:
    if isinstance(given, Mapping):
        branches = {
            str(name): as_steps(steps, f"parallel: branch {name!r}")
            for name, steps in given.items()
        }
        if branches:
            return branches
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        if given:
            return [
                as_steps(steps, f"parallel: 'branches'[{place}]")
                for place, steps in enumerate(given)
            ]
    else:
        raise ConfigError(
            "parallel: 'branches' must be a list of branches, or a mapping from names to branches, "
            f"not {type(given).__name__}.",
            path="branches",
        )
    raise ConfigError("parallel: 'branches' is empty; it needs at least one.", path="branches")


@options
class Parallel(Node):
    """Run branches at the same time, and merge what they change in their order.

    Each branch starts from the state as it is here and sees nothing of the others. The result is
    what the updates of the first branch, then those of the second and so on would have made of the
    state, with the reducers of the graph: of two branches that write one key without a reducer, the
    later one wins, whichever is ready first.

    Branches are recorded: a run that is resumed repeats none that has finished. Several may ask a
    person at once; the others are done to their end first. Where a limit ends the run, what the
    branches have changed so far is kept.

    A plain function runs in a thread, which cannot be stopped: where its branch is cancelled it goes
    on, and its result is dropped.

    Args:
        branches: a list of branches, or a mapping from their names; also as the first argument.
            Each is a node, a function ``(ctx, state)``, a flow or graph, or a list of those that run
            one after another. A branch in a list is named by the id of its node, or by its place
            from 0.
        max_concurrency: how many may be under way at once; None for all.
        on_error: ``fail`` cancels the other branches and raises, with a note that names the branch.
            ``skip`` leaves out what a failed branch has changed. ``collect`` does so too, and tells
            of it under ``errors_key``. A branch that failed is tried again when the run is resumed.
        errors_key: for ``collect``: the state key of the list of failures, in the order of the
            branches, each ``{"branch": name, "type": …, "message": …}``; empty without a failure.
        timeout: seconds for all of them. Branches that are not ready then are cancelled and count as
            failed with a ``TimeoutError``; with ``fail`` it is raised.

    Raises:
        ConfigError: no branches, something that cannot run, or a bound below its least value.

    >>> import asyncio
    >>> async def count(ctx, state):
    ...     return {"words": len(state["text"].split())}
    >>> async def shout(ctx, state):
    ...     return {"loud": state["text"].upper()}
    >>> node = Parallel([count, shout])
    >>> asyncio.run(node.execute(ExecContext(), {"text": "so it goes"}))
    {'words': 3, 'loud': 'SO IT GOES'}
    """

    type = "parallel"

    branches: Any = attrs.field(converter=_as_branches)
    max_concurrency: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    on_error: Literal["fail", "skip", "collect"] = "fail"
    errors_key: str = "errors"
    timeout: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )

    def __init__(self, branches: Any = None, /, **given: Any) -> None:
        """See the class; a mapping that holds ``branches`` holds all options."""
        config, keywords = option_first("branches", branches, given)
        super().__init__(config, **keywords)

    def __attrs_post_init__(self) -> None:
        if not self.errors_key:
            raise ConfigError(
                f"{self._described(self.id)}: 'errors_key' is empty; it names the state key of the "
                "failures.",
                path="errors_key",
            )

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Run the branches; return what they change."""
        branches = self._named_branches()
        updates: dict[str, list[Update]] = {name: [] for name in branches}
        failures: dict[str, Exception] = {}
        unfinished = set(branches)
        names = list(branches)

        async def run(number: int) -> None:
            name = names[number]
            try:
                await run_steps(
                    ctx, name, branches[name], dict(state), updates[name], ctx.frame.reducers
                )
            except GraphInterrupt:
                raise  # the pause of a context made by hand
            except Exception as error:
                if self.on_error == "fail":
                    error.add_note(f"in branch {name!r}")
                    raise
                failures[name] = error
            unfinished.discard(name)

        limit = asyncio.timeout(self.timeout)
        try:
            async with limit:
                await run_jobs(len(names), run, limit=self.max_concurrency or len(names))
        except TimeoutError as error:
            if not limit.expired() or error.args:
                raise
            late = [name for name in names if name in unfinished]
            failures |= await self._timed_out(ctx, late)
        except (LimitSignal, asyncio.CancelledError):
            kept = [update for name in names if name not in failures for update in updates[name]]
            ctx.keep(combined(state, kept, ctx.frame.reducers))
            raise
        done = [update for name in names if name not in failures for update in updates[name]]
        if self.on_error == "collect":
            failed = [(name, failures[name]) for name in names if name in failures]
            done.append({self.errors_key: [_failure(name, error) for name, error in failed]})
        return combined(state, done, ctx.frame.reducers)

    async def _timed_out(self, ctx: ExecContext, late: Sequence[str]) -> dict[str, Exception]:
        """Return the failures of the branches that were not ready; raise where one is enough."""
        if (pending := ctx.pending()) is not None:
            raise pending
        if not late:
            return {}  # all came to an end although they were cancelled
        error = TimeoutError(f"took longer than {self.timeout:g} seconds")
        if self.on_error == "fail":
            names = ", ".join(repr(name) for name in late)
            raise TimeoutError(
                f"node {ctx.node_id!r} took longer than {self.timeout:g} seconds; "
                f"branches that were not ready: {names}"
            )
        await ctx.emit("limit", {"reason": "timeout", "branches": list(late)})
        return dict.fromkeys(late, error)

    def _named_branches(self) -> dict[str, Steps]:
        if isinstance(self.branches, dict):
            return self.branches
        named: dict[str, Steps] = {}
        for place, steps in enumerate(self.branches):
            nodes = nodes_of(steps)
            name = nodes[0].id if len(nodes) == 1 and nodes[0].id else str(place)
            while name in named:
                name = f"{name}-{place}"
            named[name] = steps
        return named

    def children(self) -> list[Node]:
        """Return the nodes of all branches."""
        return [node for steps in self._named_branches().values() for node in nodes_of(steps)]

    def reads(self) -> Iterable[str]:
        """Return what is known of the keys that the branches read."""
        return set[str]().union(*map(reads_of, self._named_branches().values()))

    def writes(self) -> Iterable[str] | None:
        """Return the keys that the branches may update, and the key of the failures."""
        written = writes_of(self.children())
        if written is not None and self.on_error == "collect":
            written.add(self.errors_key)
        return written

    def signature(self) -> Any:
        """Return the signatures of the branches by name."""
        named = self._named_branches()
        return {
            "type": self.type,
            "branches": {name: signature_of(steps) for name, steps in named.items()},
        }


def _failure(name: str, error: Exception) -> dict[str, str]:
    return {"branch": name, "type": type(error).__name__, "message": error_text(error)}
