"""Whether a loop of agents gets on: how often the same one was chosen while nothing changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

from teff.state import is_filled

__all__ = ["Progress", "fingerprint"]


class Progress(NamedTuple):
    """What has to be remembered from one round to the next.

    Attributes:
        agent: who was chosen last.
        times: how often in a row, while the slots stayed as they were.
        slots: the `fingerprint` of the slots at that time; "" where none was filled.
    """

    agent: str
    times: int = 1
    slots: str = ""

    @classmethod
    def read(cls, stored: object, *, last: object) -> Self:
        """Read the form that is stored in the state.

        Where nothing fits the agent that was chosen ``last``, that agent was chosen once, with no
        slot filled: so this need not be stored.
        """
        agent = last if isinstance(last, str) else ""
        if isinstance(stored, Mapping) and stored.get("agent") == agent:
            times, slots = stored.get("times"), stored.get("slots")
            if isinstance(times, int) and isinstance(slots, str):
                return cls(agent, times, slots)
        return cls(agent)

    def then(self, agent: str, slots: str) -> Progress:
        """Return what is to be remembered when ``agent`` is chosen next, with the slots as given."""
        stands = (agent, slots) == (self.agent, self.slots)
        return Progress(agent, self.times + 1 if stands else 1, slots)

    @property
    def goes_without_saying(self) -> bool:
        """Whether `read` gives the same where nothing is stored."""
        return self == Progress(self.agent)

    def to_state(self) -> dict[str, Any]:
        """Return the form that is stored in the state."""
        return self._asdict()


def fingerprint(state: Mapping[str, Any], slots: Iterable[str]) -> str:
    """Return a short text that changes when the value of a slot does; "" where none is filled.

    >>> fingerprint({"plan": ""}, ["plan"])
    ''
    >>> fingerprint({"plan": "1."}, ["plan"]) == fingerprint({"plan": "2."}, ["plan"])
    False
    """
    filled = [[slot, state[slot]] for slot in slots if is_filled(state.get(slot))]
    if not filled:
        return ""
    try:
        written = json.dumps(filled, default=repr, skipkeys=True)
    except (ValueError, RecursionError):  # a value that holds itself, or is nested very deeply
        written = json.dumps([slot for slot, _ in filled])
    return hashlib.sha256(written.encode()).hexdigest()[:16]
