"""`SupervisorStrategy`: a `Delegate` over any client and any executor of agents."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from teff.errors import ProviderError
from teff.flow import Flow
from teff.graph import Graph
from teff.messages import Message, system, user
from teff.node import Delegate, Node
from teff.node.delegation import SubAgent
from teff.node.delegation.agents import PREFIX
from teff.runtime import ExecContext
from teff.strategies.adapters import (
    Client,
    as_guards,
    as_message,
    as_tool,
    description_of,
    text_of,
    unwrapped,
)
from teff.strategies.values import (
    AgentError,
    AgentResponse,
    Err,
    Ok,
    ReasoningStep,
    Result,
    ToolExecutionRecord,
)
from teff.tool import Tool
from teff.tool.text import result_text

__all__ = ["SupervisorStrategy"]


class SupervisorStrategy:
    r"""A model that gives tasks to sub-agents until it can answer; see `teff.node.Delegate`.

    Args:
        sub_agents: by name. Anything that the executor can run, with ``description`` or
            ``system_prompt``; a node or a flow runs without the executor.
        executor: has ``run(agent=…, message=…)``, plain or async, or is such a function. It returns
            an `AgentResponse`, any object with ``message``, a text, or one of these as a result
            with ``is_ok()``.
        max_delegations: how many tasks may be given.
        llm_timeout: seconds for one question to the model.

    Raises:
        ConfigError: a name that no model could call, or ``max_delegations`` below 1.

    >>> import asyncio
    >>> class Model:
    ...     replies = ['ACTION: delegate_to_billing\nACTION_INPUT: {"message": "customer 7"}',
    ...                'FINAL_ANSWER: Nothing is open.']
    ...     async def complete(self, messages):
    ...         return self.replies.pop(0)
    >>> async def run(agent, message):
    ...     return f"{message}: no open invoices"
    >>> strategy = SupervisorStrategy({"billing": "Knows the invoices."}, run)
    >>> result = asyncio.run(strategy.execute("What do I owe?", [], [], Model()))
    >>> result.unwrap().message, result.unwrap().metadata["agents_used"]
    ('Nothing is open.', ['billing'])
    """

    def __init__(
        self,
        sub_agents: Mapping[str, Any],
        executor: Any,
        *,
        max_delegations: int = 5,
        llm_timeout: float | None = 120.0,
    ) -> None:
        self.sub_agents = dict(sub_agents)
        self.executor = executor
        self.max_delegations = max_delegations
        self.llm_timeout = llm_timeout
        self._agents = [
            SubAgent(name=name, description=description_of(name, agent), node=self._runs(agent))
            for name, agent in self.sub_agents.items()
        ]
        self._node()  # what does not fit is refused here, not in a run

    async def execute(
        self,
        message: str,
        tools: Iterable[Any],
        history: Iterable[Any],
        llm: Any,
        *,
        system_prompt: str = "",
        guard_pipeline: Any = None,
    ) -> Result:
        """Answer ``message``.

        Args:
            message: the user's words.
            tools: further tools: a `Tool`, a typed function, or an object with ``name``,
                ``description``, ``parameters`` and ``execute(**arguments)``.
            history: what was said before, as mappings or objects with ``role`` and ``content``; a
                role other than ``system`` and ``assistant`` counts as ``user``.
            llm: has ``complete(messages)``, plain or async, which returns a text, an object with
                ``content`` and maybe ``usage``, or one of these as a result with ``is_ok()``.
            system_prompt: what the model is told beside the protocol.
            guard_pipeline: has ``check_input(text)`` and ``check_output(text)``, which return an
                object with ``action`` (``pass``, ``warn``, ``redact`` or ``block``), ``content`` and
                ``reason``; or a mapping of guards as `Delegate` takes it.

        Returns:
            `Ok`, or `Err` where the model failed or took too long, a guard blocked, or anything else
            went wrong.
        """
        started = time.monotonic()
        try:
            pool = [as_tool(tool) for tool in tools]
            graph = Graph(
                {"supervisor": self._node(pool, guard_pipeline)},
                [],
                "supervisor",
                providers={"llm": Client(llm)},
                default_provider="llm",
                default_model="llm",
            )
            said: list[Message] = [as_message(entry) for entry in history]
            if system_prompt:
                said.insert(0, system(system_prompt))
            state = await graph.run({"messages": [*said, user(message)]}, tools=pool)
        except ProviderError as error:
            late = isinstance(error.__cause__, TimeoutError)
            return Err(AgentError(str(error), reason="timeout" if late else "model"))
        except Exception as error:
            return Err(AgentError(f"{type(error).__name__}: {error}".removesuffix(": ")))
        record = state["output_steps"]
        if record["status"] == "blocked":
            return Err(AgentError(state["output"], reason="blocked"))
        duration = (time.monotonic() - started) * 1000.0
        return Ok(_response(state["output"], record, duration_ms=duration))

    def _node(self, tools: Sequence[Tool] = (), guard_pipeline: Any = None) -> Delegate:
        return _SupervisorNode(
            agents=self._agents,
            max_delegations=self.max_delegations,
            llm_timeout=self.llm_timeout,
            use_tools=[tool.name for tool in tools],
            guards=as_guards(guard_pipeline),
            http_max_retries=0,  # the client has its own ways
        )

    def _runs(self, agent: Any) -> Any:
        """Return what runs when the agent is given a task."""
        if isinstance(agent, Node | Flow | Graph):
            return agent
        executor = self.executor

        async def run(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
            work: Callable[..., Any] = getattr(executor, "run", executor)
            found = work(agent=agent, message=state["input"])
            if inspect.isawaitable(found):
                found = await found
            return {"output": text_of(unwrapped(found))}

        return run


class _SupervisorNode(Delegate):
    """A delegate that may also have no agents at all."""

    needs_agents: ClassVar[bool] = False


def _response(answer: str, record: Mapping[str, Any], *, duration_ms: float) -> AgentResponse:
    tokens = record["tokens"]
    return AgentResponse(
        message=answer,
        steps=[_step(step) for step in record["steps"]],
        tool_calls=[_call(call) for call in record["tool_calls"]],
        total_tokens=tokens["total_tokens"],
        prompt_tokens=tokens["prompt_tokens"],
        completion_tokens=tokens["completion_tokens"],
        duration_ms=duration_ms,
        metadata={
            "strategy": "supervisor",
            "delegations": record["delegations"],
            "agents_used": record["agents_used"],
            "max_delegations_reached": record["max_delegations_reached"],
        },
    )


def _step(step: Mapping[str, Any]) -> ReasoningStep:
    action, call = step["action"], None
    is_call = action not in ("final_answer", "invalid")
    if is_call:
        failed = step["status"] != "ok"
        call = _call(
            {
                "tool_name": action,
                "arguments": step["arguments"],
                "result": "" if failed else step["observation"],
                "error": step["observation"] if failed else "",
                "duration_ms": step["duration_ms"],
            }
        )
    return ReasoningStep(
        step_number=step["step_number"],
        thought=step["thought"],
        action=action,
        tool_call=call,
        observation=_shown(step["observation"]) if is_call else "",
    )


def _call(call: Mapping[str, Any]) -> ToolExecutionRecord:
    """Return a call as the API has it: of a sub-agent, its answer or what was wrong."""
    result, error = call["result"], call["error"]
    if call["tool_name"].startswith(PREFIX):
        told = _told(error or result)
        result, error = told.get("output"), str(told.get("error") or "")
    return ToolExecutionRecord(
        tool_name=call["tool_name"],
        arguments=call["arguments"],
        result=None if error else result,
        error=error or None,
        duration_ms=call["duration_ms"],
    )


def _told(text: str) -> Mapping[str, Any]:
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    return told if isinstance(told, Mapping) else {"output": text}


def _shown(observation: str) -> str:
    told = _told(observation)
    return result_text(told.get("output") or told.get("error") or observation)
