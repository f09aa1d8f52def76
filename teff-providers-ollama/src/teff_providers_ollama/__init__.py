"""Teff provider for Ollama's native chat API."""

from teff_providers_ollama.provider import OllamaProvider

__all__ = ["OllamaProvider"]

__version__ = "0.1.0"
