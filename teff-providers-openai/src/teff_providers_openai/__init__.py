"""Teff provider for OpenAI and every server that speaks its chat completions."""

from teff_providers_openai.azure import AzureProvider
from teff_providers_openai.presets import PRESETS, Preset
from teff_providers_openai.provider import OpenAIProvider
from teff_providers_openai.quirks import Quirks

__all__ = ["PRESETS", "AzureProvider", "OpenAIProvider", "Preset", "Quirks"]

__version__ = "0.1.0"
