"""A constrained choice: how servers are asked for it, and how the answer is read.

``ChatRequest.choices`` lists the only texts that an answer may be. Servers enforce that through a
JSON Schema or a grammar; what then comes back is the choice itself, a JSON string of it, or an
object around it. `read_choice` gives the bare text for each of these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

__all__ = [
    "CHOICE_KEY",
    "WRAPPER_TOKENS",
    "choice_grammar",
    "choice_schema",
    "read_choice",
    "settled",
]

#: The key that holds the choice where a server wants an object at the root of a schema.
CHOICE_KEY = "choice"

#: Tokens that JSON around a choice may cost, spaces included; a request's ``max_tokens`` means the
#: choice alone.
WRAPPER_TOKENS = 48

_OBJECT_START = re.compile(r'\s*\{\s*"' + CHOICE_KEY + r'"\s*:\s*(?=")')


def choice_schema(choices: Sequence[str], *, as_object: bool) -> dict[str, Any]:
    """Return the JSON Schema that only ``choices`` fit.

    Args:
        choices: the allowed texts.
        as_object: wrap the choice in an object, for servers that allow nothing else at the root.

    >>> choice_schema(["yes", "no"], as_object=False)
    {'type': 'string', 'enum': ['yes', 'no']}
    """
    choice = {"type": "string", "enum": list(choices)}
    if not as_object:
        return choice
    return {
        "type": "object",
        "properties": {CHOICE_KEY: choice},
        "required": [CHOICE_KEY],
        "additionalProperties": False,
    }


def choice_grammar(choices: Sequence[str]) -> str:
    r"""Return the GBNF grammar that only ``choices`` match.

    Source: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md

    >>> print(choice_grammar(["yes", 'say "no"']))
    root ::= "yes" | "say \"no\""
    """
    return "root ::= " + " | ".join(f'"{_escape(choice)}"' for choice in choices)


def _escape(text: str) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return "".join(
        escapes.get(character) or (character if character >= " " else f"\\x{ord(character):02X}")
        for character in text
    )


def read_choice(text: str, choices: Sequence[str]) -> str | None:
    """Return the choice that ``text`` is, or None where it is none of them.

    An object may be cut off after its choice: some servers fill up the answer with spaces.

    >>> read_choice('{ "choice" : "yes"', ["yes", "no"])
    'yes'
    >>> read_choice("yes, of course", ["yes", "no"]) is None
    True
    """
    if text in choices:
        return text
    start = _OBJECT_START.match(text)
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start.end() if start else _first_mark(text))
    except (ValueError, RecursionError):
        value = text.strip()
    if isinstance(value, dict):
        value = value.get(CHOICE_KEY)
    return value if isinstance(value, str) and value in choices else None


def settled(text: str, finish_reason: str, choices: Sequence[str] | None) -> tuple[str, str]:
    """Return the text and the finish reason of an answer, which may be held to ``choices``.

    A choice that is there is whole, whatever was cut off behind it.

    >>> settled('{"choice": "yes"', "length", ["yes", "no"])
    ('yes', 'stop')
    """
    choice = read_choice(text, choices) if choices else None
    if choice is None:
        return text, finish_reason
    return choice, "stop" if finish_reason == "length" else finish_reason


def _first_mark(text: str) -> int:
    return len(text) - len(text.lstrip())
