"""The idioms that run steps of their own: several at once, again and again, or from another file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from teff.flow import Flow, SubFlow
from teff.node import Loop, Map, Node, Parallel, Retry
from teff.runtime import Limits
from teff.workflow.idiom import Idiom, described, required
from teff.workflow.options import Fields, fields_of
from teff.workflow.part import Part

if TYPE_CHECKING:
    from teff.workflow.steps import Steps

__all__ = ["CONTAINERS", "RETRY", "retried", "scalar"]

_Children: TypeAlias = "Callable[[Part, Steps], Any]"

#: The options of a retry, whatever it stands around.
RETRY = fields_of(Retry, without=["node", "id"])
_SUB_FLOW: Fields = {
    "id": str,
    "input_map": Mapping[str, str] | None,
    "output_map": Mapping[str, str] | None,
    "max_iterations": int | None,
    "turn_keys": list[str],
    "limits": Limits | Mapping[str, Any] | None,
}


def scalar(part: Part) -> object:
    """Return a value to compare with; a number as it is written, so that 1.10 is not 1.1."""
    if isinstance(part.value, list | dict):
        raise part.error(f"{part.named()} must be text, a number, or true or false.")
    return part.text() if isinstance(part.value, float) else part.value


def _until(part: Part) -> object:
    """Return the value that ends a loop, or several of them."""
    if isinstance(part.value, list):
        if not part.value:
            raise part.error("'until' is an empty list, so nothing would end the loop.")
        return [scalar(value) for value in part.elements()]
    return scalar(part)


def _branches(part: Part, steps: Steps) -> Any:
    if isinstance(part.value, dict):
        return {name: steps.chain(branch) for name, branch in part.entries().items()}
    return [steps.chain(branch) for branch in part.elements()]


def _parallel(part: Part, steps: Steps) -> Node:
    options = _options(part, Parallel, {"branches": _branches}, steps)
    return Parallel(options)


def _parallel_piece(flow: Flow, part: Part, steps: Steps) -> None:
    steps.place(flow, _parallel(part.without(["converge"]), steps), part)
    for after in steps.chain(part["converge"]):
        flow.converge(after)


def _map(part: Part, steps: Steps) -> Node:
    return Map(_options(part, Map, {"processor": _chain}, steps))


def _chain(part: Part, steps: Steps) -> list[Node]:
    return steps.chain(part)


def _loop(part: Part, steps: Steps) -> Node:
    """Make a loop that is one node: its body decides, and its rounds are bounded."""
    made = {"body": _chain, "until": lambda part, _: _until(part)}
    return Loop(_options(part, Loop, made, steps))


def _loop_piece(flow: Flow, part: Part, steps: Steps) -> None:
    """Add a loop with what follows it; without a bound the step before it decides."""
    fields = fields_of(Loop, without=["body", "until"])
    written = ("body", "until", "done", "label")
    part.check_keys([*fields, *written], what=described(part), kind="option")
    options = steps.references.read(part.without(written), fields, what=described(part))
    key, body, until = (required(part, name) for name in ("key", "body", "until"))
    options |= {"key": key.text(), "until": _until(until), "body": steps.chain(body)}
    if "done" not in part:
        steps.place(flow, Loop(options), part)
    else:
        flow.loop(done=steps.chain(part["done"]), **options)
    if "label" in part:
        flow.label(part["label"].id())


def _retry(part: Part, steps: Steps) -> Node:
    part.check_keys(["step", "node", "id", *RETRY], what=described(part), kind="option")
    if "step" in part and "node" in part:
        raise part["node"].error("give 'step' or 'node', not both.")
    inner = part.find("node") or required(part, "step")
    node = steps.node(inner)
    return retried(node, part.without(["step", "node"]), steps)


def retried(node: Node, part: Part, steps: Steps) -> Retry:
    """Return a node that is tried again as the options say; it takes the id of the node."""
    options = steps.references.read(part, {**RETRY, "id": str}, what=described(part))
    with part.errors_here():
        return Retry(node, **{"id": node.id, **options})


def _sub_flow(part: Part, steps: Steps) -> Node:
    sources = [name for name in ("steps", "graph", "file") if name in part]
    part.check_keys(["steps", "graph", "file", *_SUB_FLOW], what=described(part), kind="option")
    if len(sources) != 1:
        raise part.error(f"{described(part)} needs one of 'file', 'steps' and 'graph'.")
    options = steps.references.read(part.without(sources), _SUB_FLOW, what=described(part))
    source = part[sources[0]]
    if sources == ["steps"]:
        graph = steps.flow(source).compile()
    else:
        graph = steps.graph_in(source) if sources == ["graph"] else steps.graph_of_file(source)
    return SubFlow(graph, **options)


def _options(
    part: Part, cls: type[Node], made: Mapping[str, _Children], steps: Steps
) -> dict[str, Any]:
    """Read the options of a class, some of which are made from steps."""
    what = described(part)
    fields = fields_of(cls, without=made)
    part.check_keys([*made, *fields], what=what, kind="option")
    children = {name: make(required(part, name), steps) for name, make in made.items()}
    return {**children, **steps.references.read(part.without(made), fields, what=what)}


def _idiom(cls: type[Node], parts: Mapping[str, str], **said: Any) -> Idiom:
    fields = fields_of(cls, without=parts)
    return Idiom(fields=fields, parts=parts, about=(cls,), **said)


#: Idioms by name.
CONTAINERS: Mapping[str, Idiom] = {
    "loop": _idiom(
        Loop,
        {"body": "steps", "until": "value_or_values", "done": "steps", "label": "text"},
        make=_loop,
        add=_loop_piece,
        piece_keys=["done", "label"],
        needed=["body", "key", "until"],
        when="node",
    ),
    "map": _idiom(Map, {"processor": "steps"}, make=_map, needed=["processor", "input_keys"]),
    "parallel": _idiom(
        Parallel,
        {"branches": "branches", "converge": "steps"},
        make=_parallel,
        add=_parallel_piece,
        piece_keys=["converge"],
        needed=["branches"],
    ),
    "retry": Idiom(
        make=_retry,
        fields={**RETRY, "id": str},
        parts={"step": "steps", "node": "steps"},
        about=(Retry,),
    ),
    "subflow": Idiom(
        make=_sub_flow,
        fields=_SUB_FLOW,
        parts={"file": "text", "steps": "steps", "graph": "graph"},
        about=(SubFlow,),
    ),
}
