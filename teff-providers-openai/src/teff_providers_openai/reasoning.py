"""The reasoning of a model, in the places where servers put it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.provider.reading import as_mapping, as_text, content_text, whole_text

__all__ = ["ReasoningDetails", "read_reasoning"]

#: Fields of a reasoning detail whose pieces are joined; of others the last one counts.
_JOINED = {"data", "summary", "text"}


def read_reasoning(message: Mapping[str, Any]) -> str:
    """Return the reasoning text of a message or a piece of one, or "".

    It stands in ``reasoning_content`` or ``reasoning``, and where both are there they are the same;
    Mistral has parts of type ``thinking`` among the content.
    """
    text = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning"))
    content = message.get("content")
    if text or not isinstance(content, list):
        return text
    parts = map(as_mapping, content)
    found = (part.get("thinking") for part in parts if part.get("type") == "thinking")
    return "".join(content_text(each) for each in found if isinstance(each, str | list))


class ReasoningDetails:
    """Collects the ``reasoning_details`` of OpenRouter, which go back unchanged.

    Source: https://openrouter.ai/docs/use-cases/reasoning-tokens

    >>> details = ReasoningDetails()
    >>> details.add([{"type": "reasoning.text", "index": 0, "text": "Let "}])
    >>> details.add([{"type": "reasoning.text", "index": 0, "text": "me", "signature": "s"}])
    >>> details.fields()
    {'reasoning_details': [{'type': 'reasoning.text', 'index': 0, 'text': 'Let me', 'signature': 's'}]}
    """

    def __init__(self) -> None:
        self._details: list[dict[str, Any]] = []

    def add(self, pieces: object) -> None:
        """Take in the details of one piece of an answer; what is no list of objects is nothing."""
        for piece in pieces if isinstance(pieces, list) else ():
            if isinstance(piece, dict):
                self._add(piece)

    def fields(self) -> dict[str, Any]:
        """Return the field of the message that holds them; empty where there are none."""
        details = [
            {name: _whole(value) if name in _JOINED else value for name, value in detail.items()}
            for detail in self._details
        ]
        return {"reasoning_details": details} if details else {}

    def _add(self, piece: dict[str, Any]) -> None:
        last = self._details[-1] if self._details else {}
        same = all(piece.get(name) == last.get(name) for name in ("type", "index"))
        if not last or not same or piece.get("index") is None:
            self._details.append(dict(piece))
            return
        for name, value in piece.items():
            if name in _JOINED and isinstance(value, str):
                last[name] = as_text(last.get(name)) + value
            elif value is not None:
                last[name] = value


def _whole(value: object) -> object:
    return whole_text(value) if isinstance(value, str) else value
