"""`HarnessSettings`: how a `Harness` asks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypedDict

from teff.errors import ConfigError, suggest
from teff.harness.attempts import ModelCallback
from teff.harness.cache import CacheOption
from teff.harness.concurrency import check_limit
from teff.harness.targets import Fallback

__all__ = ["HarnessSettings", "check_settings"]


class HarnessSettings(TypedDict, total=False):
    """How a `Harness` asks."""

    #: Options of the provider that are replaced for these calls, ``base_url`` and the like.
    overrides: Mapping[str, Any]
    #: None leaves it to the server.
    temperature: float | None
    #: The longest answer, in tokens; None leaves it to the server.
    max_tokens: int | None
    #: Seconds for a call, for a stream between two events; None is the provider's.
    timeout: float | None
    #: Seconds for a whole call, a stream too, however lively it is, with its retries and fallbacks;
    #: None sets no end.
    deadline: float | None
    #: Settings of the provider, sent as they are.
    options: Mapping[str, Any]
    #: How often a call that failed for a passing reason is tried again; 2 by default.
    max_retries: int
    #: Seconds that are waited at most on a server's word; 120 by default.
    max_retry_wait: float
    #: The HTTP statuses that pass; None is 408, 409, 429 and every 5xx.
    retry_on: Collection[int] | None
    #: What is asked in turn where a model fails before it has shown anything; see `Fallback`.
    fallbacks: Iterable[Fallback] | str | None
    #: Where answers are kept and looked up; none by default.
    cache: CacheOption
    #: How many calls of one provider run at once, beside `set_provider_concurrency`.
    max_parallel: int | None
    #: The longest conversation that is sent, in estimated tokens; None sends all of it.
    max_context_tokens: int | None
    #: The same in messages, system text not counted.
    max_context_messages: int | None
    #: Whether calls of tools that a model wrote as text are read; they are by default.
    parse_text_tool_calls: bool
    #: Hears of each answer.
    on_llm: ModelCallback | None


def check_settings(settings: Mapping[str, object]) -> None:
    """Refuse settings that are none, and a bound under which every call would wait for ever.

    Raises:
        ConfigError: naming the setting.
    """
    known = HarnessSettings.__optional_keys__
    for name in settings:
        if name not in known:
            raise ConfigError(
                f"a harness has no setting {name!r}.{suggest(name, known)}", path=name
            )
    check_limit(settings.get("max_parallel"), "max_parallel", path="max_parallel")
