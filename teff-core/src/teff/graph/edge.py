"""`Edge`: where to go after a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

__all__ = ["ERROR", "Condition", "Edge"]

#: The condition of an edge that is taken when its source node fails.
ERROR = "__error__"

#: A text of the condition language, a function of the state, or None: always.
Condition = str | Callable[[Mapping[str, Any]], Any] | None


@attrs.frozen
class Edge:
    """A way from one node to another.

    The edges of a node are looked at in the order in which they were given, and the first that
    matches is taken. An edge with the condition ``"__error__"`` is taken when the node fails; its
    target finds ``node``, ``path``, ``type`` and ``message`` in the state under ``error``.

    Args:
        source_id, target_id: ids of nodes.
        condition: a text such as ``"score >= 0.8 and not rejected"``, a function of the state, or
            None for always.

    >>> Edge("review", "publish", "approved").label
    'approved'
    """

    source_id: str
    target_id: str
    condition: Condition = None

    @property
    def label(self) -> str | None:
        """The condition as people read it: its text, the function's name, or None."""
        if self.condition is None or isinstance(self.condition, str):
            return self.condition
        return f"when:{getattr(self.condition, '__name__', type(self.condition).__name__)}"
