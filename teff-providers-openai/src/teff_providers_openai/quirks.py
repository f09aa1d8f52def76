"""How servers of the chat-completions format differ, as data."""

from __future__ import annotations

import re
from typing import Literal

import attrs
from attrs.validators import in_, optional

__all__ = ["COMPATIBLE", "Quirks"]


def _is_pattern(_: object, field: attrs.Attribute[str], value: str) -> None:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"{field.name} is no regular expression: {error}") from None


@attrs.frozen(kw_only=True)
class Quirks:
    """What one server wants otherwise than the others.

    What is None is as the preset says, and what no preset says is as `COMPATIBLE` says, so that a
    setting changes only what it names. Example::

        OpenAIProvider(preset="vllm", quirks=Quirks(short_call_ids=True))

    Attributes:
        system_role: the role of system messages: ``system``, which all servers know, ``developer``
            or ``user``.
        max_tokens_field: ``max_tokens``, or ``max_completion_tokens`` where that is refused.
        stream_usage: ask for token counts in streams (``stream_options``).
        tool_choice: send an option ``tool_choice``, and it only beside tools.
        parallel_tool_calls: send an option ``parallel_tool_calls``, and it only beside tools.
        choices: how a constrained choice is enforced. ``json_schema`` is the most portable: the
            answer is an object with the choice in it. ``grammar`` is for the server of llama.cpp:
            the answer is the bare choice, which small models get right far more often.
            ``none`` leaves the choice to the prompt.
        json_schema: the server takes a JSON Schema as ``response_format``.
        json_object: it takes ``json_object`` as ``response_format``, which is used where it takes
            no schema and the prompt speaks of JSON, as servers demand.
        schema_with_tools: a schema does not keep the model from calling tools.
        strict: ask for strict enforcement of schemas that keep its rules.
        null_content: send null as the content of a message that only calls tools; False sends "".
        reasoning_field: the field in which the reasoning of earlier answers (``thinking`` of a
            message) goes back, such as ``reasoning_content`` for DeepSeek; "" keeps it back.
        reasoning_details: the reasoning that OpenRouter sends as a list goes back with the calls
            that it led to, unchanged.
        short_call_ids: ids of tool calls are nine letters and digits, as templates of Mistral want;
            others are rewritten, a call and its result alike.
        call_fields: fields of a tool call that the format does not know go back with it, as
            Gemini wants; False leaves them out for servers that refuse them.
        tool_names: the result of a tool says the tool's name too.
        alternating: turns must alternate between user and assistant.
        fixed_sampling: a pattern (`re.fullmatch`) of models that refuse ``temperature`` and
            ``stop``, which are not sent to them; "" is none.

    Raises:
        ValueError: a value is none of those that its field knows.
    """

    system_role: Literal["system", "developer", "user"] | None = attrs.field(
        default=None, validator=optional(in_(("system", "developer", "user")))
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = attrs.field(
        default=None, validator=optional(in_(("max_tokens", "max_completion_tokens")))
    )
    stream_usage: bool | None = None
    tool_choice: bool | None = None
    parallel_tool_calls: bool | None = None
    choices: Literal["json_schema", "grammar", "none"] | None = attrs.field(
        default=None, validator=optional(in_(("json_schema", "grammar", "none")))
    )
    json_schema: bool | None = None
    json_object: bool | None = None
    schema_with_tools: bool | None = None
    strict: bool | None = None
    null_content: bool | None = None
    reasoning_field: str | None = None
    reasoning_details: bool | None = None
    short_call_ids: bool | None = None
    call_fields: bool | None = None
    tool_names: bool | None = None
    alternating: bool | None = None
    fixed_sampling: str | None = attrs.field(default=None, validator=optional(_is_pattern))

    def over(self, base: Quirks) -> Quirks:
        """Return ``base`` with what is set here in its place.

        >>> Quirks(json_schema=False).over(COMPATIBLE).max_tokens_field
        'max_tokens'
        """
        changes = attrs.asdict(self, filter=lambda _, value: value is not None)
        return attrs.evolve(base, **changes)


#: What most servers understand; every field is set.
COMPATIBLE = Quirks(
    system_role="system",
    max_tokens_field="max_tokens",
    stream_usage=True,
    tool_choice=True,
    parallel_tool_calls=True,
    choices="json_schema",
    json_schema=True,
    json_object=False,
    schema_with_tools=False,
    strict=True,
    null_content=True,
    reasoning_field="",
    reasoning_details=False,
    call_fields=True,
    short_call_ids=False,
    tool_names=False,
    alternating=False,
    fixed_sampling="",
)
