"""`MemoryConfig`: what a node recalls, and lays over its request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from teff.errors import ConfigError
from teff.memory.protocol import MemoryStore, Namespace, check_namespace
from teff.plugins import catalogue
from teff.prompt import compile_template

__all__ = ["MemoryConfig", "memory_text"]


def _store(given: Any) -> Any:
    """Return a store: one that is made already, or a new one of the type that is named."""
    if not isinstance(given, str):
        return given
    store_type: Any = catalogue().load("teff.memory", given)
    return store_type()


@attrs.frozen(kw_only=True)
class MemoryConfig:
    """Where a node's memories are, and how they are shown to the model.

    What is recalled is laid over the request; it is never stored in the conversation.

    Args:
        store: a `MemoryStore`, or the name of a type of store, such as ``in_memory``.
        namespace: whose memories; templates that may name state keys, and ``{owner}`` and
            ``{checkpoint_id}`` of the run.
        k: how many are recalled at most.
        header: what stands above them.

    Raises:
        ConfigError: there is no store, or no namespace.

    >>> MemoryConfig(store="in_memory", namespace=["users", "{user_id}"]).k
    5
    """

    store: MemoryStore = attrs.field(converter=_store)
    namespace: Namespace = attrs.field(converter=check_namespace)
    k: int = attrs.field(default=5, validator=attrs.validators.ge(1))
    header: str = "Relevant memories:"

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.store, MemoryStore):
            raise ConfigError(
                f"a {type(self.store).__name__} is no store of memories: name a type such as "
                "'in_memory', or give an object with the methods of MemoryStore.",
                path="store",
            )

    def namespace_for(self, values: Mapping[str, Any], *, node: str = "") -> tuple[str, ...]:
        """Return the namespace with its templates filled in.

        Raises:
            ConfigError: a key that a template names is missing, or a part is empty.
        """
        parts = [
            compile_template(part).render(values, name="namespace", node=node)
            for part in self.namespace
        ]
        return check_namespace(parts)


async def memory_text(
    config: MemoryConfig, query: str, values: Mapping[str, Any], *, node: str = ""
) -> str:
    """Return what is laid over the request: the memories that fit, below the header; or "".

    Args:
        config: whose memories, and how many.
        query: what the user said last.
        values: for the templates of the namespace.
        node: the node's id, for errors.
    """
    namespace = config.namespace_for(values, node=node)
    found = await config.store.search(namespace, query, k=config.k) if query.strip() else []
    lines = [f"- {' '.join(item.text.split())}" for item in found if item.text.strip()]
    return "\n".join([config.header, *lines]) if lines else ""
