"""The servers that are known by name: where they are, whose key they take, what they want otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import urlsplit

import attrs

from teff.errors import ConfigError, suggest
from teff_providers_openai.quirks import COMPATIBLE, Quirks

__all__ = ["PRESETS", "Preset", "find_preset"]


@attrs.frozen(kw_only=True)
class Preset:
    """A server, or a kind of server.

    Attributes:
        name: what it is called, as a preset and as a provider.
        base_url: its address up to and with the version; "" where each user has another.
        source: where the above is documented.
        api_key_env: the environment variable that holds its key; "" where it needs none.
        hosts: who gets that key, with the hosts below them, over https alone; by default the host
            of ``base_url``.
        quirks: what it wants otherwise than most.
        elsewhere: its quirks at another address than its own; None is the same ones.
        auth_header: the header that carries the key.
        auth_prefix: what stands before the key in it.
    """

    name: str
    base_url: str = ""
    source: str
    api_key_env: str = ""
    hosts: Sequence[str] = attrs.field(
        default=attrs.Factory(lambda self: (urlsplit(self.base_url).hostname,), takes_self=True)
    )
    quirks: Quirks = attrs.field(factory=Quirks)
    elsewhere: Quirks | None = None
    auth_header: str = "Authorization"
    auth_prefix: str = "Bearer "

    @property
    def base_url_env(self) -> str:
        """The environment variable that stands in for ``base_url``, such as ``GROQ_BASE_URL``."""
        return f"{self.name.upper()}_BASE_URL"

    def owns(self, url: str) -> bool:
        """Say whether the key of this preset may go to ``url``.

        >>> find_preset("openai").owns("https://eu.api.openai.com/v1")
        True
        >>> find_preset("openai").owns("https://api.openai.com.example.org/v1")
        False
        """
        parts = urlsplit(url)
        name = parts.hostname or ""
        is_theirs = any(name == host or name.endswith(f".{host}") for host in self.hosts)
        return is_theirs and parts.scheme == "https"

    def address(self) -> str:
        """Return what the environment says is the address, else the preset's own, or ""."""
        return os.environ.get(self.base_url_env, "").strip() or self.base_url

    def quirks_at(self, url: str, given: Quirks | None) -> Quirks:
        """Return the quirks of the server at ``url``, all of them set, with ``given`` over them."""
        own = self.quirks if self.elsewhere is None or self.owns(url) else self.elsewhere
        return (given or Quirks()).over(own.over(COMPATIBLE))


#: The models that reason refuse max_tokens, temperature and stop; their successors from 5.1 take
#: a temperature where their effort is none.
_OPENAI = Quirks(
    max_tokens_field="max_completion_tokens",
    schema_with_tools=True,
    fixed_sampling=r"o\d.*|gpt-5(-mini|-nano|-pro|-codex)?(-\d{4}-\d\d-\d\d)?",
)

_PRESETS = (
    Preset(
        name="openai",
        base_url="https://api.openai.com/v1",
        source="https://platform.openai.com/docs/api-reference/chat/create",
        api_key_env="OPENAI_API_KEY",
        quirks=_OPENAI,
        elsewhere=Quirks(),
    ),
    Preset(
        name="azure",
        source="https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle",
        api_key_env="AZURE_OPENAI_API_KEY",
        hosts=(
            "openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com",
            "openai.azure.us", "openai.azure.cn",
        ),
        quirks=_OPENAI,
        auth_header="api-key",
        auth_prefix="",
    ),
    Preset(
        name="deepseek",
        base_url="https://api.deepseek.com/v1",
        source="https://api-docs.deepseek.com/api/create-chat-completion",
        api_key_env="DEEPSEEK_API_KEY",
        quirks=Quirks(
            choices="none",
            json_schema=False,
            json_object=True,
            reasoning_field="reasoning_content",
        ),
    ),
    Preset(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        source="https://docs.mistral.ai/api/endpoint/chat",
        api_key_env="MISTRAL_API_KEY",
        # Fields that it does not know are refused, and counts come in its streams unasked.
        quirks=Quirks(
            stream_usage=False, null_content=False, short_call_ids=True, call_fields=False
        ),
    ),
    Preset(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        source="https://console.groq.com/docs/structured-outputs",
        api_key_env="GROQ_API_KEY",
        # Schemas are for some of its models only, all take json_object.
        quirks=Quirks(choices="none", json_schema=False, json_object=True),
    ),
    Preset(
        name="together",
        base_url="https://api.together.xyz/v1",
        source="https://docs.together.ai/docs/openai-api-compatibility",
        api_key_env="TOGETHER_API_KEY",
    ),
    Preset(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        source="https://openrouter.ai/docs/api-reference/chat-completion",
        api_key_env="OPENROUTER_API_KEY",
        quirks=Quirks(reasoning_field="reasoning", reasoning_details=True),
    ),
    Preset(
        name="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        source="https://ai.google.dev/gemini-api/docs/openai",
        api_key_env="GEMINI_API_KEY",
        quirks=Quirks(parallel_tool_calls=False, tool_names=True),
    ),
    Preset(
        name="vllm",
        base_url="http://127.0.0.1:8000/v1",
        source="https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
        quirks=Quirks(null_content=False),
    ),
    Preset(
        name="llamacpp",
        base_url="http://127.0.0.1:8080/v1",
        source="https://github.com/ggml-org/llama.cpp/tree/master/tools/server",
        quirks=Quirks(choices="grammar", reasoning_field="reasoning_content"),
    ),
    Preset(
        name="lmstudio",
        base_url="http://127.0.0.1:1234/v1",
        source="https://lmstudio.ai/docs/developer/openai-compat",
        quirks=Quirks(null_content=False),
    ),
    Preset(
        name="litellm",
        base_url="http://127.0.0.1:4000/v1",
        source="https://docs.litellm.ai/docs/simple_proxy",
    ),
)  # fmt: skip

#: Every preset by its name.
PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _PRESETS})


def find_preset(name: str, *, provider: str = "") -> Preset:
    """Return the preset of this name.

    Raises:
        ConfigError: there is none; the message has the nearest one.
    """
    preset = PRESETS.get(name)
    if preset is None:
        place = f"provider {provider!r}: " if provider else ""
        raise ConfigError(f"{place}unknown preset {name!r}.{suggest(name, PRESETS)}", path="preset")
    return preset
