"""A name, a separator and JSON between tokens: DeepSeek V3, R1 and V3.1, Kimi K2, Solar, Qwen-Agent.

Source: the chat templates of the models; https://api-docs.deepseek.com and
https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md.
"""

from __future__ import annotations

import re
from typing import Final

from teff.harness.decode.place import NAME, Place, Reading

__all__ = ["DEEPSEEK_OPENINGS", "read_qwen_agent", "read_section", "read_solar"]

_BAR = "[|\uff5c]"
_LINE = "[\u2581_ ]"

#: With the signs of the model, and as smaller models type them.
DEEPSEEK_OPENINGS: Final = tuple(
    f"<{bar}tool{line}call{line}begin{bar}>" for bar in "\uff5c|" for line in "\u2581_ "
)

_NAME_AND_SEPARATOR = re.compile(
    rf"\s{{0,20}}+(?P<name>{NAME})\s{{0,20}}+(?:<{_BAR}tool{_LINE}(?:sep|call{_LINE}argument{_LINE}begin){_BAR}>)"
)
_NAME = re.compile(rf"(?P<name>{NAME})")
_NUMBER = re.compile(r":\d{1,6}\Z")
_SOLAR = re.compile(
    rf"[\w-]{{0,64}}+<\|tool_call:name\|>(?P<name>{NAME})<\|tool_call:args\|>\s{{0,20}}+"
)
_QWEN_AGENT = re.compile(rf":?\s{{0,8}}+(?P<name>{NAME})\s{{0,8}}+\u273fARGS\u273f:?\s{{0,8}}+")


def read_section(place: Place) -> Reading | None:
    """Read one call behind its opening token.

    ``name<sep>{}``, ``function<sep>name`` with a fenced object, or a name with its number and
    ``<|tool_call_argument_begin|>``.
    """
    if (head := place.match(_NAME_AND_SEPARATOR, longest=230)) is None:
        return None
    name = head["name"]
    if not place.is_at_object():
        if (named := place.match(_NAME, longest=130)) is None:
            return None
        name = named["name"]
        if not place.is_at_object():
            return None
    arguments = place.value()
    place.end_fence()
    return place.reading(place.offered.call(_NUMBER.sub("", name), arguments))


def read_solar(place: Place) -> Reading | None:
    """Read ``<|tool_call:begin|>id<|tool_call:name|>name<|tool_call:args|>{}``."""
    if (head := place.match(_SOLAR, longest=260)) is None or not place.is_at_object():
        return None
    arguments = place.value()
    return place.reading(place.offered.call(head["name"], arguments))


def read_qwen_agent(place: Place) -> Reading | None:
    """Read what stands behind the flowers of ``FUNCTION``: a name, the same with ``ARGS``, JSON."""
    if (head := place.match(_QWEN_AGENT)) is None or not place.is_at_object():
        return None
    arguments = place.value()
    return place.reading(place.offered.call(head["name"], arguments))
