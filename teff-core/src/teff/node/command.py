"""`CommandNode`: chooses the next node by conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

import attrs

from teff.conditions import Predicate, compile_condition, keys_of
from teff.errors import ConfigError
from teff.node.base import Node, options
from teff.runtime import Command, ExecContext
from teff.runtime.command import Stop

__all__ = ["Command", "CommandNode", "Route"]

#: How the end of the run is written in a workflow file.
_STOP_WORD: Final = "STOP"


class Route(TypedDict):
    """Where to go, and when: ``goto`` is a node id, ``"STOP"`` or ``Command.STOP``."""

    when: str
    goto: str | Stop


@options
class CommandNode(Node):
    """Go to the node of the first route whose condition is true.

    Where none is, go to ``goto``; without one, the edges of the graph decide. The update is made in
    any case, after the conditions were asked.

    Args:
        routes: ``{"when": condition, "goto": node id}``, looked at in their order; see
            `teff.conditions`.
        goto: the node id where no route fits, or None.
        update: what changes in the state, or None.

    ``"STOP"`` and ``Command.STOP`` in place of a node id end the run.

    Raises:
        ConfigError: a route without ``when`` or ``goto`` or with anything else, a condition that
            does not parse, an empty node id; by the graph, a node id that it does not have.

    >>> import asyncio
    >>> node = CommandNode(routes=[{"when": "score >= 0.8", "goto": "publish"}], goto="STOP")
    >>> asyncio.run(node.execute(ExecContext(), {"score": 0.9})).goto
    'publish'
    >>> asyncio.run(node.execute(ExecContext(), {"score": 0.1})).goto
    Command.STOP
    """

    type = "command"

    routes: Sequence[Route] = attrs.field(
        default=(), validator=lambda self, _, routes: self._compile_routes(routes)
    )
    goto: str | Stop | None = attrs.field(
        default=None, validator=lambda self, _, goto: self._read_goto(goto)
    )
    update: Mapping[str, Any] | None = None

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Command:
        """Return where to go, with the update."""
        for applies, target in self._routes:
            if applies(state):
                return Command(self.update, goto=target)
        return Command(self.update, goto=self._otherwise)

    def reads(self) -> Iterable[str]:
        """Return the keys that the conditions ask for."""
        return frozenset[str]().union(*(keys_of(route["when"]) for route in self.routes))

    def writes(self) -> Iterable[str]:
        """Return the keys of the update."""
        return list(self.update or ())

    def targets(self) -> Iterable[str]:
        """Return the node ids, each once, in their order."""
        targets = [target for _, target in self._routes] + [self._otherwise]
        return list(dict.fromkeys(target for target in targets if isinstance(target, str)))

    def _compile_routes(self, routes: Sequence[Route]) -> None:
        self._routes = [
            (
                self._condition(route["when"], f"routes[{number}].when"),
                self._target(route["goto"], f"routes[{number}].goto"),
            )
            for number, route in enumerate(routes)
        ]

    def _read_goto(self, goto: str | Stop | None) -> None:
        self._otherwise = None if goto is None else self._target(goto, "goto")

    def _condition(self, condition: str, place: str) -> Predicate:
        try:
            return compile_condition(condition)
        except ConfigError as error:
            raise ConfigError(
                f"{self._described(self.id)}: {place}: {error.message}",
                path=place,
                hint=error.hint,
            ) from None

    def _target(self, goto: str | Stop, place: str) -> str | Stop:
        if goto == "":
            raise ConfigError(
                f"{self._described(self.id)}: {place} is empty; it names a node, or is 'STOP'.",
                path=place,
            )
        return Command.STOP if goto == _STOP_WORD else goto
