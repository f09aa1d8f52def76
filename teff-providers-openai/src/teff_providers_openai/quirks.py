"""How servers of the chat-completions format differ, as data."""

from __future__ import annotations

from typing import Literal

import attrs
from attrs.validators import in_

__all__ = ["COMPATIBLE", "OPENAI", "Quirks"]


@attrs.frozen(kw_only=True)
class Quirks:
    """What one server wants otherwise than the others.

    Attributes:
        system_role: the role of system messages; OpenAI's reasoning models call it ``developer``,
            most other servers know only ``system``.
        max_tokens_field: ``max_tokens``, or ``max_completion_tokens`` where that is refused.
        stream_usage: ask for token counts in streams (``stream_options``); some old servers refuse.
        null_content: send null as the content of a message that only calls tools; False sends "".
        choices: how a constrained choice is enforced. ``json_schema`` is the most portable: the
            answer is an object with the choice in it. ``grammar`` is for the server of llama.cpp:
            the answer is the bare choice, which small models get right far more often.
            ``none`` leaves the choice to the prompt.
        json_schema: the server takes a JSON Schema as ``response_format``.
        reasoning_field: the field in which the reasoning of earlier answers (``thinking`` of a
            message) goes back, such as ``reasoning_content`` for DeepSeek; "" keeps it back.

    Raises:
        ValueError: a value is none of those that its field knows.
    """

    system_role: Literal["system", "developer", "user"] = attrs.field(
        default="system", validator=in_(("system", "developer", "user"))
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = attrs.field(
        default="max_tokens", validator=in_(("max_tokens", "max_completion_tokens"))
    )
    stream_usage: bool = True
    null_content: bool = True
    choices: Literal["json_schema", "grammar", "none"] = attrs.field(
        default="json_schema", validator=in_(("json_schema", "grammar", "none"))
    )
    json_schema: bool = True
    reasoning_field: str = ""


#: What most servers understand.
COMPATIBLE = Quirks()

#: What OpenAI's own models need: those that reason refuse ``max_tokens``.
OPENAI = Quirks(max_tokens_field="max_completion_tokens")
