"""`AppendAssistant`: adds an answer to the conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from teff.errors import ConfigError
from teff.messages import assistant
from teff.node.base import Node, options
from teff.prompt import to_text
from teff.runtime import ExecContext
from teff.state import Append

__all__ = ["AppendAssistant"]


@options
class AppendAssistant(Node):
    """Append what an agent wrote to the conversation, as a message of the assistant.

    It appends with and without a reducer. A missing or empty text adds nothing; a value that is not
    text is added as JSON.

    Args:
        output_key: where the text is.
        messages_key: where the conversation is.

    Raises:
        ConfigError: a key is empty.

    >>> import asyncio
    >>> asyncio.run(AppendAssistant().execute(ExecContext(), {"draft": "On its way."}))
    {'messages': Append([{'role': 'assistant', 'content': 'On its way.'}])}
    """

    type = "append_assistant"

    output_key: str = "draft"
    messages_key: str = "messages"

    def __attrs_post_init__(self) -> None:
        for name in ("output_key", "messages_key"):
            if not getattr(self, name):
                raise ConfigError(
                    f"{self._described(self.id)}: {name} is empty; it names a state key.",
                    path=name,
                )

    async def execute(self, ctx: ExecContext, state: dict[str, Any]) -> Mapping[str, Any]:
        """Return the message to append, or nothing."""
        text = to_text(state.get(self.output_key))
        return {self.messages_key: Append([assistant(text)])} if text.strip() else {}

    def reads(self) -> Iterable[str]:
        """Return the key of the text."""
        return [self.output_key]

    def writes(self) -> Iterable[str]:
        """Return the key of the conversation."""
        return [self.messages_key]
