"""The hooks: what an installed plugin is told while graphs run.

A plugin is a module, or an object, with functions of these names, marked with ``hookimpl``, and an
entry point in the group ``teff.plugins``::

    # slow_nodes.py
    from teff.plugins import hookimpl

    @hookimpl
    def teff_node_finished(node, seconds):
        if seconds > 5:
            print(f"{node.path} took {seconds:.1f} s")

    # pyproject.toml
    [project.entry-points."teff.plugins"]
    slow_nodes = "slow_nodes"

The rules are the same for every hook:

- An implementation takes the arguments that it needs, by name; more may be added to a hook later.
- All of them observe: what they return is ignored, and the values they get cannot be changed.
- They are plain functions, called on the event loop between two steps: keep them short. A
  coroutine function is refused, and so is a pluggy wrapper.
- One that raises disturbs neither the run nor other plugins. Its first failure is logged; after
  the third, that hook of that plugin is not called again in this process.
- No hook is called for single tokens; read the events of ``graph.stream()`` for those.
- Plugins are registered sorted by distribution, and called in pluggy's order: the last one first,
  unless ``tryfirst`` or ``trylast`` says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

from teff.plugins.observed import NodeInfo, Outcome, RunInfo

if TYPE_CHECKING:
    from teff.provider.protocol import ChatReply, ChatRequest

__all__ = [
    "hookimpl",
    "hookspec",
    "teff_error",
    "teff_llm_request",
    "teff_llm_response",
    "teff_node_finished",
    "teff_node_started",
    "teff_run_finished",
    "teff_run_started",
]

hookspec = pluggy.HookspecMarker("teff")

#: Marks a function as an implementation of the hook whose name it has.
hookimpl = pluggy.HookimplMarker("teff")


@hookspec
def teff_run_started(run: RunInfo) -> None:
    """A run begins, or goes on after a pause or a crash.

    Called once for each ``run()``, ``stream()`` or ``turn()``, before the first step and after the
    graph has been checked; a graph that does not pass its checks is never told of. Graphs inside
    the run (sub-flows, branches) are part of it and do not start one.

    Args:
        run: the run; ``run.run_id`` is the same when it is resumed.
    """


@hookspec
def teff_run_finished(run: RunInfo, outcome: Outcome) -> None:
    """A run has ended, in whatever way.

    Called once for each `teff_run_started`, also when the run failed, was cancelled, or waits for
    an answer (``outcome.status == "paused"``); after a failure `teff_error` has been called before.

    Args:
        run: the run.
        outcome: status, stop reason, and how many steps the outermost graph took.
    """


@hookspec
def teff_node_started(run: RunInfo, node: NodeInfo) -> None:
    """A node is about to be executed.

    Called for every node, at any depth, and once for each time it is executed: a node in a loop is
    told of in every round. A step that is taken from the journal of an earlier attempt is not
    executed, so it is not told of.

    Args:
        run: the run.
        node: id, type, and path of the node.
    """


@hookspec
def teff_node_finished(run: RunInfo, node: NodeInfo, seconds: float) -> None:
    """A node has been executed and has returned its update.

    Not called for a node that raised, was cancelled, or paused the run. A container finishes after
    the nodes inside it, and its time includes theirs.

    Args:
        run: the run.
        node: id, type, and path of the node.
        seconds: from start to end, on a monotonic clock.
    """


@hookspec
def teff_llm_request(run: RunInfo, node: NodeInfo, request: ChatRequest) -> None:
    """A model is about to be called.

    Called for every attempt that leaves for a provider, so a retried call is told of again, and a
    call that is answered from a cache is not.

    Args:
        run: the run.
        node: the node that asks.
        request: what is sent. It holds the conversation, but never a key: those are read by the
            provider when it sends.
    """


@hookspec
def teff_llm_response(
    run: RunInfo, node: NodeInfo, request: ChatRequest, reply: ChatReply, seconds: float
) -> None:
    """A model has answered.

    Called once for each attempt that gave a whole reply; for a streamed one, after its last piece.
    An attempt that failed has a `teff_llm_request` and no response.

    Args:
        run: the run.
        node: the node that asked.
        request: what was sent.
        reply: text, tool calls, finish reason, and the usage that the server counted.
        seconds: from sending to the end of the reply, on a monotonic clock.
    """


@hookspec
def teff_error(run: RunInfo, node: NodeInfo | None, error: BaseException) -> None:
    """A node has raised, or a run has failed outside of any node.

    Called where the error appears, before it is decided what becomes of it: an error that an
    ``__error__`` edge or a retry deals with is told of too. A pause and a cancellation are not
    errors. The same exception is told of once, by the innermost node that it came from.

    Args:
        run: the run.
        node: the node that raised; None where the run failed between nodes.
        error: what was raised. Do not keep it: its traceback holds on to the state.
    """
