"""`SupervisorStrategy`: the strategy API over a `Delegate`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.flow import Flow
from teff.node import ExecContext
from teff.node.delegation import block
from teff.strategies import (
    AgentError,
    AgentResponse,
    Err,
    Ok,
    ReasoningStep,
    SupervisorStrategy,
    ToolExecutionRecord,
)

ANSWER = "THOUGHT: I know it.\nFINAL_ANSWER: 42"


def ask(agent: str, message: str = "look") -> str:
    return f'THOUGHT: ask\nACTION: delegate_to_{agent}\nACTION_INPUT: {{"message": "{message}"}}'


class Client:
    """A client that answers from a list, as whatever ``wrap`` makes of the texts."""

    def __init__(self, replies: Sequence[Any], wrap: Any = None) -> None:
        self.replies = list(replies)
        self.wrap = wrap or (lambda text: text)
        self.asked: list[list[dict[str, Any]]] = []

    async def complete(self, messages: list[dict[str, Any]]) -> Any:
        self.asked.append(messages)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return self.wrap(reply)


class Executor:
    """Keeps what it was asked to run."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.runs: list[tuple[Any, str]] = []

    async def run(self, agent: Any, message: str, session_id: str | None = None) -> Any:
        self.runs.append((agent, message))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        return Ok(AgentResponse(message=f"{agent.name}: {message}"))


def sub_agent(name: str) -> Any:
    return SimpleNamespace(name=name, system_prompt=f"You do {name}.")


def run(
    client: Client, executor: Any = None, *, tools: Sequence[Any] = (), **given: Any
) -> Ok[AgentResponse] | Err[AgentError]:
    options = {
        name: given.pop(name) for name in ("max_delegations", "llm_timeout") if name in given
    }
    agents = given.pop("agents", {"a": sub_agent("a"), "b": sub_agent("b")})
    history = given.pop("history", [])
    strategy = SupervisorStrategy(agents, executor or Executor(), **options)
    return asyncio.run(strategy.execute("What?", tools, history, client, **given))


def test_a_direct_answer_is_one_step() -> None:
    response = run(Client([ANSWER])).unwrap()
    assert response.message == "42"
    assert response.steps == [
        ReasoningStep(step_number=1, thought="I know it.", action="final_answer")
    ]
    assert response.tool_calls == []
    assert dict(response.metadata) == {
        "strategy": "supervisor",
        "delegations": 0,
        "agents_used": [],
        "max_delegations_reached": False,
    }
    assert response.duration_ms > 0


def test_a_delegation_runs_the_executor_and_is_recorded() -> None:
    executor = Executor()
    response = run(Client([ask("a", "it"), ANSWER]), executor).unwrap()
    assert [(agent.name, message) for agent, message in executor.runs] == [("a", "it")]
    (call,) = response.tool_calls
    assert (call.tool_name, dict(call.arguments), call.result, call.error) == (
        "delegate_to_a",
        {"message": "it"},
        "a: it",
        None,
    )
    first = response.steps[0]
    assert (first.thought, first.action, first.observation) == ("ask", "delegate_to_a", "a: it")
    assert isinstance(first.tool_call, ToolExecutionRecord)
    assert response.metadata["agents_used"] == ["a"]


@pytest.mark.parametrize(
    "answer",
    ["text", Ok("text"), AgentResponse(message="text"), Ok(AgentResponse(message="text"))],
)
def test_the_executor_may_return_what_it_likes(answer: Any) -> None:
    response = run(Client([ask("a"), ANSWER]), Executor(answer)).unwrap()
    assert response.tool_calls[0].result == "text"


@pytest.mark.parametrize("answer", [ValueError("broken"), Err(AgentError("broken"))])
def test_a_failing_sub_agent_is_a_record_with_an_error(answer: Any) -> None:
    response = run(Client([ask("a"), ANSWER]), Executor(answer)).unwrap()
    assert response.message == "42"
    (call,) = response.tool_calls
    assert call.result is None
    assert "broken" in str(call.error)


def test_the_bound_is_said_in_the_metadata() -> None:
    executor = Executor()
    response = run(Client([ask("a")] * 9), executor, max_delegations=2).unwrap()
    assert response.metadata["max_delegations_reached"] is True
    assert response.metadata["delegations"] == 2
    assert len(executor.runs) == 2
    assert response.message == "a: look"


def completion(text: str) -> Any:
    usage = SimpleNamespace(prompt_tokens=100, completion_tokens=40, total_tokens=140)
    return SimpleNamespace(content=text, usage=usage)


@pytest.mark.parametrize(
    "wrap",
    [
        completion,
        lambda text: Ok(completion(text)),
        lambda text: {"content": text, "usage": {"input_tokens": 100, "output_tokens": 40}},
    ],
)
def test_tokens_are_counted_whatever_the_client_returns(wrap: Any) -> None:
    response = run(Client([ANSWER], wrap), agents={}, max_delegations=1).unwrap()
    assert (response.prompt_tokens, response.completion_tokens, response.total_tokens) == (
        100,
        40,
        140,
    )


