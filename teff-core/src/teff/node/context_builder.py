"""`ContextBuilder`: puts together what an agent is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from teff.errors import ConfigError
from teff.messages import last_user_message
from teff.node.base import Node, options
from teff.prompt import to_text
from teff.runtime import ExecContext
from teff.state import Overwrite, is_filled

__all__ = ["ContextBuilder", "labelled_sections"]


@options
class ContextBuilder(Node):
    r"""Write one text out of values of the state and the last message of the user.

    The text has a block ``Label:\nvalue`` for each section that is filled, in their order, and last
    ``User: <message>`` where there is one, with blank lines between. Values that are not text
    stand as JSON; 0 and False are values.

    Args:
        sections: from state key to label; an empty label leaves the value alone.
        messages_key: where the conversation is.
        output_key: where the text goes.
        reset_keys: state keys that become an empty list, also where they have a reducer, so that
            the agent starts clean.

    Raises:
        ConfigError: ``output_key`` is empty.

    >>> import asyncio
    >>> node = ContextBuilder(sections={"plan": "Plan", "notes": "Notes"}, reset_keys=["draft"])
    >>> state = {"plan": "1. ask", "messages": [{"role": "user", "content": "Where is it?"}]}
    >>> updates = asyncio.run(node.execute(ExecContext(), state))
    >>> print(updates["input"])
    Plan:
    1. ask
    <BLANKLINE>
    User: Where is it?
    >>> updates["draft"]
    Overwrite([])
    """

    type = "context_builder"

    sections: Mapping[str, str] = attrs.field(factory=dict)
    messages_key: str = "messages"
    output_key: str = "input"
    reset_keys: Sequence[str] = ()

    def __attrs_post_init__(self) -> None:
        if not self.output_key:
            raise ConfigError(
                f"{self._described(self.id)}: output_key is empty; it names a state key.",
                path="output_key",
            )

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Return the text under ``output_key``, and the reset keys."""
        blocks = list(labelled_sections(self.sections, state))
        if question := last_user_message(state.get(self.messages_key)):
            blocks.append(f"User: {question}")
        updates: dict[str, Any] = {key: Overwrite([]) for key in self.reset_keys}
        # Last, for the scratch keys of an agent may name the output too.
        updates[self.output_key] = "\n\n".join(blocks)
        return updates

    def reads(self) -> Iterable[str]:
        """Return the keys of the sections and of the conversation."""
        return [key for key in (*self.sections, self.messages_key) if key]

    def writes(self) -> Iterable[str]:
        """Return the output key and the reset keys."""
        return list(dict.fromkeys((self.output_key, *self.reset_keys)))


def labelled_sections(sections: Mapping[str, str], state: Mapping[str, Any]) -> Iterator[str]:
    r"""Give a block ``Label:\nvalue`` for each section whose key is filled in the state.

    >>> list(labelled_sections({"total": "Total", "note": "Note"}, {"total": 0, "note": ""}))
    ['Total:\n0']
    """
    for key, label in sections.items():
        value = state.get(key)
        if is_filled(value):
            yield f"{label}:\n{to_text(value)}" if label else to_text(value)
