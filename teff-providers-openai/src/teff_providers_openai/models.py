"""What a server says about its models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.provider.protocol import ModelInfo
from teff.provider.reading import UnreadableReply, as_count, as_mapping, as_text

__all__ = ["read_models"]

#: The names under which servers tell how many tokens a model reads.
_WINDOWS = ("context_length", "context_window", "max_context_length", "max_model_len", "n_ctx")


def read_models(data: Mapping[str, Any]) -> list[ModelInfo]:
    """Read the reply to ``GET /models``, sorted by name.

    Source: https://platform.openai.com/docs/api-reference/models/list

    >>> read_models({"data": [{"id": "m", "owned_by": "me", "context_window": 8192}]})
    [ModelInfo(name='m', details='me, 8192 tokens')]

    Raises:
        UnreadableReply: it has no list of models.
    """
    listed = data.get("data")
    if not isinstance(listed, list):
        raise UnreadableReply("it has no list of models")
    models = [_read_model(as_mapping(model)) for model in listed]
    return sorted((model for model in models if model.name), key=lambda model: model.name)


def _read_model(model: Mapping[str, Any]) -> ModelInfo:
    # llama.cpp tells it one level deeper.
    fields = {**as_mapping(model.get("meta")), **model}
    windows = (as_count(fields.get(name)) for name in _WINDOWS)
    window = next((f"{tokens} tokens" for tokens in windows if tokens), "")
    details = [as_text(model.get("owned_by")), window]
    return ModelInfo(name=as_text(model.get("id")), details=", ".join(filter(None, details)))
