"""Teff tools that reach the web."""

__version__ = "0.1.0"
