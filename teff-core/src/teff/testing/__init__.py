"""For the tests of those who build with Teff, and of those who build plugins for it."""

from teff.testing.scripted import ScriptedAnswer, ScriptedProvider, call_tool

__all__ = ["ScriptedAnswer", "ScriptedProvider", "call_tool"]
