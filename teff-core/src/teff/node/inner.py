"""What a node runs inside itself, from whatever may be given for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from teff.errors import ConfigError
from teff.node.base import Node
from teff.node.function import make_function_node
from teff.plugins import catalogue

__all__ = ["as_inner_node"]


def as_inner_node(step: Any) -> Node:
    """Return a step as a node: a function becomes a function node, a flow or graph a sub-flow.

    >>> as_inner_node(lambda ctx, state: {"n": 1}).type
    '<lambda>'

    Raises:
        ConfigError: it is neither a node nor a flow nor a function ``(ctx, state)``.
    """
    if isinstance(step, Node):
        return step
    if isinstance(step, type):
        raise ConfigError(f"{step.__name__} is a class: give a node made of it.")
    if hasattr(step, "compile"):
        make_sub_flow = cast("Callable[[Any], Node]", catalogue().load("teff.nodes", "subflow"))
        return make_sub_flow(step)
    return make_function_node(step)
