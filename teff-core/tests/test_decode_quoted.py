"""A call that a reply quotes is carried out in no family; the same call unquoted is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teff.harness import ToolCallScreen, decode_reply, decode_tool_calls

Call: TypeAlias = tuple[str, dict[str, Any]]
Renderer: TypeAlias = Callable[[list[Call]], str]

NAMES = ("get_weather", "list_files")