@pytest.mark.parametrize("failure", [RuntimeError("no server"), TimeoutError("late")])
def test_a_model_error_is_an_err(failure: Exception) -> None:
    result = run(Client([failure]))
    assert result.is_err()
    assert result.unwrap_err().reason in ("model", "timeout")
    assert str(failure) in str(result.unwrap_err())
    with pytest.raises(AgentError):
        result.unwrap()


def test_an_err_of_the_client_is_an_err() -> None:
    result = run(Client([""], lambda text: Err(AgentError("quota"))))
    assert "quota" in str(result.unwrap_err())


def test_a_timeout_is_an_err() -> None:
    class Slow:
        async def complete(self, messages: Any) -> str:
            await asyncio.sleep(60)
            return ""

    strategy = SupervisorStrategy({}, None, llm_timeout=0.01)
    result = asyncio.run(strategy.execute("What?", [], [], Slow()))
    assert result.unwrap_err().reason == "timeout"


def test_history_and_system_prompt_are_sent_and_unknown_roles_are_the_users() -> None:
    client = Client([ANSWER])
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello {name}"},
        {"role": "narrator", "content": "It rains."},
        SimpleNamespace(role="tool", content="raw"),
        {"role": "user"},
    ]
    run(client, history=history, system_prompt="Speak {plainly}.")
    roles = [message["role"] for message in client.asked[0]]
    assert roles == ["system", "user", "assistant", "user", "user", "user", "user"]
    assert "Speak {plainly}." in client.asked[0][0]["content"]
    assert client.asked[0][-1]["content"] == "What?"


def test_sub_agents_are_offered_by_name_with_a_description() -> None:
    client = Client([ANSWER])
    run(client, agents={"a": SimpleNamespace(description="Knows A."), "b": sub_agent("b")})
    told = client.asked[0][0]["content"]
    assert "- delegate_to_a: Knows A." in told
    assert "- delegate_to_b: You do b." in told


def test_tools_of_several_kinds_can_be_called() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    class Weather:
        name = "weather"
        description = "The weather."
        parameters = {  # noqa: RUF012
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        }

        async def execute(self, city: str) -> Any:
            return Ok(f"rain in {city}")

    both = (
        'ACTION: add\nACTION_INPUT: {"a": 1, "b": 2}\n'
        'ACTION: weather\nACTION_INPUT: {"city": "Riga"}'
    )
    response = run(Client([both, ANSWER]), tools=[add, Weather()]).unwrap()
    assert [(call.tool_name, call.result) for call in response.tool_calls] == [
        ("add", "3"),
        ("weather", "rain in Riga"),
    ]


def test_a_flow_is_a_sub_agent_without_the_executor() -> None:
    async def work(ctx: ExecContext, state: dict[str, Any]) -> dict[str, Any]:
        return {"output": state["input"].upper()}

    response = run(Client([ask("a", "hey"), ANSWER]), agents={"a": Flow().step(work)}).unwrap()
    assert response.tool_calls[0].result == "HEY"


class Pipeline:
    """Blocks what says stop, and redacts what says secret."""

    async def check_input(self, content: str) -> Any:
        return Ok(self._judged(content))

    async def check_output(self, content: str) -> Any:
        return self._judged(content)

    def _judged(self, content: str) -> Any:
        if "stop" in content:
            return SimpleNamespace(action="block", reason="not allowed")
        if "secret" in content:
            clean = content.replace("secret", "[removed]")
            return SimpleNamespace(action=SimpleNamespace(value="REDACT"), content=clean)
        return SimpleNamespace(action="pass")


def test_a_guard_pipeline_redacts_and_blocks() -> None:
    executor = Executor("the secret plan")
    client = Client([ask("a"), "FINAL_ANSWER: the secret is out"])
    response = run(client, executor, guard_pipeline=Pipeline()).unwrap()
    assert response.message == "the [removed] is out"
    assert response.tool_calls[0].result == "the [removed] plan"
    blocked = run(Client(["FINAL_ANSWER: stop it"]), guard_pipeline=Pipeline())
    assert (blocked.unwrap_err().reason, str(blocked.unwrap_err())) == ("blocked", "not allowed")
    by_mapping = run(Client([]), guard_pipeline={"input": lambda text: block("no")})
    assert by_mapping.unwrap_err().reason == "blocked"


def test_options_that_do_not_fit_are_refused_at_once() -> None:
    with pytest.raises(ConfigError):
        SupervisorStrategy({"a b": sub_agent("a")}, None)
    with pytest.raises(ConfigError):
        SupervisorStrategy({}, None, max_delegations=0)


def test_what_is_no_tool_is_an_err() -> None:
    assert run(Client([ANSWER]), tools=[object()]).is_err()


def test_results_are_values() -> None:
    assert (Ok(1).is_ok(), Ok(1).is_err(), Ok(1).unwrap()) == (True, False, 1)
    error = AgentError("no")
    assert (Err(error).is_ok(), Err(error).is_err(), Err(error).unwrap_err()) == (
        False,
        True,
        error,
    )
    with pytest.raises(ValueError, match="holds no error"):
        Ok(1).unwrap_err()
