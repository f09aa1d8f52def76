"""`Frame`: one graph that is running, as the fold of its committed steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from teff.runtime.budget import Budget
from teff.runtime.run import Run
from teff.state import Reducers, freeze, merge_into, note_written, read_update

if TYPE_CHECKING:
    from teff.provider import ProviderRegistry
    from teff.runtime.context import ExecContext
    from teff.state import StateCheck

__all__ = ["Frame", "ModelDefaults"]


@attrs.frozen(kw_only=True)
class ModelDefaults:
    """What model calls use that name nothing else: the providers, and a provider and model."""

    providers: ProviderRegistry | None = None
    provider: str | None = None
    model: str | None = None

    def filled_from(self, other: ModelDefaults) -> ModelDefaults:
        """Return these defaults, with those of ``other`` where there are none."""
        return ModelDefaults(
            providers=other.providers if self.providers is None else self.providers,
            provider=self.provider or other.provider,
            model=self.model or other.model,
        )


class Frame:
    """A running graph: an initial state, and the steps that were committed since.

    Attributes:
        run: the run it belongs to.
        path: ``""`` for the root; else the path of the step that runs this graph.
        prefix: what the paths of its steps begin with.
        state: the state now, a dict of frozen values that only the engine changes.
        reducers: compiled, by key.
        check: holds what goes into the state against its schema, or None.
        defaults: for the model calls of its nodes.
        visits: how often each node was executed, by id.
        position: the id of the next node, or None at the end.
        reason: why it ends, as a node said it, or None.
        around: the context of the step that runs this graph, or None for the root.
        max_steps: how many nodes this graph may execute, or None for no bound of its own.
        written: for a graph inside of a step, what was written, by key; None for the root.
    """

    __slots__ = (
        "around",
        "budget",
        "check",
        "defaults",
        "max_steps",
        "path",
        "position",
        "prefix",
        "reason",
        "reducers",
        "run",
        "state",
        "visits",
        "written",
    )

    def __init__(
        self,
        run: Run,
        path: str,
        state: Mapping[str, Any],
        *,
        entry: str,
        reducers: Reducers | None = None,
        check: StateCheck | None = None,
        defaults: ModelDefaults | None = None,
        around: ExecContext | None = None,
        max_steps: int | None = None,
    ) -> None:
        self.run = run
        self.max_steps = max_steps
        #: The innermost bounds that its steps are under beside those of the run, or None.
        self.budget: Budget | None = None if around is None else around.budget
        self.written: dict[str, list[Any]] | None = None if around is None else {}
        self.around = around
        self.path = path
        self.prefix = f"{path}/" if path else ""
        self.state: dict[str, Any] = {key: freeze(value) for key, value in state.items()}
        self.reducers: Reducers = reducers or {}
        self.check = check
        self.defaults = defaults or ModelDefaults()
        self.visits: dict[str, int] = {}
        self.position: str | None = entry
        self.reason: str | None = None
        if run.journal is not None:
            if not path and run.journal.snapshot is not None:
                self._restore(run.journal.snapshot)
            self._replay(run.journal.steps.get(path, ()))

    def _restore(self, snapshot: Mapping[str, Any]) -> None:
        self.state = dict(snapshot["state"])
        self.visits = dict(snapshot["visits"])
        self.position, self.reason = snapshot["next"], snapshot["reason"]

    def _replay(self, steps: Iterable[Mapping[str, Any]]) -> None:
        for step in steps:
            node = step["node"]
            self.visits[node] = self.visits.get(node, 0) + 1
            effects = read_update(step["effects"])
            merge_into(self.state, effects, {})
            if self.written is not None:
                given = read_update(step["given"]) if "given" in step else {}
                note_written(self.written, {**effects, **given}, self.reducers)
            self.position = step["next"]
            self.reason = step["reason"]
