"""What the journal keeps of a model call: a digest of the request, and the reply as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import attrs

from teff.messages import ModelUsage, ToolCall
from teff.provider import ChatReply, ChatRequest

__all__ = [
    "WAITING_FIELDS",
    "reply_from_json",
    "reply_to_json",
    "request_as_json",
    "request_digest",
]

#: Fields of a request that say nothing of what is asked; what is left of the deadline of a run is
#: never the same twice.
WAITING_FIELDS = frozenset({"timeout", "deadline"})


def reply_to_json(reply: ChatReply) -> dict[str, Any]:
    """Return the JSON form of ``reply``."""
    return {
        "text": reply.text,
        "thinking": reply.thinking,
        "tool_calls": [call.to_json() for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "usage": reply.usage.to_json(),
        "model": reply.model,
    }


def reply_from_json(data: Mapping[str, Any]) -> ChatReply:
    """Read what `reply_to_json` gave."""
    return ChatReply(
        text=data["text"],
        thinking=data["thinking"],
        tool_calls=tuple(ToolCall.from_json(call) for call in data["tool_calls"]),
        finish_reason=data["finish_reason"],
        usage=ModelUsage(**data["usage"]),
        model=data["model"],
    )


def request_digest(request: ChatRequest) -> str:
    """Return a short text that two requests share only where they ask the same."""
    asked = request_as_json(request)
    return hashlib.sha256(asked.encode(errors="backslashreplace")).hexdigest()[:16]


def request_as_json(request: ChatRequest) -> str:
    """Return what a request asks as JSON, for a digest: what is no JSON stands as its ``repr``.

    How long the answer is waited for is not part of it.
    """
    asked = attrs.asdict(request, filter=lambda field, _: field.name not in WAITING_FIELDS)
    return json.dumps(asked, sort_keys=True, default=repr)
