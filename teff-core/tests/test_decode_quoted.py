"""A call that a reply quotes is carried out in no family; the same call unquoted is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Call: TypeAlias = tuple[str, dict[str, Any]]
Renderer: TypeAlias = Callable[[list[Call]], str]

NAMES = ("get_weather", "list_files")
