"""JSON behind a mark: Hermes, Qwen, Granite, Phi, Nemotron, Command R, InternLM, xLAM, Jamba, LongCat.

Source: the chat templates of the models, and https://docs.vllm.ai/en/latest/features/tool_calling.
"""

from __future__ import annotations

import re

from teff.harness.decode.place import NAME, Place, Reading

__all__ = ["read_json", "read_named_json"]

_NAME_BEFORE_OBJECT = re.compile(rf"\s{{0,20}}+(?P<name>{NAME})(?=\s{{0,20}}+(?:`{{3}}|\{{))")
# Some prompts show the braces doubled, as their template wanted them, and models repeat that.
_DOUBLE_BRACE = re.compile(r"\s{0,20}+\{\s{0,4}+(?=\{)")
_SECOND_BRACE = re.compile(r"\s{0,20}+\}")


def read_json(place: Place) -> Reading | None:
    """Read objects and lists of ``name`` and ``arguments``, in a fence or not."""
    if place.match(_DOUBLE_BRACE, longest=40) is not None:
        value = place.value()
        place.match(_SECOND_BRACE, longest=40)
        return place.reading(place.offered.calls_in(value))
    if (values := place.objects()) is None:
        return None
    return place.reading(*(place.offered.calls_in(value) for value in values))


def read_named_json(place: Place) -> Reading | None:
    """Read a name and the object of its arguments behind it, as Hunyuan and GLM-4 write it."""
    if (named := place.match(_NAME_BEFORE_OBJECT, longest=180)) is None:
        return None
    if not place.is_at_object():
        return None
    arguments = place.value()
    place.end_fence()
    return place.reading(place.offered.call(named["name"], arguments))
