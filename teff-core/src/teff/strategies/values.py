"""What a strategy returns: an answer with what led to it, or an error, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

import attrs

from teff.errors import TeffError

__all__ = [
    "AgentError",
    "AgentResponse",
    "Err",
    "Ok",
    "ReasoningStep",
    "Result",
    "ToolExecutionRecord",
]

_T = TypeVar("_T")
_E = TypeVar("_E", bound=BaseException)


class AgentError(TeffError):
    """Why there is no answer.

    Attributes:
        reason: ``model``, ``timeout``, ``blocked`` (by a guard) or ``failed``.
    """

    def __init__(self, message: str, *, reason: str = "failed") -> None:
        super().__init__(message)
        self.reason = reason


@attrs.frozen
class Ok(Generic[_T]):
    """A result that is there.

    >>> Ok(3).is_ok(), Ok(3).unwrap()
    (True, 3)
    """

    value: _T

    def is_ok(self) -> bool:
        """Say yes."""
        return True

    def is_err(self) -> bool:
        """Say no."""
        return False

    def unwrap(self) -> _T:
        """Return the value."""
        return self.value

    def unwrap_err(self) -> NoReturn:
        """Raise, for there is no error.

        Raises:
            ValueError: always.
        """
        raise ValueError("this is Ok: it holds no error")


@attrs.frozen
class Err(Generic[_E]):
    """An error in the place of a result.

    >>> Err(AgentError("no model")).unwrap_err().reason
    'failed'
    """

    error: _E

    def is_ok(self) -> bool:
        """Say no."""
        return False

    def is_err(self) -> bool:
        """Say yes."""
        return True

    def unwrap(self) -> NoReturn:
        """Raise the error.

        Raises:
            BaseException: the error.
        """
        raise self.error

    def unwrap_err(self) -> _E:
        """Return the error."""
        return self.error


@attrs.frozen(kw_only=True)
class ToolExecutionRecord:
    """One call of a tool or a sub-agent.

    Attributes:
        tool_name: sub-agents are ``delegate_to_<name>``.
        arguments: what it was called with.
        result: the text of a tool, the answer of a sub-agent; None where it failed.
        error: what was wrong, or None.
        duration_ms: milliseconds.
    """

    tool_name: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    result: Any = None
    error: str | None = None
    duration_ms: float = 0.0


@attrs.frozen(kw_only=True)
class ReasoningStep:
    """One decision.

    Attributes:
        step_number: from 1.
        thought: why, in the words of the model.
        action: the tool, ``final_answer``, or ``invalid`` for a reply that could not be read.
        tool_call: the call, where there was one.
        observation: what came of it.
    """

    step_number: int
    thought: str = ""
    action: str = ""
    tool_call: ToolExecutionRecord | None = None
    observation: str = ""


@attrs.frozen(kw_only=True)
class AgentResponse:
    """An answer, and how it came about.

    Attributes:
        message: the answer.
        steps: the decisions in their order.
        tool_calls: what was carried out, sub-agents included.
        total_tokens, prompt_tokens, completion_tokens: of the calls of the client.
        duration_ms: milliseconds.
        metadata: ``strategy``, ``delegations``, ``agents_used``, ``max_delegations_reached``.
    """

    message: str
    steps: Sequence[ReasoningStep] = ()
    tool_calls: Sequence[ToolExecutionRecord] = ()
    total_tokens: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    duration_ms: float = 0.0
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


#: What a strategy returns.
Result: TypeAlias = Ok[AgentResponse] | Err[AgentError]
