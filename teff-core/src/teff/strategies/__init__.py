"""The strategy API, for programs that hold a client, an executor of agents and a history.

`SupervisorStrategy` runs a `teff.node.Delegate` over them and returns an answer or an error as a
value.
"""

from teff.strategies.supervisor import SupervisorStrategy
from teff.strategies.values import (
    AgentError,
    AgentResponse,
    Err,
    Ok,
    ReasoningStep,
    Result,
    ToolExecutionRecord,
)

__all__ = [
    "AgentError",
    "AgentResponse",
    "Err",
    "Ok",
    "ReasoningStep",
    "Result",
    "SupervisorStrategy",
    "ToolExecutionRecord",
]
