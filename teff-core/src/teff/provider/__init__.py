"""Where model calls go: the protocol of a provider, and the registry that finds one by its name."""

from teff.provider.protocol import (
    Capabilities,
    ChatDelta,
    ChatReply,
    ChatRequest,
    ListsModels,
    ModelInfo,
    Provider,
    ToolSpec,
)
from teff.provider.registry import ProviderRegistry

__all__ = [
    "Capabilities",
    "ChatDelta",
    "ChatReply",
    "ChatRequest",
    "ListsModels",
    "ModelInfo",
    "Provider",
    "ProviderRegistry",
    "ToolSpec",
]
