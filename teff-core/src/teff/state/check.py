"""`StateCheck`: what goes into the state of a running graph, held against its schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from teff.errors import ConfigError, StateError
from teff.state.fits import sentences
from teff.state.operators import DELETE, Append, Overwrite
from teff.state.reducers import NAMED, Reducers
from teff.state.schema import StateSchema

__all__ = ["StateCheck"]


class StateCheck:
    """Checks the input of a running graph, and the updates of its nodes.

    Values are looked at and stay as they are. What an update costs here grows with the update.

    Args:
        schema: what the state must be.
        reducers: those of the run: items that are appended are checked as items, and of what a
            function makes, what it made.
        is_own: says which keys are allowed though undeclared, beside `ENGINE_KEYS` and those that
            begin with ``_``.
        complain: is told each complaint once, instead of an error.
    """

    __slots__ = (
        "_appended",
        "_complain",
        "_computed",
        "_is_own",
        "_reducers",
        "_said",
        "_schema",
    )

    def __init__(
        self,
        schema: StateSchema,
        reducers: Reducers,
        *,
        is_own: Callable[[str], bool] | None = None,
        complain: Callable[[str], None] | None = None,
    ) -> None:
        self._schema = schema
        self._reducers = reducers
        self._is_own = is_own
        self._complain = complain
        self._said: set[str] = set()
        append, keep = NAMED["append"], NAMED["keep"]
        self._appended = {key for key, reducer in reducers.items() if reducer is append}
        self._computed = {key for key, reducer in reducers.items() if reducer not in (append, keep)}

    def check_input(self, state: Mapping[str, Any], *, nested: bool = False) -> None:
        """Refuse an input that does not fit.

        Args:
            state: the input, with the defaults.
            nested: whether it comes from a state around, which may have more keys.

        Raises:
            ConfigError: one sentence for each thing that is wrong.
        """
        is_own = state.__contains__ if nested else self._is_own
        problems = self._schema.problems(state, is_own=is_own)
        if problems:
            self._refuse(ConfigError, "the input does not fit the state schema", problems)

    def check_update(
        self, update: Mapping[str, Any], state: Mapping[str, Any], node: str
    ) -> Mapping[str, Any]:
        """Return an update that fits, to be merged: what reducer functions make of it is made.

        Args:
            update: what a node returned.
            state: what it will be merged into.
            node: its id, for the error.

        Raises:
            StateError: one sentence for each thing that is wrong.
        """
        checks, problems = self._schema.checks, []
        computed: dict[str, Any] = {}
        for key, value in update.items():
            if key not in checks:
                if not self._schema.allows(key, self._is_own):
                    problems.append(self._schema.undeclared(key))
                continue
            check = checks[key]
            if check is None or value is DELETE:
                continue
            kind = type(value)
            if kind is Overwrite:
                value = value.value
            elif kind is not Append:
                if key in self._appended:
                    value = value if isinstance(value, list | tuple) else [value]
                elif key in self._computed and key in state:
                    value = self._reducers[key](key, state[key], value)
                    computed[key] = Overwrite(value)
            problems += sentences(key, value, check)
        if problems:
            self._refuse(
                StateError, f"node {node!r} returned what does not fit the state schema", problems
            )
        return {**update, **computed} if computed else update

    def _refuse(self, kind: type[Exception], what: str, problems: Iterable[str]) -> None:
        message = f"{what}: {' '.join(problems)}"
        if self._complain is None:
            raise kind(message)
        if message not in self._said:
            self._said.add(message)
            self._complain(message)
