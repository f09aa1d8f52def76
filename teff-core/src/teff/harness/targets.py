"""`Target`: one model of one provider. A call may have several, which are asked in their order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from teff.errors import ConfigError, ProviderError
from teff.plugins.builtin import OFFICIAL
from teff.provider import ChatReply, Provider, ProviderRegistry

__all__ = [
    "Fallback",
    "Target",
    "checked_fallbacks",
    "failure_note",
    "fallback_event",
    "hands_over",
    "is_empty",
    "may_fall_back",
    "read_fallback",
    "refuses_schema",
    "targets_of",
]

#: A model to ask where the one before it failed: ``"model"``, ``"provider/model"``, or both named.
Fallback: TypeAlias = str | Mapping[str, str]

#: What is wrong with the request, or with who asks: another server would be told the same.
_NOT_CURED_BY_ANOTHER = frozenset({400, 401, 403})


@attrs.frozen(kw_only=True)
class Target:
    """A model of a provider.

    Attributes:
        provider: who is asked.
        provider_name: what the workflow calls it.
        model: the model's name as the provider knows it.
        max_parallel: how many calls of the provider run at once, as it is declared; None: any number.
        takes_options: whether the settings of the first choice's provider are meant for this one.
    """

    provider: Provider
    provider_name: str
    model: str
    max_parallel: int | None = None
    takes_options: bool = True

    @property
    def name(self) -> str:
        """``provider/model``, under which calls are counted and paid."""
        return f"{self.provider_name}/{self.model}"


def checked_fallbacks(fallbacks: Iterable[Any] | str | None) -> tuple[Fallback, ...]:
    """Return ``fallbacks`` as a tuple; a single text is one.

    Raises:
        ConfigError: one of them is neither a text nor ``{"provider": …, "model": …}``.
    """
    given: list[Any] = (
        [fallbacks] if isinstance(fallbacks, str | Mapping) else list(fallbacks or ())
    )
    for one in given:
        if isinstance(one, Mapping):
            usable = "model" in one and set(one) <= {"provider", "model"}
            usable = usable and all(isinstance(part, str) and part.strip() for part in one.values())
        else:
            usable = isinstance(one, str) and all(part.strip() for part in one.split("/"))
        if not usable:
            raise ConfigError(
                f"fallbacks: {one!r} names no model.",
                hint='Write "model", "provider/model" or {"provider": "ollama", "model": "…"}.',
                path="fallbacks",
            )
    return tuple(given)


def targets_of(
    provider: str,
    model: str,
    fallbacks: Iterable[Fallback] = (),
    *,
    registry: ProviderRegistry,
    overrides: Mapping[str, Any] | None = None,
) -> tuple[Target, ...]:
    """Return what is asked, in order: the first choice and its fallbacks.

    Args:
        provider: the provider of the first choice, and of fallbacks that name none.
        model: the model of the first choice.
        fallbacks: what `checked_fallbacks` gave.
        registry: finds the providers.
        overrides: options that are replaced for ``provider``, and for it alone.

    Raises:
        ConfigError: a provider is unknown.
    """
    named = [(provider, model), *(read_fallback(one, provider, registry) for one in fallbacks)]
    return tuple(
        Target(
            provider=registry.derive(name, (overrides or {}) if name == provider else {}),
            provider_name=name,
            model=its_model,
            max_parallel=registry.max_parallel(name),
            takes_options=name == provider,
        )
        for name, its_model in named
    )


def read_fallback(fallback: Fallback, provider: str, registry: ProviderRegistry) -> tuple[str, str]:
    """Return the provider and the model that a fallback of ``provider`` names.

    What stands before the first slash is a provider where one is called so: names of models have
    slashes too (``meta-llama/llama-3.3-70b``).

    Raises:
        ConfigError: it is the name of a declared provider, without a model.
    """
    if isinstance(fallback, Mapping):
        return fallback.get("provider") or provider, fallback["model"]
    if fallback in registry.declared():
        raise ConfigError(
            f"fallbacks: {fallback!r} is a provider: name a model of it, {fallback}/MODEL.",
            path="fallbacks",
        )
    name, slash, model = fallback.partition("/")
    # One that is not installed counts too: to say so is better than to ask another for its models.
    if slash and model and (name in registry.names() or name in OFFICIAL["teff.providers"]):
        return name, model
    return provider, fallback


def may_fall_back(error: ProviderError) -> bool:
    """Say whether another model may be asked after ``error``.

    Not after 400, 401 and 403, which say that the request or the key is wrong, and not after a
    content filter: what one service refuses to read is not handed to the next without a word.
    """
    return error.status not in _NOT_CURED_BY_ANOTHER and "content_filter" not in error.body


def hands_over(reply: ChatReply) -> bool:
    """Say whether another model is asked after ``reply``: it is empty, and not for being filtered."""
    return is_empty(reply) and reply.finish_reason != "content_filter"


def fallback_event(target: Target, following: Target, problem: str) -> dict[str, Any]:
    """Return what an ``llm_fallback`` event holds: from whom to whom, and why."""
    return {
        "provider": target.provider_name,
        "model": target.model,
        "to_provider": following.provider_name,
        "to_model": following.model,
        "error": problem,
    }


#: With these a server says that the request is wrong, or failed to make a grammar of a schema.
_REFUSED = frozenset({400, 404, 422, 500, 501})
_OF_THE_SCHEMA = re.compile(
    r"json.?schema|response_format|grammar|structured.output|invalid (?:schema|format)|for format",
    re.IGNORECASE,
)


def refuses_schema(error: ProviderError) -> bool:
    """Say whether a server refused a request for the schema of its answer."""
    told = f"{error} {error.body}"
    return error.status in _REFUSED and _OF_THE_SCHEMA.search(told) is not None


def failure_note(target: Target, problem: str) -> str:
    """Return what the last error says of a target that was asked before."""
    return f"Before it, {target.name} was asked: {problem}"


def is_empty(reply: ChatReply) -> bool:
    """Say whether a reply holds nothing: no text and no call of a tool."""
    return not reply.text.strip() and not reply.tool_calls
