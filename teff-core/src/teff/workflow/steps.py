"""From the list under ``steps`` to a flow."""

from __future__ import annotations

import attrs

from teff.errors import ConfigError, suggest
from teff.flow import Flow, SubFlow
from teff.node import Node, default_registry
from teff.workflow.nodes import NODES
from teff.workflow.part import Part
from teff.workflow.pieces import PIECES
from teff.workflow.references import References

__all__ = ["Steps"]

_KNOWN = sorted({*NODES, *PIECES})


@attrs.frozen
class Steps:
    """Reads steps, and collects what they refer to."""

    references: References = attrs.field(factory=References)

    def extend(self, flow: Flow, part: Part) -> None:
        """Add every step of a list to a flow, one after the other.

        Raises:
            ConfigError: with the place of the step that is wrong.
        """
        for step in part.elements():
            self._add(flow, self._idiom(step))

    def chain(self, part: Part) -> list[Node]:
        """Return steps that stand inside of another step, as nodes in a row.

        Args:
            part: a list of steps, or one step.

        Raises:
            ConfigError: with the place of the step that is wrong.
        """
        steps = part.elements() if isinstance(part.value, list) else [part]
        if not steps:
            raise part.error("the list of steps is empty.", "Add a step, or remove the key.")
        idioms = [self._idiom(step) for step in steps]
        if any(name in PIECES for name, _ in idioms):
            flow = Flow()
            for name, options in idioms:
                self._add(flow, (name, options))
            with part.errors_here():
                return [SubFlow(flow.compile())]
        return [self._node(name, options) for name, options in idioms]

    def _add(self, flow: Flow, idiom: tuple[str, Part]) -> None:
        name, options = idiom
        with options.errors_here():
            if name in NODES:
                flow.step(self._node(name, options))
            else:
                PIECES[name](flow, options, self)

    def _node(self, name: str, options: Part) -> Node:
        with options.errors_here():
            node = NODES[name](options, self.references)
        self.references.nodes.append((node, options))
        return node

    def _idiom(self, step: Part) -> tuple[str, Part]:
        """Return the name of a step's idiom, and its options."""
        if isinstance(step.value, str) and step.value not in _KNOWN and _is_type(step.value):
            raise step.error(f"unknown step {step.value!r}.", _as_type(step.value))
        if isinstance(step.value, str) and step.value in _KNOWN:
            raise step.error(
                f"a step is a mapping of its idiom to options, and {step.value!r} has none.",
                f"Write `{step.value}: {{}}`.",
            )
        entries = step.entries()
        if isinstance(step.value.get("type"), str):
            raise step["type"].error(
                "the options of 'type' must be a mapping.", _as_type(step.value["type"])
            )
        if len(entries) != 1:
            raise self._not_one(step, entries)
        ((name, options),) = entries.items()
        if name not in _KNOWN:
            raise options.error(f"unknown step {name!r}.", _known_steps(name))
        if not options.written.is_missing and not isinstance(options.value, dict):
            raise options.error(f"the options of {name!r} must be a mapping.")
        return name, options

    def _not_one(self, step: Part, entries: dict[str, Part]) -> ConfigError:
        if not entries:
            return step.error("a step is empty.", f"Known steps: {', '.join(_KNOWN)}.")
        first, *others = entries
        if entries[first].written.is_missing and first in _KNOWN:
            return entries[others[0]].error(
                f"{others[0]!r} stands beside {first!r}, not below it.",
                f"Indent it by two more spaces to make it an option of {first!r}.",
            )
        return step.error(
            f"a step holds one idiom, but here are {', '.join(map(repr, entries))}.",
            "Begin each step with its own `- `; options stand below their idiom.",
        )


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
