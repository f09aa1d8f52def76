"""For the tests of those who build with Teff, and of those who build plugins for it."""

from typing import TYPE_CHECKING

from teff.lazy import lazy_names
from teff.testing.answers import ScriptedAnswer, after, call_tool, fail, pieces, say, when
from teff.testing.cassette import cassette, record, replay
from teff.testing.network import NetworkForbidden, forbid_network
from teff.testing.scripted import ScriptedProvider

if TYPE_CHECKING:
    from teff.testing.contracts import CheckpointerContract as CheckpointerContract
    from teff.testing.contracts import capabilities as capabilities

# `CheckpointerContract` and `capabilities` are here too; they need pytest, so ``*`` leaves them out.
__all__ = [
    "NetworkForbidden",
    "ScriptedAnswer",
    "ScriptedProvider",
    "after",
    "call_tool",
    "cassette",
    "fail",
    "forbid_network",
    "pieces",
    "record",
    "replay",
    "say",
    "when",
]

#: What needs ``pytest`` is loaded when it is first asked for.
_HOMES = {"teff.testing.contracts": ("CheckpointerContract", "capabilities")}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, globals(), _HOMES)
