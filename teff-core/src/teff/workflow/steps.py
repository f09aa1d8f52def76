"""From a list of steps to a flow, each step being an idiom and its options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, cast

import attrs

from teff.errors import ConfigError, suggest
from teff.flow import Flow, SubFlow
from teff.graph import Graph
from teff.node import Node, default_registry
from teff.workflow.containers import CONTAINERS, retried
from teff.workflow.delegation import DELEGATION
from teff.workflow.idiom import Idiom, NodeMaker, node_maker
from teff.workflow.nodes import NODES, PLAIN_TYPES, command_options
from teff.workflow.part import Part
from teff.workflow.pieces import PIECES
from teff.workflow.questions import QUESTIONS
from teff.workflow.references import References
from teff.workflow.sections import check_condition

__all__ = ["IDIOMS", "GraphReader", "Steps"]

#: Every idiom by its name.
IDIOMS: Mapping[str, Idiom] = dict(
    sorted({**NODES, **CONTAINERS, **DELEGATION, **QUESTIONS, **PIECES}.items())
)

_KNOWN = list(IDIOMS)
#: What may stand beside an idiom.
_BESIDE = ("when", "retry")

#: Makes the graph of a document, or of a file beside the one in which its name stands.
GraphReader: TypeAlias = "Callable[[Part, Steps], Graph]"


@attrs.frozen(kw_only=True)
class _Step:
    """A step: its idiom, the options of it, and what stands beside it."""

    name: str
    options: Part
    when: Part | None = None
    retry: Part | None = None

    @property
    def idiom(self) -> Idiom:
        return IDIOMS[self.name]

    @property
    def is_plain_node(self) -> bool:
        return self.when is None and self.idiom.is_node(self.options)


@attrs.frozen(kw_only=True)
class Steps:
    """Reads steps, and collects what they refer to.

    Attributes:
        references: what the steps name.
        read_graph: makes the graph of a mapping with steps, as a whole file has them.
        read_file: makes the graph of another file, which a part names.
        files: the files that are being read, the outermost one first.
    """

    read_graph: GraphReader
    read_file: GraphReader
    references: References = attrs.field(factory=References)
    files: tuple[Path, ...] = ()

    def extend(self, flow: Flow, part: Part) -> None:
        """Add every step of a list to a flow, one after the other.

        Raises:
            ConfigError: with the place of the step that is wrong.
        """
        for step in part.elements():
            self._add(flow, self._read(step))

    def chain(self, part: Part) -> list[Node]:
        """Return steps that stand inside of another step, as nodes in a row.

        Args:
            part: a list of steps, or one step.

        Raises:
            ConfigError: with the place of the step that is wrong.
        """
        steps = list(self._inner(part))
        if all(step.is_plain_node for step in steps):
            return [self._node(step) for step in steps]
        return [self._sub_flow(part, steps)]

    def node(self, part: Part) -> Node:
        """Return steps that stand inside of another step, as one node."""
        chain = self.chain(part)
        if len(chain) == 1:
            return chain[0]
        flow = Flow()
        for node in chain:
            flow.step(node)
        with part.errors_here():
            return SubFlow(flow.compile())

    def flow(self, part: Part) -> Flow:
        """Return steps that stand inside of another step, as a flow of their own."""
        flow = Flow()
        for step in self._inner(part):
            self._add(flow, step)
        return flow

    def graph_in(self, part: Part) -> Graph:
        """Return the graph of a mapping with steps and edges."""
        return self.read_graph(part, self)

    def graph_of_file(self, part: Part) -> Graph:
        """Return the graph of the file that a part names."""
        return self.read_file(part, self)

    def maker(self, type_name: str) -> NodeMaker | None:
        """Return what makes a node of a built-in type, or None."""
        return _BY_TYPE.get(type_name)

    def place(self, flow: Flow, node: Node, part: Part, when: str | None = None) -> None:
        """Add a node to a flow, and remember the step that made it."""
        self.references.made(node, part)
        flow.step(node, when=when)

    def _inner(self, part: Part) -> Iterator[_Step]:
        steps = part.elements() if isinstance(part.value, list) else [part]
        if not steps:
            raise part.error("the list of steps is empty.", "Add a step, or remove the key.")
        return (self._read(step, inside=True) for step in steps)

    def _sub_flow(self, part: Part, steps: list[_Step]) -> Node:
        flow = Flow()
        for step in steps:
            self._add(flow, step)
        with part.errors_here():
            return SubFlow(flow.compile())

    def _add(self, flow: Flow, step: _Step) -> None:
        when = None if step.when is None else check_condition(step.when)
        if step.when is not None and step.idiom.when == "never":
            raise step.when.error(
                f"'when' cannot stand beside {step.name!r}.",
                "Put it beside the step before or after; a command has conditions of its own.",
            )
        if step.when is not None and not flow.nodes:
            raise step.when.error(
                "'when' needs a step before it: the first step cannot have a condition.",
                "Add one, such as `transform: {action: now, output_key: begun}`.",
            )
        with step.options.errors_here():
            if step.name in ("command", "route") and step.retry is None:
                # A flow knows the labels that a command may name.
                flow.command(**command_options(step.options, self))
                self._note_new(flow, 1, step.options)
            elif step.idiom.is_node(step.options):
                node = self._node(step)
                self._check_id(flow, node, step.options)
                flow.step(node, when=when)
            else:
                self._add_piece(flow, step, when)

    def _add_piece(self, flow: Flow, step: _Step, when: str | None) -> None:
        add = step.idiom.add
        assert add is not None  # noqa: S101  # an idiom is one or the other
        if step.retry is not None:
            raise step.retry.error(
                f"'retry' cannot stand beside {step.name!r}, which is more than one node here.",
                "Put the step into `retry: {step: …}`, which runs it as a flow of its own.",
            )
        if when is None:
            before = len(flow.nodes)
            add(flow, step.options, self)
            self._note_new(flow, len(flow.nodes) - before, step.options)
            return
        if step.idiom.when == "node" and step.when is not None:
            raise step.when.error(f"'when' cannot stand beside {step.name!r} with these options.")
        inner = Flow()
        add(inner, step.options, self)
        self.place(flow, SubFlow(inner.compile()), step.options, when)

    def _check_id(self, flow: Flow, node: Node, part: Part) -> None:
        """Refuse an id that another step has, naming both places."""
        if node.id is None or node.id not in flow.nodes:
            return
        first = self.references.maker_of(flow.nodes[node.id])
        if first is not None:
            raise part.error(
                f"two steps have the id {node.id!r}: in {first.line()} and in {part.line()}.",
                "Give one of them another.",
            )

    def _note_new(self, flow: Flow, count: int, part: Part) -> None:
        """Remember which step made the nodes that were added last."""
        nodes = cast("MappingProxyType[str, Node]", flow.nodes)
        for name in islice(reversed(nodes), count):
            self.references.made_by_flow(name, nodes[name], part)

    def _node(self, step: _Step) -> Node:
        make = step.idiom.make
        assert make is not None  # noqa: S101  # only called where the idiom is a node
        with step.options.errors_here():
            node = make(step.options, self)
        if step.retry is not None:
            node = self.retried(node, step.retry)
        self.references.made(node, step.options)
        return node

    def retried(self, node: Node, retry: Part) -> Node:
        """Return a node with what stands under ``retry`` beside it."""
        if isinstance(retry.value, int) and not isinstance(retry.value, bool):
            message = "'retry' must be a mapping, not a whole number."
            raise retry.error(message, f"Write `retry: {{max_retries: {retry.value}}}`.")
        retry.entries()
        enabled = retry.find("enabled")
        if enabled is not None and not isinstance(enabled.value, bool):
            raise enabled.error("'enabled' must be true or false.")
        for name in ("id", "step", "node"):
            if name in retry:
                raise retry[name].error(f"retry: unknown option {name!r}.")
        made = retried(node, retry.without(["enabled"]), self)
        return node if enabled is not None and enabled.value is False else made

    def _read(self, step: Part, *, inside: bool = False) -> _Step:
        """Return the idiom of a step, its options, and what stands beside it."""
        self._check_shape(step)
        entries = step.entries()
        if isinstance(step.value.get("type"), str):
            if inside:
                return self._typed(step)
            raise step["type"].error(
                "the options of 'type' must be a mapping.", _as_type(step.value["type"])
            )
        beside = {name: entries[name] for name in _BESIDE if name in entries}
        if not entries.keys() - beside.keys():
            beside.pop("retry", None)
        names = [name for name in entries if name not in beside]
        if len(names) != 1:
            raise self._not_one(step, entries, names)
        (name,) = names
        options = entries[name]
        if name not in IDIOMS:
            raise options.error(f"unknown step {name!r}.", _known_steps(name))
        for part in beside.values():
            part.check_present()
        return _Step(name=name, options=_checked(name, options), **beside)

    def _check_shape(self, step: Part) -> None:
        if isinstance(step.value, str) and step.value not in IDIOMS and _is_type(step.value):
            raise step.error(f"unknown step {step.value!r}.", _as_type(step.value))
        if isinstance(step.value, str) and step.value in IDIOMS:
            raise step.error(
                f"a step is a mapping of its idiom to options, and {step.value!r} has none.",
                f"Write `{step.value}: {{}}`.",
            )

    def _typed(self, step: Part) -> _Step:
        """Return a step that is written as ``type`` and ``config``, inside of another one."""
        step.check_keys(["id", "type", "config", "retry"], what="a step with a type")
        return _Step(name="type", options=step.without(["retry"]), retry=step.find("retry"))

    def _not_one(self, step: Part, entries: Mapping[str, Part], names: list[str]) -> ConfigError:
        if not names:
            known = f"Known steps: {', '.join(_KNOWN)}."
            if entries:
                return step.error(f"{next(iter(entries))!r} stands beside no step.", known)
            return step.error("a step is empty.", known)
        first, *others = names
        if entries[first].written.is_missing and first in IDIOMS:
            return entries[others[0]].error(
                f"{others[0]!r} stands beside {first!r}, not below it.",
                f"Indent it by two more spaces to make it an option of {first!r}.",
            )
        idioms = [name for name in names if name in IDIOMS]
        for other in names if len(idioms) == 1 else ():
            nearest = suggest(other, _BESIDE) if other not in IDIOMS else ""
            if "Did you mean" in nearest:
                what = f"unknown key {other!r} beside {idioms[0]!r}."
                return entries[other].error(what, nearest.strip())
        return step.error(
            f"a step holds one idiom, but here are {', '.join(map(repr, names))}.",
            "Begin each step with its own `- `; options stand below their idiom.",
        )


def _checked(name: str, options: Part) -> Part:
    kind = IDIOMS[name].value
    if kind == "text":
        options.check_present()
        options.text()
    elif kind == "steps":
        options.check_present()
    elif not options.written.is_missing and not isinstance(options.value, dict):
        example = "".join(f", such as `{key}: …`" for key in list(IDIOMS[name].needed)[:1])
        hint = f"They stand below it, by name{example}."
        raise options.error(f"the options of {name!r} must be a mapping.", hint)
    return options


def _known_steps(name: str) -> str:
    if _is_type(name):
        return _as_type(name)
    return suggest(name, _KNOWN).strip() or f"Known steps: {', '.join(_KNOWN)}."


def _is_type(name: str) -> bool:
    return name in default_registry.list()


def _as_type(name: str) -> str:
    """Say how a node of a registered type is written as a step."""
    known = default_registry.list()
    meant = "" if name in known else suggest(name, known).replace("Known:", "Known types:")
    begin = "It is a node type: write" if name in known else "Write"
    return f"{begin} `type: {{type: {name}, config: {{…}}}}`.{meant}"


def _makers() -> dict[str, NodeMaker]:
    """Return what makes nodes of built-in types, by the name of the type."""
    makers = {name: node_maker(cls) for name, cls in PLAIN_TYPES.items()}
    for idiom in IDIOMS.values():
        cls = idiom.about[0] if idiom.about else None
        if idiom.make is not None and isinstance(cls, type) and issubclass(cls, Node):
            makers[cls.type] = idiom.make
    return makers


_BY_TYPE: Mapping[str, NodeMaker] = _makers()
