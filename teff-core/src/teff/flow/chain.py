"""What a step of a flow may be made from, and the conditions that a flow writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from teff.conditions import compile_condition, literal
from teff.graph.edge import Condition
from teff.node import Node
from teff.node.inner import as_inner_node

if TYPE_CHECKING:
    from teff.flow.flow import Flow

__all__ = ["Case", "Chain", "Steppable", "as_node", "as_nodes", "both", "differs", "equals"]

#: What becomes one node: a node, a function ``(ctx, state)``, or a flow.
Steppable: TypeAlias = "Node | Callable[..., Any] | Flow"

#: What becomes one node or several in a row.
Chain: TypeAlias = "Steppable | Sequence[Steppable]"


class Case:
    """One way of a `Flow.branch`: the value that it is for, and its steps.

    >>> case = Case("urgent").add(lambda ctx, state: {"note": "!"}, id="mark")
    >>> case.steps[0][1]
    'mark'
    """

    def __init__(self, value: object) -> None:
        self.value = value
        self.steps: list[tuple[Steppable, str | None]] = []

    def add(self, step: Steppable, id: str | None = None) -> Case:
        """Add a step after those there are; return this case."""
        self.steps.append((step, id))
        return self

    def __repr__(self) -> str:
        return f"<Case {self.value!r} of {len(self.steps)} steps>"


def as_node(step: Steppable) -> Node:
    """Return ``step`` as a node: a flow becomes a `SubFlow`, a function a function node.

    Raises:
        ConfigError: it is neither a node nor a flow nor a function ``(ctx, state)``.
    """
    return as_inner_node(step)


def as_nodes(chain: Chain) -> list[Node]:
    """Return the nodes of a chain, in order."""
    if isinstance(chain, Iterable) and not isinstance(chain, Node):
        return [as_node(step) for step in chain]
    return [as_node(chain)]


def both(one: Condition, other: Condition) -> Condition:
    """Return the condition that holds where both do.

    >>> both("next_agent=finish", "urgent"), both(None, "urgent")
    ('(next_agent=finish) and (urgent)', 'urgent')
    """
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, str) and isinstance(other, str):
        return f"({one}) and ({other})"
    first, second = compile_condition(one), compile_condition(other)
    return lambda state: first(state) and second(state)


def equals(key: str, value: object, *, exact: bool = False) -> str:
    """Return the condition that ``key`` has ``value``; see `teff.conditions.literal`.

    >>> equals("next_agent", "billing"), equals("level", 3), equals("plan", "a, b")
    ('next_agent=billing', 'level=3', "plan='a, b'")
    """
    return f"{key}={literal(value, exact=exact)}"


def differs(key: str, value: object) -> str:
    """Return the condition that ``key`` has another value than ``value``, or none.

    >>> differs("next_agent", "billing")
    'next_agent!=billing'
    """
    return f"{key}!={literal(value)}"
