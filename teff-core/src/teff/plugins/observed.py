"""What hooks are told: frozen values that say which run, which node, and how it ended."""

from __future__ import annotations

import attrs

__all__ = ["NodeInfo", "Outcome", "RunInfo"]


@attrs.frozen
class RunInfo:
    """The run that something happened in.

    Attributes:
        run_id: the id of the run; a resumed run keeps it.
        graph: the name of the graph, or "".
    """

    run_id: str
    graph: str = ""


@attrs.frozen
class NodeInfo:
    """The node that something happened in.

    Attributes:
        id: the node's id in its graph.
        type: the node's type, for example ``"llm_chat"``.
        path: where it stands in the run, from the outermost graph inwards, as events carry it.
    """

    id: str
    type: str
    path: str = ""


@attrs.frozen
class Outcome:
    """How a run ended.

    Attributes:
        status: ``finished``, ``stopped``, ``paused``, ``failed`` or ``cancelled``.
        stop_reason: why, for example ``"end"`` or ``"max_steps"``.
        steps: how many steps of the outermost graph were taken.
    """

    status: str
    stop_reason: str
    steps: int
