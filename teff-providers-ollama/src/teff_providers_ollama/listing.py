"""From the reply of Ollama's ``/api/tags`` to what is worth a line about each model.

Source: https://docs.ollama.com/api/tags
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teff.provider.protocol import ModelInfo
from teff.provider.reading import UnreadableReply, as_count, as_mapping, as_text

__all__ = ["read_models"]

#: What servers write where they do not know.
_UNKNOWN = {"", "none", "unknown"}


def read_models(data: Mapping[str, Any]) -> list[ModelInfo]:
    """Return the models, by name.

    >>> read_models({"models": [{"name": "qwen3:8b", "size": 5_200_000_000, "details": {
    ...     "parameter_size": "8.2B", "quantization_level": "Q4_K_M"}}]})
    [ModelInfo(name='qwen3:8b', details='5.2 GB, 8.2B, Q4_K_M')]

    Raises:
        UnreadableReply: it has no list of models.
    """
    models = data.get("models", ())
    if models is None:  # as Go writes an empty list
        return []
    if "models" not in data or not isinstance(models, list):
        raise UnreadableReply("it has no list of models")
    found = [_model(as_mapping(model)) for model in models]
    return sorted((model for model in found if model.name), key=lambda model: model.name)


def _model(model: Mapping[str, Any]) -> ModelInfo:
    details = as_mapping(model.get("details"))
    facts = [
        _size(as_count(model.get("size"))),
        as_text(details.get("parameter_size")),
        as_text(details.get("quantization_level")),
    ]
    return ModelInfo(
        name=as_text(model.get("name")) or as_text(model.get("model")),
        details=", ".join(fact for fact in facts if fact.lower() not in _UNKNOWN),
    )


def _size(size: int | None) -> str:
    """Return a size as ``ollama list`` shows it, in powers of 1,000; ``""`` where it is unknown."""
    if not size:
        return ""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
