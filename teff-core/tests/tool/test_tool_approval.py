"""Whether a call may run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from teff.errors import ConfigError
from teff.messages import ToolCall
from teff.tool import check_policy, decide

CALL = ToolCall(id="c1", name="pay", arguments={"amount": 3, "to": {"name": "Ann"}})


def decision(policy: Any) -> str:
    return asyncio.run(decide(policy, CALL))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(None, "approve"), ("auto", "approve"), ("deny", "deny"), ("pause", "pause")],
)
def test_the_words_that_decide(policy: str | None, expected: str) -> None:
    check_policy(policy)
    assert decision(policy) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (True, "approve"),
        ("approve", "approve"),
        ("pause", "pause"),
        (False, "deny"),
        ("deny", "deny"),
        (None, "deny"),
        ("yes", "deny"),
        ("Approve", "deny"),
        (1, "deny"),
        (["approve"], "deny"),
    ],
)
def test_a_function_decides_and_an_unknown_answer_is_a_denial(answer: Any, expected: str) -> None:
    async def ask(name: str, arguments: dict[str, Any]) -> Any:
        return answer

    assert decision(lambda name, arguments: answer) == expected
    assert decision(ask) == expected


def test_the_function_sees_the_name_and_a_copy_of_the_arguments() -> None:
    seen: list[Any] = []

    def ask(name: str, arguments: dict[str, Any]) -> bool:
        seen.append((name, dict(arguments)))
        arguments["amount"] = 1_000_000
        arguments["to"]["name"] = "Eve"
        return True

    assert decision(ask) == "approve"
    assert seen[0][0] == "pay"
    assert CALL.arguments == {"amount": 3, "to": {"name": "Ann"}}


def test_a_blocking_function_does_not_block_the_loop() -> None:
    async def run() -> list[str]:
        loop = asyncio.get_running_loop()

        def ask(name: str, arguments: dict[str, Any]) -> bool:
            # Comes back only where the loop can run in the meantime.
            return asyncio.run_coroutine_threadsafe(asyncio.sleep(0, True), loop).result(30)

        return [await decide(ask, CALL)]

    assert asyncio.run(run()) == ["approve"]


def test_an_exception_of_the_function_is_no_approval() -> None:
    def ask(name: str, arguments: dict[str, Any]) -> bool:
        raise RuntimeError("the terminal is gone")

    with pytest.raises(RuntimeError, match="the terminal is gone"):
        decision(ask)


@pytest.mark.parametrize("policy", ["autoo", "", "approve", 3, True])
def test_an_unknown_policy_is_refused_when_a_workflow_is_built(policy: Any) -> None:
    with pytest.raises(ConfigError, match="tool_approval"):
        check_policy(policy)
    with pytest.raises(ConfigError, match="tool_approval"):
        decision(policy)


def test_a_misspelt_policy_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'auto'?"):
        check_policy("autoo")
