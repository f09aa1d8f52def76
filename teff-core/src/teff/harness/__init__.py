"""Model calls and tool calls, done right once for every node."""

from typing import TYPE_CHECKING

from teff.harness.asking import Asking
from teff.harness.attempts import ModelCallback, TokenCallback
from teff.harness.cache import CacheOption, MemoryReplyCache, ReplyCache, cache_of
from teff.harness.concurrency import provider_concurrency, set_provider_concurrency
from teff.harness.harness import Harness
from teff.harness.repair import Repaired, valid_messages
from teff.harness.retry import RetryPolicy
from teff.harness.settings import HarnessSettings
from teff.harness.structured import JSON_OBJECT, StructuredOutput, settle
from teff.harness.targets import Fallback, checked_fallbacks
from teff.harness.tool_calls import (
    ASK_HUMAN,
    ToolOptions,
    UseTools,
    named_tools,
    offered_tools,
    run_tool_calls,
    tools_in_scope,
)
from teff.harness.trim import estimate_tokens, trim_messages
from teff.lazy import lazy_names

if TYPE_CHECKING:
    from teff.harness.decode import Decoded, ToolCallScreen, decode_reply, decode_tool_calls
    from teff.harness.sqlite_cache import SQLiteReplyCache

__all__ = [
    "ASK_HUMAN",
    "JSON_OBJECT",
    "Asking",
    "CacheOption",
    "Decoded",
    "Fallback",
    "Harness",
    "HarnessSettings",
    "MemoryReplyCache",
    "ModelCallback",
    "Repaired",
    "ReplyCache",
    "RetryPolicy",
    "SQLiteReplyCache",
    "StructuredOutput",
    "TokenCallback",
    "ToolCallScreen",
    "ToolOptions",
    "UseTools",
    "cache_of",
    "checked_fallbacks",
    "decode_reply",
    "decode_tool_calls",
    "estimate_tokens",
    "named_tools",
    "offered_tools",
    "provider_concurrency",
    "run_tool_calls",
    "set_provider_concurrency",
    "settle",
    "tools_in_scope",
    "trim_messages",
    "valid_messages",
]

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        globals(),
        {
            "teff.harness.decode": (
                "Decoded",
                "ToolCallScreen",
                "decode_reply",
                "decode_tool_calls",
            ),
            "teff.harness.sqlite_cache": ("SQLiteReplyCache",),
        },
    )
