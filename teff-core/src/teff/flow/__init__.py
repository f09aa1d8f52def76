"""Building graphs: step after step, with branches, routes, teams and sub-flows."""

from typing import TYPE_CHECKING

from teff.flow.agent import AgentRole, agent_step
from teff.flow.chain import Case
from teff.flow.flow import Flow
from teff.flow.sub_flow import SubFlow
from teff.lazy import lazy_names

if TYPE_CHECKING:
    from teff.flow.agent_tool import AgentTool

__all__ = ["AgentRole", "AgentTool", "Case", "Flow", "SubFlow", "agent_step"]

_HOMES = {
    "teff.flow.agent_tool": ("AgentTool",),
}

# Hidden from type checkers, which would take every misspelt name for a right one.
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, globals(), _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
