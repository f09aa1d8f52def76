"""Findings about supervisors and agents: counters in one place, and what agents are not given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from teff.errors import ConfigError
from teff.graph.check.problem import Problem, warning
from teff.graph.check.ways import nodes_inside, unwrapped
from teff.node import Delegate, Node, Supervisor
from teff.state.schema import ENGINE_KEYS

if TYPE_CHECKING:
    from teff.graph.graph import Graph

__all__ = ["in_agents", "shared_rounds"]

#: Finds what is wrong with an agent, of which the keys are known that it starts with.
_Find = Callable[["Graph", Node, frozenset[str]], Iterable[Problem]]


def shared_rounds(graph: Graph) -> Iterator[Problem]:
    """Give the supervisors that count their rounds where another one of the graph does."""
    first: dict[str, str] = {}
    for name, node in graph.nodes.items():
        lead = unwrapped(node)
        if not isinstance(lead, Supervisor):
            continue
        other = first.setdefault(lead.rounds_key, name)
        if other != name:
            yield warning(
                "shared-rounds",
                name,
                f"supervisors {other!r} and {name!r} count their rounds in the same place, "
                f"{lead.rounds_key!r}, so the rounds of one are taken from the other.",
                "Give one of them another rounds_key.",
            )


def in_agents(graph: Graph, find: _Find) -> Iterator[Problem]:
    """Give the findings about the agents that nodes give tasks to.

    An agent starts with its task and its context, whatever else there is around.

    Args:
        graph: the graph.
        find: looks at an agent, as the only node of a graph of its own.
    """
    for name, node in graph.nodes.items():
        for lead in nodes_inside(node):
            if not isinstance(lead, Delegate):
                continue
            for agent in lead.sub_agents.values():
                try:
                    alone = type(graph)({agent.name: agent.node}, [], agent.name)
                except ConfigError:
                    continue  # it goes to nodes of the graph around, which a run does not
                given = frozenset({*ENGINE_KEYS, *agent.context.values()})
                for problem in find(alone, agent.node, given):
                    yield _of_agent(problem, name)


def _of_agent(problem: Problem, node: str) -> Problem:
    hint = problem.hint
    is_key = problem.code in ("unwritten-key", "unwritten-condition-key")
    if is_key and not hint.startswith("Did you mean"):
        hint = (
            "An agent sees its task, under 'input' and 'messages', and the keys in its 'context'."
        )
    return attrs.evolve(problem, message=f"in {node!r}: {problem.message}", node=node, hint=hint)
