"""What an idiom is: its options, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from teff.flow import Flow
from teff.node import ModelNode, Node
from teff.workflow.options import Fields, fields_of
from teff.workflow.part import Part

if TYPE_CHECKING:
    from teff.workflow.steps import Steps

__all__ = ["Idiom", "NodeMaker", "PieceMaker", "described", "node_maker", "required"]

#: Makes a node from the options of an idiom.
NodeMaker: TypeAlias = "Callable[[Part, Steps], Node]"

#: Adds to a flow what an idiom stands for.
PieceMaker: TypeAlias = "Callable[[Flow, Part, Steps], object]"


@attrs.frozen(kw_only=True)
class Idiom:
    """One kind of step.

    Attributes:
        make: makes its one node, or None where it is always a piece of a flow.
        add: adds the piece of a flow that it stands for, or None where it is always one node.
        piece_keys: the keys that make a piece of it where it could be one node.
        value: what stands under it: options, or steps or a text themselves.
        fields: its options, with their types.
        parts: what holds steps or is written in a form of its own: from key to the kind of it.
        needed: the keys that must be there.
        about: the classes and functions whose docstrings describe the options.
        when: where a condition may stand beside it: ``always``, only where it is one ``node``, or
            ``never``.
    """

    make: NodeMaker | None = None
    add: PieceMaker | None = None
    piece_keys: Collection[str] = ()
    value: Literal["options", "steps", "text"] = "options"
    fields: Fields = attrs.field(factory=dict)
    parts: Mapping[str, str] = attrs.field(factory=dict)
    needed: Collection[str] = ()
    about: tuple[Any, ...] = ()
    when: Literal["always", "node", "never"] = "always"

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that may stand under it."""
        return (*self.parts, *(name for name in self.fields if name not in self.parts))

    def is_node(self, part: Part) -> bool:
        """Say whether it is one node with these options."""
        if self.add is None:
            return True
        return self.make is not None and not any(key in part for key in self.piece_keys)


def described(part: Part) -> str:
    """Return how messages call a step: its idiom, with its id where it has one.

    The part is that of the options, so that the last word of its path is the idiom.
    """
    if part.label:
        return part.label
    idiom = part.path.rpartition(".")[2]
    given = part.find("id")
    return idiom if given is None else f"{idiom} {given.text()!r}"


def required(part: Part, key: str) -> Part:
    """Return what stands under a key.

    Raises:
        ConfigError: there is no such key.
    """
    if key not in part.entries():
        raise part.error(f"{described(part)}: the key {key!r} is missing.")
    return part[key]


def node_maker(cls: type[Node]) -> NodeMaker:
    """Return how a node of a class is made whose options are all plain."""
    fields = fields_of(cls)

    def make(part: Part, steps: Steps) -> Node:
        what = described(part)
        options = steps.references.read(part, fields, what=what)
        if issubclass(cls, ModelNode):
            steps.references.expect_model(part, options, what=what)
        return cls(**options)

    return make
