"""The JSON form of a model's reply, as the journal keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.messages import ModelUsage, ToolCall
from teff.provider import ChatReply

__all__ = ["reply_from_json", "reply_to_json"]


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
