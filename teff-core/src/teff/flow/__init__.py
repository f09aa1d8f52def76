"""Building graphs: step after step, with branches, routes, teams and sub-flows."""

from teff.flow.agent import AgentRole, agent_step
from teff.flow.chain import Case
from teff.flow.flow import Flow
from teff.flow.sub_flow import SubFlow

__all__ = ["AgentRole", "Case", "Flow", "SubFlow", "agent_step"]
