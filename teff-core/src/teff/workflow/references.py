"""What the steps of a file name, and where: providers, tools, nodes, and nodes to go to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from teff.errors import ConfigError, TeffError
from teff.graph import Graph
from teff.harness import ASK_HUMAN
from teff.node import Node
from teff.provider import ProviderRegistry
from teff.runtime import ModelDefaults
from teff.tool import Tool, default_tool_registry
from teff.workflow.options import Fields, read_options
from teff.workflow.part import Part

__all__ = ["References", "goto"]

#: Words that stand for tools, and are no names of them.
_TOOL_WORDS = ("all", "*", ASK_HUMAN.name)
#: Ends the run, in place of a node to go to.
_STOP = "STOP"


@attrs.frozen(kw_only=True)
class _Question:
    """Something in the file that asks a model, with what it names itself."""

    what: str
    part: Part
    provider: str
    model: str


@attrs.define
class References:
    """Collected while a file is read, to check names and to give findings a place."""

    questions: list[_Question] = attrs.field(factory=list)
    providers: list[tuple[str, Part]] = attrs.field(factory=list)
    tools: list[tuple[str, Part]] = attrs.field(factory=list)
    targets: list[tuple[str, Part]] = attrs.field(factory=list)
    #: The nodes that idioms made, and where.
    nodes: list[tuple[Node, Part]] = attrs.field(factory=list)
    #: The same by the identity of the node, and by the id that it was given first.
    _by_node: dict[int, Part] = attrs.field(factory=dict)
    _by_id: dict[str, Part] = attrs.field(factory=dict)
    #: The lists of tools in files that run as a step.
    tools_of_files: list[Part] = attrs.field(factory=list)
    #: Where ids are given to nodes that a flow makes itself.
    ids: dict[str, Part] = attrs.field(factory=dict)

    def read(self, part: Part, fields: Fields, *, what: str) -> dict[str, Any]:
        """Read the options of a step, and remember what they name; see `read_options`.

        Ids get the prefix that the file is included with.

        Raises:
            ConfigError: an unknown option, a missing value, or one of a wrong type.
        """
        options = read_options(part, fields, what=what)
        if options.get("skills") and "skill_dir" in fields:
            # A relative folder is meant from the file, wherever the program runs.
            folder = part.place.source.folder / options.get("skill_dir", "skills")
            options["skill_dir"] = str(folder)
        if options.get("id"):
            options["id"] = part["id"].id()
        self.note(part, options)
        return options

    def made(self, node: Node, part: Part) -> None:
        """Remember the step that made a node."""
        self.nodes.append((node, part))
        self._by_node[id(node)] = part
        if node.id is not None:
            self._by_id.setdefault(node.id, part)

    def apart(self) -> References:
        """Return the same collection for a graph inside of a step, which has ids of its own."""
        return attrs.evolve(self, targets=[], nodes=[], ids={}, by_node={}, by_id={})

    def expect_model(self, part: Part, options: Mapping[str, Any], *, what: str) -> None:
        """Remember that a step asks a model: the one that its options name, or the default."""
        self.questions.append(
            _Question(
                what=what,
                part=part,
                provider=options.get("provider") or "",
                model=options.get("model") or "",
            )
        )

    def note_default(self, part: Part) -> None:
        """Remember the default provider, where the file names it."""
        self.providers.append((part.text(), part))

    def made_by_flow(self, node_id: str, node: Node, part: Part) -> None:
        """Remember the step for which a flow made a node itself; a step inside it goes first."""
        if id(node) not in self._by_node:
            self.made(node, part)
        self.ids.setdefault(node_id, self._by_node[id(node)])

    def note(self, part: Part, options: Mapping[str, Any]) -> None:
        """Remember the providers, tools and targets that options name."""
        if options.get("provider"):
            self.providers.append((options["provider"], part["provider"]))
        for key in ("use_tools", "tools"):
            if key in options and key in part:
                self.tools += _names(part[key])
        if "goto" in part and isinstance(options.get("goto"), str):
            self.targets.append((goto(part["goto"]), part["goto"]))
        for route in part["routes"].elements() if "routes" in part else ():
            self.targets.append((goto(route["goto"]), route["goto"]))

    def problems(self, defaults: ModelDefaults, tools: Mapping[str, Tool]) -> Iterator[ConfigError]:
        """Give an error, with its place, for each provider, model and tool that is not there."""
        providers = defaults.providers or ProviderRegistry()
        for name, part in self.providers:
            yield from _problem(part, providers.check, name)
        for name, part in self.tools:
            if name not in tools:
                yield from _problem(part, default_tool_registry.resolve, name)
        for asks in self.questions:
            given = {
                "provider": asks.provider or defaults.provider,
                "model": asks.model or defaults.model,
            }
            for missing in [kind for kind, name in given.items() if not name]:
                yield asks.part.error(
                    f"{asks.what} asks a model, but no {missing} is named.",
                    f"Set '{missing}' here, 'default_{missing}' at the top of the file, or "
                    f"--{missing} on the command line.",
                )

    def located(self, error: ConfigError, whole: Part, graph: Graph | None = None) -> ConfigError:
        """Give an error about a node the place of the step that made it.

        Args:
            error: its ``path`` is the node's id.
            whole: the document, for where no place is known.
            graph: what the steps made; None where it could not be made because of the error, which
                then is about a name that stands in the file.
        """
        part = self.part_of(error.path, graph)
        if graph is None:
            named = (*self.targets, *self.providers, *self.tools)
            within = "" if part is None else part.path
            part = next(
                (
                    place
                    for name, place in named
                    if repr(name) in error.message and place.path.startswith(within)
                ),
                part,
            )
        return whole.unplaced(error) if part is None else part.error(error.message, error.hint)

    def maker_of(self, node: Node) -> Part | None:
        """Return the step that made a node, where that is known."""
        return self._by_node.get(id(node))

    def part_of(self, node_id: str, graph: Graph | None = None) -> Part | None:
        """Return the step that made the node with this id, where that is known."""
        node = graph.nodes.get(node_id) if graph is not None else None
        if node is not None and id(node) in self._by_node:
            return self._by_node[id(node)]
        return self.ids.get(node_id) or self._by_id.get(node_id)


def goto(part: Part) -> str:
    """Return where a command goes, with the prefix that the file is included with."""
    return part.text() if part.value == _STOP else part.id()


def _names(part: Part) -> list[tuple[str, Part]]:
    if isinstance(part.value, str):
        parts = [part]
    else:
        parts = part.elements() if isinstance(part.value, list) else []
    return [(item.text(), item) for item in parts if item.value not in _TOOL_WORDS]


def _problem(part: Part, check: Callable[[str], object], name: str) -> Iterator[ConfigError]:
    try:
        check(name)
    except ConfigError as error:
        yield part.error(error.message, error.hint)
    except TeffError as error:  # a plugin that cannot be loaded, or a name that two of them offer
        yield part.error(str(error))
