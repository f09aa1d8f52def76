"""`ToolCallScreen`: what of a streamed reply may be shown while it comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from teff.harness.decode.offered import Offered
from teff.harness.decode.walk import Walk

__all__ = ["ToolCallScreen"]

#: Up to so many characters, what is held back is looked at again with every piece.
_SHORT: Final = 128


class ToolCallScreen:
    """Holds back what is, or may become, a tool call or thinking in a streamed reply.

    Prose is shown as it comes. From what may open a call on, the text is held back until it is known
    what it is; calls and thinking are never shown, thinking that is not ended neither. Where no tools
    were offered, all is shown.

    >>> screen = ToolCallScreen(["add"])
    >>> [screen.feed("Let me see. <tool"), screen.feed('_call>{"name": "add", "arguments": {}}')]
    ['Let me see. ', '']
    >>> screen.close()
    ''

    Args:
        names: the tools that were offered.
        schemas: as for `decode_tool_calls`.
    """

    def __init__(
        self,
        names: Collection[str],
        schemas: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._walk = Walk(Offered(names, schemas)) if names else None
        self._pieces: list[str] = []
        self._waiting = 0
        self._look_at = 0

    def feed(self, piece: str) -> str:
        """Take the next piece of the reply, and return what may be shown now."""
        if self._walk is None:
            return piece
        if not self._waiting and self._walk.passes(piece):
            return piece
        self._pieces.append(piece)
        self._waiting += len(piece)
        # Text that is held back is read again each time that it has grown by a quarter, so that the
        # work grows with the length of the reply.
        return self._go(final=False) if self._waiting >= self._look_at else ""

    def close(self) -> str:
        """Return what is left to show when the reply is over."""
        return self._go(final=True) if self._walk is not None else ""

    def _go(self, *, final: bool) -> str:
        walk = self._walk
        if walk is None:
            return ""
        walk.text = walk.text[walk.position :] + "".join(self._pieces)
        walk.position = 0
        self._pieces.clear()
        walk.go(final=final)
        held = walk.waits_for
        self._waiting = held
        self._look_at = held + held // 4 if held > _SHORT else 0
        shown = "".join(walk.shown)
        walk.shown.clear()
        return shown
