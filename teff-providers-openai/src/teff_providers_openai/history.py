"""The conversation on the wire: `teff.messages.Message` to messages of the format."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from teff.provider.reading import as_text
from teff_providers_openai.quirks import Quirks
from teff_providers_openai.tool_calls import message_fields, to_wire

__all__ = ["wire_messages"]


def wire_messages(messages: Sequence[Mapping[str, Any]], quirks: Quirks) -> list[dict[str, Any]]:
    """Return the messages to post.

    Turns of the assistant that neither say nor call anything are left out, for servers refuse
    them. Fields that the format does not know are left out too.
    """
    wire = [_message(message, quirks) for message in messages if not _is_empty(message)]
    if quirks.short_call_ids:
        _shorten_call_ids(wire)
    return wire


def _is_empty(message: Mapping[str, Any]) -> bool:
    says_nothing = not message.get("content") and not message.get("tool_calls")
    return message["role"] == "assistant" and says_nothing


def _message(message: Mapping[str, Any], quirks: Quirks) -> dict[str, Any]:
    role, content = message["role"], message.get("content", "")
    if role == "system":
        return {"role": quirks.system_role, "content": content}
    if role == "tool":
        return _tool_result(message, content, quirks)
    wire: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        if quirks.reasoning_field and message.get("thinking"):
            wire[quirks.reasoning_field] = message["thinking"]
        if calls := message.get("tool_calls"):
            wire["content"] = content or (None if quirks.null_content else "")
            wire["tool_calls"] = [
                to_wire(call, with_extra=bool(quirks.call_fields)) for call in calls
            ]
            if quirks.reasoning_details:
                wire |= message_fields(calls)
    return wire


def _tool_result(message: Mapping[str, Any], content: Any, quirks: Quirks) -> dict[str, Any]:
    call_id = message.get("tool_call_id", "")
    wire = {"role": "tool", "tool_call_id": call_id, "content": content}
    if quirks.tool_names and message.get("name"):
        wire["name"] = message["name"]
    return wire


def _shorten_call_ids(messages: list[dict[str, Any]]) -> None:
    """Give each call, and its result, an id of nine letters and digits, the same in every request."""
    shorter: dict[str, str] = {}

    def renew(holder: dict[str, Any], field: str) -> None:
        call_id = as_text(holder[field])
        if call_id not in shorter:
            shorter[call_id] = _short_id(call_id, taken=set(shorter.values()))
        holder[field] = shorter[call_id]

    for message in messages:
        for call in message.get("tool_calls", ()):
            renew(call, "id")
        if "tool_call_id" in message:
            renew(message, "tool_call_id")


def _short_id(call_id: str, *, taken: set[str]) -> str:
    candidate, tries = call_id, 0
    while not re.fullmatch("[A-Za-z0-9]{9}", candidate) or candidate in taken:
        candidate = hashlib.sha256(f"{tries}{call_id}".encode()).hexdigest()[:9]
        tries += 1
    return candidate
