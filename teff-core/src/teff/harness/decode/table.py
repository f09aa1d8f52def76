"""The decoders: which families write their calls how, and behind which marks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import attrs

from teff.harness.decode.function_tag import read_function_tag
from teff.harness.decode.functionary import read_recipient, read_recipient_line
from teff.harness.decode.gemma_call import read_gemma_call
from teff.harness.decode.glm import read_glm
from teff.harness.decode.harmony import read_harmony, read_harmony_head
from teff.harness.decode.invoke import INVOKE_DECODERS
from teff.harness.decode.mistral import read_mistral
from teff.harness.decode.place import Place, Reading, any_of, prefixes
from teff.harness.decode.python_calls import read_python
from teff.harness.decode.sections import (
    DEEPSEEK_OPENINGS,
    read_qwen_agent,
    read_section,
    read_solar,
)
from teff.harness.decode.tagged_json import read_json, read_named_json
from teff.harness.decode.values import Unfinished

__all__ = ["DECODERS", "OPENINGS", "Decoder", "read_behind", "read_marked"]


@attrs.frozen(kw_only=True)
class Decoder:
    """One syntax.

    Attributes:
        families: who writes it.
        openings: the marks before it.
        read: reads what stands behind one; None where that is something else.
    """

    families: tuple[str, ...]
    openings: tuple[str, ...]
    read: Callable[[Place], Reading | None]


#: Marks behind which families write JSON, or calls in Python, as their prompt wants it.
_MARKS: Final = (
    "<tool_call>",
    "<tool_calls>",
    "<|tool_call|>",
    "<|tool_calls|>",
    "<|tool_call_start|>",
    "<function_call>",
    "<function_calls>",
    "<functioncall>",
    "<tools>",
    "<tool_use>",
    "<TOOLCALL>",
    "<toolcall>",
    "<longcat_tool_call>",
    "<|START_ACTION|>",
    "<|plugin|>",
    "<|python_tag|>",
    "<|python_start|>",
    "<<function>>",
    "<start_function_call>",
    "functools",
)

#: By syntax. What needs no mark is in `bare`, `fenced` and `react`.
DECODERS: Final[tuple[Decoder, ...]] = (
    Decoder(
        families=(
            "hermes",
            "qwen2.5",
            "granite",
            "phi4-mini",
            "firefunction",
            "command-r7b",
            "nemotron",
            "internlm2",
            "llama3",
            "jamba",
            "apriel",
            "minimax-m1",
            "longcat",
            "xlam",
        ),
        openings=_MARKS,
        read=read_json,
    ),
    Decoder(families=("glm4.5",), openings=("<tool_call>",), read=read_glm),
    Decoder(families=("hunyuan",), openings=("<tool_call>",), read=read_named_json),
    Decoder(
        families=("llama3", "lfm2", "olmo3", "minicpm", "gorilla", "nemotron"),
        openings=_MARKS,
        read=read_python,
    ),
    Decoder(families=("mistral",), openings=("[TOOL_CALLS]",), read=read_mistral),
    Decoder(
        families=("deepseek-v3", "deepseek-v3.1", "deepseek-r1", "kimi-k2"),
        openings=DEEPSEEK_OPENINGS,
        read=read_section,
    ),
    Decoder(families=("solar",), openings=("<|tool_call:begin|>",), read=read_solar),
    Decoder(families=("qwen-agent",), openings=("\u273fFUNCTION\u273f",), read=read_qwen_agent),
    Decoder(
        families=("qwen-coder-xml", "seed-oss", "functionary-3.1", "llama3"),
        openings=("<function=", "<function name="),
        read=read_function_tag,
    ),
    *(
        Decoder(
            families=("deepseek-dsml", "minimax-m2", "step3", "claude", "grok"),
            openings=(opening,),
            read=read,
        )
        for opening, read in INVOKE_DECODERS.items()
    ),
    Decoder(
        families=("functionary-2",),
        openings=("<|recipient|>",),
        read=read_recipient,
    ),
    Decoder(families=("functionary-3.2",), openings=(">>>",), read=read_recipient_line),
    Decoder(families=("harmony",), openings=("to=functions.",), read=read_harmony),
    Decoder(
        families=("harmony",),
        openings=("<|start|>assistant", "<|channel|>"),
        read=read_harmony_head,
    ),
    Decoder(
        families=("functiongemma", "gemma4"),
        openings=("<start_function_call>", "<|tool_call>"),
        read=read_gemma_call,
    ),
)

#: Marks that stand around the marks of single calls.
_AROUND: Final = (
    *(f"<{bar}tool{line}calls{line}begin{bar}>" for bar in "\uff5c|" for line in "\u2581_ "),
    "<|tool_calls_section_begin|>",
    "<|tool_calls:begin|>",
    "<|action_start|>",
    "<|from|>assistant",
    "<seed:tool_call>",
    "<minimax:tool_call>",
    "<function_calls>",
    "<\uff5cDSML\uff5cfunction_calls>",
    "<\uff5cDSML\uff5ctool_calls>",
    "<|DSML|function_calls>",
    "<steptml:tool_calls>",
)

_BY_OPENING: Final[dict[str, tuple[Decoder, ...]]] = {
    opening: tuple(decoder for decoder in DECODERS if opening in decoder.openings)
    for opening in (*_AROUND, *(opening for decoder in DECODERS for opening in decoder.openings))
}
#: Every mark.
OPENINGS: Final = tuple(_BY_OPENING)

_OPENING = re.compile(any_of(OPENINGS))
_PREFIXES = prefixes(OPENINGS)
_LONGEST = max(map(len, OPENINGS))
_MOST_AROUND = 4


def read_behind(place: Place, opening: str, *, depth: int = 0) -> Reading | None:
    """Read what stands behind a mark: by the decoders that have it, or behind a further mark."""
    for decoder in _BY_OPENING[opening]:
        if (reading := decoder.read(place.at(place.position))) is not None:
            return reading
    inner = place.at(place.position)
    inner.skip()
    return read_marked(inner, depth=depth + 1) if depth < _MOST_AROUND else None


def read_marked(place: Place, *, depth: int = 0) -> Reading | None:
    """Read a mark that stands here, and what stands behind it."""
    if (mark := _OPENING.match(place.text, place.position)) is None:
        rest = place.text[place.position : place.position + _LONGEST].lower()
        if not place.final and (not rest or rest in _PREFIXES):
            raise Unfinished
        return None
    return read_behind(place.at(mark.end()), mark.group(), depth=depth)
