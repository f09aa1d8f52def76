"""What `Delegate` is made of: its agents, the text protocol, guards, reviews, the record of steps."""

from teff.node.delegation.agents import AgentResult, SubAgent
from teff.node.delegation.guards import GUARD_POINTS, Guarded, Verdict, allow, block, replace
from teff.node.delegation.record import steps_record

__all__ = [
    "GUARD_POINTS",
    "AgentResult",
    "Guarded",
    "SubAgent",
    "Verdict",
    "allow",
    "block",
    "replace",
    "steps_record",
]
