"""A provider type for each preset, so that ``provider: groq`` needs no declaration."""

from __future__ import annotations

import attrs

from teff_providers_openai.presets import find_preset
from teff_providers_openai.provider import OpenAIProvider

__all__ = [
    "deepseek",
    "gemini",
    "groq",
    "litellm",
    "llamacpp",
    "lmstudio",
    "mistral",
    "openrouter",
    "together",
    "vllm",
]


def _type_of(name: str) -> type[OpenAIProvider]:
    """Return `OpenAIProvider` with this preset, which is then no option of it any more."""

    @attrs.define(kw_only=True, eq=False)
    class Named(OpenAIProvider):
        preset: str = attrs.field(default=find_preset(name).name, init=False)

    Named.__name__ = Named.__qualname__ = name
    Named.__doc__ = f"`OpenAIProvider` with the preset ``{name}``."
    return Named


deepseek = _type_of("deepseek")
gemini = _type_of("gemini")
groq = _type_of("groq")
litellm = _type_of("litellm")
llamacpp = _type_of("llamacpp")
lmstudio = _type_of("lmstudio")
mistral = _type_of("mistral")
openrouter = _type_of("openrouter")
together = _type_of("together")
vllm = _type_of("vllm")
