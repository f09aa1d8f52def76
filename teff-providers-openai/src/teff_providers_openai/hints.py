"""What the user can do about a refusal, where that is known."""

from __future__ import annotations

import json

import attrs

from teff.errors import ProviderError
from teff.provider.failures import add_hint
from teff_providers_openai.presets import Preset
from teff_providers_openai.quirks import Quirks

__all__ = ["explain"]

#: Words of a refusal → the quirks that do without what is refused. The first that are not in force
#: are named.
_CURES = (
    ("'max_completion_tokens' instead", Quirks(max_tokens_field="max_completion_tokens")),
    ("max_completion_tokens", Quirks(max_tokens_field="max_tokens")),
    ("max_tokens", Quirks(max_tokens_field="max_completion_tokens")),
    ("json_schema", Quirks(json_schema=False, choices="none")),
    ("response_format", Quirks(json_schema=False, choices="none")),
    ("grammar", Quirks(choices="json_schema")),
    ("stream_options", Quirks(stream_usage=False)),
    ("parallel_tool_calls", Quirks(parallel_tool_calls=False)),
    ("tool_choice", Quirks(tool_choice=False)),
    ("reasoning_content", Quirks(reasoning_field="reasoning_content")),
    ("must alternate", Quirks(alternating=True)),
)


def explain(
    error: ProviderError, *, preset: Preset, quirks: Quirks, sends_key: bool
) -> ProviderError:
    """Add to a refusal, at the end of its message, what can be done about it; return it.

    Args:
        error: what the server said.
        preset: which server it is.
        quirks: those in force.
        sends_key: a key went along.
    """
    if error.status in (401, 403) and not sends_key:
        add_hint(error, _about_keys(preset))
    elif error.status == 404 and "model" not in error.body.lower():
        add_hint(error, "Is base_url complete? For most servers it ends with /v1.")
    elif error.status in (400, 422) and (hint := _about_fields(error.body, quirks)):
        add_hint(error, hint)
    return error


def _about_keys(preset: Preset) -> str:
    hint = "No key was sent: name the environment variable that holds it as api_key_env."
    if not preset.api_key_env:
        return hint
    return f"{hint} {preset.api_key_env} goes to {preset.hosts[0]} alone."


def _about_fields(body: str, quirks: Quirks) -> str:
    if "failed to parse grammar" in body:
        return "The schemas are too large for this server: offer fewer tools, or a smaller schema."
    for words, cure in _CURES:
        if words in body and cure.over(quirks) != quirks:
            return f"Where the server does not take a field, set quirks: {{{_written(cure)}}}."
    return ""


def _written(cure: Quirks) -> str:
    changes = attrs.asdict(cure, filter=lambda _, value: value is not None)
    return ", ".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in changes.items()
    )
