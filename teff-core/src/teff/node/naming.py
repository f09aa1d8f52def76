"""The names that a reply chooses from: their order, and what may be wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from teff.errors import suggest
from teff.node.routing import folded_name

__all__ = ["confusable_names", "in_order", "unknown_names"]


def confusable_names(names: Iterable[str]) -> Iterator[str]:
    """Give what is wrong with names that a reply cannot tell apart, or not name at all."""
    seen: dict[str, str] = {}
    for name in names:
        folded = folded_name(name)
        if not folded:
            yield f"the name {name!r} has nothing that a reply could be compared with."
        if folded in seen:
            yield f"the names {seen[folded]!r} and {name!r} read the same in a reply."
        seen[folded] = name


def unknown_names(
    named: Mapping[str, Iterable[str]], agents: Iterable[str], *, finish: str
) -> Iterator[tuple[str, str]]:
    """Give what is wrong with options that name agents, each with the option's name.

    Args:
        named: from options to the names in them.
        agents: the names that there are.
        finish: the token that ends the loop, which is no agent.
    """
    known = tuple(agents)
    for option, names in named.items():
        for name in names:
            if name == finish:
                yield f"option {option!r} names {name!r}, which is the finish token.", option
            elif name not in known:
                hint = suggest(name, known)
                yield f"option {option!r} names {name!r}, which is not in agents.{hint}", option


def in_order(names: Iterable[str]) -> list[str]:
    """Return names in an order that does not depend on the hashes of a set."""
    return sorted(names) if isinstance(names, AbstractSet) else list(names)
