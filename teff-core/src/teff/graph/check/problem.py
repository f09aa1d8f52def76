"""`Problem`: one finding about a graph, and the codes that findings have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import attrs

from teff.errors import ConfigError

__all__ = ["CODES", "Problem", "Severity"]

Severity = Literal["error", "warning"]

#: What each code means, for programs and for the reference.
CODES: Mapping[str, str] = MappingProxyType(
    {
        "unknown-target": "A node goes to a node that the graph does not have.",
        "unknown-provider": "A node asks a provider that the graph does not declare.",
        "unreachable": "Nothing leads to the node.",
        "missing-default": "The run may end after the node because none of its conditions holds.",
        "shadowed-edge": "The way is never taken, because an earlier one always is.",
        "condition-trap": "The condition is always or never true, or means something else.",
        "unbounded-cycle": "The nodes may go round for ever: nothing counts the rounds.",
        "shared-rounds": "Two supervisors count their rounds under the same state key.",
        "unwritten-key": "The node reads a state key that nothing writes.",
        "unwritten-condition-key": "A condition looks at a state key that nothing writes.",
        "undeclared-key": "The node writes a state key that the state schema does not declare.",
        "colliding-writes": "Two branches that run side by side write the same state key.",
        "whole-state-prompt": "The node sends the whole state to the model.",
    }
)


@attrs.frozen(kw_only=True)
class Problem:
    """One finding.

    Attributes:
        code: a short name of the kind, for programs; one of `CODES`.
        severity: ``error`` keeps the graph from running; a ``warning`` does not.
        message: what is wrong, in a sentence.
        hint: the way out, in a sentence, or "".
        node: the node of the graph that it is about, or "".
        within: the nodes of the graphs inside it that lead to the place, from the outside in; the
            last one is what the finding is about.
        edge: the number of the edge that it is about, from 0, or None; of the innermost graph.
    """

    code: str
    severity: Severity
    message: str
    hint: str = ""
    node: str = ""
    within: tuple[str, ...] = ()
    edge: int | None = None

    def inside(self, node: str) -> Problem:
        """Return the finding as one of the graph around, which has the graph as ``node``."""
        return attrs.evolve(
            self,
            message=f"in {node!r}: {self.message}",
            node=node,
            within=(self.node, *self.within),
        )

    def as_error(self) -> ConfigError:
        """Return it as an exception."""
        return ConfigError(self.message, path=self.node, hint=self.hint)


def warning(code: str, node: str, message: str, hint: str, *, edge: int | None = None) -> Problem:
    """Return a finding that keeps nothing from running."""
    return Problem(code=code, severity="warning", message=message, hint=hint, node=node, edge=edge)
