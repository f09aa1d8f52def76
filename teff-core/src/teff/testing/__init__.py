"""For the tests of those who build with Teff, and of those who build plugins for it."""

# A module here has the name of a function, `replay`. It is loaded first, so that it does not take
# the place of the function when somebody loads it later.
import teff.testing.replay  # noqa: F401
from teff.testing.answers import ScriptedAnswer, after, call_tool, fail, pieces, say, when
from teff.testing.cassette import cassette, record, replay
from teff.testing.network import NetworkForbidden, forbid_network
from teff.testing.scripted import ScriptedProvider

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
