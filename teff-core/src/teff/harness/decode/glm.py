"""GLM 4.5 and later: a name, then ``<arg_key>`` and ``<arg_value>`` in turn, in ``<tool_call>``.

Source: the chat template of https://huggingface.co/zai-org/GLM-4.5.
"""

from __future__ import annotations

import re

from teff.harness.decode.parameters import Tags, read_parameters
from teff.harness.decode.place import NAME, Place, Reading

__all__ = ["read_glm"]

_HEAD = re.compile(rf"\s{{0,20}}+(?P<name>{NAME})\s{{0,20}}+(?=<(?:arg_key|/tool_call)>)")
_TAGS = Tags(
    opening=re.compile(
        r"<arg_key>\s?(?P<key>[^<>\n]{1,128}+)\s?</arg_key>\s{0,20}+<arg_value>",
    ),
    closing="</arg_value>",
    next="<arg_key>",
    ends=("</tool_call>",),
)


def read_glm(place: Place) -> Reading | None:
    """Read a name with the rest of its line, and pairs of keys and values."""
    if (head := place.match(_HEAD, longest=180)) is None:
        return None
    return read_parameters(place, head["name"], _TAGS)
