"""Which of the tools that there are a node may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from teff.errors import ConfigError, suggest
from teff.tool.base import Tool

__all__ = ["scope_tools"]


def scope_tools(
    pool: Mapping[str, Tool] | Iterable[Tool], use_tools: bool | str | Sequence[str] | None
) -> list[Tool]:
    """Return the tools that ``use_tools`` allows, in its order.

    Args:
        pool: every tool that there is.
        use_tools: None, False or an empty list for none; True, ``"all"`` or ``"*"`` for all;
            otherwise one name or a list of names.

    Raises:
        ConfigError: a name that no tool of the pool has, or two tools of the pool with one name.
    """
    tools: dict[str, Tool] = {}
    for tool in pool.values() if isinstance(pool, Mapping) else pool:
        if tools.setdefault(tool.name, tool) is not tool:
            raise ConfigError(f"two tools have the name {tool.name!r}.", path="tools")
    if use_tools is None or use_tools is False:
        return []
    if use_tools is True or use_tools in ("all", "*"):
        return list(tools.values())
    names = [use_tools] if isinstance(use_tools, str) else use_tools
    for name in names:
        if name not in tools:
            known = suggest(str(name), tools) if tools else " There are no tools here."
            raise ConfigError(f"use_tools: unknown tool {name!r}.{known}", path="use_tools")
    return [tools[name] for name in dict.fromkeys(names)]
