"""Teff tools that reach the web."""

from __future__ import annotations

from teff_tools_web.settings import FetchSettings
from teff_tools_web.tool import fetch_url, make_fetch_url

__all__ = ["FetchSettings", "fetch_url", "make_fetch_url"]

__version__ = "0.1.0"
