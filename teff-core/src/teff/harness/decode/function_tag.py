"""``<function=name>`` with parameter tags (Qwen coder, Seed OSS) or JSON (Functionary 3.1, Llama 3).

Source: the chat templates of the models; https://github.com/MeetKai/functionary, prompt template v3.
"""

from __future__ import annotations

import re

from teff.harness.decode.parameters import Tags, read_parameters
from teff.harness.decode.place import Place, Reading

__all__ = ["read_function_tag"]

_HEAD = re.compile(r"[\"']?(?P<name>[^\s<>\"']{1,128}+)[\"']?\s{0,8}+>")
_PARAMETER = re.compile(r"<parameter\s?(?:=|name=)\s?[\"']?(?P<key>[^<>\"'\n]{1,128}+)[\"']?\s?>")
_TAGS = Tags(
    opening=_PARAMETER,
    closing="</parameter>",
    next="<parameter",
    ends=("</function>", "</tool_call>", "</seed:tool_call>"),
)


def read_function_tag(place: Place) -> Reading | None:
    """Read what stands behind ``<function=``."""
    if (head := place.match(_HEAD, longest=150)) is None:
        return None
    return read_parameters(place, head["name"], _TAGS)
