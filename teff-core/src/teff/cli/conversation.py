"""Whether a workflow has nothing to work on before somebody says something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from teff.node import (
    LLM,
    AppendAssistant,
    ContextBuilder,
    Node,
    ReActAgent,
    Supervisor,
)

__all__ = ["needs_message"]

_KEY = "messages"
#: These write no message of a user under ``messages``.
_NEVER_ASK = (AppendAssistant, ContextBuilder, LLM, Supervisor)


def needs_message(nodes: Iterable[Node]) -> bool:
    """Say whether a supervisor or an agent reads ``messages``, and nothing else tells it what to do.

    State keys tell it too: the sections of an agent, places in its instructions, a fill order. A
    node of which it is not known what it writes may bring the messages.

    Args:
        nodes: those of a graph whose runs begin without ``messages``.
    """
    nodes = list(nodes)
    return any(_waits(group) for group in _groups(nodes)) and not any(
        _may_ask(node) for group in _groups(nodes) for node in group
    )


def _groups(nodes: list[Node]) -> Iterator[list[Node]]:
    """Give the nodes of a graph, and those of each graph inside."""
    yield nodes
    for node in nodes:
        if children := list(node.children()):
            yield from _groups(children)


def _waits(nodes: list[Node]) -> bool:
    """Say whether a supervisor among the nodes of a graph, or the agent that they are, waits."""
    supervisors = [node for node in nodes if isinstance(node, Supervisor)]
    # Without a message a supervisor asks no model; these alone let it choose somebody then.
    if any(
        leader.messages_key == _KEY and not (leader.fill_order or leader.fallback_agent)
        for leader in supervisors
    ):
        return True
    context = next((node for node in nodes if isinstance(node, ContextBuilder)), None)
    agent = next((node for node in nodes if isinstance(node, ReActAgent)), None)
    if context is None or agent is None or not any(isinstance(n, AppendAssistant) for n in nodes):
        return False
    places = set(agent.reads()) - {agent.input_key, agent.messages_key}
    return context.messages_key == _KEY and not (context.sections or places)


def _may_ask(node: Node) -> bool:
    if isinstance(node, _NEVER_ASK) or list(node.children()):
        return False
    written = node.writes()
    return written is None or _KEY in written
