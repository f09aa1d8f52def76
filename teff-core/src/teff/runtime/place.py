"""What can run as a node, and where in a graph it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from teff.runtime.context import ExecContext

__all__ = ["Executable", "Place", "path_segment"]


class Executable(Protocol):
    """What runs as a node: `teff.node.Node` and whatever behaves like it."""

    @property
    def type(self) -> Any:
        """The name of its type, for events."""
        ...

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Any:
        """Change the state: return an update, the given dict, a `Command` or None."""
        ...


class Place:
    """Where a node stands in a graph: its id, its type, and its part of a path."""

    __slots__ = ("id", "segment", "type")

    def __init__(self, id: str, type: str) -> None:
        self.id = id
        self.type = type
        self.segment = path_segment(id)


def path_segment(id: str) -> str:
    """Return the form of a node id in paths: itself, but where it could be read as a visit.

    >>> path_segment("plan"), path_segment("ag/tool"), path_segment("task/7")
    ('plan', 'ag/tool', 'task%2F7')
    """
    if "%" in id or any(part.isdigit() for part in id.split("/")[1:]):
        return id.replace("%", "%25").replace("/", "%2F")
    return id
