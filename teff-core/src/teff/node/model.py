"""`ModelNode`: the options of every node that asks a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from teff.harness import Harness
from teff.node.base import Node, options
from teff.runtime import ExecContext

__all__ = ["ModelNode"]


def _at_least(lowest: float) -> Any:
    return attrs.validators.optional(attrs.validators.ge(lowest))


@options
class ModelNode(Node):
    """A node that asks a model; the base of `LLM`, `ReActAgent` and `Supervisor`.

    Args:
        model: the model's name; the flow's ``default_model`` where it is empty.
        provider: the provider's name; the flow's ``default_provider`` where it is empty.
        temperature, max_tokens: None leaves them to the server.
        timeout: seconds for a call, for a stream between two events; the provider's where it is
            None.
        http_max_retries: how often a call that failed for a passing reason is tried again.
        base_url, api_key_env, chat_path, auth_header, auth_prefix: replace those of the provider
            for this node.
        provider_options: settings of the provider, sent as they are.
    """

    model: str = ""
    provider: str = ""
    temperature: float | None = attrs.field(default=None, validator=_at_least(0))
    max_tokens: int | None = attrs.field(default=None, validator=_at_least(1))
    timeout: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.gt(0))
    )
    http_max_retries: int = attrs.field(default=2, validator=attrs.validators.ge(0))
    base_url: str = ""
    api_key_env: str = ""
    chat_path: str = ""
    auth_header: str = ""
    auth_prefix: str | None = None
    provider_options: Mapping[str, Any] = attrs.field(factory=dict)

    def harness(self, ctx: ExecContext) -> Harness:
        """Return the harness for the calls of one step.

        Raises:
            ConfigError: no provider or model is named, here or as a default, or it is unknown.
        """
        overrides = {
            name: value
            for name in ("base_url", "api_key_env", "chat_path", "auth_header", "auth_prefix")
            if (value := getattr(self, name)) not in ("", None)
        }
        return Harness.for_step(
            ctx,
            provider=self.provider,
            model=self.model,
            overrides=overrides,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            timeout=self.timeout,
            max_retries=self.http_max_retries,
            options=self.provider_options,
        )

    def asks_model(self) -> tuple[str | None, str | None] | None:
        """Return the provider and the model that are named here."""
        return self.provider or None, self.model or None
