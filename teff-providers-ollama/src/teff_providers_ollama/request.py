"""`ChatRequest` to the body of a request to Ollama's ``/api/chat``.

Source: https://github.com/ollama/ollama/blob/main/docs/api.md
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.errors import ConfigError
from teff.messages import ToolCall, message_text
from teff.provider.choices import choice_schema
from teff.provider.protocol import ChatRequest
from teff.provider.reading import as_mapping, as_text
from teff_providers_ollama.options import EXTRA, FIELDS
from teff_providers_ollama.thinking import thinking_to_send

__all__ = ["request_body"]


def request_body(
    request: ChatRequest,
    *,
    options: Mapping[str, Any],
    fields: Mapping[str, Any],
    stream: bool,
) -> dict[str, Any]:
    """Return the JSON object to post. What is None in one of the mappings is left out.

    Args:
        request: what is asked; its ``options`` are checked already. They win over what its other
            fields say, and that over ``options`` and ``fields``.
        options: for the model, such as ``num_ctx``.
        fields: put beside the options, such as ``keep_alive``.
        stream: ask for a stream.

    Raises:
        ConfigError: a message holds an image that is not in it.
    """
    own = {name: value for name, value in request.options.items() if name in FIELDS}
    own_options = {name: request.options[name] for name in request.options if name not in own}
    extra = own_options.pop(EXTRA, None) or {}
    body: dict[str, Any] = dict(fields)
    if request.choices:
        body["format"] = choice_schema(request.choices, as_object=False)
    elif request.json_schema is not None:
        body["format"] = dict(request.json_schema)
    body |= own
    body["think"] = thinking_to_send(
        request.model, body.get("think"), held_to_format=body.get("format") is not None
    )
    body |= {
        "model": request.model,
        "messages": [_message(message) for message in request.messages],
        "stream": stream,
        "options": _given({**options, **_derived_options(request), **own_options, **extra}) or None,
        "tools": [tool.as_function() for tool in request.tools] or None,
    }
    return _given(body)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _derived_options(request: ChatRequest) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if request.max_tokens is not None:
        options["num_predict"] = request.max_tokens
    if request.stop:
        options["stop"] = list(request.stop)
    return options


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message["role"], "content": message_text(message)}
    if images := _images(message.get("content")):
        wire["images"] = images
    if message.get("thinking"):
        wire["thinking"] = message["thinking"]
    if calls := message.get("tool_calls"):
        wire["tool_calls"] = [_call(call) for call in calls]
    if message["role"] == "tool":
        # Newer servers match by id, older ones by name.
        wire["tool_name"] = message.get("name", "")
        wire["tool_call_id"] = message.get("tool_call_id", "")
    return wire


def _call(stored: Mapping[str, Any]) -> dict[str, Any]:
    call = ToolCall.from_json(stored)
    extra = dict(call.extra)
    function = as_mapping(extra.pop("function", None))
    return {
        **extra,
        "id": call.id,
        "function": {**function, "name": call.name, "arguments": dict(call.arguments)},
    }


def _images(content: object) -> list[str]:
    """Return the images of a content list, which the format wants as bare base64."""
    parts = content if isinstance(content, list) else []
    urls = [as_text(as_mapping(as_mapping(part).get("image_url")).get("url")) for part in parts]
    for url in filter(None, urls):
        if not url.startswith("data:"):
            raise ConfigError("Ollama takes images only as data: URLs, and not from the web.")
    return [url.partition("base64,")[2] for url in urls if url]
