"""`Command`: an update together with where to go next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, final

import attrs

__all__ = ["STOP", "Command", "Stop"]


@final
class Stop:
    """The type of `Command.STOP`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Command.STOP"

    def __reduce__(self) -> str:
        return "STOP"


STOP: Final = Stop()


@attrs.frozen
class Command:
    """What a node may return instead of an update.

    Attributes:
        update: the update, or None.
        goto: the id of the next node, ``Command.STOP`` to end the run, or None to follow the edges.

    An unknown id raises `teff.errors.WorkflowError` with the ids there are. Inside a container
    (``parallel``, ``map``, ``loop``) only the update counts.

    >>> Command({"answer": 42}, goto=Command.STOP).goto
    Command.STOP
    """

    STOP: ClassVar[Stop] = STOP

    update: Mapping[str, Any] | None = None
    goto: str | Stop | None = None
