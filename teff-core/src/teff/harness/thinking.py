"""The marks that models put around their thinking, known in one place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

__all__ = ["THINKING_MARK", "THINKING_MARKS", "is_certain", "is_opening", "without_thinking"]

_NAMES: Final = (
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reason",
    "reasoning",
    "reflection",
    "scratchpad",
    "analysis",
    "rationale",
)

#: Openings and closings in lower case, each as it is written without a space before its end.
THINKING_MARKS: Final[tuple[str, ...]] = (
    *(f"<{name}>" for name in _NAMES),
    *(f"</{name}>" for name in _NAMES),
    "[think]",
    "[/think]",
    "\u25c1think\u25b7",
    "\u25c1/think\u25b7",
    "<seed:think>",
    "</seed:think>",
    "<|begin_of_thought|>",
    "<|end_of_thought|>",
    "<|thought_start|>",
    "<|thought_end|>",
    "<|start_thinking|>",
    "<|end_thinking|>",
)

#: Matches any of the marks, in any case; `is_opening` says which of both it is.
THINKING_MARK: Final = re.compile(
    rf"</?(?:{'|'.join(sorted(_NAMES, reverse=True))}|seed:think)\s?>|\[/?THINK\]"
    r"|\u25c1/?think\u25b7"
    r"|<\|(?:(?:begin|end)_of_thought|thought_(?:start|end)|(?:start|end)_thinking)\|>",
    re.IGNORECASE,
)


def is_opening(mark: str) -> bool:
    """Say whether a thinking mark opens a thinking part; else it closes one."""
    return mark[1] != "/" and "end" not in mark.lower()


def is_certain(mark: str) -> bool:
    """Say whether a mark has no other use: people write of ``<analysis>``, too, within a line."""
    return "think" in mark.lower() or "|" in mark


def without_thinking(
    text: str, *, joint: str = "", is_text: Callable[[str], object] | None = None
) -> str:
    """Return a text without its thinking parts.

    What follows an opening that is never closed is thinking, and so is all that stands before a
    closing without an opening: that was in the prompt.

    Args:
        text: what the model wrote.
        joint: what is put where a part was taken out.
        is_text: takes the name in a mark and says whether it is no mark but text.

    >>> without_thinking("<think>Hm.</think>It is 3.")
    'It is 3.'
    """
    kept: list[str] = []
    position = depth = 0
    for found in THINKING_MARK.finditer(text):
        mark = found.group()
        if is_text is not None and is_text(mark.strip("<>[]/|\u25c1\u25b7 ")):
            continue
        if depth == 0:
            kept.append(text[position : found.start()])
        if is_opening(mark):
            depth += 1
        elif depth == 0:
            kept.clear()
        else:
            depth -= 1
        position = found.end()
    if depth == 0:
        kept.append(text[position:])
    return joint.join(kept)
