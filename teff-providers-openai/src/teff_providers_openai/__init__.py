"""Teff provider for OpenAI and every server that speaks its chat completions."""

from teff_providers_openai.provider import OpenAIProvider
from teff_providers_openai.quirks import Quirks

__all__ = ["OpenAIProvider", "Quirks"]

__version__ = "0.1.0"
