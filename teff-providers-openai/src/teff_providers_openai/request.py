"""`ChatRequest` to the body of a chat-completions request.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from teff.provider.choices import WRAPPER_TOKENS, choice_grammar, choice_schema
from teff.provider.protocol import ChatRequest, ToolSpec
from teff_providers_openai.quirks import Quirks
from teff_providers_openai.tool_calls import to_wire

__all__ = ["request_body"]

#: Keywords that no server takes in a schema which it is to enforce strictly.
_NOT_STRICT = {
    "allOf", "contains", "dependentRequired", "dependentSchemas", "else", "if", "minContains",
    "maxContains", "not", "oneOf", "patternProperties", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
}  # fmt: skip


def request_body(
    request: ChatRequest, *, quirks: Quirks, options: Mapping[str, Any], stream: bool
) -> dict[str, Any]:
    """Return the JSON object to post.

    Args:
        request: what is asked.
        quirks: what the server wants otherwise.
        options: settings that are sent as they are; those of the request win over them, and both
            over what is derived from the other fields of the request.
        stream: ask for a stream.
    """
    body: dict[str, Any] = {}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.stop:
        body["stop"] = list(request.stop)
    body |= _constraint(request, quirks)
    if request.max_tokens is not None:
        room = WRAPPER_TOKENS if "response_format" in body and request.choices else 0
        body[quirks.max_tokens_field] = request.max_tokens + room
    if stream and quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    body |= {**options, **request.options}
    body |= {
        "model": request.model,
        "messages": [_message(message, quirks) for message in request.messages],
        "stream": stream,
    }
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return body


def _message(message: Mapping[str, Any], quirks: Quirks) -> dict[str, Any]:
    role, content = message["role"], message.get("content", "")
    if role == "system":
        return {"role": quirks.system_role, "content": content}
    if role == "tool":
        call_id = message.get("tool_call_id", "")
        return {"role": "tool", "tool_call_id": call_id, "content": content}
    wire: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        if quirks.reasoning_field and message.get("thinking"):
            wire[quirks.reasoning_field] = message["thinking"]
        if calls := message.get("tool_calls"):
            wire["tool_calls"] = [to_wire(call) for call in calls]
            wire["content"] = content or (None if quirks.null_content else "")
    return wire


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.schema),
    }
    return {"type": "function", "function": function}


def _constraint(request: ChatRequest, quirks: Quirks) -> dict[str, Any]:
    if request.choices and quirks.choices != "none":
        # llama.cpp refuses a grammar beside tools, but takes a schema.
        if quirks.choices == "grammar" and not request.tools:
            return {"grammar": choice_grammar(request.choices)}
        return _response_format("choice", choice_schema(request.choices, as_object=True))
    # The API refuses schemas of anything but an object.
    is_object = request.json_schema is not None and request.json_schema.get("type") == "object"
    if request.json_schema is not None and is_object and quirks.json_schema:
        title = request.json_schema.get("title")
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", title)[:64] if isinstance(title, str) else ""
        return _response_format(name or "answer", request.json_schema)
    return {}


def _response_format(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    described = {"name": name, "strict": _can_be_strict(schema), "schema": dict(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def _can_be_strict(schema: object) -> bool:
    """Say whether a schema keeps the rules of strict mode, beyond which servers refuse it.

    Every object is closed and requires all of its properties
    (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas).
    """
    if isinstance(schema, list):
        return all(map(_can_be_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if _NOT_STRICT & schema.keys():
        return False
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, Mapping):
        names = set(properties) if isinstance(properties, Mapping) else set()
        if schema.get("additionalProperties") is not False:
            return False
        if names != set(schema.get("required", ())):
            return False
    return all(map(_can_be_strict, schema.values()))
