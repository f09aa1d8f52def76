"""`ChatRequest` to the body of a chat-completions request.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from teff.messages import message_text
from teff.provider.choices import WRAPPER_TOKENS, choice_grammar, choice_schema
from teff.provider.protocol import ChatRequest
from teff_providers_openai.history import wire_messages
from teff_providers_openai.quirks import Quirks

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
        quirks: what the server wants otherwise, with every field set.
        options: settings that are sent as they are; those of the request win over them, and both
            over what is derived from the other fields of the request. Those that say how tools are
            called are sent beside tools only, and ``stream_options`` in streams only.
        stream: ask for a stream.
    """
    body = _sampling(request, quirks) | _constraint(request, quirks)
    if request.max_tokens is not None:
        room = WRAPPER_TOKENS if "response_format" in body and request.choices else 0
        body[quirks.max_tokens_field or "max_tokens"] = request.max_tokens + room
    if stream and quirks.stream_usage:
        body["stream_options"] = {"include_usage": True}
    body |= {**options, **request.options}
    body |= {
        "model": request.model,
        "messages": wire_messages(request.messages, quirks),
        "stream": stream,
    }
    if request.tools:
        body["tools"] = [tool.as_function() for tool in request.tools]
    for name in _unsendable(body, quirks):
        body.pop(name, None)
    return body


def _sampling(request: ChatRequest, quirks: Quirks) -> dict[str, Any]:
    if quirks.fixed_sampling and re.fullmatch(quirks.fixed_sampling, request.model):
        return {}
    sampling: dict[str, Any] = {}
    if request.temperature is not None:
        sampling["temperature"] = request.temperature
    if request.stop:
        sampling["stop"] = list(request.stop)
    return sampling


def _unsendable(body: Mapping[str, Any], quirks: Quirks) -> Iterator[str]:
    """Yield the settings that the server refuses in this request."""
    if not (body.get("tools") and quirks.tool_choice):
        yield "tool_choice"
    if not (body.get("tools") and quirks.parallel_tool_calls):
        yield "parallel_tool_calls"
    if not body["stream"]:
        yield "stream_options"


def _constraint(request: ChatRequest, quirks: Quirks) -> dict[str, Any]:
    if request.choices and quirks.choices != "none":
        # llama.cpp refuses a grammar beside tools, but takes a schema.
        if quirks.choices == "grammar" and not request.tools:
            return {"grammar": choice_grammar(request.choices)}
        return _schema_format("choice", choice_schema(request.choices, as_object=True), quirks)
    # The API refuses schemas of anything but an object.
    if request.json_schema is None or request.json_schema.get("type") != "object":
        return {}
    if quirks.json_schema:
        title = request.json_schema.get("title")
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", title)[:64] if isinstance(title, str) else ""
        return _schema_format(name or "answer", request.json_schema, quirks)
    if quirks.json_object and any(_speaks_of_json(message) for message in request.messages):
        return {"response_format": {"type": "json_object"}}
    return {}


def _speaks_of_json(message: Mapping[str, Any]) -> bool:
    return "json" in message_text(message).lower()


def _schema_format(name: str, schema: Mapping[str, Any], quirks: Quirks) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "schema": dict(schema)}
    if quirks.strict:
        described["strict"] = _can_be_strict(schema)
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
