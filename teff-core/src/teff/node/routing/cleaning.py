"""What a reply says to its reader: thinking, chat tokens, invented turns and mark-up are taken off."""

from __future__ import annotations

import re
from collections.abc import Callable

from teff.harness.thinking import without_thinking
from teff.harness.turn_marks import END_OF_TURN, USER_ROLES

__all__ = ["answer_text", "plain_prose"]

_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]{0,200}<\|message\|>")
# What is left of thinking where a server or a terminal has dropped the special tokens.
_UNMARKED_THINKING = re.compile(
    r"\s*(?:analysis.*assistantfinal|thinking\.\.\..*\.\.\.done thinking\.)",
    re.IGNORECASE | re.DOTALL,
)

_CHAT_TOKEN = re.compile(
    r"<\|[^<>|\n]{1,60}\|>|<\uff5c[^<>\uff5c\n]{1,60}\uff5c>|</?s>|<(?:bos|eos|pad|unk)>"
    r"|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>"
)
_LEADING = re.compile(rf"(?:\s|{_CHAT_TOKEN.pattern})*+")
_TURN = re.compile(
    rf"^[ \t#*>]{{0,8}}(?P<role>{USER_ROLES}|assistant|ai)[ \t*]{{0,4}}[:\uff1a]",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWERING = frozenset({"assistant", "ai"})

_FENCE = re.compile(
    r"```(?:json|text|txt|plaintext|ya?ml|xml|markdown|md|python|py|bash|sh|js|javascript)?[ \t]*\n"
    r"|```"
)
_STRUCK_OUT = re.compile(r"~~[^~]{1,500}~~|<(del|strike)>[^<]{1,500}</\1>")
_UNTICKED = re.compile(r"^[ \t]*[-*][ \t]+\[ \].*$", re.MULTILINE)
_TICKED = re.compile(r"^[ \t]*[-*][ \t]+\[[xX]\]", re.MULTILINE)
_BOXED = re.compile(r"\\(?:boxed|text|textbf)\b")
_ESCAPED = re.compile(r"\\(?=[^\w\s])|\\(?=_)")

# Prose is read from its first and its last part: what lies between decides nothing, and to fold a
# text takes quadratic time at worst.
_HEAD, _TAIL = 2_000, 18_000


def answer_text(reply: str, is_name: Callable[[str], object]) -> str:
    """Return the part of a reply that is meant for its reader.

    Thinking is cut out, and what follows an opening of it that is never closed; of several turns,
    where a model went on to write the other side too, the first answer is kept.

    Args:
        reply: what the model wrote.
        is_name: says whether a tag or a role is a registered name, and so no mark-up.
    """
    text = _final_channel(without_thinking(reply, joint="\n", is_text=is_name))
    started = _LEADING.match(text)
    for end in END_OF_TURN.finditer(text, started.end() if started else 0):
        if not is_name(end.group()):
            text = text[: end.start()]
            break
    text = _CHAT_TOKEN.sub(lambda token: token.group() if is_name(token.group()) else "\n", text)
    return _first_answer(_FENCE.sub("\n", text), is_name).strip()


def _final_channel(text: str) -> str:
    channels = list(_CHANNEL.finditer(text))
    if not channels:
        unmarked = _UNMARKED_THINKING.match(text)
        return text[unmarked.end() :] if unmarked else text
    finals = [channel for channel in channels if channel.group(1) == "final"]
    return text[finals[0].end() :] if finals else ""


def _first_answer(text: str, is_name: Callable[[str], object]) -> str:
    turns = [turn for turn in _TURN.finditer(text) if not is_name(turn["role"])]
    starts = [0, *(turn.start() for turn in turns)]
    ends = [*(turn.start() for turn in turns), len(text)]
    roles = ["assistant", *(turn["role"].lower() for turn in turns)]
    for start, end, role in zip(starts, ends, roles, strict=True):
        if role in _ANSWERING and text[start:end].strip():
            return text[start:end]
    return ""


def plain_prose(text: str) -> str:
    """Return ``text`` without mark-up, shortened in its middle where it is very long."""
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    text = _STRUCK_OUT.sub(" ", text)
    if _TICKED.search(text):
        text = _UNTICKED.sub("", text)
    return _ESCAPED.sub("", _BOXED.sub(" ", text))
