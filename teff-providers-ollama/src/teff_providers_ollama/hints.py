"""What a user can do about a refusal of Ollama, added to the server's own words.

Source: https://docs.ollama.com/api/errors
"""

from __future__ import annotations

from teff.errors import ProviderError
from teff.provider.failures import add_hint

__all__ = ["explain"]


def explain(error: ProviderError, model: str) -> None:
    """Add a hint to ``error`` where one is known, and say whether another try can help.

    Permanent are refusals for what a model cannot do. Not so an ``unexpected EOF``: it comes from
    the connection between a server and its cloud, with the status of a wrong request, 400, so that
    whoever wants it tried again has to name that status.
    """
    words = (error.body or str(error)).lower()
    if error.status == 404:
        add_hint(error, _about_not_found(words, model))
    elif error.status == 401:
        add_hint(error, "Sign the server in: ollama signin. Or send a key: see api_key_env.")
    elif "does not support thinking" in words:
        error.permanent = True
        add_hint(error, "Set think to false for it, or leave it out.")
    elif "does not support tools" in words:
        error.permanent = True
        add_hint(
            error,
            f"Take a model that can use tools, or offer none. What it can do says: "
            f"ollama show {model}",
        )
    elif "does not support chat" in words:
        error.permanent = True
        add_hint(error, "It is no chat model, but one for embeddings, for example.")
    elif "error parsing tool call" in words:
        error.permanent = False
        add_hint(error, "The model wrote a tool call that is no JSON; another try may do better.")
    elif error.status == 400 and "unexpected eof" in words:
        error.permanent = False


def _about_not_found(words: str, model: str) -> str:
    if "model" in words and "not found" in words:
        return f"Get it with: ollama pull {model}"
    return "Is this a server of Ollama? For others there is the provider type openai."
