"""Warnings that a conversation does not fit into the context window.

Ollama drops what does not fit from the front, whole messages, and tells nobody: the system messages
and the last message stay, and what is lost may be the question, or a tool call whose result stays
(https://docs.ollama.com/context-length).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from teff.messages import ModelUsage
from teff.plugins.log import warn
from teff.provider.reading import as_count, as_mapping

__all__ = ["WindowWatch", "estimated_tokens"]

#: A prompt that was counted above this part of the window has probably been cut.
_NEARLY_FULL = 0.97
_BYTES_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4


def estimated_tokens(body: Mapping[str, Any]) -> int:
    """Return about how many tokens the prompt of a request has; images count nothing.

    >>> estimated_tokens({"messages": [{"role": "user", "content": "Why is the sky blue?"}]})
    9
    """
    messages = body.get("messages", ())
    size = 0
    for message in messages:
        size += len(message["content"].encode("utf-8", "replace"))
        size += len(message.get("thinking", "").encode("utf-8", "replace"))
        if calls := message.get("tool_calls"):
            size += len(json.dumps(calls, default=str))
    if tools := body.get("tools"):
        size += len(json.dumps(tools, default=str))
    return size // _BYTES_PER_TOKEN + _TOKENS_PER_MESSAGE * len(messages)


class WindowWatch:
    """Warns, once for each model, where a prompt does not fit or an answer had no room.

    Args:
        provider: the provider's name, for the messages.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._warned: set[str] = set()

    def before(self, body: Mapping[str, Any]) -> None:
        """Look at a request that is about to be sent."""
        window = _window(body)
        if window is None or body.get("truncate") is False or body["model"] in self._warned:
            return
        tokens = estimated_tokens(body)
        if tokens > window:
            self._warn(
                body["model"],
                window,
                f"the prompt has about {tokens:,} tokens, and num_ctx is {window:,}: Ollama drops "
                "the oldest messages without a sign",
            )

    def after(self, body: Mapping[str, Any], usage: ModelUsage, finish_reason: str) -> None:
        """Look at what the server counted for a request and its answer."""
        window, model = _window(body), body["model"]
        prompt, answer = usage.prompt_tokens, usage.completion_tokens
        if model in self._warned:
            return
        if window is None:
            if finish_reason == "length" and _has_no_bound(body):
                self._warn(
                    model,
                    window,
                    "the answer was cut off though nothing bounds it: the context window is "
                    "probably full, and num_ctx is not set",
                )
        elif prompt is not None and prompt >= window * _NEARLY_FULL:
            self._warn(
                model,
                window,
                f"the prompt fills the context window, {prompt:,} of {window:,} tokens: what did "
                "not fit was dropped without a sign",
            )
        elif finish_reason == "length" and (prompt or 0) + (answer or 0) >= window:
            self._warn(
                model,
                window,
                f"prompt and answer fill the context window of {window:,} tokens, so the answer "
                "was cut off",
            )

    def _warn(self, model: str, window: int | None, finding: str) -> None:
        self._warned.add(model)
        warn(
            f"{self._provider} ({model}): {finding}. Set num_ctx higher, or shorten the "
            "conversation.",
            provider=self._provider,
            model=model,
            num_ctx=window,
        )


def _window(body: Mapping[str, Any]) -> int | None:
    return as_count(as_mapping(body.get("options")).get("num_ctx")) or None


def _has_no_bound(body: Mapping[str, Any]) -> bool:
    return as_count(as_mapping(body.get("options")).get("num_predict")) is None
