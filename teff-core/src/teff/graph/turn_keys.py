"""Which state keys belong to one turn of a chat; see `Node.turn_keys`."""

from __future__ import annotations

from collections.abc import Iterable

from teff.node import Node

__all__ = ["is_turn_key", "turn_keys"]


def turn_keys(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the state keys that nodes, at any depth, keep for one turn."""
    return frozenset(key for node in nodes for key in node.turn_keys())


def is_turn_key(key: str, turn_keys: Iterable[str]) -> bool:
    """Return whether a state key is one of ``turn_keys``, or begins like one that ends with ``*``.

    >>> is_turn_key("_react_round_lead", ["rounds", "_react_round_*"])
    True
    """
    return any(
        key.startswith(name[:-1]) if name.endswith("*") else key == name for name in turn_keys
    )
